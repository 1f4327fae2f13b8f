"""Which nodes stand together: ``topology.conf``, ``topology.yaml`` or ``scontrol show topology``, trees and blocks."""

from __future__ import annotations

import re

from shunter.live.nodes import Rack
from shunter.slurm.hostlist import expand
from shunter.slurm.scontrol_output import records

FIELD = re.compile(r"( *)((?:- +)*)([A-Za-z_]+):(?: +(.*?))?$")


def racks(text: str) -> list[Rack]:
    """The racks that a file of either form, or Slurm itself, names; none where the network is flat."""
    if re.search(r"(?m)^\s*-?\s*topology:", text):
        return _of_yaml(text)
    lines = "\n".join(line.partition("#")[0] for line in text.splitlines())
    found = [
        Rack(record[key], tuple(expand(record["Nodes"])))
        for key in ("SwitchName", "BlockName")
        for record in map(_spelled, records(re.sub(r"(?im)^\s*(switch|block)name=", _begun, lines), key))
        if record.get("Nodes") and record.get("Level", "0") == "0" and not record.get("Switches")
    ]
    return [rack for rack in found if rack.nodes]


def _begun(match: re.Match[str]) -> str:
    return f"{match[1].capitalize()}Name="


def _spelled(record: dict[str, str]) -> dict[str, str]:
    """Names of parameters may be in any case."""
    return {key if key.endswith("Name") else key.capitalize(): value for key, value in record.items()}


def _of_yaml(text: str) -> list[Rack]:
    """The default topology of a ``topology.yaml``, or else its first; read as the documented form, not as any YAML."""
    topologies: list[tuple[dict[str, str], list[dict[str, str]]]] = []
    open_at: dict[int, dict[str, str]] = {}  # the latest list item whose fields stand in this column
    for raw in text.splitlines():
        match = FIELD.fullmatch(re.sub(r"(^|\s)#.*", "", raw).rstrip())
        if match is None:
            continue
        column = len(match[1]) + len(match[2])
        if match[2]:
            item: dict[str, str] = {}
            open_at = {at: kept for at, kept in open_at.items() if at < column} | {column: item}
            if match[3] == "topology":
                topologies.append((item, []))
            elif topologies:
                topologies[-1][1].append(item)
        if column in open_at:
            open_at[column][match[3]] = (match[4] or "").strip("'\"")
    wanted = [parts for about, parts in topologies if about.get("cluster_default") == "true"]
    parts = (wanted or [parts for _, parts in topologies] or [[]])[0]
    return [
        Rack(part.get("switch") or part["block"], tuple(expand(part["nodes"])))
        for part in parts
        if part.get("nodes") and (part.get("switch") or part.get("block"))
    ]
