"""Why a job waits: the manager's reason in plain words, what it needs, what is free, what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shunter import world as w
from shunter.live.forecast import Outlook
from shunter.live.nodes import Node
from shunter.live.requests import Request
from shunter.live.snapshot import LiveJob
from shunter.live.surroundings import Reservation
from shunter.live.wait_causes import Kind, Meaning

SHORTEST_MS = 10 * 60_000  # the shortest limit that is proposed
MINUTE_MS = 60_000
YEAR_MS = 366 * 24 * 60 * MINUTE_MS
HOPELESS = (Kind.HELD, Kind.NEVER)  # no start is forecast for these, so nothing keeps one from being known


@dataclass(frozen=True)
class Room:
    """The resources for a job, on the nodes where it may run."""

    nodes: int
    away: int  # nodes that are down or drained
    reserved: int  # nodes that a reservation keeps from it now
    gpus: int
    free: int
    most: int  # free on one node
    fitting: int  # free on one node together with the CPUs and the memory that the job wants for each GPU
    empty: int  # nodes that nothing runs on


@dataclass(frozen=True)
class Holder:
    """A user whose jobs run where the job may run."""

    user: str
    jobs: int
    gpus: int
    until: int | None  # when the last of them must end by its limit (ms); None: one has no limit


@dataclass(frozen=True)
class LicenceUse:
    """A licence that a job needs."""

    name: str
    wanted: int
    free: int | None  # None: the manager does not say
    total: int | None
    users: tuple[str, ...]  # whose running jobs have it


@dataclass(frozen=True)
class BlockingReservation:
    """A reservation that keeps nodes from a job."""

    by: Reservation  # the first, if there are several
    limit: int  # with which the job would end before it begins (ms); 0: none is sure to
    later: bool  # this holds also if what runs takes its whole limit
    all_nodes: bool  # none are left that would be enough for it
    earliest: int | None = (
        None  # when the job can start with the limit that it has (ms); None: any time, or not in a year
    )

    def words(self, now: int) -> str:
        """What it means for the job."""
        what = "the nodes" if self.all_nodes else "some of the nodes"
        if self.by.start <= now:
            return f"reservation {self.by.name} has {what} that it needs"
        return f"reservation {self.by.name} takes {what} that it needs before it could end by its limit"


@dataclass(frozen=True)
class Why:
    """All that is to be said about a waiting job."""

    job: LiveJob
    now: int  # ms since 1970
    meaning: Meaning
    place: int | None  # among the jobs that compete with it, from 1; None: not known
    queue: int | None
    ahead_gpus: int | None  # asked for by the jobs before it
    because: tuple[str, ...]  # why some of this is not known
    room: Room
    holders: tuple[Holder, ...]  # most GPUs first
    reservations: tuple[Reservation, ...]  # that keep nodes from it, now or before it could end
    licences: tuple[LicenceUse, ...]
    alone_by: int | None  # if it were first in line, when it starts at the latest, by the limits of what runs (ms)
    parents: tuple[str, ...]  # jobs that it waits for
    helps: tuple[str, ...]  # what would let it start now, each tried
    kept: BlockingReservation | None = None  # the reservation that keeps it back
    in_turn: bool = False  # it waits for its turn, or for other tasks of its array


def why(outlook: Outlook, job: LiveJob) -> Why:
    """Look at one waiting job."""
    line, now = outlook.line, outlook.snapshot.now
    request = line.requests.of(job)
    running = [each for each in outlook.snapshot.jobs if each.runs and not request.names.isdisjoint(each.nodes)]
    words = outlook.snapshot.words
    found = words.meaning(job)
    because = tuple(line.obstacles(job)) if found.kind not in HOPELESS else ()
    seen = "jobs" not in outlook.snapshot.hidden
    place, length = line.place(job)
    coming = line.reservations(job)
    reserved = tuple(each for each in coming if not job.limit or each.start < now + job.limit)
    may_start = found.kind in (Kind.TURN, Kind.CLUSTER) and bool(job.gpus + job.shards)
    kept = _kept_back(request, running, job, now, reserved, found.cause) if may_start and reserved else None
    if kept and kept.all_nodes:
        kept = replace(kept, earliest=_earliest(request, coming, job, now))
    return Why(
        job,
        now,
        found._replace(words=kept.words(now), remedy="") if kept else found,
        place if seen else None,
        length if seen else None,
        sum(each.gpus * each.count for each in line.before(job)) if seen else None,
        because,
        room(request, job),
        tuple(_holders([each for each in running if each.gpus])),
        reserved,
        tuple(_licences(outlook, job)),
        None
        if because or not (job.waits or found.kind is Kind.TURN)
        else _alone_by(request, running, job, now, reserved),
        tuple(words.parents(job)),
        tuple(_helps(outlook, job)) if found.kind is Kind.TURN and job.gpus and not because and not kept else (),
        kept,
        line.in_turn(job),
    )


def room(request: Request, job: LiveJob) -> Room:
    """What is there and what is free."""
    nodes = request.nodes
    up = [node for node in nodes if node.up]
    free = [node.gpus - len(node.used) for node in up]
    fitting = [_fitting(node, node.gpus - len(node.used), job) for node in up]
    return Room(
        len(nodes),
        sum(not node.up and not node.reserved for node in nodes),
        sum(node.reserved for node in nodes),
        sum(node.gpus for node in nodes),
        sum(free),
        max(free, default=0),
        max(fitting, default=0),
        sum(not node.used and not node.cpus_used for node in up),
    )


def _fitting(node: Node, free: int, job: LiveJob) -> int:
    """How many GPUs of a node a job can use with the CPUs and memory that are free beside them."""
    gpus, left = max(job.gpus, 1), free
    memory = node.mem_mib if job.all_memory else job.mem_mib
    for wanted, available in ((job.cpus, node.cpus - node.cpus_used), (memory, node.mem_mib - node.mem_used)):
        if wanted:
            left = min(left, available * gpus // wanted)
    return max(left, 0)


def _licences(outlook: Outlook, job: LiveJob) -> Iterator[LicenceUse]:
    known = {licence.name: licence for licence in outlook.snapshot.licences}
    asked = outlook.snapshot.words.licences
    for name, wanted in asked(job).items():
        users = {each.user for each in outlook.snapshot.jobs if each.runs and name in asked(each)}
        there = known.get(name)
        free, total = (there.free, there.total) if there else (None, None)
        yield LicenceUse(name, wanted, free, total, tuple(sorted(users)))


def _holders(running: Sequence[LiveJob]) -> list[Holder]:
    jobs: dict[str, list[LiveJob]] = {}
    for job in running:
        jobs.setdefault(job.user, []).append(job)
    found = [
        Holder(
            user,
            len(each),
            sum(job.gpus for job in each),
            max(job.start + job.limit for job in each) if all(job.limit for job in each) else None,
        )
        for user, each in jobs.items()
    ]
    return sorted(found, key=lambda holder: (-holder.gpus, holder.user))


def _alone_by(
    request: Request, running: Sequence[LiveJob], job: LiveJob, now: int, reserved: Sequence[Reservation]
) -> int | None:
    """When there is room for the job, if everything runs to its limit and no other job takes it; None: not known.

    Nodes that a reservation keeps from it before it could end are left out.
    """
    kept = {name for each in reserved for name in each.nodes}
    nodes = {node.name: node for node in request.nodes if node.up and node.name not in kept}
    free = {name: node.gpus - len(node.used) for name, node in nodes.items()}
    beside = {name: sum(name in each.nodes for each in running) for name in nodes}  # jobs on it

    def fits() -> bool:
        usable = [free[name] for name in nodes if not request.whole or not beside[name]]
        if request.span == w.ANY_NODES or (request.span == 0 and request.gpus > max(nodes[n].gpus for n in nodes)):
            return sum(usable) >= request.gpus
        return sum(each >= min(request.each, max(job.gpus, 1)) for each in usable) >= max(request.span, 1)

    if not nodes:
        return None
    if fits():
        return now
    for other in sorted((each for each in running if each.limit), key=lambda each: each.start + each.limit):
        for name in other.nodes:
            if name in free:
                free[name] += -(-other.gpus // len(other.nodes))
                beside[name] -= 1
        if fits():
            return max(other.start + other.limit, now)
    return None


# ------------------------------------------------------------------------------------------- reservations


def _kept_back(
    request: Request, running: Sequence[LiveJob], job: LiveJob, now: int, reserved: Sequence[Reservation], cause: str
) -> BlockingReservation | None:
    """The reservation because of which a job finds no nodes, or fewer; None: none does."""
    there = [node for node in request.nodes if node.up or node.reserved]
    kept = {name for each in reserved for name in each.nodes}
    alone = request.fits_on(there) and not request.fits_on(node for node in there if node.name not in kept)
    if not alone and cause != "maintenance":
        return None
    first = min(reserved, key=lambda each: each.start)
    by = _alone_by(request, running, job, now, ())
    fits = (first.start - by) // MINUTE_MS * MINUTE_MS - MINUTE_MS if by is not None else 0  # a minute to change it
    return BlockingReservation(first, max(fits, 0), by is not None and by > now, alone)


def _earliest(request: Request, reserved: Sequence[Reservation], job: LiveJob, now: int) -> int | None:
    """The first end of a reservation from which on enough nodes are free of them for as long as the limit is."""
    nodes = [node for node in request.nodes if node.up or node.reserved]
    times = [(start, end, set(each.nodes)) for each in reserved for start, end in each.times(now, now + YEAR_MS)]
    length = job.limit or YEAR_MS
    for at in sorted(end for _, end, _ in times):
        taken = set[str]().union(*(names for start, end, names in times if start < at + length and end > at))
        if request.fits_on(node for node in nodes if node.name not in taken):
            return at
    return None


# ------------------------------------------------------------------------------------------- what would help


def _helps(outlook: Outlook, job: LiveJob) -> Iterator[str]:
    """Changes of the request with which it starts now; each is tried in the simulator beside all others."""
    if starts_now(outlook, job):
        name = outlook.snapshot.words.name
        yield f"nothing: it fits and may go first, so that {name} should start it in its next round"
        return
    for kind in _other_types(outlook, job):
        if starts_now(outlook, replace(job, gpu_type=kind)):
            yield f"with GPUs of type {kind} it could start now"
    fewer = next((gpus for gpus in _fewer(job.gpus) if starts_now(outlook, smaller(job, gpus))), 0)
    if fewer:
        yield f"with --gpus {fewer} it could start now"
    limit = next((limit for limit in _shorter(job.limit) if starts_now(outlook, replace(job, limit=limit))), 0)
    if limit and outlook.rules.backfills:
        yield f"with --time {clock(limit)} it could start now, ahead of others (backfilling)"


def _other_types(outlook: Outlook, job: LiveJob) -> list[str]:
    """GPU types of which a node has as many as the job now wants of one; of those it asked for a type."""
    nodes = outlook.line.requests.of(replace(job, gpu_type="")).nodes
    most = {
        kind: max(node.gpus for node in nodes if node.gpu_type == kind) for kind in {node.gpu_type for node in nodes}
    }
    on_one = min(job.gpus, most.get(job.gpu_type, job.gpus))
    return sorted(kind for kind in most if job.gpu_type and kind not in ("", job.gpu_type) and most[kind] >= on_one)


def _fewer(gpus: int) -> Iterator[int]:
    """Halves and halves of these."""
    while gpus > 1:
        gpus = (gpus + 1) // 2
        yield gpus


def _shorter(limit: int) -> Iterator[int]:
    """Halves, in whole minutes."""
    while limit // 2 >= SHORTEST_MS:
        limit = limit // 2 // MINUTE_MS * MINUTE_MS
        yield limit


def smaller(job: LiveJob, gpus: int) -> LiveJob:
    """The same job with other GPUs on as many nodes as it takes, and CPUs and memory in proportion."""
    cpus, mem_mib = (-(-each * gpus // job.gpus) for each in (job.cpus, job.mem_mib))
    return replace(job, gpus=gpus, cpus=cpus, mem_mib=mem_mib, per_node="", per_job="", per_task="", min_nodes=1)


def starts_now(outlook: Outlook, job: LiveJob) -> bool:
    """Whether a job would be started at this instant, with all others in the queue as they are."""
    replica = outlook.replica(job)
    replica.simulator.reconsider()
    replica.simulator.run(outlook.policy, until=outlook.snapshot.now)
    return bool(replica.simulator.world.jobs[w.STARTED, replica.rows[job.id]] >= 0)


def clock(ms: int) -> str:
    """A time limit as the manager takes it: ``4:00:00``, ``2-00:00:00``."""
    days, rest = divmod(ms // 1000, 86_400)
    time = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{time}" if days else time.removeprefix("0")
