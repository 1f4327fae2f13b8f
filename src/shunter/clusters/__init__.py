"""Clusters from text: ``64x8``, a TOML file, the name of a ready-made one, or ``auto``."""

from __future__ import annotations

import dataclasses
import re
from importlib import resources
from pathlib import Path

from shunter.cluster import ANY_TYPE, USUAL_TIERS, Cluster, NodeGroup, Tier
from shunter.clusters.sizing import sized_for
from shunter.clusters.writing import to_toml
from shunter.errors import ClusterError, did_you_mean
from shunter.model import Trace
from shunter.safe_files import text_of

__all__ = ["MOST_GPUS_PER_NODE", "MOST_NODES", "assumed_tiers", "load", "names", "to_toml", "with_tiers"]

MOST_NODES, MOST_GPUS_PER_NODE = 100_000, 1000  # of one group; more is a slip of the pen
# the network of a cluster that describes none: that of the ready-made dally clusters, decimal GB/s per GPU and us
ASSUMED_TIERS = tuple(map(Tier, USUAL_TIERS, (112.5, 50.0, 100.0), (0.25, 1.0, 25.0)))
FORMS = "NODESxGPUS[:TYPE], joined by +, as in 64x8 or 16x8:v100+16x2:p100"
GROUP = re.compile(r"([0-9]{1,9})x([0-9]{1,9})(?::([A-Za-z0-9._-]+))?")


def load(text: str, trace: Trace | None = None) -> Cluster:
    """The cluster that ``text`` describes; ``auto`` needs the trace that it is to be sized for."""
    text = text.strip()
    name, _, settings = text.partition(":")
    if name == "auto":
        return sized_for(trace, settings)
    if text in names():
        return _read(resources.files(__name__).joinpath("ready", f"{text}.toml").read_text("utf-8"), text)
    if text.endswith(".toml") or "/" in text:
        return _read(
            text_of(Path(text), ClusterError, f"check the path, or use a ready-made cluster: {', '.join(names())}"),
            text,
        )
    if re.match(r"[-+.0-9]", text):
        return Cluster(text, tuple(_group(text, part) for part in text.split("+")))
    raise ClusterError(
        f"there is no cluster '{text}'; {did_you_mean(text, names())}; or give {FORMS}, a path to a .toml file, or auto"
    )


def assumed_tiers(cluster: Cluster) -> tuple[Tier, ...]:
    """The network that is assumed for a cluster that describes none: one tier for each that a placement can span."""
    return ASSUMED_TIERS[: 3 if cluster.node_rack[-1] else 2]


def with_tiers(cluster: Cluster) -> Cluster:
    """The cluster with a network, the assumed one if it describes none."""
    return cluster if cluster.tiers else dataclasses.replace(cluster, tiers=assumed_tiers(cluster))


def names() -> list[str]:
    """The ready-made clusters."""
    folder = resources.files(__name__).joinpath("ready")
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def _group(text: str, part: str) -> NodeGroup:
    """One part of a specification: ``16x8:v100``."""
    match = GROUP.fullmatch(part)
    if not match:
        raise ClusterError(f"cluster '{text}': each part must be {FORMS}; got '{part}'")
    count, gpus = int(match[1]), int(match[2])
    if not (1 <= count <= MOST_NODES and 1 <= gpus <= MOST_GPUS_PER_NODE):
        raise ClusterError(
            f"cluster '{text}': nodes must be 1 to {MOST_NODES}, GPUs per node 1 to {MOST_GPUS_PER_NODE}, got '{part}'"
        )
    return NodeGroup(count, gpus, match[3] or ANY_TYPE)


def _read(text: str, source: str) -> Cluster:
    from shunter.clusters.reading import parse

    return parse(text, source)
