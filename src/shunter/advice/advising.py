"""From a history to advice: the present replayed, other policies on the last days, and the best that hold elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shunter.advice.candidates import AS_ASKED, Candidate, candidates
from shunter.advice.effects import effects
from shunter.advice.paired import value_of
from shunter.advice.present import Present, replay
from shunter.advice.recorded_waits import Capacity
from shunter.advice.validity import validity
from shunter.advice.verdict import CAUTION, Verdict, verdict
from shunter.comparison import CompareOptions, compare_setup
from shunter.errors import RunError, did_you_mean
from shunter.model import Trace
from shunter.processes import Progress
from shunter.setup import Setup, set_up
from shunter.simulation import NamedPolicy
from shunter.slurm.site import Site
from shunter.texts import between
from shunter.world import F64, I64

DAY_MS = 86_400_000
GOALS = {
    "wait": "mean wait",
    "users": "mean over users of their mean waits",
    "tail": "P99 wait",
    "slowdown": "mean bounded slowdown",
}
TAIL = 1.5  # a policy that makes the P99 wait this many times as long comes after all others
BEST = 3
LEAST = 0.02  # of the goal, that must be gained to be better


@dataclass(frozen=True)
class Question:
    """What is to be advised on."""

    base: NamedPolicy  # the policy that stands for what is done now
    site: Site  # its settings, as far as Slurm has them
    days: float = 30
    warmup: float = 7  # days before these that are simulated and not counted, so that the cluster is not empty
    goal: str = "wait"
    preemption: bool = False
    more: tuple[str, ...] = ()  # policies that the user adds
    seed: int = 0
    workers: int | None = None
    checkpointable: str = ""  # which jobs may be stopped, as ``--checkpointable`` takes it; "": as in the trace
    slurm: bool = True  # whether ``site`` was read from settings of Slurm; else it stands for ``base``

    @cached_property
    def options(self) -> list[Candidate]:
        """What is compared with the base."""
        return candidates(self.base.policy, self.site, self.preemption, self.more)

    @property
    def policies(self) -> list[NamedPolicy]:
        """The base, then the options."""
        return [self.base, *(one.named for one in self.options)]


@dataclass(frozen=True, eq=False)
class HistoryWindow:
    """Some days of the history: what is simulated, and which of its jobs count."""

    setup: Setup
    begin: int  # ms; jobs submitted from then on count

    @property
    def rows(self) -> I64:
        """The jobs that count."""
        return np.flatnonzero(self.setup.trace.submit >= self.begin)

    @property
    def counted(self) -> Trace:
        """The same as a trace."""
        return self.setup.trace.select(self.rows)


def check(question: Question) -> None:
    """Refuse what can't be asked, before anything is read."""
    if question.goal not in GOALS:
        raise RunError(f"there is no goal '{question.goal}'; {did_you_mean(question.goal, GOALS)}")
    if not question.days > 0 or not question.warmup >= 0:
        raise RunError(f"--days must be > 0 and --warmup >= 0, got {question.days:g} and {question.warmup:g}")


def window(setup: Setup, question: Question, until: int | None = None) -> HistoryWindow | None:
    """The last days of a history, or those before ``until``; None where there are no jobs to speak of."""
    trace = setup.trace
    first, last = int(trace.submit[0]), int(trace.submit[-1]) + 1 if until is None else until
    begin = last - round(question.days * DAY_MS)
    if begin < first and until is not None:
        return None
    warm = max(first, min(begin, last) - round(question.warmup * DAY_MS))
    begin = max(begin, first + round(0.1 * (last - first)))  # of a short history the first tenth does not count
    policies = [one.policy for one in question.policies]
    since = f"+{(warm - first) / DAY_MS:.9f}d" if warm > first else ""
    ends = f"+{(last - first) / DAY_MS:.9f}d" if until is not None else ""
    part = set_up(trace, setup.cluster, policies, since=since, until=ends, checkpointable=question.checkpointable)
    found = HistoryWindow(dataclasses.replace(part, faults=setup.faults, user_cap=setup.user_cap), begin)
    return found if len(found.rows) > 1 else None


# ------------------------------------------------------------------------------------------- the present


COMPARED, CHECKED = "the days compared", "the check days"


def replayed(
    present: Present, question: Question, begin: int, progress: Progress | None = None
) -> tuple[dict[str, Any], I64]:
    """How far the waits of the present policy are from the recorded ones, by the jobs that are judged; and all waits.

    The days compared begin at ``begin``; they and as many before them, the check days, are judged on their own, too.
    """
    trace, waits = present.trace, replay(present.setup, question.base, question.seed, progress)
    waits = present.cycle.waits(present.setup.trace, waits) if present.cycle else waits
    rows = trace.submit >= present.judged_from
    submit, length = trace.submit[rows], round(question.days * DAY_MS)
    parts = {COMPARED: submit >= begin, CHECKED: (submit >= begin - length) & (submit < begin)}
    site = present.setup.cluster, question.seed, parts, present.capacity, present.held[rows]
    more = {"with_cycle": present.cycle is not None, "goal": _goal(present, question, waits, begin)}
    return validity(trace.select(rows), waits[rows], *site) | more, waits


def _goal(present: Present, question: Question, waits: I64, begin: int) -> dict[str, Any] | None:
    """What is to be improved, as recorded and as replayed on the days compared; None if no such waits are recorded."""
    trace = present.trace
    rows = np.flatnonzero((trace.submit >= begin) & (trace.recorded_wait >= 0) & (waits >= 0))
    if not len(rows):
        return None
    jobs = trace.select(rows)
    recorded, simulated = (value_of(question.goal, jobs, found[rows] / 1000) for found in (trace.recorded_wait, waits))
    return {"name": question.goal, "recorded": recorded, "simulated": simulated}


