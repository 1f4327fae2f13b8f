"""Themis: finish-time fairness by auctions: Mahajan et al., NSDI 2020."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from shunter import numba_config  # noqa: F401 before numba

# isort: split
import numpy as np
from numba import typeof, types

from shunter import placers
from shunter.arrays import type_of
from shunter.capabilities import Compiled
from shunter.cluster import Cluster
from shunter.compiled import pointer
from shunter.errors import PolicyError
from shunter.model import GPU, Trace, View
from shunter.params import Among, Between, param
from shunter.policies.themis import auction as a
from shunter.policies.themis import fairness as f
from shunter.policies.themis.winners import Search
from shunter.scheduling.leasing.policy import RENEWALS, Leasing, Placing, first_only, skew_of, tools_for
from shunter.scheduling.queue import queue as q
from shunter.scheduling.queue.decide import parts_for
from shunter.scheduling.queue.keys import key_pointer
from shunter.scheduling.queue.memory import queue_for
from shunter.scheduling.queue.policy import ESTIMATES, Mask
from shunter.scheduling.tiers import FITS, SPREADS
from shunter.world import F64, I64, Decision, World

OBJECTIVES = ("value", "fairness")


@dataclass(frozen=True)
class Themis(Leasing):
    """Auctions GPUs among the most unfairly treated jobs, by finish time here over finish time in a fair share."""

    lease: float = param(
        1200.0,
        "seconds (GPU seconds with lease_by=service) for which a job gets its GPUs before they are offered again; 0: "
        "until it ends",
        low=0,
        high=1e7,
        search=Between(120, 14_400, log=True),
    )
    lease_by: str = param(
        "time", "what a lease is counted in: time, or GPU time (service)", choices=("time", "service")
    )
    renewal: str = param(
        "better",
        "at the end of a lease a job waits for an offer like all others (again), or it keeps its GPUs unless a job "
        "that is offered them before takes them (keep), or unless it can have a lower tier (better)",
        choices=RENEWALS,
        search=Among(RENEWALS),
    )
    fraction: float = param(
        0.8,
        "f: GPUs are offered to the part 1 - f of the jobs that are treated most unfairly",
        low=0,
        high=1,
        search=Between(0, 0.95),
    )
    auction: str = param(
        "auto",
        "how winners are found: by an exact search, one after the other by gain per GPU (greedy), or by search if "
        "there are few bidders (auto)",
        choices=a.AUCTIONS,
    )
    objective: str = param(
        "fairness",
        "what the auction maximises: the product of the jobs' improvements in 1 / rho, as the paper (fairness), or "
        "of their GPUs times speed, as the authors' simulator (value)",
        choices=OBJECTIVES,
        search=Among(OBJECTIVES),
    )
    ideal: str = param(
        "share",
        "the ideal time: on the GPUs asked for, but at most the cluster's over the mean number of jobs (share), or "
        "on those asked for (alone)",
        choices=("share", "alone"),
        search=Among(("share", "alone")),
    )
    growth: float = param(
        60.0, "seconds in which the rho of a waiting job grows by what it was when it stopped", low=0.001, high=1e7
    )
    estimate: str = param(
        "auto",
        "where run-time estimates come from: as for all policies; auto begins with declared iterations",
        choices=ESTIMATES,
        by_path=True,
    )
    threshold: float = param(
        0.4, "lowest skew (largest layer / all layers) of a job that must be consolidated; 1: none must", low=0, high=1
    )
    speeds: str = param(
        "1/0.98/0.96", "relative speed on one machine, in one rack and beyond, for jobs below the threshold"
    )
    skewed_speeds: str = param("1/0.72/0.52", "the same for jobs at or above the threshold")
    fit: str = param("best", "which machine or rack, where several have room", choices=FITS[:2])
    spread: str = param("pack", "which GPUs of a rack or of the cluster", choices=SPREADS)

    uses_estimate = True
    declared_first = True

    def __post_init__(self) -> None:
        self._speeds()

    def _speeds(self) -> tuple[list[float], list[float]]:
        return _numbers("speeds", self.speeds), _numbers("skewed_speeds", self.skewed_speeds)

    def remarks(self, trace: Trace) -> list[str]:
        """Settings that do nothing for this trace, in words."""
        uneven = any((column > 0).any() for column in (trace.gpus % GPU, trace.cpus, trace.mem_gib))
        greedy = ["auction=exact: where jobs want shares of GPUs, CPU or memory, it is greedy"]
        return super().remarks(trace) + greedy * (self.auction == "exact" and uneven)

    # -- placement

    def kinds(self, view: View) -> I64:
        """Whether a job must be consolidated."""
        skewed = np.array([skew_of(name) >= self.threshold for name in view.models] + [True]) & (self.threshold < 1)
        kinds: I64 = skewed[view.jobs.model].astype(np.int64)
        return kinds

    def _speed_table(self, view: View, sample: I64, tiers: int) -> F64:
        """What is left of a job's speed, by tier and class; the last number holds for all tiers beyond."""
        rows = [[speeds[min(tier, len(speeds) - 1)] for tier in range(tiers)] for speeds in self._speeds()]
        table: F64 = np.array(rows)[self.kinds(view)[sample]].T
        return table

    def placing(self, view: View, sample: I64, holds: Mask) -> Placing:
        """Jobs with skew only at the first tier that could hold them; no job where its GPUs are worth less than one.

        The last means: a bid of a value below 1.
        """
        first, value = first_only(holds), self._speed_table(view, sample, len(holds)) * view.jobs.gpus[sample]
        takes = np.where(self.kinds(view)[sample] == 1, first, holds & (first | (value >= 1)))
        return Placing(FITS.index(self.fit), SPREADS.index(self.spread), takes)

    # -- the compiled form

    def form(self, view: View, cluster: Cluster, previous: Compiled | None) -> Compiled:
        """A queue without an order of its own, and auctions."""
        self.check_lease(view)
        queue = queue_for(self, view, cluster, previous, self.kinds(view))
        parts = parts_for(
            key_pointer(type(self).key), placers.kernel_of("consolidate"), tiers=True, learned=bool(self.predictor)
        )
        cls = type(self)
        tools = tools_for(parts, (cls.opens, cls.took, cls.lasts, cls.ended, cls.looks), view.reasons_wanted)
        fair = self._fairness(view, queue)
        old = previous.memory if previous is not None else None
        if isinstance(old, a.Auctions) and len(old.fair.known.rho) == len(fair.known.rho):
            fair = fair.replace(job_time=old.fair.job_time.copy())
            for name in ("met_at", "met_with", "last_rho", "since"):
                getattr(fair.known, name)[:] = getattr(old.fair.known, name)
        return Compiled(_decide_pointer(tools), self._auctions(view, queue, fair), tools)

    def _fairness(self, view: View, queue: q.Queue) -> f.Fairness:
        jobs = view.world.jobs.shape[1]
        config = f.FairnessConfig(self.ideal == "share", self.growth * 1000, OBJECTIVES.index(self.objective))
        known = f.JobFairness(*[np.full(jobs, f.UNKNOWN.get(name, 0)) for name in f.JobFairness.fields])
        speeds = self._speed_table(view, queue.sample, len(queue.tiers.takes))
        gpus = view.jobs.gpus[queue.sample] * view.jobs.share[queue.sample] / GPU
        values = np.maximum(np.log(np.maximum(speeds * gpus, 1.0)), f.LEAST_GAIN)
        return f.Fairness(config, f.JobTime(), known, speeds, values)

    def _auctions(self, view: View, queue: q.Queue, fair: f.Fairness) -> a.Auctions:
        config = a.AuctionConfig(
            offered=1 - self.fraction,
            mode=a.AUCTIONS.index(self.auction),
            by_service=self.lease_by == "service",
            steps=a.MOST_STEPS["exact" if self.auction == "exact" else "auto"],
        )
        return a.Auctions(
            offers=self.memory(view, queue),
            fair=fair,
            search=_search(view.world, len(queue.tiers.takes)),
            config=config,
            state=a.AuctionState(),
            ranked=np.zeros(view.world.jobs.shape[1], np.int64),
        )


