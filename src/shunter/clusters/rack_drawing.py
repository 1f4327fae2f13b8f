"""The racks of a cluster as an SVG picture. Colours are classes, so that they come from the style of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import ceil

from shunter.cluster import ANY_TYPE, Cluster
from shunter.clusters.picture import RackPicture, racks, totals
from shunter.texts import counted

WIDTH, HEIGHT = 360, 240  # of the picture; one that can't be made so low is higher
MOST_NODES = 2000  # that are drawn
ABREAST = 8  # GPUs of a node side by side
STACKED = 8  # nodes of a rack one above the other, if there are several racks
GAP, PAD, HEAD, LETTER = 2, 4, 12, 5
COLOURS = 6  # of GPU types, after which they come again


@dataclass(frozen=True)
class DrawingScale:
    """How large a square is, and whether it is a GPU or a node."""

    side: int
    by_gpu: bool

    def node(self, gpus: int) -> tuple[int, int]:
        """The width and height of a node."""
        if not self.by_gpu:
            return self.side, self.side
        across, down = max(1, min(gpus, ABREAST)), max(1, ceil(gpus / ABREAST))
        return across * (self.side + 1) + 1, down * (self.side + 1) + 1

    def columns(self, rack: RackPicture, alone: bool) -> int:
        """How many nodes stand side by side."""
        fit = max(1, (WIDTH - 2 * PAD + GAP) // (self.node(rack.gpus)[0] + GAP))
        return min(fit, rack.nodes if alone else ceil(rack.nodes / STACKED))


SCALES = [DrawingScale(side, True) for side in (10, 8, 6, 5, 4, 3)] + [DrawingScale(side, False) for side in (8, 6, 4)]


@dataclass(frozen=True)
class PlacedRack:
    """A rack and its box."""

    rack: RackPicture
    columns: int
    head: int  # room for the label
    x: int
    y: int
    width: int
    height: int


def svg(cluster: Cluster) -> str:
    """The picture, with a title for each rack."""
    everything = racks(cluster)
    shown = list(_first(everything))
    scale, placed = _placed(shown)
    hidden = cluster.nodes - sum(rack.nodes for rack in shown)
    height = max(one.y + one.height for one in placed) + (HEAD + PAD if hidden else 0)
    more = f'<text x="{PAD}" y="{height - PAD}">and {counted(hidden, "node")} more</text>' if hidden else ""
    box, name = f"-1 -1 {WIDTH + 2} {height + 2}", escape(totals(cluster).plain)
    return (
        f'<svg class="racks" role="img" viewBox="{box}" aria-label="{name}">'
        f"{''.join(_drawn(one, scale) for one in placed)}{more}</svg>"
    )


def _first(some: Sequence[RackPicture]) -> Iterator[RackPicture]:
    """As many racks as are drawn; the last one may lack nodes."""
    room = MOST_NODES
    for rack in some:
        if room > 0:
            yield replace(rack, nodes=min(rack.nodes, room))
        room -= rack.nodes


def _placed(some: Sequence[RackPicture]) -> tuple[DrawingScale, list[PlacedRack]]:
    """The racks side by side, as large as the height allows."""
    for scale in SCALES:
        found = _in_rows(some, scale)
        if max(one.y + one.height for one in found) <= HEIGHT:
            return scale, found
    return SCALES[-1], found


def _in_rows(some: Sequence[RackPicture], scale: DrawingScale) -> list[PlacedRack]:
    found: list[PlacedRack] = []
    x = y = highest = 0
    for rack in some:
        columns, head = scale.columns(rack, len(some) == 1), HEAD if len(some) > 1 else 0
        wide, high = scale.node(rack.gpus)
        width = columns * (wide + GAP) - GAP + 2 * PAD
        height = ceil(rack.nodes / columns) * (high + GAP) - GAP + 2 * PAD + head
        if x and x + width > WIDTH:
            x, y, highest = 0, y + highest + PAD, 0
        found.append(PlacedRack(rack, columns, head, x, y, width, height))
        x, highest = x + width + PAD, max(highest, height)
    return found


def _drawn(one: PlacedRack, scale: DrawingScale) -> str:
    rack, (wide, high) = one.rack, scale.node(one.rack.gpus)
    corners = [
        (
            one.x + PAD + number % one.columns * (wide + GAP),
            one.y + one.head + PAD + number // one.columns * (high + GAP),
        )
        for number in range(rack.nodes)
    ]
    nodes, colour = "".join(_box(x, y, wide, high) for x, y in corners), f"kind{rack.kind % COLOURS}"
    if scale.by_gpu:
        step = scale.side + 1
        gpus = "".join(
            _box(x + 1 + gpu % ABREAST * step, y + 1 + gpu // ABREAST * step, scale.side, scale.side)
            for x, y in corners
            for gpu in range(rack.gpus)
        )
        inside = f'<path class="node" d="{nodes}"/><path class="{colour}" d="{gpus}"/>'
    else:
        inside = f'<path class="{colour}" d="{nodes}"/>'
    frame = f'<rect x="{one.x}" y="{one.y}" width="{one.width}" height="{one.height}" rx="3"/>'
    return f"<g><title>{escape(_about(rack))}</title>{frame}{_label(one)}{inside}</g>"


def _box(x: int, y: int, width: int, height: int) -> str:
    return f"M{x} {y}h{width}v{height}h-{width}z"


def _label(one: PlacedRack) -> str:
    """The label, its last word or its beginning, as fits; the title has all of it."""
    room, label = (one.width - PAD) // LETTER, one.rack.label
    if not one.head or room < 2:
        return ""
    cut = next((text for text in (label, label.split()[-1]) if len(text) <= room), f"{label[: room - 1]}…")
    return f'<text x="{one.x + PAD}" y="{one.y + HEAD - 2}">{escape(cut)}</text>'


def _about(rack: RackPicture) -> str:
    kind = "" if rack.gpu_type == ANY_TYPE else f"{rack.gpu_type} "
    return f"{rack.label}: {counted(rack.nodes, 'node')} with {rack.gpus} {kind}GPU{'' if rack.gpus == 1 else 's'} each"
