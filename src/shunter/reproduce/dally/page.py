"""The page that puts the paper's figures and ours side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from shunter.report.html.page import Cell, Section, choice, note, paragraph, points, table
from shunter.report.terminal.tables import duration, number, share
from shunter.reproduce.claims import RULE
from shunter.reproduce.dally import figures, headline, ours, paper
from shunter.reproduce.dally.design import DALLY, OURS, SHOWN, TABLE_I, TIRESIAS, WORDS, WORLDS, NetworkSetting, Reading
from shunter.reproduce.dally.study import TITLE, DallyStudy
from shunter.reproduce.sheets import optional, provenance, whole
from shunter.reproduce.trials import Scheduler, TrialCase
from shunter.reproduce.writing import STAND_IN, cell, interval, percent
from shunter.texts import between, counted

JCT = (("mean", "jct_mean_s"), ("median", "jct_p50_s"), ("P95", "jct_p95_s"), ("P99", "jct_p99_s"))
REST: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("makespan", "makespan_s", duration),
    ("queueing delay mean", "wait_mean_s", duration),
    ("P95", "wait_p95_s", duration),
    ("P99", "wait_p99_s", duration),
    ("communication", "communication_mean_s", duration),
    ("GPUs in use", "utilization", share),
    ("preemptions", "preemptions", "{:,.0f}".format),
)
CHANGES = (("makespan", "makespan_s"), ("mean JCT", "jct_mean_s"), ("communication", "communication_mean_s"))
DEFAULT = "as above"


def page(study: DallyStudy, command: str) -> str:
    """The whole page; ``command`` leads there again."""
    design = study.design
    sections = [
        Section("Summary", _overview(study)),
        Section("Tables", [_tables(study, study.case), *_distance(study)]),
        Section("Claims", _claims(study)),
        Section("By size", [figures.by_size(study, TABLE_I)]),
        Section("Over time", [figures.over_time(study)]),
        *optional("Timers", [figures.timers(study)] if design.has(DALLY) else []),
        *optional("Readings", _readings(study)),
        *(Section(world.title, _world(study, world)) for world in WORLDS),
        *optional("Sensitivity", figures.sensitivity(study)),
        *optional("Marshal", ours.section(study) if design.has(OURS, DALLY, TIRESIAS) else []),
        Section("What was run", _provenance(study, command)),
    ]
    lead = f"{TITLE}: its evaluation, run again, beside what is printed."
    return whole("Dally", lead, sections, study.stands_in)


# ------------------------------------------------------------------------------------------- summary


def _overview(study: DallyStudy) -> list[str]:
    design = study.design
    jobs = " and ".join(f"{counted(count, 'job')} ({name})" for name, count in study.jobs.items())
    racks = ", ".join(map(str, design.racks))
    sentences = [
        f"{jobs}; clusters of {racks} racks of 64 GPUs; {counted(len(design.schedulers), 'scheduler')};"
        f" {counted(design.repeats, 'repeat')} of each, with arrivals moved by up to 30 s.",
        *_against_tiresias(study),
        *headline.in_words(study),
        *_luck(study),
        *_verdicts(study),
    ]
    return [*([paragraph(STAND_IN)] if study.stands_in else []), points(sentences), *_headline(study), *_waiting(study)]


def _headline(study: DallyStudy) -> list[str]:
    """Dally against Tiresias on every cluster size, under the readings that stand beside the main result."""
    readings = headline.compared(study)
    return [_by_reading(study, workload, readings) for workload in study.design.workloads] if readings else []


def _by_reading(study: DallyStudy, workload: str, readings: Sequence[Reading | None]) -> str:
    rows: list[list[str | Cell]] = [
        [
            headline.title(reading),
            *(
                cell(headline.change(study, reading, workload, racks, measure), percent)
                for _, measure in headline.MEASURES
                for racks in study.design.racks
            ),
        ]
        for reading in readings
    ]
    heads = [f"{name}, {counted(racks, 'rack')}" for name, _ in headline.MEASURES for racks in study.design.racks]
    return table(f"{WORDS[workload]}: Dally against Tiresias", ["reading", *heads], rows)


def _waiting(study: DallyStudy) -> list[str]:
    """Why jobs wait, on every cluster size."""
    rows: list[list[str | Cell]] = []
    for workload in study.design.workloads:
        for s in headline.explained(study):
            found = [headline.waited(study, workload, s, racks) for racks in study.design.racks]
            cells = [cell(part[name], share) if part else "–" for _, name in headline.WAITS for part in found]
            rows.append([f"{WORDS[workload]}, {s.label}", *cells])
    heads = [f"{name}, {counted(racks, 'rack')}" for name, _ in headline.WAITS for racks in study.design.racks]
    legend = "Not close: enough GPUs are free, but the job waits for closer ones. Timers act on that waiting alone."
    return [table("What jobs wait for: part of all waiting", ["", *heads], rows), note(legend)] if rows else []


def _against_tiresias(study: DallyStudy) -> list[str]:
    if not study.design.has(DALLY, TIRESIAS):
        return []
    sentences = []
    for workload in study.design.workloads:
        case, base = study.case(workload, DALLY), study.case(workload, TIRESIAS)
        parts = []
        for name, measure in CHANGES:
            change = study.trials.change(case, base, measure)
            ends = f" (95 %: {interval(change, percent)})" if interval(change) else ""
            parts.append(f"{name} {percent(change.value)}{ends}")
        sentences.append(f"{WORDS[workload]}, {study.design.shown} racks, Dally against Tiresias: {', '.join(parts)}.")
    return sentences


def _luck(study: DallyStudy) -> list[str]:
    """How much a single run says."""
    if study.design.repeats < 2:
        return ["One run of each shows little: repeats that differ by seconds in arrivals can differ widely."]
    sentences = []
    for workload in study.design.workloads:
        spans = {
            s.label: [o.numbers["makespan_s"] for o in study.trials.outcomes[study.case(workload, s)]]
            for s in study.design.schedulers
        }
        widest = max(spans, key=lambda name: max(spans[name]) / max(min(spans[name]), 1e-9))
        low, high = min(spans[widest]), max(spans[widest])
        sentences.append(
            f"{WORDS[workload]}: under {widest} the makespan of single repeats is"
            f" {between(duration(low), duration(high))}, though their arrivals differ by seconds."
            " Intervals are of the mean over repeats."
        )
    return sentences


def _verdicts(study: DallyStudy) -> list[str]:
    found = study.findings()
    return [paper.verdict(found)] if found else []


# ------------------------------------------------------------------------------------------- tables


def _tables(study: DallyStudy, of: Callable[[str, Scheduler], TrialCase], beside: bool = True) -> str:
    """All numbers of all schedulers on the shown size; ``beside``: what is printed, too."""
    beside = beside and study.design.shown == SHOWN
    return "".join(
        made for w in study.design.workloads for made in (_jct_table(study, w, of, beside), _rest_table(study, w, of))
    )


def _jct_table(study: DallyStudy, workload: str, of: Callable[[str, Scheduler], TrialCase], beside: bool) -> str:
    rows = []
    for scheduler in study.design.schedulers:
        cells: list[str | Cell] = [scheduler.label]
        for _, measure in JCT:
            cells.append(cell(study.trials.of(of(workload, scheduler), measure)))
            figure = paper.printed(workload, scheduler, measure)
            cells += [duration(figure) if figure else "–"] if beside else []
        rows.append(cells)
    heads = [head for name, _ in JCT for head in ([f"JCT {name}", "printed"] if beside else [f"JCT {name}"])]
    caption = f"{WORDS[workload]}, {study.design.shown} racks: completion times with 95 % intervals"
    return table(caption + (f", beside {paper.TABLES[workload]}" if beside else ""), ["scheduler", *heads], rows)


def _rest_table(study: DallyStudy, workload: str, of: Callable[[str, Scheduler], TrialCase]) -> str:
    rows: list[list[str | Cell]] = [
        [s.label, *(cell(study.trials.of(of(workload, s), measure), write) for _, measure, write in REST)]
        for s in study.design.schedulers
    ]
    caption = f"{WORDS[workload]}, {study.design.shown} racks: everything else"
    return table(caption, ["scheduler", *(name for name, *_ in REST)], rows)


def _distance(study: DallyStudy) -> list[str]:
    factor = study.distance()
    printed = "The paper prints only JCTs of four schedulers on 8 racks, in seconds."
    off = f" Ours are off by a factor of {number(factor)} in the geometric mean." if math.isfinite(factor) else ""
    return [note(printed + off)]


def _claims(study: DallyStudy) -> list[str]:
    found = study.findings()
    if not found:
        return [paragraph("The claims of the paper are about jobs, schedulers or cluster sizes that were not run.")]
    tables = [
        _claims_table(study, workload, [f for f in found if f.claim.workload == workload])
        for workload in study.design.workloads
    ]
    return [
        *tables,
        note(
            "Ours: by how much the mean over repeats is above or below, with the 95 % interval of paired draws."
            f" Direction: yes where the whole interval is on the printed side. {RULE} A range within which a change"
            " should be is not widened."
        ),
    ]


def _claims_table(study: DallyStudy, workload: str, found: Sequence[paper.ChangeClaimResult]) -> str:
    rows = []
    for one in found:
        sizes = [cell(one.ours[n], percent) if n in one.ours else "" for n in study.design.racks]
        total = "" if one.claim.over == "each" else cell(one.judged[one.claim.over], percent)
        verdict = Cell(one.direction, hint=f"size: {one.size}" if one.claim.sized else "")
        rows.append([one.claim.text, one.claim.printed, *sizes, total, verdict])
    heads = ["claim", "printed", *(counted(n, "rack") for n in study.design.racks), "all sizes", "direction"]
    return table(f"{WORDS[workload]}: section VI, and what comes out", heads, rows, {1, len(heads) - 1})


# ------------------------------------------------------------------------------------------- readings and networks


def _readings(study: DallyStudy) -> list[str]:
    design = study.design
    readings = design.readings()
    if not readings:
        return []
    rows = [[reading.title if reading else DEFAULT, *_reading(study, reading)] for reading in (None, *readings)]
    heads = [f"{w}: {name}" for w in design.workloads for name, _ in CHANGES]
    parts = {reading.title: [_tables(study, partial(study.read, reading))] for reading in readings}
    sentences = (
        f"What the paper leaves open, one reading at a time, on {design.shown} racks: Dally's change against Tiresias,"
        " and by which factor the JCTs of Tables II and III are off in the geometric mean, as they are and relative to"
        " Dally's."
    )
    return [
        paragraph(sentences),
        table("Readings", ["reading", *heads, "JCTs off by"], [*_printed(study), *rows]),
        *_on_all_sizes(study, readings),
        *_nearest(study, readings),
        choice("Reading", parts),
    ]


def _on_all_sizes(study: DallyStudy, readings: Sequence[Reading]) -> list[str]:
    if not study.design.has(DALLY, TIRESIAS):
        return []
    parts = {WORDS[w]: [_by_reading(study, w, [None, *readings])] for w in study.design.workloads}
    return [choice("Readings on all cluster sizes", parts)]


def _printed(study: DallyStudy) -> list[list[str | Cell]]:
    """What the paper has in the place of a reading's changes: JCT on 8 racks, the rest over all sizes."""
    if study.design.shown != SHOWN:
        return []
    ranges = {"batch": {"makespan_s": "up to −69 %", "communication_mean_s": "−83 to −53 %"}, "poisson": {}}
    cells: list[str | Cell] = ["printed"]
    for workload in study.design.workloads:
        figures_of = [paper.printed(workload, s, "jct_mean_s") or 1.0 for s in (DALLY, TIRESIAS)]
        texts = {**ranges[workload], "jct_mean_s": percent(figures_of[0] / figures_of[1] - 1)}
        cells += [texts.get(measure, "–") for _, measure in CHANGES]
    return [[*cells, ""]]


