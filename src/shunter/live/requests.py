"""What a request means: on which nodes a job may run, on how many of them, and what of it is not modelled.

How requests and reasons are written differs between resource managers: a snapshot comes with the ``Dialect`` that
knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from shunter import world as w
from shunter.cluster import ANY_TYPE
from shunter.live.nodes import Node
from shunter.live.wait_causes import Kind, Meaning

if TYPE_CHECKING:
    from shunter.live.snapshot import LiveJob

UNKNOWN = -2  # a span that is not modelled
KEY = (
    *("partition", "gpu_type", "features", "excluded", "wanted_nodes", "exclusive", "contiguous", "min_nodes"),
    *("max_nodes", "per_node", "per_job", "per_task", "processes", "gpus", "shards", "cpus", "mem_mib"),
    "all_memory",
)  # jobs that are alike in these have the same request


class Request(NamedTuple):
    """A job's request, as far as it is modelled."""

    nodes: tuple[Node, ...]  # where it may run, also those that are away
    names: frozenset[str]  # of these
    gpus: int  # that it takes in all; of whole nodes all
    span: int  # as in ``world.SPAN``
    whole: bool  # it takes whole nodes
    mem_mib: int  # that it takes in all
    unmodelled: tuple[str, ...] = ()  # what of it is not modelled
    away: bool = False  # it fits on these nodes, but not on those that are up

    @property
    def each(self) -> int:
        """GPUs on each node."""
        return self.gpus // max(self.span, 1) if self.span != w.ANY_NODES else 1

    def fits_on(self, nodes: Iterable[Node]) -> bool:
        """Whether there is room for it on these nodes if they are empty."""
        sizes = [node.gpus for node in nodes if node.name in self.names]
        return self.fits_in(sizes, max(sizes, default=0))

    def fits_in(self, rooms: Sequence[int], largest: int) -> bool:
        """Whether nodes with so many GPUs to offer have room for it; ``largest``: GPUs of the largest of them."""
        if self.span == w.ANY_NODES:
            return sum(rooms) >= self.gpus
        return sum(room >= self.each for room in rooms) >= max(self.span, 1) or (
            self.span == 0 and self.gpus > largest and sum(rooms) >= self.gpus
        )


class Dialect(Protocol):
    """How a resource manager writes what jobs ask for and why they wait."""

    name: str  # the resource manager's, as people call it

    def request(self, job: LiveJob, nodes: Sequence[Node]) -> Request:
        """What a job asks for, of these nodes."""
        ...

    def meaning(self, job: LiveJob) -> Meaning:
        """What the reason of a waiting job means."""
        ...

    def parents(self, job: LiveJob) -> list[str]:
        """The jobs that must end before this one."""
        ...

    def licences(self, job: LiveJob) -> Mapping[str, int]:
        """The licences that a job asks for, by name."""
        ...


class Requests:
    """The requests of jobs on some nodes; those of jobs that ask alike are worked out once."""

    def __init__(self, nodes: Sequence[Node], dialect: Dialect) -> None:
        self._nodes, self._dialect = tuple(nodes), dialect
        self._known: dict[tuple[object, ...], Request] = {}

    def of(self, job: LiveJob) -> Request:
        """What a job asks for."""
        key = tuple(getattr(job, name) for name in KEY)
        if key not in self._known:
            self._known[key] = self._dialect.request(job, self._nodes)
        return self._known[key]

    def compete(self, job: LiveJob, other: LiveJob) -> bool:
        """Whether two jobs may run on the same node."""
        return not self.of(job).names.isdisjoint(self.of(other).names)


def request_on(job: LiveJob, open_to_it: Sequence[Node], span: int) -> Request:
    """The request of a job that may use these nodes and runs on ``count``: only nodes with room for its part count."""
    whole = job.exclusive == "node"
    nodes = [node for node in open_to_it if _holds(node, job, span)] or open_to_it
    gpus = job.gpus
    if whole and nodes and span != w.ANY_NODES:
        gpus = nodes[0].gpus * max(span, 1)
    names = frozenset(node.name for node in nodes)
    mem_mib = nodes[0].mem_mib * max(span, 1) if job.all_memory and nodes else job.mem_mib
    found = Request(tuple(nodes), names, gpus, span, whole, mem_mib)
    up = [node for node in nodes if node.up or node.reserved]
    return found._replace(away=found.fits_on(nodes) and not found.fits_on(up))


def admits(node: Node, job: LiveJob) -> bool:
    """Whether a node is in a partition of the job, and has GPUs of its type."""
    if set(job.partition.split(",")).isdisjoint(node.partitions):
        return False
    return not job.gpu_type or node.gpu_type in ("", ANY_TYPE, job.gpu_type)


def _holds(node: Node, job: LiveJob, span: int) -> bool:
    """Whether an empty node has room for the job's part on one node."""
    nodes = max(span, 1)
    if span in (w.ANY_NODES, UNKNOWN):
        return node.gpus > 0
    return (
        node.gpus * nodes >= job.gpus
        and (not node.cpus or node.cpus * nodes >= job.cpus)
        and (not node.mem_mib or job.all_memory or node.mem_mib * nodes >= job.mem_mib)
    )


class PlainDialect:
    """Requests of partitions, GPU types and a number of nodes; reasons as they are; names separated by commas."""

    name = "the resource manager"

    def request(self, job: LiveJob, nodes: Sequence[Node]) -> Request:
        """As many GPUs on each of its nodes."""
        return request_on(job, [node for node in nodes if admits(node, job)], job.min_nodes if job.min_nodes > 1 else 0)

    def meaning(self, job: LiveJob) -> Meaning:
        """Its turn, a hold, or whatever the reason says."""
        if job.waits:
            return Meaning(Kind.TURN, Kind.TURN.value)
        return Meaning(Kind.HELD, Kind.HELD.value) if job.held else Meaning(Kind.CLUSTER, job.reason)

    def parents(self, job: LiveJob) -> list[str]:
        """The jobs that it names."""
        return list(filter(None, job.dependency.split(",")))

    def licences(self, job: LiveJob) -> Mapping[str, int]:
        """One of each that it names."""
        return dict.fromkeys(filter(None, job.licenses.split(",")), 1)
