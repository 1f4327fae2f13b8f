"""All speeds as a map: each workload (rows) beside each other (columns), both by GPU utilisation."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np

from shunter.sharing.profiles import Profiles
from shunter.texts import printable
from shunter.world import I64

CELL, LEFT, TOP, LEGEND = 20, 205, 185, 70
STYLE = "font-family:system-ui,sans-serif;font-size:11px"
BOUNDS = (0.1, 0.5, 0.75, 0.9, 1.0)  # speeds, and the colour of each
RED, GREEN, BLUE = (165, 244, 254, 166, 26), (0, 109, 224, 217, 152), (38, 67, 139, 106, 80)


def drawn(profiles: Profiles) -> str:
    """The map as an SVG file; what was not measured is a smaller square."""
    order = np.argsort(profiles.gpu_util)
    side = CELL * len(order)
    width, height = LEFT + side + 20, TOP + side + LEGEND
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" style="{STYLE}">'
    back = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    way = "MPS" if profiles.about.get("mps") else "time slices"
    title = f"Speed of each workload (row) beside each (column), 1 alone: {profiles.about['gpu']}, {way}"
    heading = f'<text x="12" y="20" style="font-size:14px">{escape(printable(title))}</text>'
    return "\n".join(
        [head, back, heading, *_names(profiles, order), *_cells(profiles, order), *_legend(side), "</svg>"]
    )


def _names(profiles: Profiles, order: I64) -> Iterator[str]:
    for at, i in enumerate(order):
        text = escape(printable(f"{profiles.names[i]} {profiles.gpu_util[i]:.0f} %"))
        middle = at * CELL + CELL / 2 + 4
        yield f'<text x="{LEFT - 6}" y="{TOP + middle}" text-anchor="end">{text}</text>'
        name = escape(printable(profiles.names[i]))
        yield f'<text transform="translate({LEFT + middle},{TOP - 6}) rotate(-60)">{name}</text>'


def _cells(profiles: Profiles, order: I64) -> Iterator[str]:
    speeds = profiles.speeds()
    for row, i in enumerate(order):
        for column, j in enumerate(order):
            gap = 1 if not np.isnan(profiles.pair[i, j]) else 6
            x, y, size = LEFT + column * CELL + gap, TOP + row * CELL + gap, CELL - 2 * gap
            hint = escape(printable(f"{profiles.names[i]} beside {profiles.names[j]}: {speeds[i, j]:.2f}"))
            colour = _colour(float(speeds[i, j]))
            yield f'<rect x="{x}" y="{y}" width="{size}" height="{size}" fill="{colour}"><title>{hint}</title></rect>'


def _legend(side: int) -> Iterator[str]:
    y = TOP + side + 24
    for at, speed in enumerate(np.linspace(0.1, 1.0, 10)):
        x = LEFT + 46 * at
        yield f'<rect x="{x}" y="{y}" width="46" height="14" fill="{_colour(float(speed))}"/>'
        yield f'<text x="{x + 23}" y="{y + 28}" text-anchor="middle">{speed:.1f}</text>'
    yield f'<text x="{LEFT + 480}" y="{y + 11}">large: measured; small: said by the model</text>'


def _colour(speed: float) -> str:
    mixed = [np.interp(speed, BOUNDS, channel) for channel in (RED, GREEN, BLUE)]
    return "#" + "".join(f"{round(float(value)):02x}" for value in mixed)
