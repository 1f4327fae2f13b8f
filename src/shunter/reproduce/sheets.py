"""Parts of a page that several reproductions have: tables of schedulers, claims, and what was run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from shunter.folders import versions
from shunter.report.html.page import Cell, Section, code, facts, note, paragraph, table
from shunter.report.tables import duration, number
from shunter.reproduce.claims import Finding
from shunter.reproduce.trials import Case, Scheduler, Trials
from shunter.reproduce.writing import cell

Write: TypeAlias = Callable[[float], str]
Measure: TypeAlias = tuple[str, str, Write]  # heading, name of the number, how it is written
Printed: TypeAlias = Callable[
    [Scheduler, str], float | None
]  # what is printed for a scheduler and a number, if anything

JCT: tuple[Measure, ...] = (
    ("JCT mean", "jct_mean_s", duration),
    ("median", "jct_p50_s", duration),
    ("P95", "jct_p95_s", duration),
    ("P99", "jct_p99_s", duration),
)
QUEUEING: tuple[Measure, ...] = (
    ("queueing delay mean", "wait_mean_s", duration),
    ("median", "wait_p50_s", duration),
    ("P95", "wait_p95_s", duration),
    ("P99", "wait_p99_s", duration),
)


def times(factor: float) -> str:
    """How many times."""
    return f"{number(factor)}×"


def optional(title: str, body: Sequence[str]) -> list[Section]:
    """A section, if anything is in it."""
    return [Section(title, [part for part in body if part])] if any(body) else []


def scheduler_table(
    trials: Trials,
    caption: str,
    cases: Mapping[Scheduler, Case],
    measures: Sequence[Measure],
    printed: Printed = lambda scheduler, measure: None,
    more: Sequence[Sequence[str | Cell]] = (),
) -> str:
    """Schedulers and numbers of theirs with intervals; beside each number what is printed, where anything is."""
    beside = {name for _, name, _ in measures if any(printed(s, name) is not None for s in cases)}
    heads, rows = ["scheduler"], []
    for heading, name, _ in measures:
        heads += [heading, "printed"] if name in beside else [heading]
    for scheduler, case in cases.items():
        cells: list[str | Cell] = [scheduler.label]
        for _, name, write in measures:
            cells.append(cell(trials.of(case, name), write))
            if name in beside:
                figure = printed(scheduler, name)
                cells.append("–" if figure is None else write(figure))
        rows.append(cells)
    return table(caption, heads, [*rows, *more])


def factor_table(trials: Trials, caption: str, cases: Mapping[Scheduler, Case], base: Scheduler) -> str:
    """How many times as large the numbers of one scheduler are as those of the others."""
    shown = [measure for part in (JCT, QUEUEING) for measure in (part[0], *part[2:])]
    rows: list[list[str | Cell]] = [
        [s.label, *(cell(trials.factor(cases[base], case, name), times) for _, name, _ in shown)]
        for s, case in cases.items()
        if s != base
    ]
    return table(caption, ["scheduler", *(heading for heading, _, _ in shown)], rows)


def claims_section(found: Sequence[Finding], titles: Mapping[str, str]) -> list[str]:
    """What is printed, beside ours."""
    if not found:
        return [paragraph("What is printed is about jobs or schedulers that were not run.")]
    rows: list[list[str | Cell]] = [
        [
            one.claim.text,
            titles[one.claim.data],
            one.claim.printed,
            cell(one.ours, times),
            Cell(one.direction, hint=f"size: {one.size}"),
            one.claim.source,
        ]
        for one in found
    ]
    told = (
        "Ours: the factor of the means over repeats, with the 95 % interval of paired draws. Direction: yes where the"
        " whole interval is above 1. Size: yes where the printed factor is in the interval."
    )
    return [
        table("Printed factors, and ours", ["claim", "jobs", "printed", "ours", "direction", "from"], rows, {1, 4, 5}),
        note(told),
    ]


def provenance(workloads: str, trials: Trials, policies: Sequence[tuple[str, str]], command: str) -> list[str]:
    """What leads to the same page again."""
    found = versions()
    packages = ", ".join(f"{name} {version}" for name, version in found.items() if name not in ("shunter", "platform"))
    about = [
        ("workloads", workloads),
        ("runs", f"{sum(len(outcomes) for outcomes in trials.outcomes.values()):,}"),
        ("seed", str(trials.seed)),
        ("shunter", found["shunter"]),
        ("with", packages),
        ("on", found["platform"]),
    ]
    caption = "Schedulers, with the settings that differ from their defaults"
    return [facts(about), table(caption, ["scheduler", "policy"], policies, (1,)), code(command)]
