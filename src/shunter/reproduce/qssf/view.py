"""The main tables for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.bootstrap import Estimate
from shunter.report.tables import ORACLE, duration, table
from shunter.reproduce import sheets
from shunter.reproduce.qssf import paper
from shunter.reproduce.qssf.design import DATA, FIFO, ORACLES
from shunter.reproduce.qssf.study import Study
from shunter.reproduce.trials import Scheduler
from shunter.reproduce.writing import interval

MEANS = (("JCT\nmean", "jct_mean_s"), ("queueing\nmean", "wait_mean_s"))
TAILS = (("JCT\nP95", "jct_p95_s"), ("JCT\nP99", "jct_p99_s"), ("queueing\nP95", "wait_p95_s"))
LEGEND = "x FIFO: FIFO's mean JCT over this one's; below a number its 95 % interval, and what is printed"


def view(study: Study) -> RenderableType:
    """One table for each data set, and what is printed."""
    parts = [part for data in study.design.data for part in (_table(study, data), *_recorded(study, data))]
    notes = [Text(f" {text}", style="dim") for text in (LEGEND, ORACLE)]
    return Group(*parts, *_claims(study), *notes)


def _table(study: Study, data: str) -> RenderableType:
    heads = [name for name, _ in (*MEANS, *TAILS)]
    made = table(DATA[data].title, *heads, "x FIFO")
    for scheduler in DATA[data].schedulers:
        means = [_cell(study, data, scheduler, measure) for _, measure in MEANS]
        tails = [Text(duration(study.of(data, scheduler, measure).value)) for _, measure in TAILS]
        factor = _factor(study.factor(data, scheduler, "jct_mean_s")) if scheduler != FIFO else Text("")
        made.add_row(scheduler.label + "*" * (scheduler in ORACLES), *means, *tails, factor)
    return made


def _cell(study: Study, data: str, scheduler: Scheduler, measure: str) -> Text:
    ours = study.of(data, scheduler, measure)
    figure = None if study.stands_in else paper.printed(data, scheduler, measure)
    ends = [(f"\n{interval(ours)}", "dim")] if interval(ours) else []
    theirs = [(f"\nprinted {duration(figure)}", "cyan")] if figure else []
    return Text.assemble((duration(ours.value), "bold"), *ends, *theirs)


def _factor(found: Estimate) -> Text:
    ends = interval(found, sheets.times)
    return Text.assemble((sheets.times(found.value), "bold"), *([(f"\n{ends}", "dim")] if ends else []))


def _recorded(study: Study, data: str) -> list[RenderableType]:
    found = study.recorded.get(data)
    if not found:
        return []
    told = ", ".join(f"{point} {duration(found[point])}" for point in ("mean", "p50", "p95", "p99"))
    return [Text(f" queueing as recorded in the trace: {told}", style="dim")]


def _claims(study: Study) -> list[RenderableType]:
    found = study.findings()
    if not found:
        return []
    made = table("printed: how many times as much", "jobs", "printed", "ours", "direction", "size")
    for one in found:
        jobs = DATA[one.claim.data].title
        made.add_row(one.claim.text, jobs, one.claim.printed, sheets.times(one.ours.value), one.direction, one.size)
    return [made]
