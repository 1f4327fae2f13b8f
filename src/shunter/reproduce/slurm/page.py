"""The page: what happened on the cluster, what was simulated, and what is printed."""

from __future__ import annotations

from collections.abc import Iterable

from shunter.folders import versions
from shunter.report.html.charts import Axis, cdf
from shunter.report.html.page import Section, code, facts, figure, grid, paragraph, points, render, table
from shunter.report.tables import duration
from shunter.reproduce.slurm import paper
from shunter.reproduce.slurm.design import GPUS
from shunter.reproduce.slurm.study import LIVE, SIMULATED_SLURM, SLURM, WITH_HANDOVER, Study
from shunter.reproduce.slurm.view import CHANGED, FIDELITY, MEASURES, change_rows, fidelity_rows, label, percent, rows

HOW = (
    f"Two nodes with four P100, two with two K80, one with one M40: {GPUS} GPUs, as in section 5.6, but virtual ones of"
    " a real Slurm on one machine. Each scheduler gets a cluster that is fresh, with its own accounts.",
    "The same jobs at the same times: most small and short, some over two nodes, submitted within six tenths of the"
    " time that the GPUs need at the least. Each names its GPU type.",
    "A second stands for minutes. Slurm counts limits in minutes, so that whoever expects 7 s gives 7 minutes: all"
    " limits are sixty times too long, for Slurm, for the controller and in the simulator alike. Nobody knows more than"
    " these limits.",
    "Slurm's priority: age, fair share, size, partition and QOS with equal weights, backfill every second. It computes"
    " age and usage anew once a minute, and counts usage of the jobs that run at that instant, few of all that are"
    " over in seconds; the simulator counts all, at every instant.",
    "Times are those of the jobs' own clocks: Slurm's accounting has whole seconds only.",
    "Hand-over: for how long a GPU stands free between two jobs, measured with twelve short jobs before. One simulation"
    " knows nothing of it, the other adds it to every job.",
    "One run of each, and a second one of Slurm's own, which tells how far one live run is from another.",
)


def page(study: Study, command: str) -> str:
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


def _summary(study: Study) -> list[str]:
    told = []
    for scheduler in study.part.policies:
        live, base = study.measures(scheduler, LIVE), study.measures(SLURM, LIVE)
        there, here = study.changes(scheduler, LIVE), study.changes(scheduler, WITH_HANDOVER)
        told.append(
            f"{label(scheduler)}: mean wait {duration(live['wait_mean_s'])} instead of {duration(base['wait_mean_s'])}"
            f" ({percent(there['wait_mean_s'])}; simulated {percent(here['wait_mean_s'])}; printed for RLTune"
            f" {percent(paper.CHANGES['wait_mean_s'])}), makespan {percent(there['makespan_s'])} (simulated"
            f" {percent(here['makespan_s'])}; printed {percent(paper.CHANGES['makespan_s'])})."
        )
    return told


def _charts(study: Study) -> str:
    axis = Axis("time in the queue", "duration")
    live = {label(scheduler): places[LIVE].wait for scheduler, places in study.outcomes.items()}
    halves = ", ".join(f"{duration(study.measures(s, LIVE)['wait_p50_s'])} under {label(s)}" for s in study.outcomes)
    charts = [figure("Waits on the cluster", f"Half of the jobs wait at most {halves}.", cdf(live, axis))]
    for scheduler, places in study.outcomes.items():
        off = percent(study.fidelity(scheduler, WITH_HANDOVER)["off"]["wait_mean_s"])
        finding = f"The simulated mean is {off} off."
        charts.append(figure(label(scheduler), finding, cdf({where: f.wait for where, f in places.items()}, axis)))
    return grid(charts)


def _provenance(study: Study, command: str) -> list[str]:
    about = versions()
    told = [
        ("jobs", f"{len(study.jobs):,}"),
        ("seed", str(study.part.seed)),
        ("interval of the controller", f"{study.part.interval_s:g} s"),
        ("shunter", about["shunter"]),
        ("on", about["platform"]),
        ("Slurm's priority in the simulator", SIMULATED_SLURM),
    ]
    return [facts(told), code(command)]
