"""Why a job waits: Slurm's reason in plain words, what it needs and what is free, who has it, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from shunter import world as w
from shunter.cluster import ANY_TYPE
from shunter.slurm.forecast import Outlook
from shunter.slurm.nodes import Node
from shunter.slurm.snapshot import Job
from shunter.slurm.waiting import Kind, Meaning, meaning, parents

SHORTEST_MS = 10 * 60_000  # a limit below which nobody would go
MINUTE_MS = 60_000


@dataclass(frozen=True)
class Room:
    """What there is for a job, on the nodes where it may run."""

    nodes: int
    away: int  # nodes that are down or drained
    gpus: int
    free: int
    most: int  # free on one node
    fitting: int  # free on one node together with the CPUs and the memory that the job wants for each GPU


@dataclass(frozen=True)
class Holder:
    """A user whose jobs run where the job may run."""

    user: str
    jobs: int
    gpus: int
    until: int | None  # when the last of them must end by its limit (ms); None: one has no limit


@dataclass(frozen=True)
class Why:
    """All that is to be said about a waiting job."""

    job: Job
    now: int  # ms since 1970
    meaning: Meaning
    place: int  # in the queue, from 1
    queue: int
    ahead_gpus: int  # asked for by the jobs before it
    room: Room
    holders: tuple[Holder, ...]  # most GPUs first
    alone_by: int | None  # if it were first in line, when it starts at the latest, by the limits of what runs (ms)
    parents: tuple[str, ...]  # jobs that it waits for
    helps: tuple[str, ...]  # what would let it start now, each tried


def why(outlook: Outlook, job: Job) -> Why:
    """Look at one waiting job."""
    nodes = usable(outlook.snapshot.nodes, job)
    names = {node.name for node in nodes}
    running = [each for each in outlook.snapshot.jobs if each.runs and each.gpus and names & set(each.nodes)]
    place, length = outlook.place(job)
    before = outlook.queue(job)[: place - 1]
    found = meaning(job)
    return Why(
        job,
        outlook.snapshot.now,
        found,
        place,
        length,
        sum(each.gpus for each in before),
        room(nodes, job),
        tuple(_holders(running)),
        _alone_by(nodes, running, job, outlook.snapshot.now),
        tuple(parents(job)),
        tuple(_helps(outlook, job)) if found.kind is Kind.TURN and job.gpus else (),
    )


def usable(nodes: Iterable[Node], job: Job) -> list[Node]:
    """The nodes of a job's partitions and GPU type, also those that are away."""
    partitions = set(job.partition.split(","))
    return [
        node
        for node in nodes
        if partitions & set(node.partitions) and (not job.gpu_type or node.gpu_type in ("", ANY_TYPE, job.gpu_type))
    ]


def room(nodes: Sequence[Node], job: Job) -> Room:
    """What is there and what is free."""
    up = [node for node in nodes if node.up]
    free = [node.gpus - len(node.used) for node in up]
    fitting = [_fitting(node, node.gpus - len(node.used), job) for node in up]
    return Room(
        len(nodes),
        len(nodes) - len(up),
        sum(node.gpus for node in nodes),
        sum(free),
        max(free, default=0),
        max(fitting, default=0),
    )


def _fitting(node: Node, free: int, job: Job) -> int:
    """How many GPUs of a node a job can use with the CPUs and memory that are free beside them."""
    gpus, left = max(job.gpus, 1), free
    for wanted, available in ((job.cpus, node.cpus - node.cpus_used), (job.mem_mib, node.mem_mib - node.mem_used)):
        if wanted:
            left = min(left, available * gpus // wanted)
    return max(left, 0)


def _holders(running: Sequence[Job]) -> list[Holder]:
    jobs: dict[str, list[Job]] = {}
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


def _alone_by(nodes: Sequence[Node], running: Sequence[Job], job: Job, now: int) -> int | None:
    """When enough GPUs are free for the job, if everything runs to its limit and nobody else takes them."""
    free = {node.name: node.gpus - len(node.used) for node in nodes if node.up}
    biggest = max((node.gpus for node in nodes if node.up), default=0)
    wanted = max(job.gpus, 1)

    def fits() -> bool:
        return max(free.values(), default=0) >= wanted if wanted <= biggest else sum(free.values()) >= wanted

    if fits():
        return now
    for other in sorted((each for each in running if each.limit), key=lambda each: each.start + each.limit):
        held = [node for node in other.nodes if node in free]
        for node in held:
            free[node] += -(-other.gpus // len(other.nodes))
        if fits():
            return max(other.start + other.limit, now)
    return None


# ------------------------------------------------------------------------------------------- what would help


def _helps(outlook: Outlook, job: Job) -> Iterator[str]:
    """Changes of the request with which it starts now; each is tried in the simulator beside all others."""
    if starts_now(outlook, job):
        yield "nothing: it fits and may go first, so that Slurm should start it in its next round"
        return
    for kind in _other_types(outlook, job):
        if starts_now(outlook, replace(job, gpu_type=kind)):
            yield f"with GPUs of type {kind} it could start now"
    fewer = next((gpus for gpus in _fewer(job.gpus) if starts_now(outlook, smaller(job, gpus))), 0)
    if fewer:
        yield f"with --gpus {fewer} it could start now"
    limit = next((limit for limit in _shorter(job.limit) if starts_now(outlook, replace(job, limit=limit))), 0)
    if limit and outlook.site.backfills:
        yield f"with --time {clock(limit)} it could start now, ahead of others (backfilling)"


def _other_types(outlook: Outlook, job: Job) -> list[str]:
    """GPU types of which a node has as many as the job now wants of one; of those it asked for a type."""
    nodes = usable(outlook.snapshot.nodes, replace(job, gpu_type=""))
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


def smaller(job: Job, gpus: int) -> Job:
    """The same job with other GPUs, and CPUs and memory in proportion."""
    return replace(job, gpus=gpus, cpus=-(-job.cpus * gpus // job.gpus), mem_mib=-(-job.mem_mib * gpus // job.gpus))


def starts_now(outlook: Outlook, job: Job) -> bool:
    """Whether a job would be started at this instant, with all others in the queue as they are."""
    replica = outlook.replica(job)
    replica.simulator.reconsider()
    replica.simulator.run(outlook.policy, until=outlook.snapshot.now)
    return bool(replica.simulator.world.jobs[w.STARTED, replica.rows[job.id]] >= 0)


def clock(ms: int) -> str:
    """A time limit as Slurm takes it: ``4:00:00``, ``2-00:00:00``."""
    days, rest = divmod(ms // 1000, 86_400)
    time = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{time}" if days else time.removeprefix("0")
