"""The waiting line as the manager has it now: jobs that compete with a job or are before it, and what is unknown.

The order is that of the tiers of partitions, then priorities.  They age alike, so that it mostly stays; what fair share
and jobs still to come will change in it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from shunter import world as w
from shunter.live import job_arrays
from shunter.live.replica import number_of
from shunter.live.requests import Requests
from shunter.live.rules import Rules
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.surroundings import Reservation
from shunter.live.wait_causes import Kind

NAMED = 3  # maximum number of jobs that an answer names as the cause of "can't tell"


@dataclass(frozen=True)
class WaitingLine:
    """The jobs that wait for their turn."""

    snapshot: Snapshot
    rules: Rules

    @cached_property
    def requests(self) -> Requests:
        """What jobs ask for."""
        return self.snapshot.requests

    # -- the order

    def order(self, jobs: Iterable[LiveJob]) -> list[LiveJob]:
        """Jobs as the manager has them in line."""
        return sorted(jobs, key=lambda job: (-self.tier(job), -job.priority, job.submit, _number(job)))

    def tier(self, job: LiveJob) -> int:
        """The tier of a job's partition, the highest of several."""
        return max((self.rules.tiers.get(name, 1) for name in job.partition.split(",")), default=1)

    def queue(self, job: LiveJob) -> list[LiveJob]:
        """The jobs that wait for their turn and compete with this one, in line, with this one among them."""
        rivals = (each for each in self._waiting if each.id != job.id and self._rival(each, job))
        return self.order([job, *(part for each in rivals for part in _parts(each, job))])

    def waiting(self, *jobs: LiveJob) -> list[LiveJob]:
        """All jobs that wait for their turn, in line, with these among them."""
        return self.order({each.id: each for each in [*self._waiting, *jobs]}.values())

    def before(self, job: LiveJob) -> list[LiveJob]:
        """Those of them that are before it."""
        queue = self.queue(job)
        return queue[: queue.index(job)]

    def place(self, job: LiveJob) -> tuple[int, int]:
        """A job's place in line, from 1, and how long the line is; every task of an array counts."""
        return 1 + sum(each.count for each in self.before(job)), sum(each.count for each in self.queue(job))

    @cached_property
    def _waiting(self) -> list[LiveJob]:
        return [job for job in self.snapshot.jobs if job.waits or (job.state == "PENDING" and self.in_turn(job))]

    def in_turn(self, job: LiveJob) -> bool:
        """Whether a job waits for its turn, or for other tasks of its array."""
        found = self.snapshot.words.meaning(job)
        return found.kind is Kind.TURN or (job.throttle > 0 and found.cause == "array")

    def _rival(self, other: LiveJob, job: LiveJob) -> bool:
        """Whether another job wants GPUs of the same nodes, at a time when this one may have them."""
        wants = other.gpus + other.shards > 0 or other.exclusive
        return bool(wants) and other.reservation == job.reservation and self.requests.compete(job, other)

    # -- what is not known

    def obstacles(self, job: LiveJob) -> list[str]:
        """Why no start can be forecast for a job, each as the second half of "can't tell, because ..."."""
        own = [*self._hidden(), *self._own(job)]
        others = ((each, next(self._own(each, ahead=True), "")) for each in self.before(job))
        named = [f"job {each.id} is before it, and {why}" for each, why in others if why]
        return [*own, *(named[:NAMED] or self._unsettled(job))]

    def _hidden(self) -> Iterator[str]:
        if "jobs" in self.snapshot.hidden:
            name = self.snapshot.words.name
            yield f"{name} shows you only your own jobs (PrivateData=jobs), and those of others may be before it"

    def _own(self, job: LiveJob, ahead: bool = False) -> Iterator[str]:
        """What is not known of a job itself; of one that is ahead of another only what matters to that one."""
        request = self.requests.of(job)
        yield from request.unmodelled
        if not job.gpus + job.shards:
            whole = "it takes whole nodes without asking for GPUs, which is not modelled"
            yield whole if job.exclusive else "it asks for no GPUs, and only jobs with GPUs are modelled"
        if job.handle in self._heterogeneous:
            yield "the parts of a heterogeneous job start together, which is not modelled"
        yield from self._reserved(job)
        yield from self._licences(job)
        yield from self._preempts(job)
        if not ahead:
            yield from self._kept_back(job)
            yield from self._without_nodes(job)
        if request.whole and (beside := self._without_gpus & request.names):
            yield f"jobs without GPUs run on {min(beside)}, where it needs whole nodes, and these are not modelled"
        if request.away:
            yield "nodes that it needs are down or drained, and it is unknown until when"

    @cached_property
    def _without_gpus(self) -> frozenset[str]:
        """The nodes of running jobs that have no GPUs."""
        return frozenset(
            name for job in self.snapshot.jobs if job.runs and not job.gpus + job.shards for name in job.nodes
        )

    @cached_property
    def _heterogeneous(self) -> set[str]:
        """The handles of heterogeneous jobs: each of their parts has an id of its own."""
        return {job.handle for job in self.snapshot.jobs if job.handle != job.id and "_" not in job.id}

    def _kept_back(self, job: LiveJob) -> Iterator[str]:
        found = self.snapshot.words.meaning(job)
        limited = found.kind is Kind.LIMIT and not self.in_turn(job) and found.cause != "licences"
        if limited or (found.kind is Kind.CLUSTER and not job.waits):
            yield f"{found.words} ({job.reason})"

    def _without_nodes(self, job: LiveJob) -> Iterator[str]:
        parts = set(job.partition.split(","))
        able = (node.gpus and not parts.isdisjoint(node.partitions) for node in self.snapshot.nodes)
        if job.gpus + job.shards and not any(able):
            yield f"partition '{job.partition}' has no node with GPUs"

    def _reserved(self, job: LiveJob) -> Iterator[str]:
        if job.reservation:
            yield f"it runs in reservation {job.reservation}, and what happens inside one is not modelled"
            return
        for each in self.reservations(job):
            if each.partial:
                yield f"reservation {each.name} keeps only a part of its nodes, which is not modelled"
            elif "TIME_FLOAT" in each.flags:
                yield f"the start of reservation {each.name} moves with time, which is not modelled"
            elif self._never_ends(each, job):
                yield f"reservation {each.name} comes again before it could end by its limit, whenever it starts"

    def _never_ends(self, each: Reservation, job: LiveJob) -> bool:
        """Whether a reservation that comes again and again leaves a job too little time on all its nodes."""
        gap = each.every - (each.end - each.start)
        covered = self.requests.of(job).names <= set(each.nodes)
        return each.every > 0 and covered and not 0 < job.limit <= gap

    def reservations(self, job: LiveJob) -> list[Reservation]:
        """The reservations of others that keep nodes where a job may run."""
        names = self.requests.of(job).names
        now = self.snapshot.now
        return [
            each
            for each in self.snapshot.reservations
            if each.end > now and each.name != job.reservation and not names.isdisjoint(each.nodes)
        ]

    def _licences(self, job: LiveJob) -> Iterator[str]:
        for name in self.snapshot.words.licences(job):
            if self.licence_demand.get(name, 0) > self._licence_totals.get(name, 0):
                yield f"it needs licences of {name}, of which there are too few for all that ask for them"

    @cached_property
    def licence_demand(self) -> dict[str, int]:
        """How many of each licence all jobs that run or wait ask for."""
        found: dict[str, int] = {}
        for job in self.snapshot.jobs:
            for name, count in self.snapshot.words.licences(job).items() if not job.over else ():
                found[name] = found.get(name, 0) + count * job.count
        return found

    @cached_property
    def _licence_totals(self) -> dict[str, int]:
        return {licence.name: licence.total for licence in self.snapshot.licences}

    def _preempts(self, job: LiveJob) -> Iterator[str]:
        """Whether a job may stop others that run where it may run."""
        if victim := self._victim(job):
            yield f"it may stop running jobs such as {victim} ({self.snapshot.preemption.words}: not modelled)"

    def _victim(self, job: LiveJob) -> str:
        """A running job that a job may stop; "": there is none."""
        if not self.snapshot.preemption.kind:
            return ""
        names = self.requests.of(job).names
        key = (job.qos, self.tier(job), names)
        if key not in self._victims:
            weaker = self.snapshot.preemption.qos.get(job.qos, ())
            by_qos = self.snapshot.preemption.kind == "qos"
            self._victims[key] = next(
                (
                    other.id
                    for other in self._running
                    if (other.qos in weaker if by_qos else self.tier(other) < key[1])
                    and not names.isdisjoint(other.nodes)
                ),
                "",
            )
        return self._victims[key]

    @cached_property
    def _victims(self) -> dict[tuple[str, int, frozenset[str]], str]:
        return {}

    @cached_property
    def _running(self) -> list[LiveJob]:
        return [job for job in self.snapshot.jobs if job.runs]

    def _unsettled(self, job: LiveJob) -> Iterator[str]:
        """Another job that waits and may stop running ones, wherever it stands in line: what it leaves may be taken."""
        for other in self.snapshot.jobs if self.snapshot.preemption.kind else ():
            waits = other.state == "PENDING" and not other.held and job.whole != other.whole
            if waits and self._victim(other) and self.requests.compete(job, other):
                words = self.snapshot.preemption.words
                yield f"job {other.id} may stop running jobs where it may run ({words}: not modelled)"
                return

    # -- arrays as rows of a simulation

    def rows(self, job: LiveJob, lanes: int, apart: Iterable[int] = ()) -> tuple[list[LiveJob], dict[str, int]]:
        """The rows that stand for an array, and how many tasks each; tasks that are ``apart`` have none."""
        spans, found, repeats = job_arrays.numbers(job.tasks), list[LiveJob](), dict[str, int]()
        cuts = sorted(apart)
        gaps = [each.every - (each.end - each.start) for each in self.reservations(job) if each.every]
        most = max(min(gaps) // max(job.limit, 1), 1) if gaps else 2**31  # so that a bundle fits in between
        parts = [job_arrays.below(spans, cut) for cut in cuts] + [spans]
        parts = [
            job_arrays.above(part, cut) if cut >= 0 else part for part, cut in zip(parts, [-1, *cuts], strict=True)
        ]
        for part in parts:
            begin = 0
            for size in job_arrays.bundles(job_arrays.count(part), lanes, job.throttle > 0, most):
                row = job.task(next(job_arrays.part(part, begin, begin + 1)))
                found.append(row)
                repeats |= {row.id: size} if size > 1 else {}
                begin += size
        return found, repeats


def _number(job: LiveJob) -> tuple[int, ...]:
    """Jobs in the order of their numbers, an array at its first task."""
    return (*number_of(job.id), job_arrays.numbers(job.tasks)[0][0]) if job.is_array else number_of(job.id)


def _parts(other: LiveJob, job: LiveJob) -> list[LiveJob]:
    """Another job of the line; of the array of which a job is a task, what is before and what is behind that."""
    if not (other.is_array and job.id.startswith(f"{other.id}_")):
        return [other]
    spans, number = job_arrays.numbers(other.tasks), number_of(job.id)[-1]
    texts = (job_arrays.text_of(part) for part in (job_arrays.below(spans, number), job_arrays.above(spans, number)))
    return [replace(other, tasks=text) for text in texts if text]


def unmodelled(snapshot: Snapshot, rules: Rules) -> list[str]:
    """What on this site keeps forecasts from being made for some jobs, or makes them less sure."""
    line, kind = WaitingLine(snapshot, rules), snapshot.preemption.kind
    waiting = [job for job in snapshot.jobs if job.state == "PENDING" and job.gpus + job.shards]
    stuck = [job for job in waiting if line.requests.of(job).unmodelled]
    found = [
        (bool(snapshot.hidden), f"PrivateData={','.join(snapshot.hidden)}: what is hidden from this user"),
        (bool(kind), f"{snapshot.preemption.words}: jobs that stop others, and those that they stop"),
        (bool(snapshot.licences), "licences, where there are too few for all that ask for them"),
        (
            any(each.partial for each in snapshot.reservations),
            "reservations of cores or licences: only whole nodes are modelled",
        ),
        (bool(stuck), f"the requests of {len(stuck)} waiting jobs: {_first(line, stuck)}"),
        (
            any(line.requests.of(job).span == w.ANY_NODES for job in waiting),
            "CPUs and memory of jobs whose GPUs may be on any nodes are counted in proportion to their GPUs",
        ),
    ]
    return [text for holds, text in found if holds]


def _first(line: WaitingLine, jobs: list[LiveJob]) -> str:
    return f"job {jobs[0].id}: {line.requests.of(jobs[0]).unmodelled[0]}" if jobs else ""
