"""The first screen of a report: the verdict, three numbers, mean against tail, and which jobs win and lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shunter.report.html.charts import Axis, Point, scatter
from shunter.report.html.findings import MEASURES, Measure, Row, label
from shunter.report.html.page import figure, note, table, tiles, verdict_text
from shunter.report.intervals import shown
from shunter.report.metrics import SIZES
from shunter.report.terminal.tables import duration, share
from shunter.report.verdict import share_text, verdict
from shunter.world import F64

if TYPE_CHECKING:
    from shunter.run_folder import Run

_TILES = ("mean JCT", "p99 of JCT", "mean bounded slowdown")
_TILES_OF_ONE = ("mean JCT", "p99 of wait", "GPUs in use")
_SAME = 0.01  # a completion time that changes by less is the same


def overview(runs: Sequence[Run], rows: Sequence[Row], about: str = "") -> list[str]:
    """What the reader sees before scrolling."""
    if len(rows) == 1:
        return [verdict_text(verdict(rows)), tiles([_tile_of_one(name, rows[0]) for name in _TILES_OF_ONE])]
    known = [row for row in rows if not row["oracle"]] or list(rows)
    parts = [verdict_text(verdict(rows)), tiles([_tile(_measure(name), known, rows[0]) for name in _TILES])]
    return [*parts, _spread(rows, about), *_jobs(runs, rows, known)]


def _measure(name: str) -> Measure:
    return next(measure for measure in MEASURES if measure.name == name)


def _tile_of_one(name: str, row: Row) -> tuple[str, str, str, str]:
    measure = _measure(name)
    return measure.name, measure.text(row), label(row), ""


def _tile(measure: Measure, known: Sequence[Row], first: Row) -> tuple[str, str, str, str]:
    """A measure, its best value, the policy that has it, and how that compares with the first policy."""
    best = measure.winner(known)
    if best is first:
        return measure.name, measure.text(best), label(best), "the baseline; none is better"
    value, base = measure.of(best), measure.of(first)
    change = f"{100 * (value / base - 1):+.0f} % against {label(first)}" if base else ""
    found = (best.get("differences") or {}).get(measure.key)
    if found and found["low"] is not None and not shown(found):
        change += "; no difference shown"
    elif between := share_text(best, measure.key):
        change += f" ({between})"
    return measure.name, measure.text(best), label(best), change


def _spread(rows: Sequence[Row], about: str) -> str:
    points = {label(row): (_point(row, "mean"), _point(row, "p99")) for row in rows}
    chart = scatter(points, Axis("mean JCT", "duration"), Axis("p99 of JCT", "duration"))
    finding = (
        "Further left is better for the average job, lower is better for the slowest ones. Crosses are 95 % intervals."
    )
    return figure("Mean against tail", finding, chart, about)


def _point(row: Row, point: str) -> Point:
    ends = (row.get("intervals") or {}).get(f"jct_s.{point}") or {"low": np.nan, "high": np.nan}
    return float(row["jct_s"][point]), ends["low"], ends["high"]


def _jobs(runs: Sequence[Run], rows: Sequence[Row], known: Sequence[Row]) -> list[str]:
    """Which jobs are complete sooner under the best policy than under the first, and which later."""
    mean = MEASURES[0]
    best = mean.winner(known)
    others = [row for row in known if row is not rows[0]]
    if best is rows[0] and others:
        best = mean.winner(others)
    if best is rows[0]:
        return []
    before, after = (runs[next(at for at, row in enumerate(rows) if row is each)] for each in (rows[0], best))
    first, second = _completion(before), _completion(after)
    both = np.isfinite(first) & np.isfinite(second)
    gpus = before.jobs["gpus"].to_numpy()
    groups = [("all jobs", both)]
    bounds = np.searchsorted([top for _, top in SIZES], gpus)
    groups += [(f"{name} GPU{'' if name == '1' else 's'}", both & (bounds == at)) for at, (name, _) in enumerate(SIZES)]
    lines = [[name, *_change(first[inside], second[inside])] for name, inside in groups if inside.any()]
    heads = ["jobs of", "jobs", f"mean JCT under {label(rows[0])}", f"under {label(best)}", "change", "sooner", "later"]
    caption = f"Which jobs win and which lose: {label(best)} instead of {label(rows[0])}"
    of_first = " These numbers are of the first repeat." if rows[0].get("repeats") else ""
    legend = f"Sooner and later: by more than 1 % of the completion time under {label(rows[0])}.{of_first}"
    return [table(caption, heads, lines), note(legend)]


def _completion(run: Run) -> F64:
    done = run.jobs["state"].to_numpy() == "done"
    found: F64 = np.where(done, run.jobs["jct"].fill_null(float("nan")).to_numpy(), np.nan)
    return found


def _change(before: F64, after: F64) -> list[str]:
    means = float(before.mean()), float(after.mean())
    change = f"{100 * (means[1] / means[0] - 1):+.0f} %" if means[0] else "–"
    sooner, later = (after < (1 - _SAME) * before).mean(), (after > (1 + _SAME) * before).mean()
    return [f"{len(before):,}", duration(means[0]), duration(means[1]), change, share(sooner), share(later)]
