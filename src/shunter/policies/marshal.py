"""Marshal, our own: even, tight placements, and waiting for a better tier only as long as that pays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter import world as w
from shunter.arrays import F1, F2, I1, Arrays, Variables, narrowed
from shunter.compiled import kernel
from shunter.model import Trace, View
from shunter.params import Among, Between, param
from shunter.scheduling.leasing.memory import Offers
from shunter.scheduling.leasing.policy import HOUR, RENEWALS, Leasing, Placing
from shunter.scheduling.queue.policy import Mask
from shunter.scheduling.queue.queue import Paper, Queue
from shunter.scheduling.tiers import FITS, SPREADS, lay_out, reach_of, room_for, sort_nodes
from shunter.world import F64, I64, Job, World

MEMORY = 20.0  # a mean counts as that of this many at most, so that it follows the times
UNKNOWN = -1.0
ORDERS = ("declared", "attained")


class Patience(Arrays):
    """For how long a better place is worth waiting."""

    leases: float  # for which it should be kept
    longest: float  # ms
    probe: float  # ms of the first lease on a tier wider than needed


class PlaceCosts(Variables):
    """What places cost jobs, and how long the best ones are waited for."""

    patience: Patience
    next_look: int = 0  # ms; when we see again how much there is to do
    wait: F1  # (sizes,) the mean wait for the best place, by number of GPUs (ms) ...
    waits: F1  # (sizes,) ... and of how many it is
    cost: F2  # (tiers, jobs) what each unit that a job is joined with costs it, UNKNOWN
    least_reach: I1  # (jobs,) that each could have


places_of = narrowed(PlaceCosts)


@dataclass(frozen=True)
class Marshal(Leasing):
    """Short work first, evenly on few machines; a job waits for a better place while that saves more than it costs."""

    order: str = param(
        "declared",
        "which job comes first: the one with the least GPU time left if iterations were declared, else the least GPU "
        "time so far (declared), or always the latter (attained)",
        choices=ORDERS,
        search=Among(ORDERS),
    )
    patience: float = param(
        10.0,
        "number of leases for which a better place should be kept: a job waits for it while that saves more",
        low=0,
        high=1000,
        search=Between(1, 100, log=True, off="0"),
    )
    longest: float = param(240.0, "hours that a job waits for a better tier at most", low=0, high=10_000)
    probe: float = param(300.0, "seconds of the first lease on a tier wider than needed, to see how fast it is", low=0)
    renewal: str = param(
        "better",
        "at the end of a lease a job waits for an offer like all others (again), or it keeps its GPUs unless a job "
        "before it in the order takes them (keep), or unless it can have a lower tier (better)",
        choices=RENEWALS,
        search=Among(RENEWALS),
    )
    fit: str = param("best", "which machine or rack, where several have room", choices=FITS[:2])
    spread: str = param("even", "which GPUs of a rack or of the cluster", choices=SPREADS)

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """GPU time left, or so far; first, by length, the jobs that will still run when all others could be done."""
        if p[0] == 0 or job.declared == 0:
            return job.attained
        work = job.declared - job.work if job.work < job.declared else job.work  # overdue: as long again
        left = work * pace(job.executed, job.work)
        return -left if p[1] > 0 and left >= p[1] else work * job.gpus

    def estimate_source(self, trace: Trace) -> str:
        """Declared run times, where it orders by them."""
        found = super().estimate_source(trace)
        declares = self.order == "declared" and bool((trace.declarations > 0).any())
        return found if not declares else "declared" if found == "none" else f"declared+{found}"

    def key_params(self) -> F64:
        """Which, and how long the cluster has work for, which is not known yet."""
        return np.array([float(self.order == "declared"), 0.0])

    def placing(self, view: View, sample: I64, holds: Mask) -> Placing:
        """As configured."""
        return Placing(FITS.index(self.fit), SPREADS.index(self.spread))

    def knowledge(self, sizes: I64, tiers: int, jobs: int) -> PlaceCosts:
        """Waits by number of GPUs; by tier and job, what each unit that it is joined with costs it."""
        return PlaceCosts(
            patience=Patience(self.patience, self.longest * HOUR * 1000, self.probe * 1000),
            wait=np.full(len(sizes), self.lease * 1000),  # while nothing is known
            waits=np.ones(len(sizes)),
            cost=np.full((tiers, jobs), UNKNOWN),
            least_reach=np.zeros(jobs, np.int64),
        )

    def memory(self, view: View, queue: Queue) -> Offers:
        """With the least reach that each job could have."""
        offers = super().memory(view, queue)
        return offers.replace(own=offers.own.replace(least_reach=least_reach(view.world, queue)[queue.class_of]))

    @staticmethod
    def opens(world: World, offers: Offers, job: int, tier: int) -> int:
        """At once, if the best place is not worth waiting for; else when waiting would no longer pay."""
        places = places_of(offers.own)
        here = slowdown(places, job, tier, offers.state.reach)
        lowest, reach = best_place(offers, job)
        if here == UNKNOWN or (tier == lowest and offers.state.reach <= reach):
            return 0
        there = max(slowdown(places, job, lowest, reach), 1.0)
        worth = places.patience.leases * offers.config.lease * (here / there - 1.0)
        if worth <= places.wait[offers.size_of[offers.queue.class_of[job]]]:
            return 0
        return int(world.jobs[w.WAITING_SINCE, job] + min(worth, places.patience.longest))

    @staticmethod
    def took(world: World, offers: Offers, job: int, tier: int) -> None:
        """Remember how long it waited for the best place."""
        lowest, reach = best_place(offers, job)
        if tier == lowest and offers.state.reach <= reach:
            places, size = places_of(offers.own), offers.size_of[offers.queue.class_of[job]]
            waited = world.clock[w.NOW] - world.jobs[w.WAITING_SINCE, job]
            places.waits[size] = min(places.waits[size] + 1, MEMORY)
            places.wait[size] += (waited - places.wait[size]) / places.waits[size]

    @staticmethod
    def lasts(world: World, offers: Offers, job: int, tier: int) -> int:
        """Only shortly, where it is not known yet how fast the job is there."""
        lowest, _ = best_place(offers, job)
        places = places_of(offers.own)
        probe = places.patience.probe
        if tier > lowest and places.cost[tier, job] == UNKNOWN and probe > 0:
            return max(int(probe), 1000)
        return int(offers.config.lease)

    @staticmethod
    def ended(world: World, offers: Offers, job: int, tier: int) -> None:
        """See what this place cost the job, for each unit that it was joined with."""
        rate, reach = world.progress[w.RATE, job], offers.state.reach
        if rate > 0:
            places_of(offers.own).cost[tier, job] = max(1.0 / rate - 1.0, 0.0) / max(reach - 1, 1)

    @staticmethod
    def looks(world: World, offers: Offers, job: int, tier: int) -> None:
        """See how much there is to do, when jobs have come and now and then."""
        places, now = places_of(offers.own), world.clock[w.NOW]
        if offers.queue.params[0] == 1 and (world.clock[w.N_ARRIVED] > 0 or now >= places.next_look):
            places.next_look = now + offers.config.lease // 4
            known = offers.queue.params[1]
            offers.queue.params[1] = work_ahead(world)
            if offers.queue.params[1] != known:
                offers.queue.state.stale = True


@kernel
def pace(executed: float, work: float) -> float:
    """How much longer than alone a job has taken so far."""
    return max(executed / work, 1.0) if work > 0 else 1.0


@kernel
def work_ahead(world: World) -> float:
    """For how many seconds the cluster has work if no GPU idles; 0, not known, unless all jobs say how long they are.

    A job that takes longer than that decides when the last job ends.
    """
    total = 0.0
    for row, length in ((w.L_PENDING, w.N_PENDING), (w.L_RUNNING, w.N_RUNNING)):
        for at in range(world.clock[length]):
            job = world.lists[row, at]
            if world.jobs[w.DECLARED, job] == 0:
                return 0.0
            work, executed = world.progress[w.WORK, job], world.jobs[w.EXECUTED, job]
            left = (world.jobs[w.DECLARED, job] - work) * pace(executed, work)
            total += left * world.jobs[w.GPUS, job] * world.jobs[w.SHARE, job] / 1000
    return float(total / 1000 / world.gpus.shape[1])


@kernel
def slowdown(places: PlaceCosts, job: int, tier: int, reach: int) -> float:
    """How much slower than alone a job should be at a tier, joined with this many units; -1: not known."""
    cost = places.cost[tier, job]
    return float(cost if cost == UNKNOWN else 1.0 + cost * max(reach - 1, 1))


@kernel
def best_place(offers: Offers, job: int) -> tuple[int, int]:
    """The lowest tier that could hold a job, and the least reach that it could have there."""
    takes, cls, lowest = offers.queue.tiers.takes, offers.queue.class_of[job], 0
    while takes[lowest, cls] == 0:
        lowest += 1
    return lowest, int(places_of(offers.own).least_reach[job])


def least_reach(world: World, queue: Queue) -> I64:
    """The reach that jobs of each class have on the cluster while it is empty."""
    nodes, gpus = world.nodes, world.gpus
    no_tenants = np.zeros(gpus.shape[1], np.int64)
    empty = Paper(nodes[w.TOTAL].copy(), nodes[w.CPU_FREE].copy(), nodes[w.MEM_FREE].copy(), no_tenants, no_tenants)
    found = np.ones(len(queue.sample), np.int64)
    for cls, job in enumerate(queue.sample):
        tier, place = room_for(world, queue, empty, job, 0)
        if tier > 0:
            used = lay_out(world, queue, empty, job, tier, place)
            sort_nodes(queue.scratch.nodes, queue.scratch.counts, used)
            found[cls] = reach_of(world, tier, queue.scratch.nodes, queue.scratch.counts, used)
    return found
