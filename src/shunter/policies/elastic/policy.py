"""Elastic: our own policy for deadlines and jobs of any width, in the manner of ElasticFlow (ASPLOS'23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter import world as w
from shunter.arrays import Arrays
from shunter.capabilities import Ranks
from shunter.model import Renumbering, View
from shunter.params import Between, param
from shunter.policies.elastic.memory import ElasticConfig, ElasticState, no_job_present
from shunter.policies.elastic.serving import decide
from shunter.scheduling.resizing.policy import Resizing, ResizingMemory
from shunter.world import I64

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Elastic(Resizing, Ranks):
    """Meets deadlines with the least GPU time; spare GPUs go to the jobs that gain most, the rest to jobs without one.

    A job is admitted if some share of the GPUs meets its deadline beside those due before it, or in place of one that
    has more work left. What is not needed now goes to running jobs, to waiting ones, and then to wider ones, if the
    change pays for its cost.
    """

    careful = True

    quantile: float = param(
        0.95,
        "remaining=losses: chance with which a job should need no more work than is expected",
        low=0.05,
        high=0.95,
    )
    pays: float = param(
        3.0,
        "a job is widened beyond its need only if that saves this many times its cost",
        low=0,
        high=1e6,
        search=Between(0.3, 30, log=True),
    )
    rest: float = param(
        1800.0,
        "seconds for which a job is not widened beyond its need after a change",
        low=0,
        high=1e7,
        search=Between(60, 14_400, log=True, off="0"),
    )
    patience: float = param(
        0.25,
        "hours that a job without a deadline has waited before it is served first, if the share owed of all GPUs "
        "could also have done its work by then",
        low=0,
        high=10_000,
        search=Between(0.05, 24, log=True),
    )
    owed: float = param(
        0.5,
        "the most of the GPU time for jobs served first while jobs with a deadline and several times their work hold "
        "the GPUs that they need; elsewhere it is a tenth",
        low=0.001,
        high=0.95,
        search=Between(0.05, 0.95),
    )
    overtakes: float = param(4.0, "how many times the work of such a job those must have", low=1, high=1e9)

    caution: float = param(
        0.8,
        "remaining=declared: chance with which a job should need no more work than its share is planned for, by how "
        "much ended jobs needed of what was declared",
        low=0,
        high=1,
        search=Between(0.5, 0.95),
    )
    hope: float = param(
        0.5,
        "the same chance where caution finds no share that meets its deadline",
        low=0,
        high=1,
        search=Between(0.05, 0.5),
    )

    @property
    def kernel(self) -> Any:
        """Needs first, then jobs that run, that wait, and that gain."""
        return decide

    def own(self, view: View, before: Arrays | None, rows: Renumbering | None) -> Arrays:
        """The jobs by pool."""
        times = self.pays, self.rest * 1000, self.patience * HOUR_MS
        config = ElasticConfig(*times, self.owed, self.overtakes, self.caution, self.hope, self.remaining == "declared")
        return no_job_present(view, config, before if isinstance(before, ElasticState) else None, rows)

    def ranking(self, view: View, memory: ResizingMemory) -> I64:
        """As it starts jobs: those that waited too long, those that can meet their deadline, then the least work."""
        own, found = self.compiled(view, memory).memory.own, dict[int, None]()
        for of, size in ((own.firsts, own.firsts_size), (own.dated, own.dated_size), (own.line, own.line_size)):
            for begin, count in zip(own.first.tolist(), size.tolist(), strict=True):
                rows = of[begin : begin + count]
                found |= dict.fromkeys(rows[own.share[rows] >= 0].tolist() if of is own.dated else rows.tolist())
        first = [job for job in found if view.jobs.state[job] == w.PENDING]
        return np.array([*first, *np.setdiff1d(view.pending, first).tolist()], np.int64)
