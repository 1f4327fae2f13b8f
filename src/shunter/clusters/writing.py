"""A cluster as TOML text, so that a saved run holds the cluster that it ran on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from shunter.cluster import ANY_TYPE, USUAL_SHARING, Cluster, NodeGroup, Overheads, Tier
from shunter.texts import toml_text


def to_toml(cluster: Cluster) -> str:
    """The TOML file that reads back as this very cluster."""
    top = {"name": cluster.name} | ({"sharing": cluster.sharing} if cluster.sharing != USUAL_SHARING else {})
    parts = [_table("", top)]
    parts += [_table("[[nodes]]", _group(group)) for group in cluster.groups]
    parts += [_table("[[tier]]", _tier(tier)) for tier in cluster.tiers]
    usual = dataclasses.asdict(Overheads())
    costs = {key: value for key, value in dataclasses.asdict(cluster.overheads).items() if value != usual[key]}
    tables = {"[speeds]": cluster.speeds, "[vc_priority]": cluster.vc_priority, "[overheads]": costs}
    parts += [_table(title, fields) for title, fields in tables.items() if fields]
    return "\n".join(parts)


def _group(group: NodeGroup) -> dict[str, Any]:
    """What differs from the defaults."""
    fields: dict[str, Any] = {"count": group.count, "gpus": group.gpus}
    if group.gpu_type != ANY_TYPE:
        fields["type"] = group.gpu_type
    optional = {"cpus": group.cpus, "mem_gib": group.mem_gib, "vc": group.vc, "racks": group.racks}
    return fields | {key: value for key, value in optional.items() if value}


def _tier(tier: Tier) -> dict[str, Any]:
    """What differs from the defaults, and the topology."""
    usual = {"joins": 0, "uplinks": 1}
    return {key: value for key, value in dataclasses.asdict(tier).items() if usual.get(key) != value}


def _table(title: str, fields: Mapping[str, Any]) -> str:
    lines = [title] if title else []
    lines += [f"{_key(key)} = {_value(value)}" for key, value in fields.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return str(value)
