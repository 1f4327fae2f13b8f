"""Our own policy on Dally's experiment: against Dally and Tiresias, on jobs that it was not made with, and in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shunter.report.html.page import Cell, choice, note, paragraph, points, table
from shunter.reproduce.dally import headline
from shunter.reproduce.dally.design import (
    ABLATIONS,
    DALLY,
    HELD_OUT,
    OURS,
    PACKED,
    TABLE_I,
    TIRESIAS,
    UNDECLARED,
    WORDS,
    WORLDS,
)
from shunter.reproduce.trials import Scheduler, TrialCase
from shunter.reproduce.writing import cell, percent
from shunter.texts import counted

if TYPE_CHECKING:
    from shunter.reproduce.dally.study import DallyStudy

MEASURES = (("makespan", "makespan_s"), ("mean JCT", "jct_mean_s"))


def section(study: DallyStudy) -> list[str]:
    """What it gains, and what each of its parts does."""
    return [
        paragraph(
            f"{OURS.label} places jobs evenly on few machines, and lets them wait for a better place only while that"
            " saves more than it costs. It knows how many iterations a job declares, and so how much work is left,"
            " which Dally and Tiresias don't use; the second table is without that. Its settings were chosen on every"
            " other job of the published workloads, with the network of Table I; the rows that are held out are of the"
            " other jobs alone, on the same clusters, so at about half the load."
        ),
        points(headline.gains(study)),
        *(_against(study, *pair) for pair in ((OURS, DALLY), (UNDECLARED, DALLY), (OURS, TIRESIAS))),
        _under_readings(study),
        choice("Without one of its parts", {WORDS[w]: [_ablation(study, w)] for w in study.design.workloads}),
        note("Changes of the mean over repeats, with the 95 % intervals of paired draws."),
    ]


def _against(study: DallyStudy, ours: Scheduler, base: Scheduler) -> str:
    """Rows: workloads and networks; columns: cluster sizes."""
    rows: list[list[str | Cell]] = []
    for workload in study.design.workloads:
        places = {
            WORDS[workload]: (workload, TABLE_I),
            WORDS[workload] + HELD_OUT: (workload + HELD_OUT, TABLE_I),
            **{f"{WORDS[workload]}, {world.title.lower()}": (workload, world) for world in WORLDS},
        }
        for name, (jobs, world) in places.items():
            cases, bases = ([study.case(jobs, s, n, world) for n in study.design.racks] for s in (ours, base))
            rows.append([name, *_changes(study, cases, bases)])
        if base == DALLY:
            for more in ("", HELD_OUT):
                cases = [study.case(workload + more, ours, n) for n in study.design.racks]
                bases = [study.read(PACKED, workload + more, DALLY, n) for n in study.design.racks]
                rows.append([f"{WORDS[workload]}{more}, {PACKED.title}", *_changes(study, cases, bases)])
    return table(f"{ours.label} against {base.label}", ["workload", *_heads(study)], rows)


def _under_readings(study: DallyStudy) -> str:
    """Against Dally on the shown size."""
    rows = []
    for reading in study.design.readings():
        pairs = [[study.read(reading, w, s) for w in study.design.workloads] for s in (OURS, DALLY)]
        rows.append([reading.title, *_changes(study, *pairs)])
    heads = [f"{name}, {workload}" for name, _ in MEASURES for workload in study.design.workloads]
    caption = f"{OURS.label} against {DALLY.label} under other readings, {study.design.shown} racks"
    return table(caption, ["reading", *heads], rows)


def _ablation(study: DallyStudy, workload: str) -> str:
    sizes = study.design.racks
    whole = [study.case(workload, OURS, racks) for racks in sizes]
    rows = [
        [part.title, *_changes(study, [study.design.case(workload, n, part.of(OURS.policy)) for n in sizes], whole)]
        for part in ABLATIONS
    ]
    return table(f"{WORDS[workload]}: against all of it", ["part", *_heads(study)], rows)


def _changes(study: DallyStudy, cases: Sequence[TrialCase], bases: Sequence[TrialCase]) -> Iterator[str | Cell]:
    for _, measure in MEASURES:
        for case, base in zip(cases, bases, strict=True):
            yield cell(study.trials.change(case, base, measure), percent)


def _heads(study: DallyStudy) -> list[str]:
    return [f"{name}, {counted(racks, 'rack')}" for name, _ in MEASURES for racks in study.design.racks]
