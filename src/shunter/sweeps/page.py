"""The page of a sweep: which policy is best, how sure that is, and where another is.  It has means, no single runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.errors import RunError
from shunter.report.html.charts import Axis, Point, front, intervals, marked_lines
from shunter.report.html.files import check_file, write_file
from shunter.report.html.page import (
    Contents,
    Heat,
    Section,
    choice,
    code,
    facts,
    figure,
    grid,
    heat_map,
    note,
    page_of,
    paragraph,
    table,
    verdict_text,
)
from shunter.report.terminal.sweep import chance_text
from shunter.report.terminal.tables import duration
from shunter.sweeps import views
from shunter.sweeps.analysis import DEFAULT, LARGER_IS_BETTER, PLACE, Ranking, rank
from shunter.sweeps.views import HeatMap, family, is_time, name_of, text_of
from shunter.texts import counted

if TYPE_CHECKING:
    import polars as pl

MOST_RANKED = 40  # policies in tables
MOST_BARS = 12  # in the chart of the ranking
FEWEST_LINES, MOST_LINES = 6, 10  # in a chart
MOST_PLACES = 40  # with a chart each
MOST_ROWS = 200  # of the table of places
MOST_POINTS = 400  # of a front
MOST_FAMILIES = 10  # policies with heat maps
MOST_ERRORS = 30
MOST_LETTERS = 2000  # of an error, and of a command
WIDE = 30.0  # where values differ by more, their axis is logarithmic
SEEDS = (
    "A seed draws other jobs where the trace is synthetic. Where it is recorded, it moves each arrival by up to 30 s:"
    " intervals then say what chance does to these jobs, not what other jobs would do. Under one seed all policies get"
    " the same jobs, so differences are paired over seeds. Seed 0 is the trace itself."
)


def contents(runs: pl.DataFrame, measure: str = DEFAULT, store: str = "", name: str = "") -> Contents:
    """What the page about runs shows; ``store`` is the name of their folder, ``name`` that of the sweep."""
    if runs.is_empty():
        raise RunError("the sweep has no runs; there is nothing to report")
    failed = runs.filter(runs["error"].is_not_null())
    title = f"Sweep: {name or store}" if name or store else "Sweep"
    lead = _lead(runs, measure)
    end = [*_failures(failed), Section("What was run", _provenance(runs, measure, store))]
    if failed.height == runs.height:
        return Contents(title, lead, [Section("Ranking", [verdict_text("Every run failed.")]), *end])
    ranking = rank(runs, measure)
    sections = [
        Section("Ranking", _ranking(ranking, runs)),
        Section("Over load", _over_load(runs, ranking)),
        Section("Parameters", _parameters(runs, ranking)),
        Section("Trade-offs", _fronts(runs)),
        Section("Place by place", _places(runs, measure)),
    ]
    return Contents(title, lead, [*(section for section in sections if section.body), *end])


report = page_of(contents)


def write(file: Path, runs: pl.DataFrame, measure: str = DEFAULT, store: str = "", force: bool = False) -> Path:
    """Write the page of these runs to a file."""
    check_file(file, force)
    write_file(file, report(runs, measure, store))
    return file


def _lead(runs: pl.DataFrame, measure: str) -> str:
    places = runs.select(PLACE).n_unique()
    return (
        f"{counted(runs.height, 'run')} of {counted(runs['policy'].n_unique(), 'policy')} at {counted(places, 'place')}"
        f" with {counted(runs['seed'].n_unique(), 'seed')}, by {name_of(measure)}."
    ).replace("policys", "policies")


def _axis(measure: str, log: bool = False) -> Axis:
    if is_time(measure):
        return Axis(name_of(measure), "duration", log)
    if measure in views.SHARES:
        return Axis(name_of(measure), "share", top=1)
    return Axis(name_of(measure), "number", log)


# ------------------------------------------------------------------------------------------- ranking


def _ranking(ranking: Ranking, runs: pl.DataFrame) -> list[str]:
    measure = ranking.measure
    rows = [
        [
            row.policy, text_of(row.value, measure), f"{row.relative:.3f}",
            "–" if np.isnan(row.low) or at == 0 else f"{row.low:.3f} to {row.high:.3f}",
            chance_text(row.chance) if at else "–", f"{row.best_at} of {ranking.places}",
        ]
        for at, row in enumerate(ranking.rows[:MOST_RANKED])
    ]  # fmt: skip
    headings = ["policy", name_of(measure), "relative to the best", "95 % interval", "p", "best at"]
    cut = len(ranking.rows) - MOST_RANKED
    left = f" The best {MOST_RANKED} of {len(ranking.rows)} policies are shown." if cut > 0 else ""
    dropped = (
        f" {counted(ranking.left_out, 'run', 'do')} not count: some policy has none at the same place and seed."
        if ranking.left_out
        else ""
    )
    about = (
        f"{counted(ranking.places, 'place')}, {counted(ranking.seeds, 'seed')}. A value is the mean over seeds,"
        " and over places the geometric mean, so that no place outweighs the others. p: how likely such a difference"
        " from the best is by chance, corrected for all pairs of policies; each interval is of one policy alone."
        f"{left}{dropped}"
    )
    chart = [_relative(ranking)] if len(ranking.rows) > 1 else []
    return [
        verdict_text(ranking.verdict),
        *chart,
        table("Policies, the best first", headings, rows),
        note(about),
        note(SEEDS),
    ]


def _relative(ranking: Ranking) -> str:
    rows = ranking.rows[:MOST_BARS]
    points = [(row.relative, row.low if at else np.nan, row.high if at else np.nan) for at, row in enumerate(rows)]
    axis = Axis(f"{name_of(ranking.measure)} relative to the best policy")
    known = "95 % intervals over seeds" if np.isfinite(ranking.rows[-1].low) else "too few seeds for intervals"
    more = f" The best {MOST_BARS} of {len(ranking.rows)}." if len(ranking.rows) > MOST_BARS else ""
    way = "Higher" if ranking.measure in LARGER_IS_BETTER else "Lower"
    finding = f"{way} is better; 1 is {rows[0].policy}; {known}.{more}"
    return figure(
        "How far behind the best",
        finding,
        intervals([row.policy for row in rows], {"relative": points}, "policy", axis),
    )


# ------------------------------------------------------------------------------------------- over load


def _over_load(runs: pl.DataFrame, ranking: Ranking) -> list[str]:
    """A chart per place, with the load along x."""
    policies = views.chosen(ranking, FEWEST_LINES, MOST_LINES)
    found = views.over_load(runs, ranking.measure, policies)
    if found.is_empty():
        return []
    grounds = found.select(views.GROUND).unique(maintain_order=True)
    same = [name for name in views.GROUND if grounds[name].n_unique() == 1 and grounds.height > 1]
    charts = {}
    for place, own in list(found.group_by(views.GROUND, maintain_order=True))[:MOST_PLACES]:
        label = views.described({**dict(zip(views.GROUND, place, strict=True)), "load": None}, same)
        charts[label] = [_lines(label, own, policies, ranking.measure)]
    notes = []
    if len(policies) < len(ranking.rows):
        notes.append(
            note(f"{len(policies)} of {len(ranking.rows)} policies: the best settings of each, then the next best.")
        )
    if grounds.height > MOST_PLACES:
        notes.append(note(f"The first {MOST_PLACES} of {grounds.height:,} traces and clusters."))
    if len(charts) == 1:
        return [*next(iter(charts.values())), *notes]
    return [grid(chart for (chart,) in charts.values()) if len(charts) <= 4 else choice("Place", charts), *notes]


def _lines(label: str, own: pl.DataFrame, policies: Sequence[str], measure: str) -> str:
    loads = own["load"].unique().sort().to_list()
    series: dict[str, list[Point]] = {}
    for policy in policies:
        at = {row["load"]: row for row in own.filter(own["policy"] == policy).iter_rows(named=True)}
        if at:
            series[policy] = [_point(at.get(load)) for load in loads]
    means = {policy: [point[0] for point in points] for policy, points in series.items()}
    every = np.array(list(means.values()), np.float64)
    log = float(np.nanmin(every)) > 0 and float(np.nanmax(every) / np.nanmin(every)) > WIDE
    styles = [policies.index(policy) for policy in series]
    chart = marked_lines(loads, series, Axis("load"), _axis(measure, log), styles=styles)
    return figure(label, _best_by_load(means, loads, measure), chart)


def _point(row: Mapping[str, Any] | None) -> Point:
    value, low, high = (_number(row[key] if row else None) for key in ("value", "low", "high"))
    return value, low, high


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _best_by_load(series: dict[str, list[float]], loads: Sequence[float], measure: str) -> str:
    """Which policy is best at the lowest and at the highest load."""
    names, every = list(series), np.array(list(series.values()), np.float64)
    signed = np.where(np.isnan(every), np.inf, -every if measure in LARGER_IS_BETTER else every)
    first, last = names[int(signed[:, 0].argmin())], names[int(signed[:, -1].argmin())]
    if first == last:
        return f"{first} is best at load {loads[0]:g} and at {loads[-1]:g}. Bars are 95 % intervals over seeds."
    return f"{first} is best at load {loads[0]:g}, {last} at {loads[-1]:g}. Bars are 95 % intervals over seeds."


# ------------------------------------------------------------------------------------------- parameters


def _parameters(runs: pl.DataFrame, ranking: Ranking) -> list[str]:
    """Heat maps of each policy with parameters that vary."""
    families = list(dict.fromkeys(family(row.policy) for row in ranking.rows))
    varied = [name for name in families if sum(family(row.policy) == name for row in ranking.rows) > 1]
    maps = {name: views.heat_maps(runs, name, ranking.measure) for name in varied[:MOST_FAMILIES]}
    shown = {name: found for name, found in maps.items() if found}
    if not shown:
        return []
    left = (
        [note(f"The {MOST_FAMILIES} best of {len(varied)} policies with parameters that vary.")]
        if len(varied) > MOST_FAMILIES
        else []
    )
    bodies = {name: _pairs(found, ranking.measure) for name, found in shown.items()}
    if len(bodies) == 1:
        return [*next(iter(bodies.values())), *left]
    return [choice("Policy", bodies), *left]


def _pairs(maps: Sequence[HeatMap], measure: str) -> list[str]:
    """The heat maps of a policy, chosen from a list if there are several."""
    drawn = {f"{each.y} and {each.x}": [_heat(each, measure)] for each in maps}
    if len(drawn) == 1:
        return next(iter(drawn.values()))
    return [choice(f"Parameters of {maps[0].policy}, those that matter most first", drawn)]


def _heat(found: HeatMap, measure: str) -> str:
    every = np.array([[_number(value) for value in row] for row in found.values])
    low, high = float(np.nanmin(every)), float(np.nanmax(every))
    best = high if measure in LARGER_IS_BETTER else low
    span = high - low or 1.0
    cells = [
        [
            Heat("–", 0.0) if np.isnan(value) else Heat(text_of(value, measure), (value - low) / span, value == best)
            for value in row
        ]
        for row in every.tolist()
    ]
    i, j = np.argwhere(every == best)[0]
    finding = (
        f"{name_of(measure)}: mean over seeds and other parameters, geometric mean over places; the stronger the"
        " colour, the larger."
        f" Best: {found.y} {found.rows[i]} and {found.x} {found.columns[j]}."
    )
    finding = finding[0].upper() + finding[1:]
    rows = list(zip(found.rows, cells, strict=True))
    return heat_map(f"{found.policy}: {found.y} and {found.x}", finding, (found.x, found.y), found.columns, rows)


# ------------------------------------------------------------------------------------------- trade-offs


def _fronts(runs: pl.DataFrame) -> list[str]:
    drawn = [_front(views.front(runs, pair), pair) for pair in views.FRONTS]
    return [grid(drawn)] if all(drawn) else [part for part in drawn if part]


def _front(found: pl.DataFrame, pair: tuple[str, str]) -> str:
    if found.height < 2:
        return ""
    best = found.filter(found["front"])
    kept = found if found.height <= MOST_POINTS else best.extend(found.filter(~found["front"]).head(MOST_POINTS))
    points: dict[str, list[tuple[str, float, float, bool]]] = {}
    for row in kept.iter_rows(named=True):
        points.setdefault(row["policy_name"], []).append((row["policy"], row[pair[0]], row[pair[1]], row["front"]))
    names = best["policy"].to_list()
    some = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    way = "higher is fairer" if pair[1] in LARGER_IS_BETTER else "lower is better for the unlucky jobs"
    finding = f"Further left is better for the average job, {way}. On the front, where none is better in both: {some}."
    left = f"{kept.height} of {found.height} policies." if kept.height < found.height else ""
    title = f"{name_of(pair[0])} against {name_of(pair[1])}"
    return figure(title[0].upper() + title[1:], finding, front(points, _axis(pair[0]), _axis(pair[1])), left)


# ------------------------------------------------------------------------------------------- places, failures, origin


def _places(runs: pl.DataFrame, measure: str) -> list[str]:
    found = views.by_place(runs, measure)
    if found.height < 2:
        return []
    same = [name for name in PLACE if found[name].n_unique() == 1]
    rows = [
        [
            views.described(row, same) or "all", row["best"], text_of(row["value"], measure), row["next"] or "–",
            "–" if row["worse"] is None else f"{100 * (row['worse'] - 1):+.1f} %",
            "–" if row["low"] is None else f"{100 * (row['low'] - 1):+.1f} to {100 * (row['high'] - 1):+.1f} %",
        ]
        for row in found.head(MOST_ROWS).iter_rows(named=True)
    ]  # fmt: skip
    headings = ["place", "best policy", name_of(measure), "next best", "next against best", "95 % interval"]
    left = [note(f"The first {MOST_ROWS} of {found.height:,} places.")] if found.height > MOST_ROWS else []
    about = "Intervals are over seeds, of one place alone, and not corrected for many comparisons."
    return [table("The best policy at each place", headings, rows, words=(1, 3)), note(about), *left]


def _failures(failed: pl.DataFrame) -> list[Section]:
    """What failed, equal errors together, each with a command that repeats it."""
    import polars as pl

    if failed.is_empty():
        return []
    groups = failed.with_columns(first=pl.col("error").str.split("\n").list.first().str.head(MOST_LETTERS))
    found = groups.group_by("first", maintain_order=True).agg(
        pl.len(), pl.col("policy").first(), pl.col("policy").n_unique().alias("policies"), pl.col("command").first()
    )
    found = found.sort("len", descending=True)
    parts = [paragraph(f"{counted(failed.height, 'run')} failed and count for nothing above.")]
    for row in found.head(MOST_ERRORS).iter_rows(named=True):
        who = row["policy"] if row["policies"] == 1 else f"{row['policy']} and {counted(row['policies'] - 1, 'other')}"
        parts += [
            paragraph(f"{counted(row['len'], 'run')} ({who}): {row['first']}"),
            code((row["command"] or "")[:MOST_LETTERS]),
        ]
    if found.height > MOST_ERRORS:
        parts.append(
            note(f"The {MOST_ERRORS} most frequent of {found.height:,} errors; 'shunter sweep export' writes all.")
        )
    return [Section("Failures", parts)]


def _provenance(runs: pl.DataFrame, measure: str, store: str) -> list[str]:
    versions = ", ".join(
        f"{row[0]} ({counted(row[1], 'run')})" for row in runs["version"].value_counts(sort=True).rows()
    )
    seeds = runs["base_seed"].unique().sort().to_list()
    hosts = runs["host"].drop_nulls().n_unique()
    about = [
        ("folder", store or "not kept"),
        ("runs", f"{runs.height:,}"),
        ("shunter", versions),
        ("traces", _some(runs["trace"])),
        ("clusters", _some(runs["cluster"])),
        ("loads", _some(runs["load"].drop_nulls()) or "as in the traces"),
        ("seeds", f"{runs['seed'].n_unique()}, counted from {', '.join(map(str, seeds))}"),
        ("machines", str(hosts)),
        ("CPU time", duration(float(runs["cpu_s"].fill_null(0.0).sum()))),
    ]
    words = ["shunter", "sweep", "show", store or "DIR", "--measure", measure, "--report", "page.html"]
    return [facts(about), code(shlex.join(words))]


def _some(values: pl.Series) -> str:
    found = values.unique(maintain_order=True).to_list()
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in found]
    return ", ".join(texts[:8]) + (f" and {len(texts) - 8} more" if len(texts) > 8 else "")
