"""Elastic in plain Python."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from shunter import world as w
from shunter.model import View
from shunter.testing.resizing.active import OVERRUN, ActiveJobs
from shunter.testing.resizing.placing import CAREFUL, Widths
from shunter.testing.resizing.policy import PlainResizing, PlainResizingMemory
from shunter.testing.resizing.shares import LATER, NOT_ADMITTED, OWED_IF_BLOCKED, DatedJob, PlainShares, admit_all
from shunter.world import F64, I64

GROWTH = 1.2  # of slots
MOST_SLOTS = 64
BINS, PER_ONE = 128, 32  # of work done over work expected: bins, and how many of them up to 1
TRUST = 5  # ended jobs that the work declared counts for
ROUNDING = 1e-6
AGAIN_AFTER = 10  # times what a job has waited before it was served first: it may be again
GRACE = 600_000  # ms that it may take until others are stopped for a job that is served first


@dataclass
class PlainPool:
    """The jobs that may use the same nodes, and what is left for them while widths are found."""

    jobs: list[int]  # of the active
    gpus: int
    spare: int
    wanted: I64  # (active,)
    begun: list[int] = field(default_factory=list)  # jobs that start, in this order


@dataclass
class PlainTurn:
    """When the job for which room is kept can start; others start before only if they leave it room."""

    ahead: float = np.inf  # ms from now
    beside: int = 10**9  # GPUs that are left then


@dataclass
class PlainFirst:
    """A job that is served first; GPU time in ms."""

    until: int
    overtaken: bool
    charged: float
    stops: int  # how often it was stopped by then
    last_run: float = 0.0
    former_runs: float = 0.0  # after which it was queued again

    def unpaid(self, run: float, waits: bool, stops: int) -> float:
        """What it took beyond what was charged; ``run``: its last run up to now."""
        self.former_runs += self.last_run if waits or stops != self.stops else 0.0
        self.last_run, self.stops = run, stops
        return max(self.former_runs + run - self.charged, 0.0)


@dataclass
class PlainFirsts:
    """The jobs of a pool without a deadline that are served first; by whether larger jobs are before them."""

    chosen: dict[int, PlainFirst] = field(default_factory=dict)
    patient_for: dict[int, int] = field(default_factory=dict)  # how long a job must have waited to be chosen again
    later: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})  # when the next one may be chosen ...
    search: int = 0  # ... and when one is looked for again


@dataclass(frozen=True)
class PlainElastic(PlainResizing):
    """Meets deadlines with the least GPU time; spare GPUs go to the jobs that gain most, the rest to jobs without one.

    A job is admitted if some share of the GPUs meets its deadline beside those due before it, or in place of one that
    has more work left. What is not needed now goes to running jobs, to waiting ones, and then to wider ones, if the
    change pays for its cost.
    """

    quantile: float = 0.95
    pays: float = 3.0
    rest: float = 1800.0
    patience: float = 0.25
    owed: float = 0.5
    overtakes: float = 4.0
    caution: float = 0.8
    hope: float = 0.5

    style = CAREFUL

    def may_skip(self, view: View, memory: PlainResizingMemory) -> bool:
        """Nothing happened but that jobs without a deadline came for which no GPU is free, or lent to others."""
        new = view.arrived
        if len(view.ended) or not len(new) or view.world.clock[w.RELEASES] != memory.own.get("releases"):
            return False
        if memory.own.get("lends"):
            return False
        for job in new.tolist():
            vc = view.jobs.vc[job]
            mine = (view.nodes.vc == vc) | (view.nodes.vc == w.OPEN) | bool(vc < 0)
            if view.jobs.deadline[job] > 0 or view.nodes.free[mine].any():
                return False
        return True

    def widths(self, view: View, active: ActiveJobs, memory: PlainResizingMemory) -> Widths:
        """Needs first, then jobs that run, that wait, and that gain."""
        wanted, order = np.zeros(len(active), np.int64), []
        memory.own["lends"] = False
        for pool in self._pools(view, active, wanted):
            firsts = self._firsts(view, active, pool, memory)
            share = self._shares(view, active, pool, memory, firsts)
            order += self._serve(view, active, pool, share, firsts)
            memory.own["lends"] |= any(wanted[at] > max(active.asked[at], share[at]) for at in pool.jobs)
        return Widths(wanted, order)

    # -- who is planned together

    @staticmethod
    def _pools(view: View, active: ActiveJobs, wanted: I64) -> list[PlainPool]:
        vcs, up = view.jobs.vc[active.rows], view.nodes.state == w.UP
        pools = []
        for vc in np.unique(vcs).tolist():
            mine = up if vc < 0 else up & ((view.nodes.vc == vc) | (view.nodes.vc == w.OPEN))
            jobs = np.flatnonzero(vcs == vc).tolist()
            gpus = int(view.nodes.total[mine].sum())
            pools.append(PlainPool(jobs, gpus, gpus, wanted))
        return pools

    # -- what deadlines need

    def _shares(
        self, view: View, active: ActiveJobs, pool: PlainPool, memory: PlainResizingMemory, firsts: list[int]
    ) -> I64:
        """GPUs that each job needs now for its deadline; NOT_ADMITTED where none suffice, or it has no deadline."""
        share = np.full(len(active), NOT_ADMITTED, np.int64)
        dated = [at for at in pool.jobs if active.due[at] < w.NEVER and active.due[at] > active.now]
        if not dated:
            return share
        ahead = (active.due - active.now).astype(np.float64)
        edges = _slots(float(round(self.interval * 1000)), float(ahead[dated].max()))
        others = any(active.due[at] == w.NEVER for at in pool.jobs)
        found = PlainShares(edges, np.full(len(edges), pool.spare), np.zeros(len(edges), np.int64), others)
        for at in pool.jobs:
            if active.runs[at] and active.due[at] == w.NEVER:
                ends = int(np.searchsorted(edges, active.left[at])) + 1
                if active.stays[at] or at in firsts:
                    found.free[:ends] -= active.width[at]
                else:
                    found.calm[:ends] += active.width[at]
        for at in firsts:
            if not active.runs[at]:
                found.free[: int(np.searchsorted(edges, active.left[at])) + 1] -= active.asked[at]
        node_gpus, jobs = int(view.nodes.total.max()), []
        for at in sorted(dated, key=lambda at: (active.due[at], at)):
            row, stays = int(active.rows[at]), bool(active.stays[at])
            *left, surely = (self._left(view, row, memory, chance) for chance in (self.caution, self.hope, 1.0))
            now = int(active.least[at]), int(active.most[at]), int(active.width[at]), float(active.cost[at])
            speed = active.best(at, node_gpus)
            jobs.append(DatedJob(at, float(ahead[at]), tuple(left), surely, *now, speed, stays, _range(view, row)))
        admit_all(found, jobs)
        for at in dated:
            share[at] = found.share(at)
        return share

    def _left(self, view: View, job: int, memory: PlainResizingMemory, chance: float) -> float:
        """Work left of a job that should be enough with this chance, by those of its user that needed no less."""
        done, said = float(view.work(np.array([job]))[0]), memory.expected[job]
        low, known = int(done / said * PER_ONE), view.jobs.declared[job] > 0 or view.jobs.limit[job] > 0
        user = int(view.jobs.user[job])
        seen = memory.ratios.get(user, []) if known and self.remaining == "declared" else []
        bins = [min(max(math.ceil(ratio * PER_ONE - ROUNDING), 1), BINS) - 1 for ratio in seen]
        bins += [PER_ONE - 1] * TRUST if done < said else []
        longer = [each for each in bins if each >= low]
        if low >= BINS or not longer:
            return max(OVERRUN * done, 1.0)
        beyond = (1.0 - chance) * len(longer) + ROUNDING
        last = next(at for at in range(low, BINS) if sum(each > at for each in longer) <= beyond)
        return max((last + 1) / PER_ONE * said - done, 1.0)

    # -- who gets what now

    def _serve(self, view: View, active: ActiveJobs, pool: PlainPool, share: I64, firsts: list[int]) -> list[int]:
        """Fill in the widths wanted; returns the jobs, first to be placed first."""
        stay = [at for at in pool.jobs if active.stays[at]]
        for at in stay:
            _give(pool, at, int(active.width[at]))
        turn = PlainTurn()
        for at in firsts:
            if active.runs[at]:
                _keep(active, pool, at, int(active.width[at]))
            else:
                _start(active, pool, at, turn)
        urgent = sorted((at for at in pool.jobs if share[at] > 0 and at not in stay), key=lambda at: active.due[at])
        for at in urgent:
            _give(pool, at, min(int(share[at]), pool.spare) if pool.spare >= active.least[at] else 0)
        waiting = self._line(view, active, pool, share)
        running = sorted(
            (at for at in pool.jobs if active.runs[at]),
            key=lambda at: (share[at] < 0, share[at] == LATER, active.due[at], at),
        )
        for at in running:
            _keep(active, pool, at, int(active.least[at]))
        for at in running:
            _keep(active, pool, at, int(active.asked[at]))
        for at in waiting:
            if pool.spare <= 0 and share[at] < 0:
                break
            _start(active, pool, at, turn)
            if pool.wanted[at] == 0 and share[at] < 0 and active.due[at] == w.NEVER and turn.ahead == np.inf:
                turn = _turn_of(active, pool, at)
        for at in running:
            _keep(active, pool, at, int(active.width[at]))
        pool.spare = min(pool.spare, turn.beside)
        self._widen(view, active, pool)
        return list(dict.fromkeys([*firsts, *urgent, *pool.begun, *(at for at in pool.jobs if active.runs[at])]))

    @staticmethod
    def _line(view: View, active: ActiveJobs, pool: PlainPool, share: I64) -> list[int]:
        """Jobs that wait: those that can still meet a deadline by deadline, then those with the least work."""
        waiting = [at for at in pool.jobs if not active.runs[at] and pool.wanted[at] == 0]
        area = active.left * active.asked
        return sorted(waiting, key=lambda at: (share[at] < 0, active.due[at] if share[at] >= 0 else area[at], at))

    def _firsts(self, view: View, active: ActiveJobs, pool: PlainPool, memory: PlainResizingMemory) -> list[int]:
        """The jobs without a deadline that are served before all others, in the order in which they were chosen."""
        now, step = active.now, round(self.interval * 1000)
        places = {int(active.rows[at]): at for at in pool.jobs}
        firsts: PlainFirsts = memory.own.setdefault(f"firsts {view.jobs.vc[min(places)]}", PlainFirsts())
        for job, first in list(firsts.chosen.items()):
            state, stops = (int(view.world.jobs[column, job]) for column in (w.STATE, w.PREEMPTIONS))
            more = first.unpaid(_gpu_time_of_run(view, job), state == w.PENDING, stops)
            if job not in places or first.until <= now:
                first.charged += more
                firsts.later[first.overtaken] += int(more / (max(pool.gpus, 1) * self._owed(first.overtaken)))
                if job not in places or not active.stays[places[job]]:
                    del firsts.chosen[job]
        dated = active.due < w.NEVER
        others = any(not dated[at] and not active.runs[at] for at in pool.jobs)
        if others and any(dated[pool.jobs]) and min(firsts.later.values()) <= now and firsts.search <= now:
            firsts.later = {kind: max(later, now - step) for kind, later in firsts.later.items()}
            room = pool.gpus - sum(int(active.width[at]) for at in pool.jobs if active.stays[at])
            holders = [at for at in pool.jobs if dated[at] and active.runs[at] and not active.stays[at]]
            area = active.left * active.asked
            for at in sorted(pool.jobs, key=lambda at: (area[at], at)):
                held = sum(int(active.width[by]) for by in holders if area[by] > self.overtakes * area[at])
                overtaken = bool(held >= active.least[at])
                if dated[at] or active.runs[at] or firsts.later[overtaken] > now or active.least[at] > room:
                    continue
                job, owed = int(active.rows[at]), pool.gpus * self._owed(overtaken)
                waited = int(view.world.jobs[w.WAITED, job]) + now - int(view.world.jobs[w.WAITING_SINCE, job])
                patient_for = max(self.patience * 3_600_000, firsts.patient_for.get(job, 0))
                too_long = waited > patient_for and waited * owed > area[at]
                if too_long and job not in firsts.chosen and _may_use_all(view, job):
                    until, stops = now + GRACE + int(active.left[at]), int(view.world.jobs[w.PREEMPTIONS, job])
                    firsts.chosen[job] = PlainFirst(until, overtaken, float(area[at]), stops)
                    firsts.patient_for[job] = AGAIN_AFTER * waited
                    firsts.later[overtaken] += int(area[at] / owed)
            if min(firsts.later.values()) <= now:
                firsts.search = now + step
        return [places[job] for job in firsts.chosen]

    def _owed(self, overtaken: bool) -> float:
        """The most of the GPU time that goes to jobs served first."""
        return self.owed if overtaken else min(self.owed, OWED_IF_BLOCKED)

    def _widen(self, view: View, active: ActiveJobs, pool: PlainPool) -> None:
        """Spare GPUs one by one to the job that gains most speed, in units of one GPU; only as far as it pays."""
        node_gpus = int(view.nodes.total.max())
        begun = {at: int(pool.wanted[at]) for at in pool.jobs if pool.wanted[at] > 0 and not active.stays[at]}
        speeds = {at: active.best(at, node_gpus) * active.unit[at] for at in begun}
        open_to = {at for at in begun if active.most[at] > begun[at] and self._rested(view, active, at)}
        spare = pool.spare
        while spare > 0 and open_to:
            gains = {at: speeds[at][pool.wanted[at] + 1] - speeds[at][pool.wanted[at]] for at in open_to}
            best = max(open_to, key=lambda at: (gains[at], -at))
            if gains[best] <= 0:
                break
            pool.wanted[best] += 1
            spare -= 1
            if pool.wanted[best] >= active.most[best]:
                open_to.discard(best)
        for at, before in begun.items():
            if not self._worth(active, at, before, int(pool.wanted[at]), speeds[at]):
                pool.wanted[at] = before
        pool.spare = spare

    def _rested(self, view: View, active: ActiveJobs, at: int) -> bool:
        """Whether a job has run long enough since it was last changed; one that starts has."""
        begun = int(view.world.jobs[w.BEGUN, active.rows[at]])
        return not active.runs[at] or active.now - begun >= self.rest * 1000

    def _worth(self, active: ActiveJobs, at: int, before: int, after: int, speeds: F64) -> bool:
        """Whether a job that runs saves enough time when it is widened; one that starts, or changes anyhow, always."""
        if after == before or active.width[at] != before:
            return True
        units = active.left[at] * active.unit[at]
        saved = units / speeds[before] - units / speeds[after]
        return bool(saved > self.pays * max(active.cost[at], 1))


def _gpu_time_of_run(view: View, job: int) -> float:
    """GPU-ms of the present or last run of a job; 0 if it waits."""
    state, end, begun = (int(view.world.jobs[column, job]) for column in (w.STATE, w.ENDED_AT, w.BEGUN))
    if state == w.PENDING:
        return 0.0
    return float(view.world.jobs[w.GPUS, job] * max((view.now if state <= w.STOPPING else end) - begun, 0))


def _may_use_all(view: View, job: int) -> bool:
    """Whether a job may run on all nodes of its virtual cluster that are up."""
    vc, kind = int(view.jobs.vc[job]), int(view.world.jobs[w.TYPE, job])
    mine = (view.nodes.state == w.UP) & ((view.nodes.vc == vc) | (view.nodes.vc == w.OPEN) | (vc < 0))
    return bool(kind < 0 or (view.world.admits[kind, mine] == 1).all())


def _range(view: View, job: int) -> tuple[int, int]:
    """The fewest and the most GPUs that a job may ever have."""
    asked, ranged = int(view.jobs.gpus[job]), view.jobs.max_gpus[job] > 0
    return (int(view.jobs.min_gpus[job]), int(view.jobs.max_gpus[job])) if ranged else (asked, asked)


def _slots(first: float, last: float) -> F64:
    """Ends of slots from one interval on, growing by a factor, to the last deadline."""
    edges = [first]
    while edges[-1] < last and len(edges) < MOST_SLOTS:
        edges.append(edges[-1] * GROWTH)
    return np.array([*edges[:-1], max(edges[-1], last)])


def _give(pool: PlainPool, at: int, gpus: int) -> None:
    pool.wanted[at] = gpus
    pool.spare -= gpus


def _keep(active: ActiveJobs, pool: PlainPool, at: int, most: int) -> None:
    """A job that runs keeps up to so many of its GPUs, as far as they are left; none if too few are."""
    more = min(most, int(active.width[at])) - int(pool.wanted[at])
    if more <= 0 or active.stays[at]:
        return
    gpus = int(pool.wanted[at]) + min(more, pool.spare)
    if gpus >= active.least[at]:
        pool.spare -= gpus - int(pool.wanted[at])
        pool.wanted[at] = gpus


def _turn_of(active: ActiveJobs, pool: PlainPool, waits: int) -> PlainTurn:
    """When there is room for a job if those that have GPUs end as expected."""
    free, need = pool.spare, int(active.least[waits])
    holders = [at for at in pool.jobs if pool.wanted[at] > 0]
    ends = {at: active.time_left(at, int(pool.wanted[at])) for at in holders}
    for at in sorted(holders, key=lambda at: (ends[at], at)):
        free += int(pool.wanted[at])
        if free >= need:
            return PlainTurn(ends[at], free - need)
    return PlainTurn()


def _start(active: ActiveJobs, pool: PlainPool, at: int, turn: PlainTurn) -> None:
    """A job that waits starts on what it asks for, or on fewer if no more are left."""
    gpus = min(int(active.asked[at]), pool.spare)
    if pool.wanted[at] > 0 or gpus < active.least[at]:
        return
    if active.time_left(at, gpus) > turn.ahead:
        gpus = min(gpus, turn.beside)
        if gpus < active.least[at]:
            return
        turn.beside -= gpus
    _give(pool, at, gpus)
    pool.begun.append(at)
