"""When waiting jobs may start: the simulator continues the live cluster many times, with drawn run times.

The order of the queue is the manager's present one: tiers of partitions, then priorities.  They age alike, so that
the order mostly stays; changes by fair share and jobs still to come are unknown.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from shunter import world as w
from shunter.errors import LiveError
from shunter.live import job_arrays
from shunter.live.hints import NO_HINTS
from shunter.live.machines import Machines, machines_of
from shunter.live.replica import Names, Replica, number_of, placements
from shunter.live.rules import Rules
from shunter.live.run_times import RunTimes
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.wait_causes import Kind
from shunter.live.waiting_line import WaitingLine
from shunter.processes import usable_cores
from shunter.protocols import Memory
from shunter.scheduling.queue.ordering import Ordering
from shunter.sim.engine import Simulator
from shunter.texts import counted
from shunter.world import F64, I64

if TYPE_CHECKING:
    from shunter.live.waits import Waits

SAMPLES = 100
NEW = "new"  # what a job is called that is not submitted yet
HOUR_MS = 3_600_000
FARTHEST_MS = 366 * 24 * HOUR_MS  # what has not started by then does not
LEFT_OUT = {Kind.HELD: "held", Kind.NEVER: "that can't start", Kind.LIMIT: "kept back by limits"}


@dataclass(frozen=True)
class ManagerOrder(Ordering):
    """The order that the manager has now, written into the jobs' column qos."""

    @staticmethod
    def key(job: w.Job, p: F64) -> float:
        """Higher first."""
        return -job.qos


@dataclass(frozen=True)
class Forecast:
    """When a job may start."""

    job: LiveJob
    now: int  # ms since 1970
    starts: tuple[int, ...]  # ms since 1970, sorted, one for each sample; NEVER: not in a year
    assumptions: tuple[str, ...] = ()
    method: str = "simulation alone"  # what gave the numbers, in words
    because: tuple[str, ...] = ()  # why nothing is known; then there are no samples

    def at(self, level: float) -> int | None:
        """By when it has started in so large a share of the samples; None: not in a year, or nothing is known."""
        if self.because:
            return None
        start = self.starts[min(int(np.ceil(level * len(self.starts))), len(self.starts)) - 1]
        return None if start == w.NEVER else start

    def within(self, ms: int) -> float | None:
        """The share of samples in which it starts within so long; None: nothing is known."""
        if self.because:
            return None
        return float(np.searchsorted(self.starts, self.now + ms, side="right")) / len(self.starts)


