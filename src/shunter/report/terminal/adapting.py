"""Settings that stay and settings that adapt, side by side, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.tables import RHO, Below, duration, table
from shunter.texts import counted

SHOWN = 8  # switches
OBJECTIVES = {"jct": "mean JCT", "rho": "jobs with rho <= 1"}


def adapting_view(found: Mapping[str, Any], shown: str) -> RenderableType:
    """A study (see ``AdaptingStudy.as_dict``), and the switches of one of its runs."""
    made = table(
        "settings", "JCT\nmean", "JCT\np99", "rho\n<= 1", "times as good as\nFixed, by the past", "switches",
        "evaluations", "search\nmedian",
    )  # fmt: skip
    for run in found["runs"].values():
        made.add_row(*(Text(cell) for cell in _cells(run)))
    return Group(made, *(Below(line) for line in _notes(found)), *_switches(found["runs"][shown]),
                 *(Below(line) for line in found["verdict"]))  # fmt: skip


def _cells(run: Mapping[str, Any]) -> list[str]:
    """A row; the interval stands on a line below, so that all numbers of a run are on its first line."""
    jct, median = run["jct_s"], run["search_median_s"]
    ratio = _times(run["over_fixed"])
    cells = (
        run["label"], duration(jct["mean"]), duration(jct["p99"]), f"{100 * run['rho_at_most_1']:.1f} %", ratio,
        f"{len(run['switches']):,}", f"{run['evaluations']:,}", "-" if median is None else f"{1000 * median:,.0f} ms",
    )  # fmt: skip
    lines = ratio.count("\n")
    return [cell + "\n" * (lines - cell.count("\n")) for cell in cells]


def _times(found: Mapping[str, float | None]) -> str:
    if found["value"] is None:
        return "-"
    ends = f"\n{found['low']:.3f} to {found['high']:.3f}" if found["low"] is not None else ""
    return f"{found['value']:.3f}{ends}"


def _notes(found: Mapping[str, Any]) -> list[str]:
    runs = found["runs"]
    left = (
        f" {counted(found['unplayed'], 'generated job', 'were')} left out, because no job of the run has the same"
        " request."
        if found["unplayed"]
        else ""
    )
    search = f"a search of {found['budget']} evaluations every {found['every_s'] / 60:g} min"
    return [
        f"{counted(found['jobs'], 'job')}; {search} by {OBJECTIVES[found['objective']]};"
        f" generator: {found['generator']}; predictor of run times: {found['predictor']}.{left}",
        f"Fixed, by the past: {runs['fixed']['policy']}{_few(runs['fixed'])}",
        f"Fixed, in hindsight: {runs['hindsight']['policy']}",
        f"{RHO}.",
        "The policy as given knows the truth, so all runs do."
        if found["oracle"]
        else "Only 'in hindsight' and 'Optimal' know what comes.",
        "Intervals: 95 %, over stretches of the jobs, paired.",
    ]


def _few(fixed: Mapping[str, Any]) -> str:
    """Why settings that stay were not searched."""
    return (
        "" if fixed["evaluations"] else " (not searched: too few jobs came just before, in as long a time as the run)"
    )


def _switches(run: Mapping[str, Any]) -> list[RenderableType]:
    switches = run["switches"]
    if not switches:
        return []
    first = f", the first {SHOWN}" if len(switches) > SHOWN else ""
    head = f" {run['label']}: {len(switches):,} switch{'es' * (len(switches) != 1)}{first}"
    lines = [
        f"   hour {each['hour']:.4g}: {each['policy']} ({_gain(each['gain'])}{', early' * each['early']})"
        for each in switches[:SHOWN]
    ]
    return [Text(line) for line in (head, *lines)]


def _gain(times: float | None) -> str:
    """A gain without a ratio is over settings that were abandoned, or reaches an objective of 0."""
    return "better" if times is None else f"{times:.2f} times as good"
