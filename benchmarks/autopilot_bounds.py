"""What aims of an autopilot allow: ``python -m benchmarks.autopilot_bounds [DATA SINCE UNTIL [CLUSTER]]``, no stops.

Of each window are printed how many times as good as the site's policy the choice of Fixed was on the weeks before (the
evidence, and of its last days) and then was in truth; how many times as good as Fixed Optimal is, which chooses each
week, and on copies whose run times differ by 1 %, with the same choices: what is left is less likely to be luck; the
same of choices by what comes if jobs of the same day and size exchange their run times: the load to come is known, but
not which jobs are the long ones; and how many times as good as Fixed a run of its choice is that is handed back for a
day after each day that was in truth 5 % worse than every shadow of the site's policy.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from shunter import registry
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.near_copies import near_times
from shunter.adapting.autopilot.outcome import ReplayOptions
from shunter.adapting.autopilot.replay import PilotReplay
from shunter.adapting.autopilot.rule import PastTrial
from shunter.adapting.autopilot.shadows import BaselineShadows
from shunter.adapting.objectives import run_value
from shunter.clusters.stop_costs import USUAL
from shunter.generating.known_jobs import DAY
from shunter.reproduce.autosched.design import DATA, TraceWindow
from shunter.safe_files import data_folder
from shunter.setup import set_up
from shunter.sim.engine import Simulator

BASE, COPIES, EXCHANGES, FIXED_RUNS = "fifo:backfill=easy", 5, 2, 96
AIM = 1.05
TRACES = DATA | {"aaic": TraceWindow("AAIC", "aaic/aaicwl-201807-201812.csv.gz", "", "", "36x8", "")}
WINDOWS = (("venus", "2020-04-26", "2020-05-10"), ("venus", "2020-05-10", "2020-05-24"))


def replay_of(name: str, since: str, until: str, cluster: str = "") -> PilotReplay:
    """Weekly decisions among the usual candidates."""
    about, candidates = TRACES[name], Candidates.of((), BASE)
    setup = set_up(
        f"{data_folder(about.file)}/{about.file}", cluster or about.cluster, candidates.first, about.format or None,
        since=since, until=until, overhead=USUAL, checkpointable="none",
    )  # fmt: skip
    return PilotReplay(setup, ReplayOptions(candidates, every=7 * DAY))


class ExchangedTimes(PilotReplay):
    """A replay in which jobs that came on the same day, with as many GPUs, have exchanged their run times."""

    exchange = 0

    def _simulator(self) -> Simulator:
        made = super()._simulator()
        durations, jobs = made.durations.copy(), made.trace
        kinds = np.unique(np.stack([jobs.submit // DAY, jobs.gpus]), axis=1, return_inverse=True)[1].ravel()
        draws = np.random.default_rng(self.exchange)
        for kind in range(kinds.max() + 1):
            rows = np.flatnonzero(kinds == kind)
            durations[rows] = draws.permutation(durations[rows])
        return made.fork_with(durations)


def chosen_by_exchanged(replay: PilotReplay, fixed: str, exchange: int) -> list[tuple[int, str]]:
    """What Optimal would choose if run times were exchanged."""
    other = ExchangedTimes(replay.setup, replay.options)
    other.exchange = exchange
    return [(each.at, each.policy) for each in other.optimal(fixed).decisions]


def with_choices(replay: PilotReplay, choices: Sequence[tuple[int, str]], copy: int) -> float:
    """Mean JCT with these policies from these instants on, on a copy."""
    simulator = replay._simulator()  # noqa: SLF001
    simulator = simulator.fork_with(near_times(simulator.durations, simulator.trace.limit, copy, seed=1))
    text, memory = BASE, None
    for at, policy in choices:
        if at > replay.begin:
            memory = simulator.run(registry.policy(text), until=at, memory=memory)
        text, memory = policy, registry.policy(policy).start(simulator.cluster, memory)
    simulator.run(registry.policy(text), memory=memory)
    return run_value(simulator, "jct")


def handed_back_by_truth(replay: PilotReplay, text: str) -> float:
    """Mean JCT with a policy that rests for a day after each that was in truth too bad."""
    simulator, memory, shadows, in_force = replay._simulator(), None, None, BASE  # noqa: SLF001
    for at in replay._instants(DAY):  # noqa: SLF001
        since = at - DAY
        if at > replay.begin:
            memory = simulator.run(registry.policy(in_force), until=at, memory=memory)
        truth = [simulator.durations] * COPIES
        bad = shadows is not None and (
            shadows.compared(simulator, truth, since, at, replay.options.limits).true_least > AIM
        )
        chosen = BASE if bad else text
        if chosen != in_force:
            shadows = None if bad else BaselineShadows(BASE, simulator.fork(), memory, at, 0)
            in_force, memory = chosen, registry.policy(chosen).start(simulator.cluster, memory)
    simulator.run(registry.policy(in_force), memory=memory)
    return run_value(simulator, "jct")


def row(name: str, since: str, until: str, cluster: str = "") -> str:
    """The numbers of a window."""
    replay = replay_of(name, since, until, cluster)
    past = replay.past(replay._simulator(), replay.begin)  # noqa: SLF001
    fixed = replay.pilot.best_fixed(past, FIXED_RUNS)
    trial = PastTrial(past.last(replay.options.limits.days), replay.pilot, replay.options.limits.copies)
    evidence = [trial.gain(fixed, BASE, late) for late in (False, True)]
    stays: list[tuple[int, str]] = [(replay.begin, fixed)]
    chosen = [(each.at, each.policy) for each in replay.optimal(fixed).decisions]
    rivals = [(), stays, chosen, *(chosen_by_exchanged(replay, fixed, exchange) for exchange in range(EXCHANGES))]
    jct = np.array([[with_choices(replay, each, copy) for each in rivals] for copy in range(COPIES + 1)])
    back = handed_back_by_truth(replay, fixed) if fixed != BASE else jct[0, 1]
    copies = jct[1:].mean(axis=0)
    optimal = (jct[0, 1] / jct[0, 2], copies[1] / copies[2], copies[1] / copies[3:].mean())
    numbers = (*evidence, jct[0, 0] / jct[0, 1], *optimal, jct[0, 1] / back)
    return f"{name:8}{since:12}" + "".join(f"{number:12.3f}" for number in numbers) + f"  {fixed}"


def main(*words: str) -> None:
    """A row per window."""
    heads = ("evidence", "last days", "outcome", "Optimal", "on copies", "exchanged", "handed back")
    print(f"{'trace':8}{'since':12}" + "".join(f"{head:>12}" for head in heads) + "  Fixed")  # noqa: T201
    for window in [words] if words else WINDOWS:
        print(row(*window), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
