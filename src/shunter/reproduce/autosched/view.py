"""The tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.adapting.study import LABELS
from shunter.report.terminal.tables import duration, table
from shunter.reproduce import views
from shunter.reproduce.autosched.design import DATA
from shunter.reproduce.autosched.paper import SAVINGS_WHY, WHY, NotMeasured
from shunter.reproduce.autosched.study import AutoschedStudy
from shunter.reproduce.writing import STAND_IN


def view(study: AutoschedStudy) -> RenderableType:
    """Each cell, then what is printed beside ours."""
    notes = (*([STAND_IN] if study.stands_in else []), about(study), *WHY, *SAVINGS_WHY)
    return Group(
        *(_cell(study, data, policy) for data, policy in study.cells),
        *_ablations(study),
        _claims(study),
        _savings(study),
        *_times(study),
        *not_measured(study.not_measured()),
        *views.notes(*notes),
    )


def about(study: AutoschedStudy) -> str:
    """What was run, in a sentence."""
    part = study.part
    again = f" and every {part.recheck / 60_000:g} minutes" if part.recheck else ""
    sizes = "; ".join(
        f"{DATA[name].title}: {f['jobs']:,} jobs, {f['gpus']:,} GPUs, load {f['load']:.2f}"
        for name, f in study.facts.items()
    )
    return (
        f"{part.days:g} day{'s' * (part.days != 1)}, {part.repeat} seed{'s' * (part.repeat > 1)},"
        f" {part.budget} evaluations every hour{again}; search {part.search}, generator {part.generator}. {sizes}."
    )


def factor(found: Mapping[str, float | None]) -> str:
    """How many times, with its interval."""
    if found["value"] is None:
        return "–"
    ends = f" ({found['low']:.3f} to {found['high']:.3f})" if found["low"] is not None else ""
    return f"{found['value']:.3f}{ends}"


def goal(row: Mapping[str, Any]) -> str:
    """The objective as it is printed."""
    return duration(row["jct_mean_s"]) if row["objective"] == "jct" else f"{100 * row['rho_at_most_1']:.1f} %"


def _cell(study: AutoschedStudy, data: str, policy: str) -> RenderableType:
    rows = [row for row in study.rows() if (row["data"], row["policy"]) == (data, policy)]
    what = "mean JCT" if rows[0]["objective"] == "jct" else "rho <= 1"
    made = table(f"{policy}, {data}", what, "times as good as\nFixed in hindsight", "evaluations", "search")
    for row in rows:
        took = "–" if row["search_median_s"] is None else f"{1000 * row['search_median_s']:,.0f} ms"
        name = LABELS[row["settings"]]
        made.add_row(name, goal(row), Text(factor(row["over_hindsight"])), f"{row['evaluations']:,.0f}", took)
    return made


def ablation_rows(study: AutoschedStudy) -> list[list[str]]:
    """What parts of AutoSched change."""
    return [
        [f"{row['policy']}, {row['data']}: {LABELS.get(row['name'], row['name'])}", factor(row["over_autosched"]),
         f"{row['evaluations']:,.0f}", f"{1000 * (row['search_median_s'] or 0):,.0f} ms"]
        for row in study.ablations()
    ]  # fmt: skip


def _ablations(study: AutoschedStudy) -> list[RenderableType]:
    if not study.part.ablations:
        return []
    made = table("parts of AutoSched", "times as good\nas AutoSched", "evaluations", "search")
    for row in ablation_rows(study):
        made.add_row(*map(Text, row))
    return [made]


def _claims(study: AutoschedStudy) -> RenderableType:
    made = table("printed: how many times as good", "jobs", "printed", "ours", "as\nprinted")
    for gain in study.gains():
        text = f"{gain.claim.text}\n({gain.claim.source})"
        made.add_row(Text(text), gain.data, gain.claim.printed, Text(factor(gain.record["ours"]).replace(" (", "\n(")),
                     gain.verdict)  # fmt: skip
    return made


def saving_rows(study: AutoschedStudy) -> list[list[str]]:
    """How many times as fast searches are with parts: claim, source, jobs, printed, ours, evaluations, verdict."""
    return [
        [each.claim.text, each.claim.source, each.data, each.claim.printed, factor(each.record["ours"]),
         "–" if each.evaluations is None else f"{each.evaluations:.2f}", each.verdict]
        for each in study.savings()
    ]  # fmt: skip


def time_rows(study: AutoschedStudy) -> list[list[str]]:
    """How long searches take: claim, source, jobs, printed, ours."""
    return [
        [each.claim.text, each.claim.source, each.data, each.claim.printed,
         "not run" if each.seconds is None else " to ".join(f"{1000 * took:,.0f} ms" for took in each.seconds)]
        for each in study.times()
    ]  # fmt: skip


def _savings(study: AutoschedStudy) -> RenderableType:
    made = table("printed: how many times as fast", "jobs", "printed", "ours", "as few\nevaluations", "as\nprinted")
    for text, source, data, printed, ours, *more in saving_rows(study):
        made.add_row(Text(f"{text}\n({source})"), data, printed, Text(ours.replace(" (", "\n(")), *more)
    return made


def _times(study: AutoschedStudy) -> list[RenderableType]:
    made = table("printed: how long", "jobs", "printed", "ours, median to P99")
    for text, source, *more in time_rows(study):
        made.add_row(Text(f"{text}\n({source})"), *more)
    return [made] if made.rows else []


def not_measured(claims: Sequence[NotMeasured]) -> list[RenderableType]:
    """What is printed and has nothing of ours beside it, and why."""
    made = table("printed, not measured here", "printed")
    for each in claims:
        made.add_row(Text(f"{each.text} ({each.source})\n{each.reason}"), each.printed)
    return [made] if claims else []
