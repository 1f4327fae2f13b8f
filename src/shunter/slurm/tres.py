"""How Slurm writes resources: TRES (``cpu=8,mem=64G,gres/gpu:a100=4``) and GRES (``gpu:a100:4(IDX:0-3)``)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from shunter.errors import SlurmError
from shunter.live.ranges import GPUS, GPUS_OF_NODE, NUMBER

MIB_PER_UNIT = {"": 1.0, "K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}
MIB_PER_UNIT["?"] = 2.0**40  # what Slurm writes for the next unit, of which no machine has one
GRES = re.compile(
    r"(?:gres[:/])?([A-Za-z_]\w*)(?::([^:,()=]*[^:,()=\d][^:,()=]*|\d+(?=[:=]\d)))?(?:[:=](\d{1,18})[KMGT]?)?(?:\(([^)]*)\))?"
)
RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
SHOWN = 80  # characters of a text in a message
REMEMBERED = 8192  # texts whose meaning is kept: thousands of jobs write the same few
NOTHING = ("", "(null)", "N/A", "n/a")
MOST = NUMBER - 1  # of anything: a held job may ask for numbers of twenty digits, which no snapshot may have


@dataclass(frozen=True)
class Resources:
    """What a job or a node has."""

    cpus: int = 0
    mem_mib: int = 0
    nodes: int = 0
    gpus: dict[str, int] = field(default_factory=dict)  # by type; "": no type named
    shards: int = 0

    @property
    def gpu_count(self) -> int:
        """GPUs of all types."""
        return sum(self.gpus.values())

    @property
    def gpu_type(self) -> str:
        """The type of the GPUs, where they are all of one that is named; else ""."""
        return next(iter(self.gpus)) if len(self.gpus) == 1 else ""


@lru_cache(maxsize=REMEMBERED)
def resources(text: str) -> Resources:
    """A list of TRES; where GPUs are counted both in all and by type, each counts once."""
    counts: dict[str, str] = {}
    for item in text.split(",") if text.strip() not in NOTHING else ():
        name, _, value = item.partition("=")
        counts[name.strip()] = value.strip()
    typed = {name.partition(":")[2]: _whole(value, text) for name, value in counts.items() if name[:9] == "gres/gpu:"}
    total = _whole(counts.get("gres/gpu", "0"), text)
    if total > sum(typed.values()):
        typed[""] = total - sum(typed.values())
    return Resources(
        cpus=_whole(counts.get("cpu", "0"), text),
        mem_mib=memory_mib(counts.get("mem", "0"), text),
        nodes=_whole(counts.get("node", "0"), text),
        gpus={kind: count for kind, count in typed.items() if count},
        shards=_whole(counts.get("gres/shard", "0"), text),
    )


def memory_mib(value: str, text: str = "") -> int:
    """``64G`` in MiB; without a unit it is MiB already."""
    found = re.fullmatch(r"([0-9.]+)([KMGTP?]?)[nc]?", value)
    if not found:
        raise SlurmError(f"memory must be a number with K, M, G, T or P behind it, got '{value}' in '{text}'")
    return _whole(found[1], text, MIB_PER_UNIT[found[2]])


def _whole(value: str, text: str, unit: float = 1.0) -> int:
    try:
        return min(round(float(value) * unit) if unit != 1.0 else int(float(value)), MOST)
    except (ValueError, OverflowError):  # the latter: infinite
        raise SlurmError(f"a resource must have a number, got '{value[:40]}' in '{text[:SHOWN]}'") from None


@dataclass(frozen=True)
class Gres:
    """One kind of generic resource on one node, or asked for on each."""

    name: str
    kind: str
    count: int
    index: tuple[int, ...] = ()  # which ones, where Slurm says so


@lru_cache(maxsize=REMEMBERED)
def gres(text: str) -> tuple[Gres, ...]:
    """Generic resources: ``gpu:a100:4(IDX:0-3),shard:8``; also written ``gres:gpu:2`` or ``gres/gpu=2``."""
    if text.strip() in NOTHING:
        return ()
    found = []
    for item in re.split(r",(?![^()]*\))", text):
        match = GRES.fullmatch(item.strip())
        if match is None and not re.match(r"(?:gres[:/])?(?:gpu|shard)\b", item.strip()):
            continue  # bandwidth:lustre:no_consume:4G and the like: none of ours
        if match is None:
            raise SlurmError(f"generic resources look like gpu:a100:4, got '{item[:40]}' in '{text[:SHOWN]}'")
        found.append(Gres(match[1], match[2] or "", int(match[3]) if match[3] else 1, _index(match[4] or "")))
    return tuple(found)


def _index(text: str) -> tuple[int, ...]:
    """``IDX:0-1,3`` as numbers; () for ``S:0-1`` (sockets), ``IDX:N/A`` and nothing."""
    if not text.startswith("IDX:") or text == "IDX:N/A":
        return ()
    numbers: list[int] = []
    for piece in text[4:].split(","):
        if found := RANGE.fullmatch(piece):
            low, high = int(found[1]), int(found[2] or found[1])
            if max(low, high, len(numbers)) >= GPUS_OF_NODE:
                raise SlurmError(f"a node must have at most {GPUS_OF_NODE:,} GPUs, got '{piece}' in '{text[:SHOWN]}'")
            numbers += range(low, high + 1)
    return tuple(numbers)


class RequestedGpus(NamedTuple):
    """The GPUs of a job."""

    gpus: int
    kind: str
    shards: int


@lru_cache(maxsize=REMEMBERED)
def requested_gpus(
    state: str, tres: str, per_job: str, per_node: str, nodes: str, per_task: str, tasks: str
) -> RequestedGpus:
    """How many GPUs, of which type, and shards: from TRES, or where Slurm doesn't count GPUs, from the request."""
    has = resources(tres)
    asked = [
        (each.name, each.kind, each.count * int(times.partition("-")[0] or 1))
        for text, times in ((per_job, "1"), (per_node, nodes), (per_task, tasks))
        for each in gres(text)
    ]
    kinds = {kind for name, kind, _ in asked if name == "gpu"}
    shards = has.shards or sum(count for name, _, count in asked if name == "shard")
    gpus = has.gpu_count or sum(count for name, _, count in asked if name == "gpu")
    kind = next(iter(kinds)) if state == "PENDING" and len(kinds) == 1 else has.gpu_type
    return RequestedGpus(min(gpus, GPUS), kind, min(shards, MOST))