def judged(present: Present, found: Mapping[str, Any], check: HistoryWindow | None) -> Verdict:
    """Whether the replay holds well enough for advice."""
    reasons = [(CAUTION, f"{shown(present, one)}; the replay uses the record") for one in present.misstated[:1]]
    if check is None:
        lacks = "the history is too short for check days, on which the best would be tried again"
        reasons.append((CAUTION, f"{lacks}; a smaller --days leaves some"))
    return verdict(found, reasons)


def shown(present: Present, one: Capacity) -> str:
    """What the cluster file and the record say about the GPUs of a pool."""
    found = present.judged_gpus(one)
    low, high = int(found.min()), int(found.max())
    pool = f" of virtual cluster '{one.vc}'" if one.vc else ""
    spread = between(f"{low:,}", f"{high:,}")
    return f"the given cluster has {present.stated_gpus(one):,} GPUs{pool} and the record points to {spread}"


# ------------------------------------------------------------------------------------------- the others


def compared(found: HistoryWindow, question: Question, progress: Progress | None = None) -> list[dict[str, Any]]:
    """The present policy, then every other beside it, the best first; of options with equal waits the first alone."""
    waits = _waits(found, question.policies, question, progress)
    rows = _effects(found, question.policies, question, waits)
    present = rows[0] | {"title": "what is done now", "by_slurm": True, "changes": {}}
    others = [
        row | {"title": one.title, "by_slurm": one.by_slurm, "changes": dict(one.changes)}
        for one, row, new in zip(question.options, rows[1:], _new(waits[1:]), strict=True)
        if new or one.title == AS_ASKED
    ]
    return [present, *sorted(others, key=lambda row: order(row, present))]


def _new(waits: Sequence[F64]) -> list[bool]:
    """Whether each is unlike all before it."""
    found = [one.tobytes() for one in waits]
    return [one not in found[:number] for number, one in enumerate(found)]


def _effects(
    found: HistoryWindow, policies: Sequence[NamedPolicy], question: Question, waits: Sequence[F64]
) -> list[dict[str, Any]]:
    """What each policy does to the jobs that count, compared with the present one, which comes first."""
    found_out = (effects(found.counted, waits[0], after, question.goal, question.seed) for after in waits)
    return [{"policy": one.text, **row} for one, row in zip(policies, found_out, strict=True)]


def _waits(
    found: HistoryWindow, policies: Sequence[NamedPolicy], question: Question, progress: Progress | None
) -> list[F64]:
    """The waits (s) of the jobs that count, per policy; a job that did not finish waits for what it has by then."""
    options = CompareOptions(question.seed, workers=question.workers, keep=True)
    compared = compare_setup(found.setup, policies, options, progress)
    return [run.jobs["wait"].to_numpy()[found.rows] for run in compared.runs]


def order(row: dict[str, Any], present: dict[str, Any]) -> tuple[bool, float]:
    """What rows are sorted by: those with a much longer tail last, then the goal."""
    return bool(row["wait_s"]["p99"] > TAIL * present["wait_s"]["p99"] + 60), row["goal"]["after"]


def better(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that gain something beyond what chance gives, and not at the cost of a long tail."""
    present, others = rows[0], rows[1:]

    def gains(row: dict[str, Any]) -> bool:
        goal = row["goal"]
        sure = goal["high"] is not None and goal["change"] < -LEAST and goal["high"] < 0
        return sure and not order(row, present)[0]

    return [row for row in others if gains(row)]


# ------------------------------------------------------------------------------------------- the check


def checked(
    found: HistoryWindow, question: Question, good: Sequence[dict[str, Any]], progress: Progress | None = None
) -> dict[str, Any]:
    """The policies that were better, on days on which they were not chosen; each ``holds`` there or does not."""
    named = {one.text: one for one in question.policies}
    policies = [question.base, *(named[row["policy"]] for row in good)]
    rows = _effects(found, policies, question, _waits(found, policies, question, progress))
    present = rows[0]
    kept = ("wait_s", "mean_change", "goal")
    return {
        "jobs": len(found.rows),
        "present_wait_s": present["wait_s"],
        "policies": {row["policy"]: {key: row[key] for key in kept} | _holds(row, present) for row in rows[1:]},
    }


def _holds(row: dict[str, Any], present: dict[str, Any]) -> dict[str, bool]:
    """Whether there is a gain on these days, too, and no much longer tail; and whether chance can't explain it."""
    goal, long_tail = row["goal"], order(row, present)[0]
    gains = goal["change"] is not None and goal["change"] < 0
    return {"holds": gains and not long_tail, "long_tail": long_tail, "sure": gains and (goal["high"] or 0) < 0}


def best(good: Sequence[dict[str, Any]], check: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The three best of those that hold on the check days; one of them Slurm's own, if any of those is."""
    held = [row for row in good if check is None or check["policies"][row["policy"]]["holds"]]
    own = [row for row in held if row["by_slurm"]]
    chosen = held[:BEST]
    if own and own[0] not in chosen:
        chosen = [*chosen[: BEST - 1], own[0]]
    return chosen


def dropped(good: Sequence[dict[str, Any]], check: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Those that were better on the days they were chosen on, and are not on the check days."""
    return [row for row in good if check is not None and not check["policies"][row["policy"]]["holds"]]
