"""Whether to use the advice at all, and why: the first thing that is reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shunter.report.terminal.tables import duration, share

TRUST, CAUTION, NO = "trust", "caution", "don't use"
LEVELS = (TRUST, CAUTION, NO)

# Round numbers, not tuned: a rank correlation of 0.5 is usually called strong, one of 0.3 weak.
RANK, LEAST_RANK, NO_RANK = 0.5, 0.3, 0.1
RATIO, MOST_RATIO = 2.0, 5.0  # of simulated to recorded mean waits, either way
OVER, MOST_OVER = 0.01, 0.05  # of the time, with more GPUs in use than there are
FEW = 0.01  # of the jobs: if fewer wait over a minute, there is nothing to rank
FEWEST = 100  # jobs
A_MINUTE_S = 60.0


@dataclass(frozen=True)
class Verdict:
    """How far the advice can be used, with the reasons, the worst first."""

    use: str  # one of LEVELS
    why: tuple[str, ...]


def verdict(found: Mapping[str, Any], more: Iterable[tuple[str, str]] = ()) -> Verdict:
    """The verdict on a replay; ``more`` are reasons that come from elsewhere, each with its level."""
    if not found["jobs"]:
        return Verdict(NO, ("the history has no recorded waits, so the replay can't be checked",))
    reasons = [*_crowded(found), *_goal(found.get("goal")), *more, *_waits(found)]
    level = max((LEVELS.index(level) for level, _ in reasons), default=0)
    why = tuple(dict.fromkeys(text for one, text in reasons if LEVELS.index(one) == level and level))
    return Verdict(LEVELS[level], why or (_agrees(found),))


def _agrees(found: Mapping[str, Any]) -> str:
    times = [duration(found[key]["mean"]) for key in ("simulated_wait_s", "recorded_wait_s")]
    return (
        f"the replay ranks waits as recorded (rank correlation {found['rank_of_waits']:.2f}), and the mean wait is"
        f" {times[0]} where {times[1]} was recorded"
    )


def _waits(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the waits of all jobs say, and those of its parts where all jobs don't say the same, or not so strongly."""
    whole = [(judge, judge(found)) for judge in (_scarce, _rank, _ratio)]
    reasons = [one for _, said in whole for one in said]
    for part in found["parts"]:
        for judge, said in whole:
            levels = [level for level, _ in said]
            reasons += [one for one in judge(part) if one[0] not in levels]
    return reasons


def _where(part: Mapping[str, Any]) -> str:
    return f" on {part['name']}" if part.get("name") else ""


def _crowded(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    over = found["record"]["over_capacity"]
    if over < OVER:
        return []
    why = f"the record has more GPUs in use than the cluster has, for {share(over)} of the time"
    return [(NO if over > MOST_OVER else CAUTION, why)]


def _goal(found: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Whether the replay gets what is to be improved about right: means can agree where users' means don't."""
    if found is None or found["name"] == "wait":  # which is judged anyway
        return []
    slack = 0.0 if found["name"] == "slowdown" else A_MINUTE_S
    ratio = (found["simulated"] + slack) / (found["recorded"] + slack)
    times = max(ratio, 1 / ratio)
    if times < RATIO:
        return []
    values = [
        f"{found[key]:.3g}" if found["name"] == "slowdown" else duration(found[key])
        for key in ("simulated", "recorded")
    ]
    text = f"the goal '{found['name']}' is {values[0]} in the replay of the days compared and {values[1]} in the record"
    return [(NO if times > MOST_RATIO else CAUTION, text)]


def _scarce(part: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Whether there is too little to rank."""
    where = _where(part)
    if part["jobs"] < FEWEST:
        return [(CAUTION, f"there are only {part['jobs']:,} jobs to judge by{where}")]
    if part["recorded_waiting"] < FEW and part["simulated_waiting"] < FEW:
        return [(CAUTION, f"hardly any job waits{where}, so there is nothing to judge by and little to gain")]
    return []


def _rank(part: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the ranks of waits say, if there is anything to rank."""
    where = _where(part)
    if _scarce(part):
        return []
    if part["rank_of_waits"] is None:
        shares = [share(part[key]) for key in ("simulated_waiting", "recorded_waiting")]
        return [(NO, f"{shares[0]} of jobs wait over a minute in the replay and {shares[1]} in the record{where}")]
    return _rank_of(part["rank_of_waits"], part["rank_interval"]["low"], where)


def _rank_of(rank: float, low: float | None, where: str) -> list[tuple[str, str]]:
    """What a rank correlation and the lower end of its interval say."""
    if rank < LEAST_RANK:
        chance = "no better than chance" if rank < NO_RANK else "little better than chance"
        return [(NO, f"the replay ranks waits {chance}{where} ({rank:.2f})")]
    if rank < RANK:
        return [(CAUTION, f"the replay ranks waits only roughly as recorded{where} ({rank:.2f})")]
    if low is not None and low < LEAST_RANK:
        return [(CAUTION, f"the rank correlation of waits{where}, {rank:.2f}, may by chance be as low as {low:.2f}")]
    return []


def _ratio(part: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the means say; a minute more or less does not matter."""
    simulated, recorded = (part[key]["mean"] for key in ("simulated_wait_s", "recorded_wait_s"))
    ratio = (simulated + A_MINUTE_S) / (recorded + A_MINUTE_S)
    times = max(ratio, 1 / ratio)
    if times < RATIO:
        return []
    plain = simulated / recorded if ratio > 1 and recorded > 0 else recorded / max(simulated, 1e-9)
    how = f"{plain:.0f} times" if 9.5 < plain < 1e5 else f"{plain:.1f} times" if plain <= 9.5 else "far above"
    pair = ("simulated waits are", "the recorded ones") if ratio > 1 else ("recorded waits are", "the simulated ones")
    text = f"{pair[0]} {how} {pair[1]}{_where(part)} ({duration(simulated)} simulated, {duration(recorded)} recorded)"
    return [(NO if times > MOST_RATIO else CAUTION, text)]
