"""Charts as data: what is drawn, in plain numbers.  ``js/figures.js`` draws them, and makes their tables.

Every function returns a dictionary that goes into the page as JSON.  A chart's series keep their order: the n-th has
the n-th colour and dash of the palette, unless ``styles`` says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shunter.world import F64, I64

Chart: TypeAlias = dict[str, Any]
Point: TypeAlias = tuple[float, float, float]  # a value with the ends of its interval, NaN where there is none
Unit: TypeAlias = Literal["duration", "elapsed", "count", "number", "share"]

CDF_POINTS = 200
DIGITS = 4  # significant ones of every number in a page


@dataclass(frozen=True)
class Axis:
    """An axis: its label, and how its numbers are written.

    Units are ``duration`` (seconds, written 45.0 s, 4.52 h), ``elapsed`` (seconds since the beginning, written
    2 d 6 h, or as a date where ``origin`` says when that was), ``count`` (whole numbers), ``number`` and ``share``
    (0 to 1, written in percent).
    """

    label: str
    unit: Unit = "number"
    log: bool = False
    top: float | None = None  # the axis never ends above this
    origin: float | None = None  # seconds from 1970 to the beginning
    mean: bool = False  # its values are means over the time they stand for


def lines(
    x: ArrayLike,
    series: Mapping[str, ArrayLike],
    x_axis: Axis,
    y_axis: Axis,
    *,
    kind: str = "lines",
    styles: Sequence[int] | None = None,
    zoom: str = "",
    peaks: Mapping[str, ArrayLike] | None = None,
) -> Chart:
    """Lines over common ``x``; charts with the same ``zoom`` are zoomed together along x.

    ``kind``: ``steps``, where each value holds to the next ``x``, or ``stacked`` areas, one on top of the other.
    ``peaks`` are the largest values of which those of ``series`` are means, drawn as thin lines.
    """
    chart = _chart(kind, {**_axis(x_axis), "values": numbers(x)}, _axis(y_axis), series, styles, zoom)
    if peaks:
        for drawn in chart["series"]:
            drawn["peaks"] = numbers(peaks[drawn["name"]])
    return chart


def marked_lines(
    x: ArrayLike,
    series: Mapping[str, Sequence[Point]],
    x_axis: Axis,
    y_axis: Axis,
    *,
    styles: Sequence[int] | None = None,
) -> Chart:
    """Lines over few common ``x``, each value with the ends of its interval; on a ``log`` axis all are above 0."""
    tables = {name: np.array(points, np.float64).reshape(-1, 3) for name, points in series.items()}
    chart = lines(x, {name: table[:, 0] for name, table in tables.items()}, x_axis, y_axis, styles=styles)
    return _with_ends(chart, tables)


def bars(
    names: Sequence[str],
    series: Mapping[str, ArrayLike],
    x_label: str,
    y_axis: Axis,
    *,
    styles: Sequence[int] | None = None,
    stack: bool = False,
) -> Chart:
    """One group of bars per name, one bar per series; with ``stack`` one bar per name."""
    x = {"label": x_label, "names": list(names)}
    return _chart("stacked-bars" if stack else "bars", x, _axis(y_axis), series, styles)


def intervals(
    names: Sequence[str],
    series: Mapping[str, Sequence[tuple[float, float, float]]],
    x_label: str,
    y_axis: Axis,
    *,
    styles: Sequence[int] | None = None,
) -> Chart:
    """One group of points per name, one point per series; each a value with the ends of its interval, or NaN.

    On an axis that is ``log`` all values are above 0.
    """
    tables = {name: np.array(points, np.float64).reshape(-1, 3) for name, points in series.items()}
    x = {"label": x_label, "names": list(names)}
    chart = _chart("intervals", x, _axis(y_axis), {name: table[:, 0] for name, table in tables.items()}, styles)
    return _with_ends(chart, tables)


def _with_ends(chart: Chart, tables: Mapping[str, F64]) -> Chart:
    """The chart with the ends of intervals, which are the second and third column of each table."""
    for drawn in chart["series"]:
        drawn["low"], drawn["high"] = (numbers(tables[drawn["name"]][:, column]) for column in (1, 2))
    return chart


def scatter(points: Mapping[str, tuple[Point, Point]], x_axis: Axis, y_axis: Axis) -> Chart:
    """One point per series, at two values, each with its interval."""
    chart = _chart("scatter", _axis(x_axis), _axis(y_axis), {name: [y[0]] for name, (_, y) in points.items()})
    for drawn, (x, y) in zip(chart["series"], points.values(), strict=True):
        drawn["x"], drawn["low"], drawn["high"] = numbers(x), numbers(y[1]), numbers(y[2])
    return chart


def front(points: Mapping[str, Sequence[tuple[str, float, float, bool]]], x_axis: Axis, y_axis: Axis) -> Chart:
    """Points of several series, each with its name, two values, and whether no other is better in both."""
    chart = _chart("front", _axis(x_axis), _axis(y_axis), {name: [p[2] for p in some] for name, some in points.items()})
    for drawn, some in zip(chart["series"], points.values(), strict=True):
        drawn["x"] = numbers([point[1] for point in some])
        drawn["names"], drawn["front"] = [point[0] for point in some], [int(point[3]) for point in some]
    return chart


def cdf(samples: Mapping[str, ArrayLike], x_axis: Axis, *, styles: Sequence[int] | None = None) -> Chart:
    """Which share of each sample is at most so large; NaN counts as larger than all."""
    shares = np.unique(np.concatenate([np.linspace(0, 1, CDF_POINTS + 1), [0.995, 0.998, 0.999]]))
    series = {name: _quantiles(np.asarray(values, np.float64), shares) for name, values in samples.items()}
    y = {**_axis(Axis("share of jobs", "share", top=1)), "values": numbers(shares)}
    return _chart("cdf", _axis(x_axis), y, series, styles)


def of_reasons(chart: Chart) -> Chart:
    """The chart in the colours of reasons, which are not those of policies."""
    return {**chart, "palette": "r"}


def numbers(values: ArrayLike) -> list[float | int | None]:
    """Numbers with four significant digits as JSON has them: whole where they are, None for NaN and infinity."""
    array = np.atleast_1d(np.asarray(values, np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where((array == 0) | ~np.isfinite(array), 0, np.floor(np.log10(np.abs(array))))
    digits = np.minimum(DIGITS - 1 - size, 12)
    return [_plain(value, int(digit)) for value, digit in zip(array.tolist(), digits.tolist(), strict=True)]


def _plain(value: float, digits: int) -> float | int | None:
    if not np.isfinite(value):
        return None
    value = round(value, max(digits, 0))  # whole numbers keep all their digits: times would not be in order else
    return int(value) if value == int(value) else value


def _quantiles(values: F64, shares: F64) -> F64:
    if not len(values):
        return np.full(shares.shape, np.nan)
    ranks: I64 = np.maximum(np.ceil(shares * len(values)).astype(np.int64) - 1, 0)
    quantiles: F64 = np.sort(values)[ranks]
    return quantiles


def _axis(axis: Axis) -> dict[str, Any]:
    return {
        "label": axis.label,
        "unit": axis.unit,
        "log": axis.log,
        "top": axis.top,
        "origin": axis.origin,
        "mean": axis.mean,
    }


def _chart(
    kind: str,
    x: dict[str, Any],
    y: dict[str, Any],
    series: Mapping[str, ArrayLike],
    styles: Sequence[int] | None = None,
    zoom: str = "",
) -> Chart:
    which = range(len(series)) if styles is None else styles
    drawn = [
        {"name": name, "style": style, "values": numbers(values)}
        for (name, values), style in zip(series.items(), which, strict=True)
    ]
    return {"kind": kind, "x": x, "y": y, "series": drawn, "zoom": zoom, "palette": "s"}
