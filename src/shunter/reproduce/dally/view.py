"""The main tables for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.tables import duration, table
from shunter.reproduce.claims import RULE
from shunter.reproduce.dally import paper
from shunter.reproduce.dally.design import SHOWN, WORDS
from shunter.reproduce.dally.study import Study
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


def view(study: Study) -> RenderableType:
    """Tables II and III, ours and theirs, and the claims."""
    parts = [part for w in study.design.workloads for part in (_table(study, w), *_claims(study, w))]
    found = study.findings()
    notes = [LEGEND, RULE, paper.verdict(found)] if found else []
    return Group(*parts, *(Text(f" {note}", style="dim") for note in notes))


def _table(study: Study, workload: str) -> RenderableType:
    made = table(f"{workload.capitalize()},\n{study.design.shown} racks", *(name for name, _ in COLUMNS))
    for scheduler in study.design.schedulers:
        cells = (_cell(study, workload, scheduler, measure) for _, measure in COLUMNS)
        made.add_row(scheduler.label.replace("yC", "y\nC"), *cells)  # one name is too long for a line
    return made


def _cell(study: Study, workload: str, scheduler: Scheduler, measure: str) -> Text:
    """Ours, its interval and what is printed, one below the other."""
    ours = study.trials.of(study.case(workload, scheduler), measure)
    printed = paper.printed(workload, scheduler, measure) if study.design.shown == SHOWN else None
    ends = [(f"\n{interval(ours)}", "dim")] if interval(ours) else []
    theirs = [(f"\npaper {duration(printed)}", "cyan")] if printed else []
    return Text.assemble((duration(ours.value), "bold"), *ends, *theirs)


def _claims(study: Study, workload: str) -> list[RenderableType]:
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
