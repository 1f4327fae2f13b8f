"""Figures for papers and notebooks, as SVG text that needs no library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from shunter.report.intervals import value_at
from shunter.report.terminal.tables import duration
from shunter.world import F64

COLOURS = ("#0072b2", "#d55e00", "#00815e", "#a8327d", "#8a6a00", "#5b4bb5", "#4f5d68", "#2f9fc4")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 400, 70, 20, 20, 50
LINE, POINT, GAP = 11, 5, 9  # height of a label, radius of a point, and the room between them
TICKS = 5  # maximum number of steps
HOUR, DAY = 3600, 86_400
LOG_TIMES = (1, 10, 60, 600, HOUR, 10 * HOUR, DAY, 10 * DAY, 100 * DAY, 1000 * DAY)  # ticks of a logarithmic axis


@dataclass(frozen=True)
class Figure:
    """A drawing: a notebook shows it, and ``save`` writes it."""

    svg: str

    def __repr__(self) -> str:
        return f"Figure({WIDTH} x {HEIGHT}; save('figure.svg') writes it)"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, file: str | Path) -> Path:
        """Write it as an SVG file."""
        Path(file).write_text(self.svg, encoding="utf-8")
        return Path(file)


@dataclass(frozen=True)
class _Axis:
    """An axis from 0 to ``end``, with its label and the texts of its ticks by their places."""

    label: str
    end: float
    ticks: Mapping[float, str]


@dataclass(frozen=True)
class _Frame:
    """Where values lie in a drawing."""

    across: _Axis
    up: _Axis

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / self.across.end

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.up.end

    def axes(self) -> list[str]:
        """Grid, ticks and labels."""
        xs = [(self.x(at), text) for at, text in self.across.ticks.items()]
        ys = [(self.y(at), text) for at, text in self.up.ticks.items()]
        middle = (TOP + HEIGHT - BOTTOM) / 2
        return [
            *(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>' for x, _ in xs),
            *(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>' for y, _ in ys),
            *(_text(x, HEIGHT - BOTTOM + 18, text, "middle") for x, text in xs),
            *(_text(LEFT - 8, y + 4, text, "end") for y, text in ys),
            _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, self.across.label, "middle"),
            f'<g transform="translate(14 {middle:.1f}) rotate(-90)">{_text(0, 0, self.up.label, "middle")}</g>',
        ]


def _linear(label: str, high: float, seconds: bool) -> _Axis:
    """An axis with round ticks that ends at one of them, as in the report; times are in one unit."""
    units = (("s", 1), ("m", 60), ("h", HOUR), ("d", DAY)) if seconds else (("", 1),)
    unit, length = [one for one in units if one[1] <= high / 3 or one[1] == 1][-1]
    raw = high / length / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.999 * raw)
    count = math.ceil(high / length / step - 1e-6)
    places = [round(at * step, 9) for at in range(count + 1)]
    return _Axis(label, count * step * length, {at * length: f"{at:,g} {unit}".strip() if at else "0" for at in places})


def mean_and_tail(rows: Sequence[dict[str, Any]], measure: str = "jct_s", tail: str = "p99") -> Figure:
    """Each policy's mean against its tail, with 95 % intervals where there are any."""
    names = (f"{measure}.mean", f"{measure}.{tail}")
    points = [[_ends(row, name) for name in names] for row in rows]
    right, top = (1.05 * max(each[axis][2] for each in points) or 1.0 for axis in (0, 1))
    what, seconds = {"jct_s": "JCT", "wait_s": "wait"}.get(measure, measure), measure.endswith("_s")
    frame = _Frame(_linear(f"mean {what}", right, seconds), _linear(f"{tail} of {what}", top, seconds))
    parts = frame.axes()
    centres = [(frame.x(x[0]), frame.y(y[0])) for x, y in points]
    labels = [str(row["policy"]) for row in rows]
    places = _apart(labels, centres)
    for at, (x, y) in enumerate(points):
        colour, centre = COLOURS[at % len(COLOURS)], centres[at]
        parts.append(
            f'<path d="M{frame.x(x[1]):.1f} {centre[1]:.1f}H{frame.x(x[2]):.1f}'
            f'M{centre[0]:.1f} {frame.y(y[1]):.1f}V{frame.y(y[2]):.1f}" stroke="{colour}" stroke-width="1.5"/>'
        )
        parts.append(f'<circle cx="{centre[0]:.1f}" cy="{centre[1]:.1f}" r="{POINT}" fill="{colour}"/>')
        left, base = places[at]
        if abs(base - centre[1]) > LINE:  # a line shows which point is meant
            near = left if left > centre[0] else left + _width(labels[at])
            ends = f"M{centre[0]:.1f} {centre[1]:.1f}L{near:.1f} {base - 4:.1f}"
            parts.append(f'<path d="{ends}" stroke="{colour}" stroke-width="0.7"/>')
        parts.append(_text(left, base, labels[at], "start", colour))
    return _drawn(parts)


