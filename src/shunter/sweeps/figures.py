"""The figures of a sweep for papers: the ranking, lines over load, heat maps, and fronts."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from shunter.report.drawing import COLOURS
from shunter.report.figures import (
    MOST_SERIES,
    Axes,
    PaperFigure,
    axis_of,
    draw_lines,
    draw_points,
    height_with,
    short,
)
from shunter.report.terminal.tables import number
from shunter.sweeps import views
from shunter.sweeps.analysis import DEFAULT, Ranking, rank
from shunter.sweeps.views import HeatMap, family, name_of

if TYPE_CHECKING:
    import polars as pl

MOST_RANKED = 20  # policies
MOST_PLACES = 20  # with a figure each
FEWEST_LINES = 5
LINE = 0.1  # inches of a line of the ranking
LONGEST_LINE = 24  # letters
CELL = 0.27  # inches of a row of a heat map
MOST_DIGITS = 8  # columns of a heat map up to which cells have room for their values


def of_sweep(runs: pl.DataFrame, measure: str = DEFAULT) -> list[PaperFigure]:
    """All figures of these runs."""
    ranking = rank(runs, measure)
    found = [_ranking(ranking), *_over_load(runs, ranking)]
    for policy in dict.fromkeys(family(row.policy) for row in ranking.rows):
        maps = views.heat_maps(runs, policy, measure)
        found += [_heat(each, measure) for each in maps]
    fronts = zip(("front-tail", "front-fairness"), views.FRONTS, strict=True)
    return found + [figure for name, pair in fronts if (figure := _front(name, views.front(runs, pair), pair))]


def _plain(text: str) -> str:
    """A part of a file's name: only what LaTeX and shells take as it is."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", text)[:80].strip("_")


def _ranking(ranking: Ranking) -> PaperFigure:
    import polars as pl

    rows = [
        (
            row.policy,
            row.value,
            row.relative,
            row.low if at else None,
            row.high if at else None,
            row.chance,
            row.best_at,
        )
        for at, row in enumerate(ranking.rows[:MOST_RANKED])
    ]
    kinds = {"policy": pl.String, ranking.measure: pl.Float64, "relative": pl.Float64, "low": pl.Float64}
    kinds |= {"high": pl.Float64, "p": pl.Float64, "best_at": pl.Int64}
    data = pl.DataFrame(rows, schema=kinds, orient="row").fill_nan(None)
    lines = sum(_two_lines(row[0]).count("\n") + 1.6 for row in rows)
    draw = partial(_draw_ranking, label=f"{name_of(ranking.measure)} (best = 1)")
    return PaperFigure("ranking", data, draw, 0.5 + LINE * max(lines, 5))


def _two_lines(policy: str) -> str:
    """A long name goes on in a second line, after the comma or colon nearest to its middle."""
    name = short(policy, 2 * LONGEST_LINE)
    breaks = [at + 1 for at, letter in enumerate(name) if letter in ",:"]
    if len(name) <= LONGEST_LINE or not breaks:
        return name
    at = min(breaks, key=lambda place: abs(place - len(name) / 2))
    return f"{name[:at]}\n{name[at:]}"


def _draw_ranking(axes: Axes, data: pl.DataFrame, label: str) -> None:
    at = np.arange(data.height)
    values, low, high = (data[name].cast(float).to_numpy() for name in ("relative", "low", "high"))
    spread = np.nan_to_num(np.maximum([values - low, high - values], 0))
    axes.axvline(1, color="#999999", linewidth=0.6)
    axes.errorbar(values, at, xerr=spread, fmt="o", color=COLOURS[0], elinewidth=0.9, capsize=1.5)
    axes.set_yticks(at, [_two_lines(name) for name in data["policy"].to_list()], fontsize=6.5)
    axes.set_ylim(data.height - 0.5, -0.5)
    axes.set_xlim(left=0 if values.min() > 0 else None)
    axes.set_xlabel(label)
    axes.grid(True, axis="x")


def _over_load(runs: pl.DataFrame, ranking: Ranking) -> list[PaperFigure]:
    found = views.over_load(runs, ranking.measure, views.chosen(ranking, FEWEST_LINES, MOST_SERIES))
    groups = list(found.group_by(views.GROUND, maintain_order=True))[:MOST_PLACES]
    figures = []
    for at, (place, own) in enumerate(groups, 1):
        label = _plain(views.described({**dict(zip(views.GROUND, place, strict=True)), "load": None}))
        names = own["policy"].unique(maintain_order=True).to_list()
        draw = partial(
            draw_lines, key="policy", x="load", labels=("load", name_of(ranking.measure)), column=ranking.measure
        )
        figures.append(PaperFigure(f"load-{at}-{label}", own, draw, height_with(names)))
    return figures


def _heat(found: HeatMap, measure: str) -> PaperFigure:
    name = _plain(f"heat-{found.policy}-{found.y}-{found.x}")
    draw = partial(_draw_heat, found=found, measure=measure)
    return PaperFigure(name, found.table(), draw, 0.75 + CELL * max(len(found.rows), 3))


def _draw_heat(axes: Axes, data: pl.DataFrame, found: HeatMap, measure: str) -> None:
    values = data["value"].cast(float).to_numpy().reshape(len(found.rows), len(found.columns))
    scale, label = axis_of(name_of(measure), float(np.nanmax(values)), measure)
    drawn = axes.imshow(values / scale, cmap="cividis", aspect="auto")
    axes.set_xticks(range(len(found.columns)), found.columns)
    axes.set_yticks(range(len(found.rows)), found.rows)
    if max(map(len, found.columns)) * len(found.columns) > 45:
        axes.tick_params(axis="x", labelrotation=35)
    axes.set(xlabel=found.x, ylabel=found.y)
    axes.figure.colorbar(drawn, ax=axes, label=label)
    if len(found.columns) <= MOST_DIGITS:
        middle = (np.nanmin(values) + np.nanmax(values)) / 2
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                ink = "black" if value > middle else "white"
                axes.text(column, row, number(value / scale), ha="center", va="center", color=ink, fontsize=6.5)


def _front(name: str, found: pl.DataFrame, pair: tuple[str, str]) -> PaperFigure | None:
    """Every policy by two measures; those on the front are joined by a line."""
    if found.height < 2:
        return None
    key = "policy" if found.height <= MOST_SERIES else "policy_name"
    names = found[key].unique(maintain_order=True).to_list()[:MOST_SERIES]
    kept = found.filter(found[key].is_in(names))
    return PaperFigure(name, kept, partial(_draw_front, key=key, pair=pair), height_with(names))


def _draw_front(axes: Axes, data: pl.DataFrame, key: str, pair: tuple[str, str]) -> None:
    labels = [(measure, name_of(measure)) for measure in pair]
    draw_points(axes, data, key, labels[0], labels[1], faint=~data["front"])
    best = data.filter(data["front"]).sort(pair[0])
    across, up = (best[name].to_numpy() / axis_of("", float(data[name].to_numpy().max()), name)[0] for name in pair)
    axes.plot(across, up, color="#555555", linewidth=0.7, linestyle=(0, (4, 3)), zorder=1)
