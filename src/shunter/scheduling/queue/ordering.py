"""What most policies are: an order for the queue, a rule for what doesn't fit, backfilling, and a placement.

A new one is a file in this folder with a class that has a docstring and a ``key``:

    @dataclass(frozen=True)
    class Sjf(Ordering):
        '''Shortest job first, by estimated run time.'''

        uses_estimate = True

        @staticmethod
        def key(job: Job, p: F64) -> float:
            return job.estimate

``key`` is compiled; ``p`` holds what ``key_params`` returns, for orders that have parameters of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from shunter import placers
from shunter.capabilities import Compiled
from shunter.cluster import Cluster
from shunter.errors import PolicyError
from shunter.model import GPU, Trace, View
from shunter.params import Among, Between, param
from shunter.scheduling.queue.decide import decide_pointer, never, parts_for, tools_for
from shunter.scheduling.queue.keys import key_pointer
from shunter.scheduling.queue.memory import has_shares, queue_for
from shunter.scheduling.queue.policy import (
    BACKFILL_DOC,
    BACKFILLS,
    CANDIDATES,
    CANDIDATES_DOC,
    HYSTERESIS_DOC,
    MAX_STOPS_DOC,
    MIN_RUN,
    MIN_RUN_DOC,
    PASSING_DOC,
    Estimating,
)

PLACEMENT_DOC = "which nodes a job gets"
NO_PLANS = "backfill=conservative works as easy, because some jobs want a share of a GPU and it plans whole ones"


@dataclass(frozen=True)
class Ordering(Estimating):
    """A queue in some order; subclasses define the order.

    A subclass has a ``key``: the job with the smallest key is first. It is compiled, so it runs as fast as a built-in
    policy. Backfilling, blocking and placement come with it, as parameters. Fields of the subclass are parameters too;
    ``key_params`` returns those that ``key`` receives as ``p``.

    Examples:
        The job with the most GPUs first; among equals, the first submitted:

        >>> from dataclasses import dataclass
        >>> import shunter
        >>> @dataclass(frozen=True)
        ... class Widest(shunter.Ordering):
        ...     @staticmethod
        ...     def key(job, p):
        ...         return -job.gpus
        >>> jobs = shunter.Trace.of(
        ...     "two", ["narrow", "wide"], submit=[0, 0], duration=[60_000, 60_000], gpus=[1000, 2000]
        ... )
        >>> shunter.simulate(jobs, "1x2", Widest()).jobs["wait"].to_list()
        [60.0, 0.0]
        >>> shunter.simulate(jobs, "1x2", Widest(backfill="easy")).summary["finished"]
        2
    """

    backfill: str = param("none", BACKFILL_DOC, choices=BACKFILLS, search=Among(("none", "easy")))
    candidates: str = param("queue", CANDIDATES_DOC, choices=CANDIDATES)
    passing: float = param(0.0, PASSING_DOC, low=0, high=10_000)
    blocking: str = param(
        "strict",
        "a job that doesn't fit stops its pool (strict) or is passed over (skip)",
        choices=("strict", "skip"),
        search=Among(("strict", "skip")),
    )
    placement: str = param("consolidate", PLACEMENT_DOC, choices=placers.names(), by_path=True)
    depth: int = param(100, "jobs that hold a reservation under conservative backfilling", low=1, high=10_000)

    def __post_init__(self) -> None:
        if self.backfill != "none" and self.blocking == "skip":
            raise PolicyError(
                "blocking=skip contradicts backfill: backfilling already decides which jobs may pass; leave one out"
            )
        if self.backfill == "conservative" and self.preemptive:
            raise PolicyError(
                "backfill=conservative promises start times that a preemptive policy breaks; use easy or none"
            )
        if 0 < self.passing < 0.001:
            raise PolicyError(f"passing={self.passing:g} is less than a thousandth; use 0 to let any job pass")
        if self.sees_pool and self.preemptive:
            raise PolicyError("sees_pool is for waiting jobs; a preemptive order would stop jobs for what stops free")

    def remarks(self, trace: Trace) -> list[str]:
        """Settings that do nothing for this trace, in words."""
        unused = {
            "depth does nothing without backfill=conservative": self.depth != 100 and self.backfill != "conservative",
            "candidates does nothing without backfill=easy": self.candidates != "queue" and self.backfill != "easy",
            "passing does nothing without backfill=easy": self.passing > 0 and self.backfill != "easy",
            NO_PLANS: self.backfill == "conservative" and bool((trace.gpus % GPU > 0).any()),
        }
        return super().remarks(trace) + [remark for remark, holds in unused.items() if holds]

    def form(self, view: View, cluster: Cluster, previous: Compiled | None) -> Compiled:
        """The compiled queue, which serves every order."""
        if self.backfill == "conservative" and has_shares(view.world):
            return replace(self, backfill="easy").form(view, cluster, previous)
        queue = queue_for(self, view, cluster, previous)
        parts = parts_for(
            key_pointer(type(self).key), placers.kernel_of(self.placement), tiers=False, learned=bool(self.predictor),
            sees_next=self.placement in placers.AHEAD,
        )  # fmt: skip
        look = self.look if queue.config.sees_pool else never
        tools = tools_for(parts, self.preemptive, self.backfill, view.reasons_wanted, look)
        return Compiled(decide_pointer(tools), queue, tools)


@dataclass(frozen=True)
class Preempting(Ordering):
    """An order that stops running jobs for earlier ones; only those that are ``checkpointable``."""

    min_run: float = param(MIN_RUN, MIN_RUN_DOC, low=0, high=1000, search=Between(1, 100, log=True))
    hysteresis: float = param(1.0, HYSTERESIS_DOC, low=1, high=1000, scale="log", search=Between(1, 16, log=True))
    max_stops: int = param(0, MAX_STOPS_DOC, low=0, high=1_000_000)

    preemptive = True