def _numbers(name: str, text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split("/")]
    except ValueError:
        found = [0.0]
    if not all(0 < number <= 1 for number in found) or found != sorted(found, reverse=True):
        raise PolicyError(
            f"policy 'themis': parameter '{name}' must be numbers above 0, at most 1, none larger than the one before, "
            f"as in 1/0.98/0.96, got '{text}'"
        )
    return found


def _search(world: World, tiers: int) -> Search:
    """Room to search in, and where the domains are."""
    nodes, jobs = world.nodes.shape[1], world.jobs.shape[1]
    levels = [np.arange(nodes), *world.domains, np.zeros(nodes, np.int64)]
    node = np.zeros((tiers, nodes), np.int64)
    for tier, domain in enumerate(levels):
        node[tier, domain[::-1]] = np.arange(nodes)[::-1]
    return Search(
        room=np.zeros((tiers, nodes), np.int64),
        inside=np.array([domain.max(initial=0) + 1 for domain in levels]),
        node=node,
        jobs=np.zeros(jobs, np.int64),
        gains=np.zeros((jobs, tiers)),
        most=np.zeros(jobs),
        sums=np.zeros(jobs + 1),
        choice=np.zeros(jobs, np.int64),
        winning=np.zeros(jobs, np.int64),
    )


@functools.cache
def _decide_pointer(tools: Any) -> Any:
    """``decide``, compiled."""
    return pointer(a.decide, types.void(type_of(World), type_of(a.Auctions), typeof(tools), type_of(Decision)))