@dataclass(frozen=True)
class Outlook:
    """The input of a forecast: the present, the site's rules, and how long jobs run."""

    snapshot: Snapshot
    rules: Rules = field(default_factory=Rules)
    run_times: RunTimes = field(default_factory=RunTimes)
    samples: int = SAMPLES
    seed: int = 0
    waits: Waits | None = None  # what past waits say; None: there is no history of them

    def of(self, *asked: LiveJob) -> list[Forecast]:
        """Forecasts for waiting jobs, also ones that are not in the snapshot."""
        found = self.rolled(*asked)
        able = [each for each in found if not each.because]
        if self.waits is None or not able:
            return found
        better = {each.job.id: each for each in self.waits.corrected(self, able)}
        return [better.get(each.job.id, each) for each in found]

    def rolled(self, *asked: LiveJob) -> list[Forecast]:
        """Forecasts by the simulator alone."""
        users = {job.user for job in asked}
        if any(job.hints != NO_HINTS and job.user not in users for job in self.snapshot.jobs):
            return self._without_claims(users).rolled(*asked)
        for job in asked:
            check(job, self)
        because = {job.id: tuple(self.line.obstacles(job)) for job in asked}
        able = [job for job in asked if not because[job.id]]
        found = {job.id: Forecast(job, self.snapshot.now, (), because=because[job.id]) for job in asked}
        if able:
            replica = self.replica(*able)
            starts = self._starts(replica, np.array([replica.rows[job.id] for job in able], np.int64))
            assumed = self.assumptions(replica)
            for job, column in zip(able, starts.T, strict=True):
                made = Forecast(job, self.snapshot.now, tuple(np.sort(column).tolist()), (*assumed, *self._about(job)))
                found[job.id] = made
        return [found[job.id] for job in asked]

    def _without_claims(self, users: Collection[str]) -> Outlook:
        """The same without the comments of other users: a comment may not promise GPUs to another user."""
        jobs = tuple(
            job if job.user in users or job.hints == NO_HINTS else replace(job, hints=NO_HINTS)
            for job in self.snapshot.jobs
        )
        return replace(self, snapshot=replace(self.snapshot, jobs=jobs))

    def replica(self, *asked: LiveJob) -> Replica:
        """The simulated cluster as it is now, with these jobs as given and all others in the manager's order."""
        queue, coming, after = self._queue(asked)
        present = replace(self.snapshot, jobs=(*self.snapshot.jobs, *self.unseen))
        rows, repeats, chain = self._rows([*queue, *coming], after)
        later = {job.id for job in coming}
        waiting = [job for job in rows if job.id not in later and job.whole not in later]
        joining = [job for job in rows if job.id in later or job.whole in later]
        replica = Replica(present, self.machines, Names(), waiting, coming=joining, after=chain, repeats=repeats)
        table = replica.simulator.world.jobs
        for place, job in enumerate(self.line.order(replica.jobs)):
            table[w.QOS, replica.rows[job.id]] = 1000 * (len(replica.jobs) - place)
        return replica

    @cached_property
    def line(self) -> WaitingLine:
        """The waiting jobs in their order."""
        return WaitingLine(self.snapshot, self.rules)

    @cached_property
    def machines(self) -> Machines:
        """The nodes."""
        return machines_of(self.snapshot.nodes)

    @cached_property
    def unseen(self) -> list[LiveJob]:
        """Jobs in whose place GPUs are in use that no job has which we see: one for each node."""
        held = Counter(
            self.machines.node_of(gpu) for gpus in placements(self.snapshot, self.machines).values() for gpu in gpus
        )
        more = [(node, len(node.used) - held[node.name]) for node in self.snapshot.nodes if node.up]
        now = self.snapshot.now
        begun = LiveJob("", "", "RUNNING", submit=now, eligible=now, start=now)
        return [
            replace(begun, id=f"?{node.name}", gpus=gpus, nodes=(node.name,), partition=",".join(node.partitions))
            for node, gpus in more
            if gpus > 0
        ]

    @property
    def policy(self) -> ManagerOrder:
        """How the manager goes through its queue, as near as we can run it often: it plans with limits."""
        return ManagerOrder(bound=0.0, backfill="easy" if self.rules.backfills else "none")

    # -- the waiting jobs and their order

    def _queue(self, asked: Sequence[LiveJob]) -> tuple[list[LiveJob], list[LiveJob], dict[str, str]]:
        """The jobs that wait, those that join the queue later, and which job comes after which."""
        now = self.snapshot.now
        ids = {job.id for job in asked}
        present = {job.id: job for job in self.snapshot.jobs if job.state == "PENDING"} | {job.id: job for job in asked}
        able = [
            job
            for job in present.values()
            if job.id in ids
            or (
                (self.snapshot.words.meaning(job).kind not in LEFT_OUT or self.line.in_turn(job))
                and not job.reservation
            )
        ]
        coming = [replace(job, submit=job.eligible) for job in able if job.eligible > now]
        later = {job.id for job in coming}
        live = {job.id for job in self.snapshot.jobs if job.runs} | {job.id for job in able}
        after = {job.id: found for job in able if (found := self._parent(job, live))}
        return [job for job in able if job.id not in later], coming, after

    def _rows(
        self, queue: Sequence[LiveJob], after: Mapping[str, str]
    ) -> tuple[list[LiveJob], dict[str, int], dict[str, str]]:
        """The queue as rows: of arrays bundles of tasks, with how many each, and which row follows which."""
        found, repeats, chain = [job for job in queue if not job.is_array], dict[str, int](), dict(after)
        last: dict[str, str] = {}
        for job in (job for job in queue if job.is_array):
            tasks = [each for each in found if each.id.startswith(f"{job.id}_") and each.tasks]
            apart = [number_of(each.id)[-1] for each in tasks]
            rows, sizes = self.line.rows(job, self.machines.at_a_time(job, self.line.requests.of(job)), apart)
            ids = [each.id for each in sorted([*rows, *tasks], key=lambda each: number_of(each.id))]
            last[job.id] = ids[-1]
            chain |= dict.fromkeys(ids, after[job.id]) if job.id in after else {}
            if job.throttle:
                running = [each.id for each in self.snapshot.jobs if each.runs and each.id.startswith(f"{job.id}_")]
                chain |= job_arrays.lanes_after(ids, running, job.throttle)
            found += rows
            repeats |= sizes
        return found, repeats, {job: last.get(parent, parent) for job, parent in chain.items()}

    def _parent(self, job: LiveJob, live: set[str]) -> str:
        """The last submitted of the jobs that a job comes after; one of many stands for all."""
        named = [
            each
            for each in self.snapshot.words.parents(job)
            for each in self._tasks(each)
            if each in live and each != job.id
        ]
        earlier = [each for each in named if number_of(each) < number_of(job.id)]
        return max(earlier, key=number_of, default="")

    def _tasks(self, job_id: str) -> list[str]:
        """The job of this name, or all tasks of the array of this name."""
        return [job.id for job in self.snapshot.jobs if job.id == job_id or job.id.startswith(f"{job_id}_")]

    # -- futures

    def _starts(self, replica: Replica, rows: I64) -> I64:
        """When these jobs start in each sample."""
        durations = self.run_times.draws(replica.jobs, self.samples, self.seed) * replica.repeats[:, None]
        now, policy = replica.simulator, self.policy
        fresh = now.fork().run(policy, until=now.now - 1)  # what the policy remembers before it has decided anything

        def future(sample: int) -> I64:
            return _started(now.fork_with(durations[:, sample].copy()), policy, copy.deepcopy(fresh), rows)

        first = [future(0)]  # alone: it compiles, if that was not done before
        with ThreadPoolExecutor(usable_cores()) as pool:
            return np.array([*first, *pool.map(future, range(1, self.samples))])

    def assumptions(self, replica: Replica) -> tuple[str, ...]:
        """The assumptions of the forecast."""
        waiting = [job for job in self.snapshot.jobs if job.state == "PENDING" and job.id not in replica.rows]
        meaning = self.snapshot.words.meaning
        left = [
            (words, sum(job.count for job in waiting if meaning(job).kind == kind and not self.line.in_turn(job)))
            for kind, words in LEFT_OUT.items()
        ]
        bundled = int(replica.repeats[replica.repeats > 1].sum())
        declared = sum(job.hints.run_time_ms > 0 for job in replica.jobs)
        hidden = sum(job.gpus for job in self.unseen)
        beside = sum(job.runs and not job.gpus + job.shards and bool(job.nodes) for job in self.snapshot.jobs)
        away = [node.name for node in self.snapshot.nodes if not node.up and not node.reserved]
        found = [
            (True, self.run_times.source),
            (True, "the queue stays in its present order, and no later job overtakes it"),
            (bool(hidden), f"{self._whose} ({hidden}) become free like jobs that begin now"),
            (not self.rules.backfills, "no backfilling, as the site has it"),
            (declared > 0, f"jobs of the same user whose comment says how long they run ({declared}) do so"),
            (bool(away), f"nodes down or drained ({len(away)}) stay so"),
            (beside > 0, f"running jobs without GPUs ({beside}) keep their CPUs and memory"),
            (bundled > 0, f"{bundled:,} array tasks are simulated in bundles, not one by one"),
            *((count > 0, f"jobs {words} ({count}) stay out of the way") for words, count in left),
        ]
        return tuple(text for holds, text in found if holds)

    @property
    def _whose(self) -> str:
        """What is in use that no job has: jobs and nodes are polled one after the other."""
        if "jobs" in self.snapshot.hidden:
            return f"GPUs in use by jobs that {self.snapshot.words.name} does not show you"
        return f"GPUs that jobs took or left while {self.snapshot.words.name} was polled"

    def _about(self, job: LiveJob) -> list[str]:
        """What is assumed of the job itself."""
        request = self.line.requests.of(job)
        spread = request.span == 0 and job.gpus > max(node.gpus for node in self.snapshot.nodes)
        found = [
            (spread, "its GPUs may be on any number of nodes" + ("" if job.gpu_type else ", and of several types")),
            (job.mem_unclear, "its memory is for its nodes, not for each CPU, which the output in text does not say"),
            (
                len(self.snapshot.words.parents(job)) > 1,
                "of the jobs that it comes after, the last submitted one ends last",
            ),
        ]
        return [text for holds, text in found if holds]


