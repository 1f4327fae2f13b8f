"""The main tables for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.bootstrap import Estimate
from shunter.report.tables import duration, table
from shunter.reproduce.dally import paper
from shunter.reproduce.dally.figures import WORDS
from shunter.reproduce.dally.study import Study
from shunter.reproduce.writing import interval, percent

COLUMNS = (
    ("makespan", "makespan_s"),
    ("JCT mean", "jct_mean_s"),
    ("JCT median", "jct_p50_s"),
    ("JCT P95", "jct_p95_s"),
    ("JCT P99", "jct_p99_s"),
    ("communication", "communication_mean_s"),
)


def view(study: Study) -> RenderableType:
    """Tables II and III, ours and theirs, and the claims."""
    return Group(*(_table(study, workload) for workload in study.design.workloads), *_claims(study))


def _table(study: Study, workload: str) -> RenderableType:
    made = table(f"{WORDS[workload]}, {study.design.shown} racks", *(name for name, _ in COLUMNS))
    for scheduler in study.design.schedulers:
        case = study.case(workload, scheduler)
        made.add_row(
            scheduler.label,
            *(
                _cell(
                    study.trials.of(case, m),
                    paper.printed(workload, scheduler, m) if study.design.shown == paper.SHOWN else None,
                )
                for _, m in COLUMNS
            ),
        )
    return made


def _cell(ours: Estimate, printed: float | None) -> Text:
    """Ours, its interval and what is printed, one below the other."""
    ends = [(f"\n{interval(ours)}", "dim")] if interval(ours) else []
    theirs = [(f"\npaper {duration(printed)}", "cyan")] if printed else []
    return Text.assemble((duration(ours.value), "bold"), *ends, *theirs)


def _claims(study: Study) -> list[RenderableType]:
    found = paper.findings(study.design, study.trials)
    if not found:
        return []
    made = table("claim", "racks", "printed", "ours", "direction", "size")
    for one in found:
        claim, ours = one.claim, " ".join(percent(change.value) for change in one.ours.values())
        text = f"{claim.text} ({claim.workload})"
        made.add_row(text, ",".join(map(str, claim.racks)), claim.printed, ours, one.direction, one.size)
    legend = (
        " yes: the whole 95 % interval is on the printed side; size: it meets what is printed. -: nothing to compare"
    )
    return [made, Text(legend, style="dim")]
