"""The page that puts what is printed and ours side by side."""

from __future__ import annotations

from shunter.report.html.charts import Axis, cdf, intervals
from shunter.report.html.page import Cell, Section, choice, figure, grid, note, paragraph, points, render, table
from shunter.report.html.words import counted
from shunter.report.tables import ORACLE, duration, share
from shunter.reproduce import sheets
from shunter.reproduce.qssf import paper
from shunter.reproduce.qssf.design import DATA, EASY, FIFO, NOISY, ORACLES, QSSF, SRTF, TOLD, WEEKLY
from shunter.reproduce.qssf.study import STAND_IN, TITLE, Study, weekly_changes
from shunter.reproduce.trials import Case, Scheduler
from shunter.reproduce.writing import cell, interval, percent

REST: tuple[sheets.Measure, ...] = (
    ("makespan", "makespan_s", duration),
    ("GPUs in use", "utilization", share),
    ("preemptions", "preemptions", "{:,.0f}".format),
)
BY_VC = (("JCT mean", "jct_mean_s"), ("queueing delay mean", "wait_mean_s"))
DEPARTURES = (
    "Each virtual cluster is empty when the window begins, and all that was submitted in it runs to its end.",
    "QSSF's estimate is made once per job, when it is submitted, from what had ended by then; the artifact makes it"
    " when a job first has to wait.",
    "The artifact's own Philly experiment does not predict: it perturbs true run times (three in ten by more than their"
    " own size, one in ten by more than ten times that). 'QSSF, noisy truth' does the same, and what is printed for"
    " QSSF stands beside it.",
    "Who is stopped pays 7 s (1 GPU), 30 s (up to 8) or 60 s when it goes on, as in the artifact; only SRTF stops"
    " anybody.",
    "'QSSF with EASY' is ours: a job may pass others if it does not delay the first one, by the same estimates.",
)


def qssf_page(study: Study, command: str) -> str:
    """The whole page; ``command`` leads there again."""
    titles = {name: about.title for name, about in DATA.items()}
    sections = [
        Section("Summary", _overview(study)),
        *(Section(DATA[data].title, _data(study, data)) for data in study.design.data),
        Section("What is printed", sheets.claims_section(study.findings(), titles)),
        *sheets.optional("Fitting anew", _weekly(study)),
        Section("How it was run", [points(DEPARTURES)]),
        Section("What was run", _provenance(study, command)),
    ]
    lead = f"{TITLE}: its scheduler, QSSF, run again, beside what is printed."
    return render("QSSF, reproduced" + (" with stand-in workloads" if study.stands_in else ""), lead, sections)


def _overview(study: Study) -> list[str]:
    design = study.design
    told = [
        f"{counted(len(design.data), 'data set')}; {counted(design.repeats, 'repeat')} of each run, with arrivals moved"
        " by up to 30 s.",
        *(_gains(study, data) for data in design.data),
    ]
    found = study.findings()
    if found:
        sides = sum(one.direction == "yes" for one in found)
        sizes = sum(one.direction == "yes" and one.size == "yes" for one in found)
        told.append(
            f"Of {counted(len(found), 'printed factor')}, {sides} come out in direction, {sizes} of them also in size."
        )
    return [*([paragraph(STAND_IN)] if study.stands_in else []), points(told), note(ORACLE)]


def _gains(study: Study, data: str) -> str:
    """By what QSSF is better than FIFO, and how far from the best."""
    parts = []
    for scheduler in (QSSF, EASY, NOISY, TOLD, SRTF):
        factor = study.factor(data, scheduler, "jct_mean_s")
        ends = f" ({interval(factor, sheets.times)})" if interval(factor, sheets.times) else ""
        parts.append(f"{_name(scheduler)} {sheets.times(factor.value)}{ends}")
    fifo = duration(study.of(data, FIFO, "jct_mean_s").value)
    return f"{DATA[data].title}: mean JCT of FIFO ({fifo}) over that of {', '.join(parts)}."


def _name(scheduler: Scheduler) -> str:
    return scheduler.label + ("*" if scheduler in ORACLES else "")


def _cases(study: Study, data: str) -> dict[Scheduler, Case]:
    """The schedulers of a data set, oracles marked."""
    marked = {s: Scheduler(_name(s), s.policy, s.style) for s in DATA[data].schedulers}
    return {marked[s]: study.case(data, s) for s in DATA[data].schedulers}


