"""Nodes and partitions as Slurm tells them, by ``scontrol show``, ``sinfo`` or in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shunter.errors import SlurmError
from shunter.slurm.hostlist import expand
from shunter.slurm.shows import records
from shunter.slurm.tres import gres, resources

SINFO = "%N|%P|%c|%m|%G|%T"  # the format in which sinfo is read, with its header
SINFO_HEADER = ("NODELIST", "PARTITION", "CPUS", "MEMORY", "GRES", "STATE")
AWAY = ("DOWN", "DRAIN", "FAIL", "MAINT", "INVAL", "NO_RESPOND", "NOT_RESPONDING")
NOT_THERE = ("FUTURE",)


@dataclass(frozen=True)
class Node:
    """One machine."""

    name: str
    gpus: dict[str, int]  # by type; "": no type named
    cpus: int
    mem_mib: int
    partitions: tuple[str, ...]
    state: str = ""  # words in capitals, joined by +

    @property
    def away(self) -> bool:
        """Whether nothing can be started there now."""
        return any(word in self.state for word in AWAY)


@dataclass(frozen=True)
class Partition:
    """A queue, and the nodes that it may use."""

    name: str
    nodes: tuple[str, ...]
    tier: int = 1
    factor: int = 1
    billing: str = ""  # TRESBillingWeights


def nodes(text: str) -> list[Node]:
    """The nodes in what ``scontrol show node``, ``sinfo -N -o`` or their ``--json`` printed."""
    if text.lstrip().startswith("{"):
        found = [_of_json(node) for node in _json_list(text, "nodes")]
    elif text.lstrip().startswith("NODELIST|"):
        found = _of_sinfo(text)
    else:
        found = [_of_record(record) for record in records(text, "NodeName")]
    if not found:
        raise SlurmError(f"there is no node in it; write it with: scontrol show node, or sinfo -N -o '{SINFO}'")
    return [node for node in found if not any(word in node.state for word in NOT_THERE)]


def _of_record(record: dict[str, str]) -> Node:
    name = record["NodeName"]
    gpus = _gpus(record.get("Gres", "")) or resources(record.get("CfgTRES", "")).gpus
    cpus = record.get("CPUEfctv") or record.get("CPUTot") or "0"
    partitions = tuple(filter(None, record.get("Partitions", "").split(",")))
    return Node(name, gpus, _whole(cpus, name), _whole(record.get("RealMemory", "0"), name), partitions, _state(record))


def _state(record: dict[str, str]) -> str:
    return record.get("State", "").upper()


def _of_sinfo(text: str) -> list[Node]:
    """One line per node and partition."""
    header, *lines = [line for line in text.splitlines() if line.strip()]
    names = [name.strip() for name in header.split("|")]
    if missing := [name for name in SINFO_HEADER if name not in names]:
        raise SlurmError(f"sinfo's columns lack {', '.join(missing)}; write it with: sinfo -N -o '{SINFO}'")
    found: dict[str, Node] = {}
    for line in lines:
        row = dict(zip(names, (field.strip() for field in line.split("|")), strict=False))
        name, partition = row["NODELIST"], row.get("PARTITION", "").rstrip("*")
        cpus, memory = (_whole(row.get(key, "").rstrip("+"), name) for key in ("CPUS", "MEMORY"))
        others = found[name].partitions if name in found else ()
        found[name] = Node(
            name, _gpus(row.get("GRES", "")), cpus, memory, (*others, partition), row.get("STATE", "").upper()
        )
    return list(found.values())


def _of_json(node: dict[str, Any]) -> Node:
    """As scontrol and sinfo of 21.08 to 25.11 write it; states and features may be words or lists."""
    name = str(node.get("name") or node.get("hostname"))
    state = node.get("state", "")
    words = [*(state if isinstance(state, list) else [state]), *node.get("state_flags", ())]
    cpus = node.get("effective_cpus") or node.get("cpus") or 0
    partitions = node.get("partitions") or ()
    gpus = _gpus(str(node.get("gres") or "")) or resources(str(node.get("tres") or "")).gpus
    return Node(
        name, gpus, int(cpus), int(node.get("real_memory") or 0), tuple(partitions), "+".join(map(str, words)).upper()
    )


def partitions(text: str) -> list[Partition]:
    """The partitions in what ``scontrol show partition`` printed, as text or JSON."""
    if text.lstrip().startswith("{"):
        return [_partition_of_json(part) for part in _json_list(text, "partitions")]
    found = records(text, "PartitionName")
    if not found:
        raise SlurmError("there is no partition in it; write it with: scontrol show partition")
    return [_partition_of_record(record) for record in found]


def _partition_of_record(record: dict[str, str]) -> Partition:
    name = record["PartitionName"]
    tier, factor = (_whole(record.get(key, "1"), name) for key in ("PriorityTier", "PriorityJobFactor"))
    return Partition(name, tuple(expand(record.get("Nodes", ""))), tier, factor, record.get("TRESBillingWeights", ""))


def _partition_of_json(part: dict[str, Any]) -> Partition:
    priority = part.get("priority") or {}
    listed = (part.get("nodes") or {}).get("configured") or ""
    tier, factor = int(priority.get("tier", 1)), int(priority.get("job_factor", 1))
    billing = str((part.get("tres") or {}).get("billing_weights") or "")
    return Partition(str(part["name"]), tuple(expand(listed)), tier, factor, billing)


def partitions_of(nodes: Iterable[Node]) -> list[Partition]:
    """The partitions that nodes say they are in, where nothing else is known of these."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        for name in node.partitions:
            found.setdefault(name, []).append(node.name)
    return [Partition(name, tuple(members)) for name, members in found.items()]


def _json_list(text: str, key: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SlurmError(f"begins like JSON but is none ({error}); write it anew") from None
    listed = found.get(key) if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise SlurmError(f"must have a list under '{key}', as scontrol show {key} --json writes it")
    return [item for item in listed if isinstance(item, dict)]


def _gpus(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in gres(text):
        if item.name == "gpu" and item.count:
            found[item.kind] = found.get(item.kind, 0) + item.count
    return found


def _whole(text: str, name: str) -> int:
    try:
        return int(float(text or 0))
    except ValueError:
        raise SlurmError(f"'{name}' must have whole numbers of CPUs, memory and priorities, got '{text}'") from None
