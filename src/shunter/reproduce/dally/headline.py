"""Conclusions from all readings together, and what explains them: why jobs wait, and the effect of placement alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.policies.tiresias import Tiresias
from shunter.report.bootstrap import FEWEST, Estimate
from shunter.report.terminal.tables import share
from shunter.reproduce.dally.design import (
    CONSOLIDATED,
    DALLY,
    EXPLAINED,
    HELD_OUT,
    MANUAL,
    OURS,
    PACKED,
    TIRESIAS,
    WORDS,
    Reading,
)
from shunter.reproduce.numbers import WAITED_CLOSER, WAITED_FULL
from shunter.reproduce.trials import Scheduler, TrialCase
from shunter.reproduce.writing import interval, percent, record
from shunter.texts import between

if TYPE_CHECKING:
    from shunter.reproduce.dally.study import DallyStudy

MEASURES = (("makespan", "makespan_s"), ("mean JCT", "jct_mean_s"))
WAITS = (("too few free", WAITED_FULL), ("not close", WAITED_CLOSER))
AS_ABOVE = "Tiresias as above"
PLAIN = "Dally with spread=pack"  # Dally in all but placement


# ------------------------------------------------------------------------------------------- Dally against Tiresias


def compared(study: DallyStudy) -> list[Reading | None]:
    """The readings that stand beside the main result, which comes first; nothing where one of the two is missing."""
    if not study.design.has(DALLY, TIRESIAS):
        return []
    return [None, *(reading for reading in study.design.readings() if reading.headline)]


def title(reading: Reading | None) -> str:
    """What Dally is compared with."""
    return reading.title if reading else AS_ABOVE


def change(study: DallyStudy, reading: Reading | None, workload: str, racks: int, measure: str) -> Estimate:
    """By which part a measure of Dally is above (below: negative) that of Tiresias."""
    case, base = (study.read(reading, workload, s, racks) for s in (DALLY, TIRESIAS))
    return study.trials.change(case, base, measure)


def conclusions(study: DallyStudy) -> list[str]:
    """In how many of all comparisons Dally is ahead, one sentence per workload and measure; none without intervals."""
    readings, racks = compared(study), study.design.racks
    if not readings or study.design.repeats < FEWEST:
        return []
    said = []
    for workload in study.design.workloads:
        for name, measure in MEASURES:
            found = [[change(study, reading, workload, n, measure) for n in racks] for reading in readings]
            ahead = [sum(one.high < 0 for one in row) for row in found]
            behind = sum(one.low > 0 for row in found for one in row)
            total = len(readings) * len(racks)
            said.append(
                f"{WORDS[workload]}, {name}: Dally is clearly ahead of Tiresias in {sum(ahead)} of {total} comparisons"
                f" ({len(readings)} readings x {len(racks)} cluster sizes), clearly behind in {behind};"
                f" {total - sum(ahead) - behind} are not clear. '{AS_ABOVE}' alone: ahead in {ahead[0]} of"
                f" {len(racks)}."
            )
    return said


def queues(study: DallyStudy) -> list[str]:
    """How much of the work lies beyond the queues of Tiresias as above, where submission alone decides."""
    if not study.design.has(TIRESIAS):
        return []
    last = max(float(limit) for limit in Tiresias().limits.split("/"))
    return [
        f"{WORDS[workload]}: a job needs {work.mean():,.0f} GPU s on average. The last queue of '{AS_ABOVE}' begins"
        f" at {last:,.0f}: {share(np.maximum(work - last, 0).sum() / work.sum())} of the work is done there, first"
        " come, first served."
        for workload, work in study.work.items()
    ]


# ------------------------------------------------------------------------------------------- why jobs wait


def explained(study: DallyStudy) -> list[Scheduler]:
    """Schedulers with recorded reasons for waiting."""
    return [scheduler for scheduler in EXPLAINED if scheduler in study.design.schedulers]


def waited(study: DallyStudy, workload: str, scheduler: Scheduler, racks: int = 0) -> dict[str, Estimate]:
    """Parts of all waiting, by what it was for; nothing where no job waited. 0 racks: the shown size."""
    case = study.case(workload, scheduler, racks)
    found = {name: study.trials.of(case, name) for _, name in WAITS}
    return found if any(one.value > 0 for one in found.values()) else {}


def waits(study: DallyStudy) -> list[str]:
    """How much of the waiting timers can act on, on the shown size."""
    variants = [scheduler for scheduler in explained(study) if scheduler != TIRESIAS]
    if not variants:
        return []
    said = []
    for workload in study.design.workloads:
        shares = [waited(study, workload, s) for s in variants]
        parts = [found[WAITED_FULL].value for found in shares if found]
        if not parts:
            continue
        names = ", ".join(s.label for s in variants)
        full = between(share(min(parts)), share(max(parts)))
        said.append(
            f"{WORDS[workload]}, {study.design.shown} racks: {full} of all waiting"
            f" under {names} is for want of free GPUs. Timers act on the rest alone."
        )
    return said


# ------------------------------------------------------------------------------------------- the effect of timers


def untuned(study: DallyStudy) -> list[Scheduler]:
    """Dally with other timers than tuned ones, where that one takes part too."""
    return [s for s in (MANUAL, CONSOLIDATED) if study.design.has(DALLY, s)]


def timed(study: DallyStudy, workload: str, scheduler: Scheduler, racks: int, measure: str) -> Estimate:
    """By which part a measure with these timers is above (below: negative) that with tuned ones; of paired runs."""
    case, base = (study.case(workload, s, racks) for s in (scheduler, DALLY))
    return study.trials.change(case, base, measure)


def timers(study: DallyStudy) -> list[str]:
    """What fixed and infinite timers change, by cluster size; nothing without intervals."""
    if study.design.repeats < FEWEST:
        return []
    racks = ", ".join(map(str, study.design.racks))
    said = []
    for workload in study.design.workloads:
        for scheduler in untuned(study):
            found = [timed(study, workload, scheduler, n, "jct_mean_s") for n in study.design.racks]
            parts = "; ".join(f"{percent(one.value)} ({interval(one, percent)})" for one in found)
            said.append(f"{WORDS[workload]}, mean JCT of {scheduler.label} against Dally on {racks} racks: {parts}.")
    return said


# ------------------------------------------------------------------------------------------- the effect of placement


def placements(study: DallyStudy, workload: str, racks: int) -> Iterator[tuple[str, TrialCase, TrialCase]]:
    """Marshal against Dally, and both against Dally with Marshal's placement on few machines."""
    ours, dally = (study.case(workload, s, racks) for s in (OURS, DALLY))
    packed = study.design.read(PACKED, workload, DALLY, racks)
    yield f"{OURS.label} against Dally", ours, dally
    yield f"{OURS.label} against {PLAIN}", ours, packed
    yield f"{PLAIN} against Dally", packed, dally


