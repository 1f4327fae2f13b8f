"""When a guard sees a bad day: ``python -m benchmarks.judged_later [DATA SINCE UNTIL [CLUSTER]]``, without stops.

Earlier weeks of the traces are run with two policies.  Each day's time in the system is compared with five shadows of
the site's policy, by run times that were known or guessed when the day ended, and one, two and three days later.  Of
each delay are printed how many days were in truth more than 1.05 times as long as in every shadow, how many of these
were not seen, how many others were taken for such, and the mean error of the logarithm.  "longest": of each job that
has not ended, the longest of three guesses.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from benchmarks.autopilot_bounds import AIM, BASE, replay_of
from shunter import registry
from shunter.adapting.autopilot.replay import PilotReplay
from shunter.adapting.autopilot.shadows import SHADOWS, BaselineShadows, over_shadows
from shunter.generating.known_jobs import DAY
from shunter.sim.engine import Simulator
from shunter.world import F64, I64

POLICIES, DELAYS = ("saf:backfill=easy", "tiresias"), 4
KINDS = {"a guess": 1, "longest": 3}  # and how many guesses of each run time are made
WINDOWS = (
    ("philly", "2017-10-02", "2017-10-16"),
    ("venus", "2020-04-12", "2020-04-26"),
    ("venus", "2020-04-26", "2020-05-10"),
    ("venus", "2020-05-10", "2020-05-24"),
    ("venus", "2020-05-24", "2020-06-07"),
    ("aaic", "2018-08-05", "2018-08-19"),
    ("aaic", "2018-09-02", "2018-09-16"),
    ("aaic", "2018-09-16", "2018-09-30"),
    ("pai", "+14", "+28"),
)


def guessed(replay: PilotReplay, simulator: Simulator, now: int, times: int) -> list[I64]:
    """For each shadow the longest of some guesses."""
    others = [PilotReplay(replay.setup, dataclasses.replace(replay.options, seed=SHADOWS * at)) for at in range(times)]
    return [np.max(each, axis=0) for each in zip(*(other.guesses(simulator, now) for other in others), strict=True)]


def judged(replay: PilotReplay, text: str, kinds: Mapping[str, int] = KINDS) -> tuple[F64, dict[str, F64]]:
    """Each day over the longest of its shadows: in truth, and as it is judged on each day, a row per day of judging."""
    simulator, policy, ends = replay._simulator(), registry.policy(text), replay._instants(DAY)  # noqa: SLF001
    shadows, memory = BaselineShadows(BASE, simulator.fork(), None, replay.begin, 0), policy.start(simulator.cluster)
    days = list(pairwise(ends))
    seen = {kind: np.full((len(days), len(days)), np.nan) for kind in kinds}
    for row, (_, now) in enumerate(days):
        memory = simulator.run(policy, until=now, memory=memory)
        for kind, times in kinds.items():
            guesses = guessed(replay, simulator, now, times)
            twins = shadows.by_guess(simulator, guesses, now)
            seen[kind][row, : row + 1] = [over_shadows(simulator, twins, *day).min() for day in days[: row + 1]]
    twins = shadows.in_truth(ends[-1])
    return np.array([over_shadows(simulator, twins, *day).min() for day in days]), seen


def main(*words: str) -> None:
    """A line per kind of guess and delay."""
    found = [
        judged(replay, text)
        for window in ([words] if words else WINDOWS)
        for replay in [replay_of(*window)]
        for text in POLICIES
    ]
    print(f"{'':10}{'days later':>12}{'days':>8}{'bad':>8}{'not seen':>10}{'false':>8}{'error':>8}")  # noqa: T201
    for kind in KINDS:
        for delay in range(DELAYS):
            print(line(kind, delay, [(true, np.diag(seen[kind], -delay)) for true, seen in found]))  # noqa: T201


def line(kind: str, delay: int, runs: Sequence[tuple[F64, F64]]) -> str:
    """The numbers of a delay."""
    true = np.concatenate([true[: len(seen)] for true, seen in runs])
    seen = np.concatenate([seen for _, seen in runs])
    bad, taken = true > AIM, seen > AIM
    counts = (len(true), bad.sum(), (bad & ~taken).sum(), (taken & ~bad).sum())
    numbers = "".join(f"{number:{width}}" for number, width in zip(counts, (8, 8, 10, 8), strict=True))
    return f"{kind:10}{delay:12}{numbers}{np.abs(np.log(seen / true)).mean():8.3f}"


if __name__ == "__main__":
    main(*sys.argv[1:])