def _data(study: Study, data: str) -> list[str]:
    about, cases = DATA[data], _cases(study, data)
    learned, simulated = study.jobs[data]
    nodes = sum(study.vcs[data].values())
    counts = f"{simulated:,} jobs" + (
        f" in {len(study.vcs[data])} virtual clusters of {nodes:,} nodes" if nodes else ""
    )

    def printed(scheduler: Scheduler, measure: str) -> float | None:
        plain = next(s for s in about.schedulers if s.policy == scheduler.policy)
        return None if study.stands_in else paper.printed(data, plain, measure)

    return [
        points(
            [
                f"{counts}; estimates are learned from {learned:,} jobs before them.",
                *(() if study.stands_in else about.told),
            ]
        ),
        sheets.scheduler_table(study.trials, f"{about.title}: completion times", cases, sheets.JCT, printed),
        sheets.scheduler_table(
            study.trials, f"{about.title}: queueing delay", cases, sheets.QUEUEING, printed, _recorded(study, data)
        ),
        sheets.factor_table(study.trials, f"{about.title}: FIFO's numbers over those of the others", cases, FIFO),
        sheets.scheduler_table(study.trials, f"{about.title}: everything else", cases, REST),
        grid([_chart(study, data), _curves(study, data)]),
        *_by_vc(study, data),
    ]


def _recorded(study: Study, data: str) -> list[list[str | Cell]]:
    found = study.recorded.get(data)
    return [["as recorded", *(duration(found[point]) for point in ("mean", "p50", "p95", "p99"))]] if found else []


def _chart(study: Study, data: str) -> str:
    shown = DATA[data].schedulers
    series = {_name(s): [study.of(data, s, name) for name in ("jct_mean_s", "wait_mean_s")] for s in shown}
    best = min(shown, key=lambda s: study.of(data, s, "jct_mean_s").value)
    finding = f"The least mean JCT has {_name(best)}: {duration(study.of(data, best, 'jct_mean_s').value)}."
    names = ["JCT", "queueing delay"]
    chart = intervals(names, series, "mean over jobs", Axis("time", "duration"), styles=[s.style for s in shown])
    return figure("Means", finding, chart)


def _curves(study: Study, data: str) -> str:
    shown = DATA[data].schedulers
    samples = {_name(s): study.trials.outcomes[study.case(data, s)][0].jct for s in shown}
    halves = {s: study.of(data, s, "jct_p50_s").value for s in (FIFO, QSSF)}
    finding = (
        f"Half of the jobs are done after {duration(halves[FIFO])} under FIFO, {duration(halves[QSSF])} under QSSF."
    )
    chart = cdf(samples, Axis("completion time", "duration", log=True), styles=[s.style for s in shown])
    return figure("Completion times", finding, chart, "Of the first repeat.")


def _by_vc(study: Study, data: str) -> list[str]:
    """Means of each virtual cluster, beside the printed ones where there are some."""
    first = study.trials.outcomes[study.case(data, FIFO)][0].numbers
    vcs = [vc for vc in study.vcs[data] if f"{vc} jct_mean_s" in first]
    if not vcs:
        return []
    return [choice("By virtual cluster", {name: [_vc_table(study, data, vcs, name, key)] for name, key in BY_VC})]


def _vc_table(study: Study, data: str, vcs: list[str], name: str, key: str) -> str:
    schedulers = DATA[data].schedulers
    rows: list[list[str | Cell]] = []
    for vc in vcs:
        cells = [cell(study.of(data, s, f"{vc} {key}")) for s in schedulers]
        rows.append([f"{vc}, {counted(study.vcs[data][vc], 'node')}", *cells])
        figures = [None if study.stands_in else paper.printed(data, s, key, vc) for s in schedulers]
        if any(figures):
            rows.append([f"{vc}, printed", *(duration(figure) if figure else "–" for figure in figures)])
    return table(f"{DATA[data].title}: {name} by virtual cluster", ["virtual cluster", *map(_name, schedulers)], rows)


def _weekly(study: Study) -> list[str]:
    rows = [
        [
            DATA[row["data"]].title,
            *(duration(row[part][name]) for name in ("jct_mean_s", "wait_mean_s") for part in ("once", "weekly")),
            percent(row["weekly"]["jct_mean_s"] / row["once"]["jct_mean_s"] - 1),
        ]
        for row in weekly_changes(study)
    ]
    if not rows:
        return []
    heads = ["data set", "JCT mean, fitted once", "weekly", "queueing delay mean, fitted once", "weekly", "JCT"]
    told = (
        "Above, QSSF's model is fitted once, before the window, so that all repeats share it. Here it is fitted anew"
        " every week, or earlier if it errs more than it used to, in one run of each."
    )
    return [paragraph(told), table("One run, models fitted once and anew", heads, rows)]


def _provenance(study: Study, command: str) -> list[str]:
    shown = dict.fromkeys(s for data in study.design.data for s in DATA[data].schedulers)
    extra = (WEEKLY,) if study.weekly else ()
    policies = [(_name(s), s.policy) for s in (*shown, *extra)]
    return sheets.provenance(
        "made-up stand-ins" if study.stands_in else "public traces", study.trials, policies, command
    )
