"""Figures for papers: PDF and SVG as wide as a column of two, with the numbers of each as CSV beside it.

A figure is drawn from its table alone, so that the CSV file has exactly what is to be seen.  The same table gives the
same bytes.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shunter import extras
from shunter.errors import RunError
from shunter.report.drawing import COLOURS, DAY, HOUR
from shunter.report.html.course import binned, span
from shunter.report.intervals import JobTimes, value_at
from shunter.safe_files import check_output, whole
from shunter.texts import printable
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

    from shunter.run_folder import Run

Axes: TypeAlias = Any  # matplotlib is an extra
Draw: TypeAlias = "Callable[[Axes, pl.DataFrame], None]"

WIDTH = 3.3  # inches, a column of a two-column paper
HEIGHT = 2.2
LEGEND_LINE = 0.14  # inches that a line of the legend adds
LEGEND_LETTERS = 40  # that fit beside each other, marks counted
LONGEST_NAME = 44  # letters
MOST_SERIES = len(COLOURS)  # in one figure
MARKERS = "os^Dv<>P"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))
TICKS = {  # of a logarithmic axis
    1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", HOUR: "1 h", DAY: "1 d", 10 * DAY: "10 d", 100 * DAY: "100 d",
    1000 * DAY: "1,000 d",
}  # fmt: skip
POINTS = 400  # of a curve
BINS = 300  # of a course over time
STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that every machine draws the same
    "font.size": 8, "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6, "lines.linewidth": 1.2,
    "lines.markersize": 3.5, "axes.spines.top": False, "axes.spines.right": False, "grid.color": "#dddddd",
    "grid.linewidth": 0.4, "axes.axisbelow": True, "legend.frameon": False, "legend.handlelength": 2.0,
    "legend.borderaxespad": 0.0, "legend.borderpad": 0.0, "legend.labelspacing": 0.3, "legend.columnspacing": 1.2,
    "pdf.fonttype": 42, "svg.hashsalt": "shunter", "svg.fonttype": "path",
    "text.parse_math": False,  # a name with dollar signs is a name
}  # fmt: skip
NO_DATES = {"pdf": {"CreationDate": None, "Creator": "shunter"}, "svg": {"Date": None, "Creator": "shunter"}}


@dataclass(frozen=True, eq=False)
class PaperFigure:
    """One figure: the name of its files, its numbers, and how they are drawn."""

    name: str
    data: pl.DataFrame
    draw: Draw
    height: float = HEIGHT


def check(folder: Path, force: bool) -> None:
    """Refuse a folder in which no figures can be put; with ``force`` files of their names are replaced."""
    extras.require("matplotlib", "--figures")
    check_output(folder, RunError)
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder}: is a file; give the name of a folder for the figures")
    parent = folder if folder.exists() else folder.parent
    if not parent.is_dir():
        raise RunError(f"{folder}: there is no folder {parent}; make it, or choose another place")
    if not os.access(parent, os.W_OK):
        raise RunError(f"{folder}: can't be written: no permission in {parent.resolve()}; choose another place")
    if folder.exists() and not force and any(folder.iterdir()):
        raise RunError(
            f"{folder}: is not empty; choose another folder, or replace figures there with --force (in Python:"
            " force=True)"
        )


def write(folder: Path, figures: Sequence[PaperFigure], force: bool = False) -> list[Path]:
    """Write figures to a folder, each as PDF, SVG and CSV; returns the files."""
    check(folder, force)
    matplotlib = extras.load("matplotlib", "--figures")
    folder.mkdir(exist_ok=True)
    files = []
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks
        matplotlib.rcdefaults()  # whatever the user's own settings are
        matplotlib.rcParams.update(STYLE)
        for figure in figures:
            files += _written(folder, figure)
    return files


def _written(folder: Path, figure: PaperFigure) -> list[Path]:
    drawing = extras.load("matplotlib.figure", "--figures").Figure((WIDTH, figure.height), layout="constrained")
    drawing.get_layout_engine().set(w_pad=0.02, h_pad=0.02)
    figure.draw(drawing.add_subplot(), figure.data)
    files = [folder / f"{figure.name}.{ending}" for ending in ("pdf", "svg", "csv")]
    for file in files[:2]:
        ending = file.suffix[1:]
        with whole(file, RunError) as made:
            drawing.savefig(made, format=ending, metadata=NO_DATES[ending])
    with whole(files[2], RunError) as made:
        figure.data.write_csv(made)
    return files


# ------------------------------------------------------------------------------------------- runs and comparisons


def of_run(run: Run) -> list[PaperFigure]:
    """JCT and wait as distributions; the queue and the GPUs in use over time."""
    import polars as pl

    done = run.jobs.filter(run.jobs["state"] == "done")
    times = {name: done[column].cast(float).to_numpy() for name, column in (("JCT", "jct"), ("wait", "wait"))}
    origin, end = span([run])
    edges = np.linspace(origin, end, BINS + 1)
    middle = (edges[:-1] + edges[1:]) / 2 - origin
    time = run.series["time"].to_numpy()
    courses = {
        name: binned(time, run.series[name].to_numpy().astype(np.float64), edges) for name in ("queue", "busy_gpus")
    }
    frames = {name: pl.DataFrame({"time_s": middle, name: values}) for name, values in courses.items()}
    return [
        PaperFigure("times", _curves(times, "measure"), _draw_curves("measure", "time")),
        PaperFigure("queue", frames["queue"], _draw_course("queue", "jobs that wait"), 1.7),
        PaperFigure("gpus", frames["busy_gpus"], _draw_course("busy_gpus", "GPUs in use", run.cluster.gpus), 1.7),
    ]


def of_comparison(rows: Sequence[dict[str, Any]], times: Sequence[Sequence[JobTimes]]) -> list[PaperFigure]:
    """Mean against tail with intervals, distributions of JCT and wait, and the mean wait by size of jobs."""
    import polars as pl

    shown = list(zip(rows, times, strict=True))[:MOST_SERIES]
    names = [str(row["policy"]) for row, _ in shown]
    every = {
        kind: {
            name: np.concatenate([getattr(one, kind) for one in of]) for name, (_, of) in zip(names, shown, strict=True)
        }
        for kind in ("jct", "wait")
    }
    sizes = [size for size, group in rows[0]["by_size"].items() if group["jobs"]]
    waits = [
        {"policy": name, "gpus": size, "mean_wait_s": float(row["by_size"][size]["wait_s"]["mean"])}
        for name, (row, _) in zip(names, shown, strict=True)
        for size in sizes
    ]
    ends = pl.DataFrame([_mean_and_tail(row) for row, _ in shown])
    tall = HEIGHT + _legend_height(names)
    return [
        PaperFigure("mean-and-tail", ends, _draw_mean_and_tail, tall),
        PaperFigure("jct", _curves(every["jct"], "policy"), _draw_curves("policy", "JCT"), tall),
        PaperFigure("wait", _curves(every["wait"], "policy"), _draw_curves("policy", "wait"), tall),
        PaperFigure("wait-by-size", pl.DataFrame(waits), _draw_by_size, tall),
    ]


def _mean_and_tail(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"policy": str(row["policy"])}
    for name, measure in (("mean_jct_s", "jct_s.mean"), ("p99_jct_s", "jct_s.p99")):
        ends = (row.get("intervals") or {}).get(measure) or {"low": None, "high": None}
        found |= {name: value_at(row, measure), f"{name}_low": ends["low"], f"{name}_high": ends["high"]}
    return found


def _curves(samples: Mapping[str, F64], key: str) -> pl.DataFrame:
    """Which share of each sample is at most so long; what never finished counts as longer than all."""
    import polars as pl

    parts = []
    for name, values in samples.items():
        known = np.sort(values[np.isfinite(values)])
        at = np.unique(np.linspace(0, len(known) - 1, POINTS).astype(int)) if len(known) else np.empty(0, int)
        parts.append(
            pl.DataFrame({key: [name] * len(at), "time_s": known[at], "share": (at + 1) / max(len(values), 1)})
        )
    return pl.concat(parts)


def _draw_curves(key: str, label: str) -> Draw:
    def draw(axes: Axes, data: pl.DataFrame) -> None:
        names = data[key].unique(maintain_order=True).to_list()
        for at, name in enumerate(names):
            own = data.filter(data[key] == name)
            seconds = np.maximum(own["time_s"].to_numpy(), 1.0)
            axes.step(seconds, own["share"].to_numpy(), where="post", label=short(name), **_line(at))
        log_times(axes, 1.0, float(data["time_s"].max() or 10.0))  # type: ignore[arg-type]
        axes.set(xlabel=f"{label} (log scale)", ylabel="share of jobs", ylim=(0, 1.02))
        legend(axes, names)

    return draw


def _draw_course(column: str, label: str, top: float | None = None) -> Draw:
    def draw(axes: Axes, data: pl.DataFrame) -> None:
        seconds = data["time_s"].to_numpy()
        length, unit = time_unit(float(seconds[-1]))
        axes.step(seconds / length, data[column].to_numpy(), where="mid", color=COLOURS[0], linewidth=0.9)
        if top is not None:
            axes.axhline(top, color="#555555", linewidth=0.6, linestyle=DASHES[1])
            axes.annotate(
                f"all {top:,.0f}",
                (1, top),
                (0, 2),
                ("axes fraction", "data"),
                "offset points",
                ha="right",
                fontsize=6.5,
            )
        axes.set(xlabel=f"time since the first submission ({unit})", ylabel=label, xlim=(0, seconds[-1] / length))
        axes.set_ylim(0, None if top is None else 1.15 * top)
        axes.grid(True, axis="y")

    return draw


def _draw_mean_and_tail(axes: Axes, data: pl.DataFrame) -> None:
    draw_points(axes, data, "policy", ("mean_jct_s", "mean JCT"), ("p99_jct_s", "p99 of JCT"))


def _draw_by_size(axes: Axes, data: pl.DataFrame) -> None:
    names = data["policy"].unique(maintain_order=True).to_list()
    sizes = data["gpus"].unique(maintain_order=True).to_list()
    length, unit = time_unit(float(data["mean_wait_s"].max() or 0.0))  # type: ignore[arg-type]
    width = 0.8 / len(names)
    for at, name in enumerate(names):
        values = data.filter(data["policy"] == name)["mean_wait_s"].to_numpy() / length
        axes.bar(
            np.arange(len(sizes)) + (at - (len(names) - 1) / 2) * width,
            values,
            width,
            color=COLOURS[at],
            label=short(name),
        )
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set(xlabel="GPUs of the job", ylabel=f"mean wait ({unit})")
    axes.grid(True, axis="y")
    legend(axes, names)


# ------------------------------------------------------------------------------------------- parts of figures


def draw_points(
    axes: Axes,
    data: pl.DataFrame,
    key: str,
    across: tuple[str, str],
    up: tuple[str, str],
    faint: Sequence[bool] | pl.Series = (),
) -> None:
    """A point per row at two columns, each given with its label; ``_low`` and ``_high`` are crosses."""
    pale = list(faint) or [False] * data.height
    scales = [axis_of(label, float(data[column].max() or 0.0), column) for column, label in (across, up)]  # type: ignore[arg-type]
    names = data[key].unique(maintain_order=True).to_list()
    for row, weak in zip(data.iter_rows(named=True), pale, strict=True):
        at = names.index(row[key])
        x, y = (row[column] / scale for (column, _), (scale, _) in zip((across, up), scales, strict=True))
        spread = [_spread(row, column, scale) for (column, _), (scale, _) in zip((across, up), scales, strict=True)]
        axes.errorbar(
            x, y, xerr=spread[0], yerr=spread[1], fmt=MARKERS[at % len(MARKERS)], color=COLOURS[at % len(COLOURS)],
            elinewidth=0.8, markersize=3 if weak else 4.5, alpha=0.5 if weak else 1.0,
        )  # fmt: skip
    for at, name in enumerate(names):
        axes.plot([], [], MARKERS[at % len(MARKERS)], color=COLOURS[at % len(COLOURS)], label=short(name))
    axes.set(xlabel=scales[0][1], ylabel=scales[1][1])
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(True)
    legend(axes, names)


def _spread(row: Mapping[str, Any], column: str, scale: float) -> Any:
    low, high = row.get(f"{column}_low"), row.get(f"{column}_high")
    if low is None or high is None:
        return None
    return [[max(row[column] - low, 0) / scale], [max(high - row[column], 0) / scale]]


def draw_lines(axes: Axes, data: pl.DataFrame, key: str, x: str, labels: tuple[str, str], column: str) -> None:
    """``value`` over ``x``, a line per ``key``, with the interval from ``low`` to ``high``."""
    names = data[key].unique(maintain_order=True).to_list()
    scale, label = axis_of(labels[1], float(data["value"].max() or 0.0), column)  # type: ignore[arg-type]
    aside = 0.03 * (float(data[x].to_numpy().max()) - float(data[x].to_numpy().min())) / len(names)
    for at, name in enumerate(names):
        own = data.filter(data[key] == name).sort(x)
        values, low, high = (own[each].cast(float).to_numpy() / scale for each in ("value", "low", "high"))
        spread = np.nan_to_num(np.maximum([values - low, high - values], 0))
        axes.errorbar(
            own[x].to_numpy() + (at - (len(names) - 1) / 2) * aside,  # bars beside one another
            values, yerr=spread, label=short(name), marker=MARKERS[at % len(MARKERS)],
            elinewidth=0.8, capsize=1.5, **_line(at),
        )  # fmt: skip
    axes.set(xlabel=labels[0], ylabel=label)
    axes.set_ylim(bottom=0)
    axes.grid(True, axis="y")
    legend(axes, names)


def legend(axes: Axes, names: Sequence[str]) -> None:
    """A legend above the axes, where it hides nothing."""
    if len(names) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.03), ncols=_columns(names))


def _columns(names: Sequence[str]) -> int:
    longest = max(len(short(name)) for name in names) + 5
    return max(1, min(len(names), LEGEND_LETTERS // longest))


def _legend_height(names: Sequence[str]) -> float:
    return LEGEND_LINE * math.ceil(len(names) / _columns(names)) if len(names) > 1 else 0.0


def height_with(names: Sequence[str], base: float = HEIGHT) -> float:
    """The height of a figure with a legend of these names."""
    return base + _legend_height(names)


def short(name: str, most: int = LONGEST_NAME) -> str:
    """A name as a figure can show it."""
    name = printable(name).replace("\n", " ")
    name = name if len(name) <= most else f"{name[: most - 1]}…"
    return f"\u200b{name}" if name.startswith("_") else name  # matplotlib leaves such labels out of a legend


def _line(at: int) -> dict[str, Any]:
    return {"color": COLOURS[at % len(COLOURS)], "linestyle": DASHES[at % len(DASHES)]}


def time_unit(high: float) -> tuple[float, str]:
    """The unit in which times up to ``high`` seconds are written: its length and its name."""
    units = ((1.0, "s"), (60.0, "min"), (float(HOUR), "h"), (float(DAY), "d"))
    return [unit for unit in units if unit[0] <= high / 3 or unit[0] == 1][-1]


def axis_of(label: str, high: float, column: str) -> tuple[float, str]:
    """By what values are divided, and the label with its unit; columns of seconds are named so."""
    if "_s." in column or column.endswith("_s"):
        length, unit = time_unit(high)
        return length, f"{label} ({unit})"
    return (0.01, f"{label} (%)") if column in {"utilization", "fragmentation"} else (1.0, label)


def log_times(axes: Axes, low: float, high: float) -> None:
    """A logarithmic axis of seconds from ``low``, where shorter times lie too, with ticks at round times."""
    last = next((time for time in TICKS if time >= high), high)
    ticks = {time: text for time, text in TICKS.items() if low <= time <= last}
    axes.set_xscale("log")
    axes.set_xlim(low, max(last, 10 * low))
    axes.set_xticks(list(ticks), [f"≤ {text}" if time == low else text for time, text in ticks.items()])
    axes.set_xticks([], minor=True)
    axes.grid(True)
