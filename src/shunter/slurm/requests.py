"""What a request means: on which nodes a job may run, on how many of them, and what of it is not modelled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from shunter import world as w
from shunter.cluster import ANY_TYPE
from shunter.slurm.constraints import parse, same_everywhere
from shunter.slurm.hostlist import expand
from shunter.slurm.nodes import Node
from shunter.slurm.snapshot import Job
from shunter.slurm.tres import gres

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
    unmodelled: tuple[str, ...]  # what of it is not modelled
    away: bool = False  # it fits on these nodes, but not on those that are up

    @property
    def each(self) -> int:
        """GPUs on each node."""
        return self.gpus // max(self.span, 1) if self.span != w.ANY_NODES else 1

    def fits_on(self, nodes: Iterable[Node]) -> bool:
        """Whether there is room for it on these nodes if they are empty."""
        sizes = [node.gpus for node in nodes if node.name in self.names]
        if self.span == w.ANY_NODES:
            return sum(sizes) >= self.gpus
        return sum(size >= self.each for size in sizes) >= max(self.span, 1) or (
            self.span == 0 and self.gpus > max(sizes, default=0) and sum(sizes) >= self.gpus
        )


class Requests:
    """The requests of jobs on some nodes; those of jobs that ask alike are worked out once."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = tuple(nodes)
        self._known: dict[tuple[object, ...], Request] = {}

    def of(self, job: Job) -> Request:
        """What a job asks for."""
        key = tuple(getattr(job, name) for name in KEY)
        if key not in self._known:
            self._known[key] = self._read(job)
        return self._known[key]

    def compete(self, job: Job, other: Job) -> bool:
        """Whether two jobs may run on the same node."""
        return not self.of(job).names.isdisjoint(self.of(other).names)

    def _read(self, job: Job) -> Request:
        open_to_it = [node for node in self._nodes if _open(node, job)]
        span = _span(job, max((node.gpus for node in open_to_it), default=0))
        whole = job.exclusive == "node"
        nodes = [node for node in open_to_it if _holds(node, job, span)] or open_to_it
        gpus = job.gpus
        if whole and nodes and span != w.ANY_NODES:
            gpus = nodes[0].gpus * max(span, 1)
        names = frozenset(node.name for node in nodes)
        mem_mib = nodes[0].mem_mib * max(span, 1) if job.all_memory and nodes else job.mem_mib
        found = Request(tuple(nodes), names, gpus, span, whole, mem_mib, tuple(_unmodelled(job, span, nodes)))
        up = [node for node in nodes if node.up or node.reserved]
        return found._replace(away=found.fits_on(nodes) and not found.fits_on(up))


def _open(node: Node, job: Job) -> bool:
    """Whether a node is one that a job may have: of its partitions, GPU type and constraint, and not excluded."""
    if set(job.partition.split(",")).isdisjoint(node.partitions):
        return False
    if job.gpu_type and node.gpu_type not in ("", ANY_TYPE, job.gpu_type):
        return False
    fulfilled = parse(job.features) if job.features else None
    if fulfilled is not None and not fulfilled(node.features):
        return False
    if job.excluded and node.name in expand(job.excluded):
        return False
    wanted = expand(job.wanted_nodes) if job.wanted_nodes else []
    return len(wanted) < job.min_nodes or not wanted or node.name in wanted


def _holds(node: Node, job: Job, span: int) -> bool:
    """Whether an empty node has room for the job's part on one node."""
    nodes = max(span, 1)
    if span in (w.ANY_NODES, UNKNOWN):
        return node.gpus > 0
    return (
        node.gpus * nodes >= job.gpus
        and (not node.cpus or node.cpus * nodes >= job.cpus)
        and (not node.mem_mib or job.all_memory or node.mem_mib * nodes >= job.mem_mib)
    )


def _gpus(text: str) -> int:
    return sum(each.count for each in gres(text) if each.name == "gpu")


def _span(job: Job, largest: int) -> int:
    """On how many nodes a job runs, with as many GPUs on each; the largest of them has so many GPUs."""
    nodes, most = job.min_nodes, job.max_nodes
    if _gpus(job.per_node):
        return UNKNOWN if most > nodes else nodes if nodes > 1 else 0
    if _gpus(job.per_task) and job.processes > 1:
        return w.ANY_NODES if _gpus(job.per_task) == 1 and nodes == 1 and most == 0 else UNKNOWN
    if not _gpus(job.per_job) or most == nodes == 1:
        return 0
    if nodes == 1:
        return w.ANY_NODES if most == 0 or job.gpus > largest else UNKNOWN
    return nodes if job.gpus in (nodes, nodes * largest) and most in (-1, 0, nodes) else UNKNOWN


def _unmodelled(job: Job, span: int, nodes: Sequence[Node]) -> Iterator[str]:
    """What of a request is not modelled, each as the second half of "can't tell, because ..."."""
    if job.features and parse(job.features) is None:
        yield f"its constraint '{job.features}' is of a kind that is not modelled"
    elif same_everywhere(job.features) and span != 0:
        yield f"its constraint '{job.features}' asks for the same feature on all its nodes, which is not modelled"
    if span == UNKNOWN:
        yield f"{_nodes_asked(job)}, which is not modelled"
    if job.exclusive and job.exclusive != "node":
        yield f"it shares its nodes only with jobs of the same {job.exclusive}, which is not modelled"
    if job.exclusive == "node" and (len({(n.gpus, n.cpus) for n in nodes}) > 1 or span == w.ANY_NODES):
        yield "it takes whole nodes, and its possible nodes are not alike, which is not modelled"
    if job.all_memory and (len({node.mem_mib for node in nodes}) > 1 or span == w.ANY_NODES):
        yield "it takes all memory of its nodes, and these may not be alike, which is not modelled"
    if job.contiguous:
        yield "its nodes must be next to each other (--contiguous), which is not modelled"
    wanted = expand(job.wanted_nodes) if job.wanted_nodes else []
    if wanted and (len(wanted) != job.min_nodes or span == w.ANY_NODES):
        yield f"it must have {job.wanted_nodes} and may have other nodes too, which is not modelled"


def _nodes_asked(job: Job) -> str:
    if job.max_nodes > job.min_nodes:
        return f"it takes {job.min_nodes} to {job.max_nodes} nodes"
    if job.max_nodes < 0:
        return "Slurm's text output does not say whether its GPUs must be on one node"
    return f"its {job.gpus} GPUs may be divided among its nodes in several ways"
