"""Tiresias: least attained service in discretised queues, consolidation by skew: Gu et al., NSDI 2019."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shunter import placers
from shunter.capabilities import Compiled
from shunter.cluster import Cluster
from shunter.compiled import kernel
from shunter.errors import PolicyError
from shunter.model import Trace, View
from shunter.params import Among, Between, Growing, param
from shunter.scheduling.estimates import bin_of
from shunter.scheduling.leasing.policy import Backfilled, Placing, first_only, skew_of
from shunter.scheduling.queue import queue as q
from shunter.scheduling.queue.decide import decide_pointer, parts_for, tools_for
from shunter.scheduling.queue.keys import key_pointer
from shunter.scheduling.queue.memory import forgiven_for, queue_for
from shunter.scheduling.queue.policy import MIN_RUN, MIN_RUN_DOC, Mask
from shunter.scheduling.tiers import FITS, SPREADS
from shunter.world import F64, I64, Job

SERVICE, TIME, GITTINS = range(3)
ORDERS = ("service", "time", "gittins")
BEHIND = 1e12  # seconds; more than any key within a queue
MOST_LIMITS = 16
FIRST_LIMIT = 4  # in the key's parameters: after what is compared, the horizon, the number of limits, the order inside


@dataclass(frozen=True)
class Tiresias(Backfilled):
    """Jobs with the least GPU time come first, in a few queues; models with one dominant layer stay on few machines."""

    order: str = param(
        "service",
        "what is compared: GPU time so far (service), run time so far (time), or in each queue how likely a job is to "
        "end soon, given what others took (gittins)",
        choices=ORDERS,
        search=Among(ORDERS),
    )
    limits: str = param(
        "18000",
        "where the queues end, in GPU seconds (seconds for order=time), as in 3250/7200; none: no queues",
        search=Growing(300, 1e6, most=4),
    )
    inside: str = param(
        "submission",
        "inside a queue jobs stand by submission, or those that run before those that wait, so that no job is stopped "
        "for a job of the same queue: by start, then the jobs that ran last, then those that never ran (running), as "
        "in its authors' simulator",
        choices=("submission", "running"),
    )
    horizon: float = param(3250.0, "order=gittins: GPU seconds within which a job should end", low=1, high=1e9)
    look_again: float = param(60.0, "seconds between two checks of the running jobs", low=1, high=86_400, scale="log")
    promote: float = param(0.0, "a job counts as new once it waited this many times as long as it ran; 0: never", low=0)
    starve: float = param(
        0.0,
        "a job counts as new once it waited this many seconds since it ran; 0: never",
        low=0,
        search=Between(1800, 172_800, log=True, off="0"),
    )
    pack_limit: float = param(0.4, "skew (largest layer / all layers) above which a job is consolidated", low=0, high=1)
    skewed: str = param(
        "consolidate",
        "a job with skew waits for the first tier that could hold it (consolidate), or takes the lowest tier that has "
        "room (tiers)",
        choices=("consolidate", "tiers"),
    )
    loose: str = param(
        "tiers",
        "the others get the lowest tier that has room (tiers), any free GPUs in their order (list), or at random "
        "(scatter)",
        choices=("tiers", "list", "scatter"),
    )
    fit: str = param("best", "which machine or rack, where several have room", choices=FITS[:2])
    spread: str = param("pack", "which GPUs of a rack or of the cluster", choices=SPREADS)
    lease: float = param(
        0.0,
        "seconds for which a job gets its GPUs before they are offered again, as in Dally's simulator; 0: a job is "
        "stopped when one that comes before it needs its GPUs",
        low=0,
        high=1e7,
    )
    min_run: float = param(MIN_RUN, MIN_RUN_DOC, low=0, high=1000, search=Between(1, 100, log=True))

    preemptive = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._limits()

    def _limits(self) -> list[float]:
        texts = [] if self.limits == "none" else self.limits.split("/")
        try:
            limits = [float(text) for text in texts]
        except ValueError:
            limits = [0.0]
        finite = all(math.isfinite(limit) for limit in limits)
        if not finite or len(limits) > MOST_LIMITS or any(b <= a for a, b in zip([0.0, *limits], limits, strict=False)):
            raise PolicyError(
                f"policy 'tiresias': parameter 'limits' must be none, or up to {MOST_LIMITS} growing numbers above 0 "
                f"as in 3250/7200, got '{self.limits}'"
            )
        return limits

    def remarks(self, trace: Trace) -> list[str]:
        """Settings that do nothing for this trace, in words."""
        useless = self.inside == "running" and (self.limits == "none" or self.order == "gittins")
        return super().remarks(trace) + ["inside does nothing without queues or with order=gittins"] * useless

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """First by queue; inside a queue by submission or index; without queues by what was attained."""
        attained = job.executed if p[0] == TIME else job.attained
        inside = job.submit
        if p[0] == GITTINS:
            inside = BEHIND / 2 - 1e6 * gittins(attained, p[1], p[FIRST_LIMIT + MOST_LIMITS :])
        elif p[3] == 1 and job.begun >= 0:
            inside = job.begun
        elif p[3] == 1:
            inside = BEHIND / 4 - job.queued if job.executed > 0 else BEHIND / 2 + job.submit
        if p[2] == 0:
            return inside if p[0] == GITTINS else attained
        queue = 0
        while queue < p[2] and attained >= p[FIRST_LIMIT + queue]:
            queue += 1
        return queue * BEHIND + inside

    def key_params(self) -> F64:
        """What is compared, the horizon, the number of queues, the order inside them, and their limits."""
        limits = self._limits()
        padded = [*limits, *[0.0] * (MOST_LIMITS - len(limits))]
        return np.array([ORDERS.index(self.order), self.horizon, len(limits), self.inside == "running", *padded])

    def quantum(self) -> float:
        """As configured."""
        return self.look_again

    def configured(self, queue: q.Queue, view: View, cluster: Cluster) -> q.Queue:
        """Gittins' index needs to know what ended jobs took; a promotion, what a job ran before it."""
        queue = super().configured(queue, view, cluster)
        jobs = len(queue.key) if self.promote or self.starve else 0
        ended = q.HISTOGRAM if self.order == "gittins" else 0
        config = queue.config.replace(
            promote_times=round(self.promote * 1000),
            promote_after=round(self.starve * 1000),
            histogram_at=len(queue.params) if ended else 0,
        )
        params = np.concatenate((queue.params, np.zeros(ended)))
        return queue.replace(config=config, params=params, forgiven=forgiven_for(jobs))

    def kinds(self, view: View) -> I64:
        """Whether a job is to be consolidated."""
        packed = np.array([skew_of(name) > self.pack_limit for name in view.models] + [True])
        kinds: I64 = packed[view.jobs.model].astype(np.int64)
        return kinds

    def placing(self, view: View, sample: I64, holds: Mask) -> Placing:
        """Jobs with skew on few machines, the others as configured."""
        packed = self.kinds(view)[sample] == 1
        fit, spread = FITS.index(self.fit), SPREADS.index(self.spread)
        near = first_only(holds) if self.skewed == "consolidate" else holds
        if self.loose == "tiers":
            return Placing(fit, spread, np.where(packed, near, holds))
        anywhere = np.zeros_like(holds)
        anywhere[-1] = True
        loose = SPREADS.index(self.loose)
        return Placing(fit, np.where(packed, spread, loose), np.where(packed, near, anywhere))

    def form(self, view: View, cluster: Cluster, previous: Compiled | None) -> Compiled:
        """With leases as all that lease, else as all that stop running jobs for earlier ones."""
        if self.lease > 0:
            return super().form(view, cluster, previous)
        parts = parts_for(
            key_pointer(type(self).key), placers.kernel_of("consolidate"), tiers=True, learned=bool(self.predictor)
        )
        tools = tools_for(parts, self.preemptive, self.backfill, view.reasons_wanted)
        return Compiled(decide_pointer(tools), queue_for(self, view, cluster, previous, self.kinds(view)), tools)


@kernel
def gittins(attained: float, horizon: float, ended: F64) -> float:
    """How likely a job is to end within the horizon over the GPU time that it would take, if it is like those ended."""
    ends, cost = 0.0, 0.0
    for at in range(bin_of(attained), int(ended[4 * q.BINS])):
        left = ended[2 * q.BINS + at] - attained  # of an empty bin not above 0
        if left > horizon:  # so it is in all bins above
            return float(ends / (cost + horizon * ended[3 * q.BINS + at]))
        if left > 0:
            ends += ended[at]
            cost += ended[at] * left
    return ends / cost if cost > 0 else 0.0
