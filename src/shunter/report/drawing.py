"""Figures for papers and notebooks, as SVG text that needs no library."""

from __future__ import annotations

from collections.abc import Sequence
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
TICKS = 5


@dataclass(frozen=True)
class Figure:
    """A drawing: a notebook shows it, and ``save`` writes it."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, file: str | Path) -> Path:
        """Write it as an SVG file."""
        Path(file).write_text(self.svg, encoding="utf-8")
        return Path(file)


@dataclass(frozen=True)
class _Frame:
    """Where values lie in a drawing whose axes begin at 0."""

    right: float
    top: float

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / self.right

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.top

    def axes(self, x_label: str, y_label: str, unit: Any = duration) -> list[str]:
        """Grid, ticks and labels."""
        marks = []
        for part in np.linspace(0, 1, TICKS + 1).tolist():
            x, y = self.x(part * self.right), self.y(part * self.top)
            marks += [
                f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>',
                _text(x, HEIGHT - BOTTOM + 18, unit(part * self.right), "middle"),
                _text(LEFT - 8, y + 4, unit(part * self.top), "end"),
            ]
        names = [_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_label, "middle"), _text(8, TOP - 6, y_label, "start")]
        return marks + names


def mean_and_tail(rows: Sequence[dict[str, Any]], measure: str = "jct_s", tail: str = "p99") -> Figure:
    """Each policy's mean against its tail, with 95 % intervals where there are any."""
    names = (f"{measure}.mean", f"{measure}.{tail}")
    points = [[_ends(row, name) for name in names] for row in rows]
    frame = _Frame(*(1.05 * max(each[axis][2] for each in points) or 1.0 for axis in (0, 1)))
    what = {"jct_s": "JCT", "wait_s": "wait"}.get(measure, measure)
    parts = frame.axes(f"mean {what}", f"{tail} of {what}")
    for at, (row, (x, y)) in enumerate(zip(rows, points, strict=True)):
        colour = COLOURS[at % len(COLOURS)]
        centre = frame.x(x[0]), frame.y(y[0])
        parts.append(
            f'<path d="M{frame.x(x[1]):.1f} {centre[1]:.1f}H{frame.x(x[2]):.1f}'
            f'M{centre[0]:.1f} {frame.y(y[1]):.1f}V{frame.y(y[2]):.1f}" stroke="{colour}" stroke-width="1.5"/>'
        )
        parts.append(f'<circle cx="{centre[0]:.1f}" cy="{centre[1]:.1f}" r="5" fill="{colour}"/>')
        side, anchor = (-9, "end") if x[0] > 0.6 * frame.right else (9, "start")
        parts.append(_text(centre[0] + side, centre[1] - 6, str(row["policy"]), anchor, colour))
    return _drawn(parts)


def distribution(values: F64, label: str) -> Figure:
    """Which share of jobs is at most so long, on a logarithmic axis from 1 s."""
    known = np.sort(np.maximum(values[np.isfinite(values)], 1.0))
    if not len(known):
        known = np.ones(1)
    last = max(float(np.log10(known[-1])), 1e-9)
    frame = _Frame(last, 1.0)
    at = np.unique(np.linspace(0, len(known) - 1, 400).astype(int))
    line = " ".join(f"{frame.x(float(np.log10(known[i]))):.1f},{frame.y((i + 1) / len(known)):.1f}" for i in at)
    parts = [
        *(_text(frame.x(last * part), HEIGHT - BOTTOM + 18, duration(10 ** (last * part)), "middle")
          for part in np.linspace(0, 1, TICKS + 1).tolist()),
        *(_text(LEFT - 8, frame.y(part) + 4, f"{100 * part:.0f} %", "end") for part in (0.0, 0.25, 0.5, 0.75, 1.0)),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, label, "middle"),
        f'<polyline points="{line}" fill="none" stroke="{COLOURS[0]}" stroke-width="2"/>',
    ]  # fmt: skip
    return _drawn(parts)


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