def _reading(study: DallyStudy, reading: Reading | None) -> list[str | Cell]:
    cells: list[str | Cell] = []
    for workload in study.design.workloads:
        for _, measure in CHANGES:
            if study.design.has(DALLY, TIRESIAS):
                case, base = (study.read(reading, workload, s) for s in (DALLY, TIRESIAS))
                cells.append(cell(study.trials.change(case, base, measure), percent))
            else:
                cells.append("–")
    factor, relative = (study.distance(reading, relative) for relative in (False, True))
    off = Cell(f"{number(factor)} ×", hint=f"relative {number(relative)} ×") if math.isfinite(factor) else Cell("–")
    return [*cells, off]


def _nearest(study: DallyStudy, readings: Sequence[Reading]) -> list[str]:
    sentences = []
    for name, relative in (("JCTs as they are", False), ("JCTs relative to Dally's", True)):
        factors = {r.title if r else DEFAULT: study.distance(r, relative) for r in (None, *readings)}
        if all(map(math.isfinite, factors.values())):
            best = min(factors, key=factors.__getitem__)
            sentences.append(
                f"Nearest by {name}: '{best}', off by a factor of {number(factors[best])} ('{DEFAULT}':"
                f" {number(factors[DEFAULT])})."
            )
    return (
        [points([*sentences, "Which one is nearest is known only after looking. No default was chosen by it."])]
        if sentences
        else []
    )


def _world(study: DallyStudy, world: NetworkSetting) -> list[str]:
    return [
        paragraph(f"The same with {world.description}."),
        _tables(study, lambda workload, scheduler: study.case(workload, scheduler, 0, world), beside=False),
        figures.by_size(study, world, ("makespan_s", "jct_mean_s")),
    ]


# ------------------------------------------------------------------------------------------- provenance


def _provenance(study: DallyStudy, command: str) -> list[str]:
    design = study.design
    workloads = "made-up stand-ins" if study.stands_in else "as published by the authors"
    policies = [(s.label, study.case(design.workloads[0], s).policy) for s in design.schedulers]
    return provenance(workloads, study.trials, policies, command)
