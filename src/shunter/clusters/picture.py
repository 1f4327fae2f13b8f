"""A cluster as a person sees it: totals, a table of its groups, and a picture of its racks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shunter.cluster import ANY_TYPE, WAKE_S, Cluster, NodeGroup
from shunter.texts import counted

WIDTH = 72  # of the picture, beside its labels: the whole fits a terminal of 100 columns
MOST_ROWS = 24
COLOURS = ("green", "cyan", "yellow", "magenta", "blue", "red")
GPU, NODE = "▪", "■"


@dataclass(frozen=True)
class RackPicture:
    """Nodes that stand together."""

    label: str
    nodes: int
    gpus: int  # of each node
    gpu_type: str
    kind: int  # the number of that type, for a colour


def draw(cluster: Cluster) -> RenderableType:
    """Everything that ``shunter cluster show`` prints."""
    return Group(totals(cluster), "", tables(cluster), "", _picture(racks(cluster)))


def tables(cluster: Cluster) -> RenderableType:
    """Its groups, its network, and what stops cost."""
    parts: list[RenderableType] = [_groups(cluster)]
    if cluster.tiers:
        parts += ["", _tiers(cluster)]
    costs = _overheads(cluster)
    return Group(*parts, *(["", costs] if costs else []))


def totals(cluster: Cluster) -> Text:
    """The name, and how much there is of what."""
    facts = [counted(cluster.gpus, "GPU"), counted(cluster.nodes, "node")]
    if len(cluster.gpu_types) > 1:
        facts.append(counted(len(cluster.gpu_types), "GPU type"))
    if cluster.vcs:
        facts.append(counted(len(cluster.vcs), "virtual cluster"))
    if any(group.racks for group in cluster.groups):
        facts.append(counted(int(cluster.node_rack.max()) + 1, "rack"))
    return Text.assemble((cluster.name, "bold"), "  ", ", ".join(facts))


def _colours(cluster: Cluster) -> dict[str, str]:
    """A colour for each GPU type."""
    return {kind: COLOURS[i % len(COLOURS)] for i, kind in enumerate(cluster.gpu_types)}


def _groups(cluster: Cluster) -> Table:
    """A row per group of nodes; columns that would be empty throughout are left out."""
    some = cluster.groups
    colours = _colours(cluster)
    columns: list[tuple[str, Sequence[str | Text], bool]] = [
        ("VC", [Text(g.vc or "-") for g in some], bool(cluster.vcs)),
        (
            "GPU type",
            [Text.assemble((NODE, colours[g.gpu_type]), f" {g.gpu_type}") for g in some],
            cluster.gpu_types != (ANY_TYPE,),
        ),
        ("nodes", [f"{g.count:,}" for g in some], True),
        ("GPUs/node", [str(g.gpus) for g in some], True),
        ("GPUs", [f"{g.count * g.gpus:,}" for g in some], True),
        ("speed", [f"{cluster.speeds.get(g.gpu_type, 1):g}" for g in some], bool(cluster.speeds)),
        ("CPUs/node", [f"{g.cpus:g}" if g.cpus else "no limit" for g in some], any(g.cpus for g in some)),
        ("GiB/node", [f"{g.mem_gib:g}" if g.mem_gib else "no limit" for g in some], any(g.mem_gib for g in some)),
        ("racks", [_racks_in_words(g) for g in some], any(g.racks for g in some)),
        ("priority", [f"{cluster.vc_priority.get(g.vc, 0):g}" for g in some], bool(cluster.vc_priority)),
    ]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    shown = [(title, cells) for title, cells, wanted in columns if wanted]
    for title, _ in shown:
        table.add_column(title, justify="left" if title in ("VC", "GPU type", "racks") else "right", no_wrap=True)
    for row in zip(*(cells for _, cells in shown), strict=True):
        table.add_row(*row)
    return table


def _racks_in_words(group: NodeGroup) -> str:
    """``8 of 8 nodes``, ``3 of 2-8 nodes``."""
    sizes = group.racks or (group.count,)
    span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)}-{max(sizes)}"
    return f"{len(sizes)} of {span} nodes"


def _tiers(cluster: Cluster) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("network")
    for title in ("GB/s per GPU", "latency us"):
        table.add_column(title, justify="right")
    table.add_column("topology")
    joined, linked = any(tier.joins for tier in cluster.tiers), any(tier.uplinks > 1 for tier in cluster.tiers)
    for title, wanted in (("joins", joined), ("uplinks", linked)):
        if wanted:
            table.add_column(title)
    below = [Text(f"{tier.joins or 'all'} {under.name}s") for under, tier in pairwise(cluster.tiers)]
    units: list[str | Text] = ["GPUs", "machines", *below[1:]]
    for tier, joins in zip(cluster.tiers, units, strict=False):
        cells: list[str | Text] = [Text(tier.name), f"{tier.bandwidth_gbps:g}", f"{tier.latency_us:g}", tier.topology]
        uplinks = str(tier.uplinks) if tier is not cluster.tiers[-1] else ""
        table.add_row(*cells, *([joins] if joined else []), *([uplinks] if linked else []))
    return table


def _overheads(cluster: Cluster) -> str:
    """``checkpoint 7 s (up to 1 GPU), 30 s (more); restart 5 s``; empty if nothing costs anything."""
    parts = []
    for what, steps in (("checkpoint", cluster.overheads.checkpoint), ("restart", cluster.overheads.restart)):
        costs = [f"{seconds:g} s (up to {counted(gpus, 'GPU')})" for gpus, seconds in steps[:-1]]
        costs += [f"{seconds:g} s" + (" (more)" if costs else "") for _, seconds in steps[-1:]]
        parts += [f"{what} {', '.join(costs)}"] if costs else []
    parts += [f"wake {cluster.overheads.wake:g} s"] if cluster.overheads.wake != WAKE_S else []
    return "; ".join(parts)


def racks(cluster: Cluster) -> list[RackPicture]:
    """Its racks; a group that has none is one."""
    found: list[RackPicture] = []
    for group in cluster.groups:
        for size in group.racks or (group.count,):
            kind = "nodes" if group.gpu_type == ANY_TYPE else group.gpu_type
            number = f"{_above(cluster, len(found))}rack {len(found)}" if group.racks else ""
            label = f"{group.vc} {number}".strip() or kind
            number_of_kind = cluster.gpu_types.index(group.gpu_type)
            found.append(RackPicture(label, size, group.gpus, group.gpu_type, number_of_kind))
    return found


def _above(cluster: Cluster, rack: int) -> str:
    """``pod 1 ``: what a rack is in, outermost first, as far as tiers say."""
    node = int((cluster.node_rack == rack).argmax())
    names = [tier.name for tier in cluster.tiers if tier.joins]
    return "".join(
        f"{name} {domain[node]} " for name, domain in reversed(list(zip(names, cluster.domains[1:], strict=True)))
    )


def _picture(some: list[RackPicture]) -> RenderableType:
    """One row per rack; every GPU where there is room for it, else every node."""
    by_gpu = all(rack.nodes * (rack.gpus + 1) - 1 <= WIDTH for rack in some)
    shown = some if len(some) <= MOST_ROWS else some[: MOST_ROWS - 1]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, max_width=20, overflow="ellipsis")
    table.add_column(no_wrap=True)
    for rack in shown:
        table.add_row(Text(rack.label), Text(_row(rack, by_gpu), COLOURS[rack.kind % len(COLOURS)]))
    legend = f"{GPU} a GPU, side by side on a node" if by_gpu else f"{NODE} a node"
    hidden = [f"... and {len(some) - len(shown)} racks more"] if len(shown) < len(some) else []
    return Group(table, *hidden, Text(legend, "dim"))


def _row(rack: RackPicture, by_gpu: bool) -> str:
    if by_gpu:
        return " ".join([GPU * rack.gpus] * rack.nodes)
    more = " x 99,999 more"
    drawn = rack.nodes if rack.nodes <= WIDTH else WIDTH - len(more)
    return NODE * drawn + (f" x {rack.nodes - drawn:,} more" if drawn < rack.nodes else "")
