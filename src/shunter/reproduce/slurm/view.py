"""The main tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isnan

from rich.console import Group, RenderableType

from shunter.report.terminal.tables import duration, share, table
from shunter.reproduce import views
from shunter.reproduce.slurm import paper
from shunter.reproduce.slurm.outcome import Spread
from shunter.reproduce.slurm.study import AGAIN, LIVE, SIMULATED, SLURM, WITH_HANDOVER, SlurmStudy

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


def view(study: SlurmStudy) -> RenderableType:
    """What happened, what was simulated, and what is printed."""
    handover = f"hand-over: {study.handover_s:.2f} s for which a GPU stands free between two jobs, measured before"
    notes = (handover, *([SPREAD] if study.part.repeat > 1 else []), *paper.WHY)
    return Group(numbers(study), changes(study), fidelity(study), *views.notes(*notes))


def label(scheduler: str) -> str:
    """What a scheduler is called."""
    return "Slurm's multifactor" if scheduler == SLURM else f"controller, {scheduler}"


def percent(part: float) -> str:
    """A change in percent, to a tenth, as it is printed."""
    return f"{100 * part:+.1f} %".replace("-", "−")


def spread(found: Spread, write: Callable[[float], str], scale: float = 1.0) -> str:
    """A mean, and by how much runs are above or below it at the most, as ``12.3 ± 0.4 s``."""
    if isnan(found.mean):
        return "–"
    mean, _, unit = write(found.mean).partition(" ")
    more = f" ± {scale * found.half:.{len(mean.partition('.')[2])}f}" if found.half else ""
    return f"{mean}{more} {unit}".rstrip()


def rows(study: SlurmStudy) -> Iterator[tuple[str, list[str]]]:
    """All numbers of all runs, one by one."""
    for scheduler in study.live:
        for where in (LIVE, SIMULATED, WITH_HANDOVER):
            for number, run in enumerate(study.runs(scheduler, where)):
                found = run.measures()
                again = "  live again" if number else label(scheduler)
                yield again if where == LIVE else f"  {where}", [write(found[name]) for _, name, write in MEASURES]


def change_rows(study: SlurmStudy) -> Iterator[tuple[str, list[str]]]:
    """What each scheduler changes, and what is printed."""
    for scheduler in study.part.policies:
        for where in (LIVE, SIMULATED, WITH_HANDOVER):
            found = study.changes(scheduler, where)
            name = label(scheduler) if where == LIVE else f"  {where}"
            yield name, [spread(found[measure], percent, 100) for _, measure in CHANGED]
    yield "RLTune, as printed", [percent(paper.CHANGES[measure]) for _, measure in CHANGED]


def fidelity_rows(study: SlurmStudy) -> Iterator[tuple[str, list[str]]]:
    """How far the simulator is off."""
    for scheduler in study.live:
        for where in study.compared(scheduler):
            found = study.fidelity(scheduler, where)
            off = [spread(found[measure], percent, 100) for measure in ("makespan_s", "wait_mean_s")]
            error = spread(found["wait_mean_abs_error_s"], lambda seconds: f"{seconds:.1f} s")
            rank = spread(found["wait_rank_correlation"], "{:.2f}".format)
            name = label(scheduler) if where == SIMULATED else f"  {SHORT[where]}"
            yield name, [*off, error, rank]


SHORT = {WITH_HANDOVER: "with hand-over", AGAIN: "one live run to another"}
FIDELITY = ("makespan", "mean wait", "mean |error| of waits", "rank correlation of waits")
SPREAD = "±: half of the way from the least to the most over the live runs, or over pairs of them"


def numbers(study: SlurmStudy) -> RenderableType:
    """All numbers."""
    made = table(f"{len(study.jobs):,} jobs", *(heading for heading, _, _ in MEASURES))
    for name, cells in rows(study):
        made.add_row(name, *cells)
    return made


def changes(study: SlurmStudy) -> RenderableType:
    """What the controller changes."""
    made = table("against Slurm's multifactor", *(heading for heading, _ in CHANGED))
    for name, cells in change_rows(study):
        made.add_row(name, *cells)
    return made


def fidelity(study: SlurmStudy) -> RenderableType:
    """How far the simulator is off."""
    made = table("simulated over live", *(heading.replace(" of waits", "\nof waits") for heading in FIDELITY))
    for name, cells in fidelity_rows(study):
        made.add_row(name, *cells)
    return made
