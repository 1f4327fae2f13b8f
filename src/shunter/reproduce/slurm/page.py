"""The page: what happened on the cluster, what was simulated, and what is printed."""

from __future__ import annotations

from collections.abc import Iterable

from shunter.report.html.charts import Axis, cdf
from shunter.report.html.page import Section, code, facts, figure, grid, paragraph, points, render, table
from shunter.report.terminal.tables import duration
from shunter.reproduce.slurm import paper
from shunter.reproduce.slurm.design import GPUS
from shunter.reproduce.slurm.study import AGAIN, LIVE, SIMULATED_SLURM, SLURM, WITH_HANDOVER, SlurmStudy
from shunter.reproduce.slurm.view import (
    CHANGED,
    FIDELITY,
    MEASURES,
    change_rows,
    fidelity_rows,
    label,
    percent,
    rows,
    spread,
)  # fmt: skip
from shunter.run_folder import versions

HOW = (
    f"Two nodes with four P100, two with two K80, one with one M40: {GPUS} GPUs, as in section 5.6, but virtual ones of"
    " a real Slurm on one machine. Each scheduler gets a cluster that is fresh, with its own accounts.",
    "The same jobs at the same times: most small and short, some over two nodes, submitted within six tenths of the"
    " time that the GPUs need at the least. Each names its GPU type.",
    "A second stands for minutes. Slurm counts limits in minutes, so a user who expects 7 s gives 7 minutes: all"
    " limits are sixty times too long, for Slurm, the controller and the simulator alike. No scheduler knows more than"
    " these limits.",
    "Slurm's priority: age, fair share, size, partition and QOS with equal weights, backfill every second. Slurm"
    " computes age and usage again once a minute, and so does the simulator; each run begins when it does, with no user"
    " having used anything. Size is by CPUs and nodes, in both.",
    "Times are those of the jobs' own clocks: Slurm's accounting has whole seconds only.",
    "Hand-over: for how long a GPU stands free between two jobs, measured with twelve short jobs before. One simulation"
    " knows nothing of it, the other adds it to every job.",
    "Live runs of the same jobs differ, because a job that starts a moment later lets others go first. So each is run"
    " more than once; ± is half of the way from the least to the most over runs, or over pairs of them.",
)


def page(study: SlurmStudy, command: str) -> str:
    """The whole page; ``command`` leads there again."""
    headings = [heading.replace("\n", " ") for heading, _, _ in MEASURES]
    sections = [
        Section("Summary", [points(_summary(study))]),
        Section("Live and simulated", [table("All numbers", ["", *headings], _cells(rows(study))), _charts(study)]),
        Section(
            "What is printed",
            [
                table("Against Slurm's multifactor", ["", *(h for h, _ in CHANGED)], _cells(change_rows(study))),
                paragraph("Why ours differ:"),
                points(paper.WHY),
            ],
        ),
        Section(
            "How far the simulator is off",
            [table("Simulated over live", ["", *FIDELITY], _cells(fidelity_rows(study)))],
        ),
        Section("How it was run", [points(HOW)]),
        Section("What was run", _provenance(study, command)),
    ]
    lead = f"{paper.TITLE}: its experiment on a live Slurm cluster in small, and how true the simulator is to it."
    return render("RLTune's Slurm experiment, in small", lead, sections)


def _cells(found: Iterable[tuple[str, list[str]]]) -> list[list[str]]:
    return [[name.strip(), *cells] for name, cells in found]


def _summary(study: SlurmStudy) -> list[str]:
    sentences = []
    for scheduler in study.part.policies:
        live, base = (study.measures(name, LIVE)["wait_mean_s"].mean for name in (scheduler, SLURM))
        there, here = study.changes(scheduler, LIVE), study.changes(scheduler, WITH_HANDOVER)
        wait, span = (
            f"{spread(there[name], percent, 100)}; simulated {percent(here[name].mean)}; printed for RLTune"
            f" {percent(paper.CHANGES[name])}"
            for name in ("wait_mean_s", "makespan_s")
        )
        sentences.append(
            f"{label(scheduler)}: mean wait {duration(live)} instead of {duration(base)} ({wait}), makespan ({span})."
        )
    near = study.fidelity(SLURM, WITH_HANDOVER)
    sentences.append(
        f"The simulator under Slurm's own priority: makespan {spread(near['makespan_s'], percent, 100)}, mean wait"
        f" {spread(near['wait_mean_s'], percent, 100)}, rank correlation of waits"
        f" {spread(near['wait_rank_correlation'], '{:.2f}'.format)}{_ceiling(study)}."
    )
    return sentences


def _ceiling(study: SlurmStudy) -> str:
    """What one live run is to another."""
    if AGAIN not in study.compared(SLURM):
        return ""
    found = study.fidelity(SLURM, AGAIN)["wait_rank_correlation"]
    return f"; between two live runs it is {spread(found, '{:.2f}'.format)}"


def _charts(study: SlurmStudy) -> str:
    axis = Axis("time in the queue", "duration")
    live = {label(scheduler): runs[0].wait for scheduler, runs in study.live.items()}
    halves = ", ".join(f"{duration(study.measures(s, LIVE)['wait_p50_s'].mean)} under {label(s)}" for s in study.live)
    charts = [figure("Waits on the cluster", f"Half of the jobs wait at most {halves}.", cdf(live, axis))]
    for scheduler, runs in study.live.items():
        off = percent(study.fidelity(scheduler, WITH_HANDOVER)["wait_mean_s"].mean)
        shown = {LIVE: runs[0], **({AGAIN: runs[1]} if len(runs) > 1 else {}), **study.simulated[scheduler]}
        finding = f"The simulated mean is {off} off."
        charts.append(figure(label(scheduler), finding, cdf({where: run.wait for where, run in shown.items()}, axis)))
    return grid(charts)


def _provenance(study: SlurmStudy, command: str) -> list[str]:
    about = versions()
    sentences = [
        ("jobs", f"{len(study.jobs):,}"),
        ("seed", str(study.part.seed)),
        ("live runs of each", str(study.part.repeat)),
        ("interval of the controller", f"{study.part.interval_s:g} s"),
        ("shunter", about["shunter"]),
        ("on", about["platform"]),
        ("Slurm's priority in the simulator", SIMULATED_SLURM),
    ]
    return [facts(sentences), code(command)]
