"""How many points lie where, on two logarithmic axes of time: a drawing that stays small for any number of points."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shunter.report.html.page import text_of
from shunter.report.terminal.tables import duration
from shunter.world import F64, I64

BINS = 40  # along each axis
LEVELS = 6  # shades
SIDE, LEFT, TOP, BELOW = 320, 62, 8, 46  # of the square, and around it
TICKS = (1.0, 10.0, 60.0, 600.0, 3600.0, 36_000.0, 864_000.0, 8_640_000.0)  # s
SHORTEST = 1.0  # s; what is shorter lies at the edge


@dataclass(frozen=True)
class DensityAxes:
    """The axes, both alike, in seconds."""

    low: float
    high: float

    def at(self, seconds: F64) -> F64:
        """How far along an axis, 0 to 1."""
        found: F64 = np.log(np.maximum(seconds, self.low) / self.low) / math.log(self.high / self.low)
        return found


def frame_of(*times: F64) -> DensityAxes:
    """Axes that hold all of these times, from one power of ten to another."""
    every = np.concatenate([np.maximum(each, SHORTEST) for each in times])
    if not len(every):
        return DensityAxes(1.0, 10.0)
    low, high = 10.0 ** math.floor(math.log10(every.min())), 10.0 ** math.ceil(math.log10(every.max()))
    return DensityAxes(low, max(high, 10 * low))


def counts(x: F64, y: F64, frame: DensityAxes) -> I64:
    """(BINS, BINS) points by bin of x and y."""
    cells = [np.minimum((frame.at(each) * BINS).astype(np.int64), BINS - 1) for each in (x, y)]
    found: I64 = np.bincount(cells[0] * BINS + cells[1], minlength=BINS * BINS).reshape(BINS, BINS)
    return found


def density(label: str, x: F64, y: F64, names: tuple[str, str], frame: DensityAxes) -> str:
    """The drawing: ``y`` over ``x`` in seconds, the darker the more points, and where both are the same."""
    found = counts(x, y, frame)
    bounds = _bounds(int(found.max()))
    box = f"0 0 {LEFT + SIDE + 10} {TOP + SIDE + BELOW}"
    parts = [f'<svg class="plane" viewBox="{box}" role="img" aria-label="{text_of(label)}">']
    parts += [_shade(found, bounds, level) for level in range(len(bounds) - 1)]
    parts.append(f'<path class="same" d="M{LEFT} {TOP + SIDE}L{LEFT + SIDE} {TOP}"/>')
    parts += [_ticks(frame), _names(names), "</svg>", _legend(bounds)]
    return "".join(parts)


def _bounds(most: int) -> list[int]:
    """The fewest points of each shade, and one more than the most."""
    steps = np.geomspace(1, most + 1, LEVELS + 1) if most > LEVELS else np.arange(1, most + 2)
    return sorted({round(step) for step in steps.tolist()})


def _opacity(level: int, levels: int) -> str:
    return f"{0.15 + 0.85 * (level + 1) / levels:.2f}"


def _shade(found: I64, bounds: list[int], level: int) -> str:
    """All bins of one shade, as one path."""
    low, above = bounds[level], bounds[level + 1]
    step = SIDE / BINS
    cells = np.argwhere((found >= low) & (found < above))
    shape = f"h{step:g}v{step:g}h-{step:g}z"
    places = "".join(f"M{LEFT + a * step:g} {TOP + SIDE - (b + 1) * step:g}{shape}" for a, b in cells.tolist())
    tooltip = f"<title>{text_of(_range(low, above - 1))} in a cell</title>"
    return f'<path class="cells" opacity="{_opacity(level, len(bounds) - 1)}" d="{places}">{tooltip}</path>'


def _range(low: int, high: int) -> str:
    return f"{low:,}" + (f" to {high:,}" if high > low else "") + (" job" if high == 1 else " jobs")


def _ticks(frame: DensityAxes) -> str:
    shown = [tick for tick in TICKS if frame.low <= tick <= frame.high]
    parts = [f'<path class="edge" d="M{LEFT} {TOP}V{TOP + SIDE}H{LEFT + SIDE}"/>']
    for tick, at in zip(shown, frame.at(np.array(shown)).tolist(), strict=True):
        x, y, text = LEFT + at * SIDE, TOP + SIDE - at * SIDE, text_of(_tick(tick))
        parts.append(f'<path class="edge" d="M{x:.1f} {TOP + SIDE}v4M{LEFT} {y:.1f}h-4"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP + SIDE + 18}" text-anchor="middle">{text}</text>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return "".join(parts)


def _tick(seconds: float) -> str:
    """``10 m``: ticks are whole."""
    amount, unit = duration(seconds).split()
    return f"{float(amount.replace(',', '')):g} {unit}"


def _names(names: tuple[str, str]) -> str:
    middle, low = TOP + SIDE / 2, TOP + SIDE + BELOW - 8
    return (
        f'<text x="{LEFT + SIDE / 2}" y="{low}" text-anchor="middle">{text_of(names[0])}</text>'
        f'<text transform="translate(13 {middle}) rotate(-90)" text-anchor="middle">{text_of(names[1])}</text>'
    )


def _legend(bounds: list[int]) -> str:
    levels = len(bounds) - 1
    shades = "".join(f'<i style="opacity:{_opacity(level, levels)}"></i>' for level in range(levels))
    return f'<p class="shades">1 job {shades} {bounds[-1] - 1:,} in a cell; on the line, both are the same</p>'