def _apart(labels: Sequence[str], centres: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Where each label begins: beside its point, and as far up or down that no label covers another, or a point."""
    taken = [(x - POINT, y - POINT, x + POINT, y + POINT) for x, y in centres]
    found = []
    for label, (x, y) in zip(labels, centres, strict=True):
        width = _width(label)
        sides = [x + GAP] if x + GAP + width <= WIDTH else []
        sides += [x - GAP - width] if x - GAP - width >= 0 or not sides else []
        steps = [sign * step for step in range(0, HEIGHT, 4) for sign in (-1, 1)]
        choices = [(left, y + 4 + step) for step in steps for left in sides if LINE < y + step < HEIGHT - BOTTOM]
        boxes = [(left, base - LINE, left + width, base + 3) for left, base in choices]
        best = next((at for at, box in enumerate(boxes) if not any(_meet(box, other) for other in taken)), 0)
        taken.append(boxes[best])
        found.append(choices[best])
    return found


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _width(label: str) -> float:
    return 7.0 * len(label)  # at most, for letters of 12 px


def distribution(values: F64, label: str) -> Figure:
    """Which share of jobs is at most so long, on a logarithmic axis from 1 s."""
    known = np.sort(np.maximum(values[np.isfinite(values)], 1.0))
    if not len(known):
        known = np.ones(1)
    last = next((time for time in LOG_TIMES[1:] if time >= known[-1]), float(known[-1]))
    ticks = {math.log10(time): _whole(time) for time in LOG_TIMES if time <= last}
    shares = {part: f"{100 * part:.0f} %" for part in (0.0, 0.25, 0.5, 0.75, 1.0)}
    frame = _Frame(_Axis(label, math.log10(last), ticks), _Axis("share of jobs", 1.0, shares))
    at = np.unique(np.linspace(0, len(known) - 1, 400).astype(int))
    line = " ".join(f"{frame.x(float(np.log10(known[i]))):.1f},{frame.y((i + 1) / len(known)):.1f}" for i in at)
    parts = [
        *frame.axes(),
        f'<polyline points="{line}" fill="none" stroke="{COLOURS[0]}" stroke-width="2"/>',
    ]
    return _drawn(parts)


def _whole(seconds: float) -> str:
    """A time that is whole in its unit, such as ``10 m``."""
    amount, unit = duration(seconds).split()
    return f"{float(amount.replace(',', '')):,g} {unit}"


def _ends(row: dict[str, Any], name: str) -> tuple[float, float, float]:
    value = value_at(row, name)
    found = (row.get("intervals") or {}).get(name)
    return (value, found["low"], found["high"]) if found else (value, value, value)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _drawn(parts: Sequence[str]) -> Figure:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    style = 'style="font-family:system-ui,sans-serif;font-size:12px"'
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    return Figure("\n".join([f"{head} {style}>", ground, *parts, "</svg>"]))