def _started(simulator: Simulator, policy: ManagerOrder, memory: Memory, rows: I64) -> I64:
    """When these jobs start; the simulator goes on only until they have."""
    simulator.reconsider()
    simulator.run(policy, until=simulator.now + FARTHEST_MS, awaited=rows, memory=memory)
    started = simulator.world.jobs[w.STARTED, rows]
    return np.where(started >= 0, started, w.NEVER)


def check(job: LiveJob, outlook: Outlook) -> None:
    """Refuse jobs for which no forecast can be made."""
    found = outlook.snapshot.words.meaning(job)
    if found.kind in (Kind.HELD, Kind.NEVER):
        raise LiveError(
            f"no start can be forecast for job {job.id}: {found.words}"
            + (f"; what helps: {found.remedy}" if found.remedy else "")
        )
    if job.gpus + job.shards == 0:
        raise LiveError(f"job {job.id} requests no GPUs, and only nodes with GPUs are modelled; see squeue --start")
    if outlook.machines.vc_of(job) is None:
        raise LiveError(f"partition '{job.partition}' of job {job.id} has no node with GPUs")
    request = outlook.line.requests.of(job)
    for wanted, have, unit in (
        (job.cpus, sum(node.cpus for node in request.nodes), "CPUs"),
        (request.mem_mib, sum(node.mem_mib for node in request.nodes), "MiB of memory"),
    ):
        if wanted > have > 0:
            raise LiveError(f"job {job.id} asks for {wanted:,} {unit}, and the nodes where it may run have {have:,}")
    if not request.unmodelled and not request.fits_on(request.nodes):
        there = sum(node.gpus for node in request.nodes)
        kind = f" of type {job.gpu_type}" if job.gpu_type else ""
        raise LiveError(
            f"job {job.id} asks for {counted(job.gpus, 'GPU')}{kind}, and the nodes where it may run have {there}"
            + (f", too few of them {max(request.each, 1)} each" if there >= job.gpus else "")
        )
