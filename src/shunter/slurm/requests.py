"""What a request in Slurm's notation means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shunter import world as w
from shunter.live.nodes import Node
from shunter.live.requests import UNKNOWN, Request, admits, request_on
from shunter.live.snapshot import LiveJob
from shunter.slurm.constraints import parse, same_everywhere
from shunter.slurm.hostlist import expand
from shunter.slurm.tres import gres


def read(job: LiveJob, nodes: Sequence[Node]) -> Request:
    """What a job asks for, of these nodes."""
    open_to_it = [node for node in nodes if _open(node, job)]
    span = _span(job, max((node.gpus for node in open_to_it), default=0))
    found = request_on(job, open_to_it, span)
    return found._replace(unmodelled=tuple(_unmodelled(job, span, found.nodes)))


def _open(node: Node, job: LiveJob) -> bool:
    """Whether a node is one that a job may have: of its partitions, GPU type and constraint, and not excluded."""
    if not admits(node, job):
        return False
    fulfilled = parse(job.features) if job.features else None
    if fulfilled is not None and not fulfilled(node.features):
        return False
    if job.excluded and node.name in expand(job.excluded):
        return False
    wanted = expand(job.wanted_nodes) if job.wanted_nodes else []
    return len(wanted) < job.min_nodes or not wanted or node.name in wanted


def _gpus(text: str) -> int:
    return sum(each.count for each in gres(text) if each.name == "gpu")


def _span(job: LiveJob, largest: int) -> int:
    """The number of nodes that a job runs on, with equal GPUs on each, given the GPUs of the largest node."""
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


def _unmodelled(job: LiveJob, span: int, nodes: Sequence[Node]) -> Iterator[str]:
    """What of a request is not modelled, each as the second half of "can't tell, because ..."."""
    if job.features and parse(job.features) is None:
        yield f"its constraint '{job.features}' is of a kind that is not modelled"
    elif same_everywhere(job.features) and span != 0:
        yield f"its constraint '{job.features}' asks for the same feature on all its nodes, which is not modelled"
    if span == UNKNOWN:
        yield f"{_requested_nodes(job)}, which is not modelled"
    if job.exclusive and job.exclusive != "node":
        yield f"it shares its nodes only with jobs of the same {job.exclusive}, which is not modelled"
    if job.exclusive == "node" and (len({(n.gpus, n.cpus) for n in nodes}) > 1 or span == w.ANY_NODES):
        yield "it takes whole nodes, and its possible nodes are not alike, which is not modelled"
    if job.all_memory and (len({node.mem_mib for node in nodes}) > 1 or span == w.ANY_NODES):
        yield "it takes all memory of its nodes, and these may not be alike, which is not modelled"
    others = {each.name for text in (job.per_node, job.per_job, job.per_task) for each in gres(text)} - {"gpu", "shard"}
    if others:
        yield f"it asks for generic resources besides GPUs ({', '.join(sorted(others))}), which is not modelled"
    if job.contiguous:
        yield "its nodes must be next to each other (--contiguous), which is not modelled"
    wanted = expand(job.wanted_nodes) if job.wanted_nodes else []
    if wanted and (len(wanted) != job.min_nodes or span == w.ANY_NODES):
        yield f"it must have {job.wanted_nodes} and may have other nodes too, which is not modelled"


def _requested_nodes(job: LiveJob) -> str:
    if job.max_nodes > job.min_nodes:
        return f"it takes {job.min_nodes} to {job.max_nodes} nodes"
    if job.max_nodes < 0:
        return "Slurm's text output does not say whether its GPUs must be on one node"
    return f"its {job.gpus} GPUs may be divided among its nodes in several ways"
