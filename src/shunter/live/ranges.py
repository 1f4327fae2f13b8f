"""Allowed values of a recorded snapshot: anyone may have written the file, and a few digits may stand for much."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from shunter.errors import LiveError
from shunter.live import job_arrays
from shunter.live.hints import LATEST, MOST

if TYPE_CHECKING:
    from shunter.live.nodes import Node
    from shunter.live.snapshot import LiveJob

GPUS_OF_NODE = 4096
GPUS = 10_000_000  # of all nodes, and of a job
NUMBER = 10**14  # no number in a snapshot is as large
LONG_NUMBER = re.compile(r"\d{19}")  # more digits than a number of 64 bits has
JOB = {"gpus": GPUS} | dict.fromkeys(("limit", "shards", "cpus", "mem_mib", "throttle"), NUMBER)
NODE = {"gpus": GPUS_OF_NODE} | dict.fromkeys(("shards", "cpus", "cpus_used", "mem_mib", "mem_used"), NUMBER)
HINTS = dict.fromkeys(("iterations", "done", "iteration_s", "run_s"), MOST) | {"deadline": LATEST}
WITH_NUMBERS = (
    *("id", "handle", "number", "tasks", "per_node", "per_job", "per_task"),
    *("licenses", "wanted_nodes", "excluded"),
)  # texts of a job in which numbers are read


def check(jobs: Sequence[LiveJob], nodes: Sequence[Node]) -> None:
    """Refuse (ValueError) the first value that can't be, with the field named."""
    wrong = next(chain(_of_nodes(nodes), _of_jobs(jobs)), None)
    if wrong is not None:
        raise ValueError(wrong)


def _of_nodes(nodes: Sequence[Node]) -> Iterator[str]:
    yield from _repeated("nodes", "name", (node.name for node in nodes))
    for at, node in enumerate(nodes):
        yield from _outside(f"nodes.{at}", node, NODE)
        if not all(0 <= index < GPUS_OF_NODE for index in node.used):
            yield f"nodes.{at}.used: the number of a GPU must be 0 to {GPUS_OF_NODE - 1:,}"
    if sum(node.gpus for node in nodes) > GPUS:
        yield f"nodes: they must have at most {GPUS:,} GPUs in all"


def _of_jobs(jobs: Sequence[LiveJob]) -> Iterator[str]:
    yield from _repeated("jobs", "id", (job.id for job in jobs))
    for at, job in enumerate(jobs):
        where = f"jobs.{at}"
        yield from _outside(where, job, JOB)
        yield from _outside(f"{where}.hints", job.hints, HINTS)
        for name in WITH_NUMBERS:
            if LONG_NUMBER.search(getattr(job, name)):
                yield f"{where}.{name}: has a number of more than 18 digits"
        try:
            if job.tasks and not job_arrays.numbers(job.tasks):
                yield f"{where}.tasks: names no task, got '{job.tasks[:40]}'"
        except LiveError as error:
            yield f"{where}.tasks: {error}"


def _outside(where: str, of: object, most: Mapping[str, float]) -> Iterator[str]:
    for name, limit in most.items():
        if not 0 <= getattr(of, name) <= limit:
            yield f"{where}.{name}: must be 0 to {limit:,}, got {getattr(of, name):,}"


def _repeated(what: str, field: str, names: Iterable[str]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for at, name in enumerate(names):
        if seen.setdefault(name, at) != at:
            yield f"{what}.{at}.{field}: must differ from that of {what}.{seen[name]}, got '{name[:40]}'"