def placed(study: DallyStudy, workload: str, measure: str) -> dict[str, list[Estimate]]:
    """The changes of ``placements`` by cluster size."""
    found: dict[str, list[Estimate]] = {}
    for racks in study.design.racks:
        for name, case, base in placements(study, workload, racks):
            found.setdefault(name, []).append(study.trials.change(case, base, measure))
    return found


def gains(study: DallyStudy) -> list[str]:
    """How much of what Marshal gains comes from placement alone."""
    if not study.design.has(OURS, DALLY):
        return []
    racks = ", ".join(map(str, study.design.racks))
    said = []
    for workload, jobs in ((w, jobs) for w in study.design.workloads for jobs in ("", HELD_OUT)):
        for name, measure in MEASURES:
            whole, rest, _ = (
                ", ".join(percent(one.value) for one in row) for row in placed(study, workload + jobs, measure).values()
            )
            said.append(
                f"{WORDS[workload]}{jobs}, {name} of {OURS.label} on {racks} racks: {whole} against Dally, {rest}"
                f" against {PLAIN}."
            )
    return [*said, f"What {OURS.label} gains over Dally but not over {PLAIN} is placement."] if said else []


def in_words(study: DallyStudy) -> list[str]:
    """All of it in words."""
    return [*conclusions(study), *queues(study), *waits(study), *timers(study), *gains(study)]


def summary(study: DallyStudy) -> dict[str, Any]:
    """All of it for scripts."""
    design, beside = study.design, compared(study)
    rows = [
        {"workload": workload, "racks": racks, "reading": title(reading), "headline": reading in beside}
        | {measure: record(change(study, reading, workload, racks, measure)) for _, measure in MEASURES}
        for workload in design.workloads
        for reading in ([None, *design.readings()] if beside else [])
        for racks in design.racks
    ]
    reasons = [
        {"workload": workload, "racks": racks, "scheduler": s.label}
        | {name: record(one) for name, one in waited(study, workload, s, racks).items()}
        for workload in design.workloads
        for s in explained(study)
        for racks in design.racks
    ]
    untuned_rows = [
        {"workload": workload, "racks": racks, "scheduler": s.label}
        | {measure: record(timed(study, workload, s, racks, measure)) for _, measure in MEASURES}
        for workload in design.workloads
        for s in untuned(study)
        for racks in design.racks
    ]
    placement = [
        {"workload": workload + jobs, "racks": racks, "comparison": name}
        | {measure: record(study.trials.change(case, base, measure)) for _, measure in MEASURES}
        for workload in design.workloads
        for jobs in ("", HELD_OUT)
        for racks in (design.racks if design.has(OURS, DALLY) else ())
        for name, case, base in placements(study, workload + jobs, racks)
    ]
    return {
        "dally_against_tiresias": rows,
        "waiting": reasons,
        "timers_against_tuned": untuned_rows,
        "placement": placement,
        "conclusions": in_words(study),
    }
