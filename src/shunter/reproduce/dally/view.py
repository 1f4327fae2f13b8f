"""The main tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.tables import Below, duration, share, table
from shunter.reproduce.claims import RULE
from shunter.reproduce.dally import headline, paper
from shunter.reproduce.dally.design import DALLY, HELD_OUT, OURS, SHOWN, WORDS
from shunter.reproduce.dally.study import DallyStudy
from shunter.reproduce.trials import Scheduler
from shunter.reproduce.writing import interval, percent

COLUMNS = (
    ("makespan", "makespan_s"),
    ("JCT mean", "jct_mean_s"),
    ("JCT median", "jct_p50_s"),
    ("JCT P95", "jct_p95_s"),
    ("JCT P99", "jct_p99_s"),
    ("comm.", "communication_mean_s"),
)
LEGEND = "Claims: change by racks. Direction: yes where the whole 95 % interval is on the printed side."


def view(study: DallyStudy) -> RenderableType:
    """Tables II and III, ours and theirs, and the claims."""
    parts = [
        part
        for w in study.design.workloads
        for part in (
            _table(study, w),
            *_readings(study, w),
            *_waits(study, w),
            *_placement(study, w),
            *_claims(study, w),
        )
    ]
    found = study.findings()
    notes = [LEGEND, RULE, paper.verdict(found)] if found else []
    conclusions = [Below(text) for text in headline.in_words(study)]
    return Group(*parts, *conclusions, *(Below(note, style="dim") for note in notes))


def _table(study: DallyStudy, workload: str) -> RenderableType:
    made = table(f"{workload.capitalize()},\n{study.design.shown} racks", *(name for name, _ in COLUMNS))
    for scheduler in study.design.schedulers:
        cells = (_cell(study, workload, scheduler, measure) for _, measure in COLUMNS)
        made.add_row(_label(scheduler), *cells)
    return made


def _label(scheduler: Scheduler) -> str:
    return scheduler.label.replace("yC", "y\nC")  # one name is too long for a line


def _cell(study: DallyStudy, workload: str, scheduler: Scheduler, measure: str) -> Text:
    """Ours, its interval and what is printed, one below the other."""
    ours = study.trials.of(study.case(workload, scheduler), measure)
    printed = paper.printed(workload, scheduler, measure) if study.design.shown == SHOWN else None
    ends = [(f"\n{interval(ours)}", "dim")] if interval(ours) else []
    theirs = [(f"\npaper {duration(printed)}", "cyan")] if printed else []
    return Text.assemble((duration(ours.value), "bold"), *ends, *theirs)


def _by_size(
    study: DallyStudy, heading: str, names: Sequence[str], rows: Mapping[str, Sequence[str]]
) -> RenderableType:
    """A table with a group of columns for each name, one for each cluster size."""
    racks = study.design.racks
    heads = [f"{name if n == racks[0] else ''}\n{n}" for name in names for n in racks]
    made = table(heading, *heads)
    for title, cells in rows.items():
        made.add_row(title, *cells)
    return made


def _readings(study: DallyStudy, workload: str) -> list[RenderableType]:
    """Dally against Tiresias under the readings that stand beside the main result."""
    rows = {
        headline.title(reading): [
            percent(headline.change(study, reading, workload, n, measure).value)
            for _, measure in headline.MEASURES
            for n in study.design.racks
        ]
        for reading in headline.compared(study)
    }
    heading = f"{WORDS[workload]}: Dally\nagainst Tiresias, by racks"
    return [_by_size(study, heading, [name for name, _ in headline.MEASURES], rows)] if rows else []


def _waits(study: DallyStudy, workload: str) -> list[RenderableType]:
    """Why jobs wait."""
    rows = {}
    for s in headline.explained(study):
        found = [headline.waited(study, workload, s, n) for n in study.design.racks]
        cells = [share(part[name].value) if part else "–" for _, name in headline.WAITS for part in found]
        rows[_label(s)] = cells
    heading = f"{WORDS[workload]}: GPUs\nthat jobs wait for, by racks"
    return [_by_size(study, heading, [name for name, _ in headline.WAITS], rows)] if rows else []


def _placement(study: DallyStudy, workload: str) -> list[RenderableType]:
    """How much of what our own policy gains is placement, on all jobs and on those that were held out."""
    if not study.design.has(OURS, DALLY):
        return []
    rows: dict[str, list[str]] = {}
    for jobs in ("", HELD_OUT):
        parts = [headline.placed(study, workload + jobs, measure) for _, measure in headline.MEASURES]
        rows |= {name + jobs: [percent(one.value) for part in parts for one in part[name]] for name in parts[0]}
    heading = f"{WORDS[workload]}: what is\nplacement, by racks"
    return [_by_size(study, heading, [name for name, _ in headline.MEASURES], rows)]


def _claims(study: DallyStudy, workload: str) -> list[RenderableType]:
    found = [one for one in study.findings() if one.claim.workload == workload]
    if not found:
        return []
    racks = study.design.racks
    made = table(f"{WORDS[workload]}: claim", "printed", *map(str, racks), "all", "direction", "size")
    for one in found:
        sizes = [percent(one.ours[n].value) if n in one.ours else "" for n in racks]
        total = "" if one.claim.over == "each" else percent(one.judged[one.claim.over].value)
        words = (text.replace(" racks", "") for text in (one.direction, one.size))
        made.add_row(one.claim.text, one.claim.printed.replace(" % ", " %\n"), *sizes, total, *words)
    return [made]
