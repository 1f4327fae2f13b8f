"""The main tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType

from shunter.report.tables import duration, share, table
from shunter.reproduce import views
from shunter.reproduce.slurm import paper
from shunter.reproduce.slurm.study import AGAIN, LIVE, SIMULATED, SLURM, WITH_HANDOVER, Study

MEASURES = (
    ("makespan", "makespan_s", duration),
    ("wait\nmean", "wait_mean_s", duration),
    ("median", "wait_p50_s", duration),
    ("P95", "wait_p95_s", duration),
    ("JCT\nmean", "jct_mean_s", duration),
    ("P95", "jct_p95_s", duration),
    ("GPUs\nin use", "utilization", share),
)
CHANGED = (("makespan", "makespan_s"), ("wait mean", "wait_mean_s"), ("GPUs in use", "utilization"))


def view(study: Study) -> RenderableType:
    """What happened, what was simulated, and what is printed."""
    handover = f"hand-over: {study.handover_s:.2f} s for which a GPU stands free between two jobs, measured before"
    return Group(numbers(study), changes(study), fidelity(study), *views.notes(handover, *paper.WHY))


def label(scheduler: str) -> str:
    """What a scheduler is called."""
    return "Slurm's multifactor" if scheduler == SLURM else f"controller, {scheduler}"


def percent(part: float) -> str:
    """A change in percent, to a tenth, as it is printed."""
    return f"{100 * part:+.1f} %".replace("-", "−")


def rows(study: Study) -> Iterator[tuple[str, list[str]]]:
    """All numbers of all runs."""
    for scheduler, places in study.outcomes.items():
        for where in places:
            found = study.measures(scheduler, where)
            name = label(scheduler) if where == LIVE else f"  {where}"
            yield name, [write(found[measure]) for _, measure, write in MEASURES]


def change_rows(study: Study) -> Iterator[tuple[str, list[str]]]:
    """What each scheduler changes, and what is printed."""
    for scheduler in study.part.policies:
        for where in (LIVE, SIMULATED, WITH_HANDOVER):
            found = study.changes(scheduler, where)
            name = label(scheduler) if where == LIVE else f"  {where}"
            yield name, [percent(found[measure]) for _, measure in CHANGED]
    yield "RLTune, as printed", [percent(paper.CHANGES[measure]) for _, measure in CHANGED]


def fidelity_rows(study: Study) -> Iterator[tuple[str, list[str]]]:
    """How far the simulator is off."""
    for scheduler, places in study.outcomes.items():
        for where in (each for each in (SIMULATED, WITH_HANDOVER, AGAIN) if each in places):
            found = study.fidelity(scheduler, where)
            error, rank = duration(found["wait_mean_abs_error_s"]), found["wait_rank_correlation"]
            off = [percent(found["off"][measure]) for measure in ("makespan_s", "wait_mean_s")]
            name = label(scheduler) if where == SIMULATED else f"  {SHORT[where]}"
            yield name, [*off, error, "–" if rank is None else f"{rank:.2f}"]


SHORT = {WITH_HANDOVER: "with hand-over", AGAIN: AGAIN}
FIDELITY = ("makespan", "mean wait", "mean |error| of waits", "rank correlation of waits")


def numbers(study: Study) -> RenderableType:
    """All numbers."""
    made = table(f"{len(study.jobs):,} jobs", *(heading for heading, _, _ in MEASURES))
    for name, cells in rows(study):
        made.add_row(name, *cells)
    return made


def changes(study: Study) -> RenderableType:
    """What the controller changes."""
    made = table("against Slurm's multifactor", *(heading for heading, _ in CHANGED))
    for name, cells in change_rows(study):
        made.add_row(name, *cells)
    return made


def fidelity(study: Study) -> RenderableType:
    """How far the simulator is off."""
    made = table("simulated over live", *(heading.replace(" of waits", "\nof waits") for heading in FIDELITY))
    for name, cells in fidelity_rows(study):
        made.add_row(name, *cells)
    return made
