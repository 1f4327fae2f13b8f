"""Nodes and partitions as Slurm reports them, by ``scontrol show``, ``sinfo`` or in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from shunter.errors import LiveError, SlurmError
from shunter.live.nodes import Node, Partition
from shunter.live.ranges import GPUS_OF_NODE
from shunter.slurm.hostlist import expand
from shunter.slurm.scontrol_output import records
from shunter.slurm.tres import Gres, gres, resources
from shunter.slurm_json import plain

SINFO = "%N|%P|%c|%m|%G|%T"  # the format in which a file of sinfo's is read, with its header
SINFO_HEADER = ("NODELIST", "PARTITION", "CPUS", "MEMORY", "GRES", "STATE")
CPUS_STATE = "CPUS(A/I/O/T)"  # allocated, idle, other, total
T = TypeVar("T")


# ------------------------------------------------------------------------------------------- nodes


def nodes(text: str) -> list[Node]:
    """The nodes in what ``scontrol show node``, ``sinfo -N -o`` or their ``--json`` printed."""
    if text.lstrip().startswith("{"):
        found = [of_json(node) for node in json_list(text, "nodes")]
    elif text.lstrip().startswith("NODELIST|"):
        found = of_sinfo(_rows(text))
    else:
        found = [_of_record(record) for record in records(text, "NodeName")]
    if not found:
        raise SlurmError(f"there is no node in it; write it with: scontrol show node, or sinfo -N -o '{SINFO}'")
    return [node for node in found if node.there]


def _with_gpus(node: Node, has: str, tres: str = "") -> Node:
    """A node with its GPUs, from its generic resources or else its TRES; most of several types are its type."""
    listed = gres(has)
    found = [each for each in listed if each.name == "gpu" and each.count]
    found = found or [Gres("gpu", kind, count) for kind, count in resources(tres).gpus.items()]
    counts: dict[str, int] = {}
    for each in found:
        counts[each.kind] = counts.get(each.kind, 0) + each.count
    most = max(counts, key=lambda kind: (counts[kind], kind), default="")
    gpus, shards = sum(counts.values()), sum(each.count for each in listed if each.name == "shard")
    if gpus > GPUS_OF_NODE:
        raise SlurmError(f"'{node.name[:40]}' must have at most {GPUS_OF_NODE:,} GPUs, got {gpus:,}")
    return replace(node, gpus=gpus, gpu_type=most, shards=shards, other_gpus=gpus - counts.get(most, 0))


def _of_record(record: Mapping[str, str]) -> Node:
    name = record["NodeName"]
    cpus, memory = record.get("CPUEfctv") or record.get("CPUTot") or "0", record.get("RealMemory", "0")
    partitions = tuple(filter(None, record.get("Partitions", "").split(",")))
    state = record.get("State", "").lower()
    features = _features(record.get("ActiveFeatures", ""))
    node = Node(name, state, partitions, cpus=_whole(cpus, name), mem_mib=_whole(memory, name), features=features)
    return _with_gpus(node, record.get("Gres", ""), record.get("CfgTRES", ""))


def _rows(text: str) -> list[dict[str, str]]:
    header, *lines = [line for line in text.splitlines() if line.strip()]
    names = [name.strip() for name in header.split("|")]
    if missing := [name for name in SINFO_HEADER if name not in names]:
        raise SlurmError(f"sinfo's columns lack {', '.join(missing)}; write it with: sinfo -N -o '{SINFO}'")
    return [dict(zip(names, (field.strip() for field in line.split("|")), strict=False)) for line in lines]


def of_sinfo(rows: Iterable[Mapping[str, str]], unread: dict[str, str] | None = None) -> list[Node]:
    """Nodes from sinfo's rows, of which there is one for each partition of a node, by the names of its columns."""
    partitions: dict[str, list[str]] = {}
    first: dict[str, Mapping[str, str]] = {}
    for row in rows:
        first.setdefault(row["NODELIST"], row)
        partitions.setdefault(row["NODELIST"], []).append(row["PARTITION"].rstrip("*"))
    found = each_read(first.items(), lambda named: _of_row(named[1]), lambda named: named[0], unread)
    return [replace(node, partitions=tuple(dict.fromkeys(partitions[node.name]))) for node in found]


