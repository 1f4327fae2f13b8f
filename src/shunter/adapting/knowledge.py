"""What the site of a simulated run knows at an instant, and which row of the trace stands for a job of its past."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from shunter import world as w
from shunter.generating.known_jobs import UNKNOWN, KnownJobs, joined, recorded
from shunter.model import Trace
from shunter.sim.engine import Simulator
from shunter.world import I64

KIND = ("gpus", "vc", "gpu_type", "cpus", "mem_gib")


class SiteKnowledge:
    """Jobs before the run, and those of the run so far.

    A simulation can only repeat jobs of its own trace.  So a job from before the run is played by one of the run that
    asks for the same, by one of the same user if there is one; its run time is its own.
    """

    def __init__(self, trace: Trace, history: Trace | None) -> None:
        self.trace = trace
        self.before = trace.select(np.zeros(0, np.int64)) if history is None else history
        self.offset = len(self.before)
        self._past = recorded(self.before)

    def at(self, simulator: Simulator, now: int) -> KnownJobs:
        """What is known now; run times only of jobs that have ended."""
        table = simulator.world.jobs[:, : np.searchsorted(self.trace.submit, now, side="right")]
        states, count = table[w.STATE], table.shape[1]
        over = (states == w.DONE) | (states == w.FAILED)
        runs = (states == w.RUNNING) | (states == w.STOPPING)
        ran = table[w.EXECUTED] + np.where(runs, now - table[w.BEGUN], 0)
        duration = np.where(over, simulator.durations[:count], UNKNOWN)
        trace = self.trace
        mine = KnownJobs(
            trace.submit[:count],
            duration,
            np.where(over, table[w.ENDED_AT], UNKNOWN),
            np.where(over, duration, np.maximum(ran, 0)),
            trace.gpus[:count],
            trace.user[:count],
            trace.vc[:count],
            trace.gpu_type[:count],
        )
        return joined(self.past_at(now), mine)

    def past_at(self, now: int) -> KnownJobs:
        """The jobs before the run as they are known now; some of them may still run."""
        return self._past.at(now)

    def players(self, rows: I64) -> I64:
        """The row of the trace that plays each known job; -1: there is none that asks for the same."""
        mine = rows >= self.offset
        found = np.where(mine, rows - self.offset, 0)
        found[~mine] = self._players[rows[~mine]]
        return found

    @cached_property
    def _players(self) -> I64:
        """Of each job before the run."""
        by_user, by_kind = self._first_rows(("user", *KIND)), self._first_rows(KIND)
        exact, alike = (self._keys(self.before, names) for names in (("user", *KIND), KIND))
        found = [by_user.get(one, by_kind.get(two, -1)) for one, two in zip(exact, alike, strict=True)]
        return np.array(found, np.int64)

    def _first_rows(self, names: tuple[str, ...]) -> dict[tuple[int, ...], int]:
        found: dict[tuple[int, ...], int] = {}
        for row, key in enumerate(self._keys(self.trace, names)):
            found.setdefault(key, row)
        return found

    @staticmethod
    def _keys(trace: Trace, names: tuple[str, ...]) -> list[tuple[int, ...]]:
        return list(zip(*(getattr(trace, name).tolist() for name in names), strict=True))