def _of_row(row: Mapping[str, str]) -> Node:
    name = row["NODELIST"]
    taken, _, _, total = row.get(CPUS_STATE, f"0/0/0/{row.get('CPUS', '0')}").split("/")
    cpus, cpus_used, memory, held = (
        _whole(text.rstrip("+"), name) for text in (total, taken, row["MEMORY"], row.get("ALLOCMEM", "0"))
    )
    node = Node(
        name,
        row["STATE"].lower(),
        cpus=cpus,
        cpus_used=cpus_used,
        mem_mib=memory,
        mem_used=held,
        features=_features(row.get("ACTIVE_FEATURES", "")),
    )
    return in_use(_with_gpus(node, row["GRES"]), row.get("GRES_USED", ""))


def of_json(node: Mapping[str, Any]) -> Node:
    """As scontrol and sinfo of 21.08 to 25.11 write it; states and partitions may be words or lists."""
    words = [*_words(node.get("state")), *_words(node.get("state_flags"))]
    plainly = Node(
        str(node.get("name") or node.get("hostname")),
        "+".join(map(str, words)).lower(),
        tuple(_words(node.get("partitions"))),
        cpus=_count(node, "effective_cpus") or _count(node, "cpus"),
        cpus_used=_count(node, "alloc_cpus"),
        mem_mib=_count(node, "real_memory"),
        mem_used=_count(node, "alloc_memory"),
        features=tuple(map(str, _words(node.get("active_features")))),
    )
    made = _with_gpus(plainly, str(node.get("gres") or ""), str(node.get("tres") or ""))
    return in_use(made, str(node.get("gres_used") or ""))


def _count(node: Mapping[str, Any], key: str) -> int:
    return int(plain(node.get(key)) or 0)


def _words(listed: Any) -> list[str]:
    return listed if isinstance(listed, list) else [word for word in str(listed or "").split(",") if word]


def _features(text: str) -> tuple[str, ...]:
    return () if text in ("(null)", "N/A") else tuple(filter(None, text.split(",")))


def each_read(
    listed: Iterable[T], read: Callable[[T], Node], name: Callable[[T], str], unread: dict[str, str] | None
) -> list[Node]:
    """Nodes one by one; those that can't be read are left out and noted in ``unread``, where there is one."""
    found = []
    for each in listed:
        try:
            found.append(read(each))
        except (LiveError, ValueError, TypeError) as problem:
            if unread is None:
                raise SlurmError(f"node {name(each)}: {problem}") from None
            unread[f"node {name(each)}"] = str(problem)
    return found


# ------------------------------------------------------------------------------------------- partitions


def partitions(text: str) -> list[Partition]:
    """The partitions in what ``scontrol show partition`` printed, as text or JSON."""
    if text.lstrip().startswith("{"):
        return [_partition_of_json(part) for part in json_list(text, "partitions")]
    found = records(text, "PartitionName")
    if not found:
        raise SlurmError("there is no partition in it; write it with: scontrol show partition")
    return [_partition_of_record(record) for record in found]


def _partition_of_record(record: dict[str, str]) -> Partition:
    name = record["PartitionName"]
    tier, factor = (_whole(record.get(key, "1"), name) for key in ("PriorityTier", "PriorityJobFactor"))
    return Partition(name, tuple(expand(record.get("Nodes", ""))), tier, factor, record.get("TRESBillingWeights", ""))


def _partition_of_json(part: Mapping[str, Any]) -> Partition:
    priority = part.get("priority") or {}
    listed = (part.get("nodes") or {}).get("configured") or ""
    tier, factor = int(priority.get("tier", 1)), int(priority.get("job_factor", 1))
    billing = str((part.get("tres") or {}).get("billing_weights") or "")
    return Partition(str(part["name"]), tuple(expand(listed)), tier, factor, billing)


def in_use(node: Node, uses: str) -> Node:
    """The same node, with the GPUs in use that Slurm names: ``gpu:a100:2(IDX:0-1)``."""
    return replace(node, used=tuple(index for each in gres(uses) if each.name == "gpu" for index in each.index))


# ------------------------------------------------------------------------------------------- words and numbers


def json_list(text: str, key: str) -> list[dict[str, Any]]:
    """What stands under a key of what a command's ``--json`` printed."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SlurmError(f"begins like JSON but is none ({error}); write it again") from None
    listed = found.get(key) if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise SlurmError(f"must have a list under '{key}', as Slurm's commands write it with --json")
    return [item for item in listed if isinstance(item, dict)]


def _whole(text: str, name: str) -> int:
    try:
        return int(float(text or 0))
    except ValueError:
        raise SlurmError(f"'{name}' must have whole numbers of CPUs, memory and priorities, got '{text}'") from None
