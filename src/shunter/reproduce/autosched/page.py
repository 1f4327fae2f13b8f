"""The page: schedulers that adapt beside those that don't, and what is printed."""

from __future__ import annotations

from collections.abc import Sequence

from shunter.adapting.study import LABELS
from shunter.report.html.page import Section, code, facts, points, table
from shunter.reproduce import sheets
from shunter.reproduce.autosched.paper import SAVINGS_WHY, TITLE, WHY, NotMeasured
from shunter.reproduce.autosched.study import AutoschedStudy
from shunter.reproduce.autosched.view import ablation_rows, about, factor, goal, saving_rows, time_rows
from shunter.run_folder import versions

HEADINGS = ("settings", "objective", "times as good as Fixed, by the past", "as Fixed, in hindsight", "switches",
            "evaluations")  # fmt: skip


def page(study: AutoschedStudy, command: str) -> str:
    """The whole page; ``command`` leads there again."""
    sections = [
        *(Section(f"{policy} on {data}", [_cell(study, data, policy)]) for data, policy in study.cells),
        *([Section("Parts of AutoSched", [_ablations(study)])] if study.part.ablations else []),
        Section("What is printed", [_claims(study), points(WHY)]),
        Section("What is printed about searches", [*_searches(study), points(SAVINGS_WHY)]),
        *not_measured(study.not_measured()),
        Section("What was run", [points([about(study)]), facts([("shunter", versions()["shunter"])]), code(command)]),
    ]
    lead = f"{TITLE}: settings that adapt every hour, beside settings that stay."
    return sheets.whole("AutoSched", lead, sections, study.stands_in)


def _cell(study: AutoschedStudy, data: str, policy: str) -> str:
    rows = [
        [LABELS[row["settings"]], goal(row), factor(row["over_fixed"]), factor(row["over_hindsight"]),
         f"{row['switches']:,.0f}", f"{row['evaluations']:,.0f}"]
        for row in study.rows()
        if (row["data"], row["policy"]) == (data, policy)
    ]  # fmt: skip
    return table(f"{policy}, {data}", HEADINGS, rows)


def _ablations(study: AutoschedStudy) -> str:
    return table("Parts", ["scheduler", "times as good as AutoSched", "evaluations", "search"], ablation_rows(study))


def _claims(study: AutoschedStudy) -> str:
    rows = [
        [gain.claim.text, gain.data, gain.claim.source, gain.claim.printed, factor(gain.record["ours"]), gain.verdict]
        for gain in study.gains()
    ]
    return table(
        "How many times as good", ["claim", "jobs", "source", "printed", "ours", "as printed"], rows, {1, 2, 5}
    )


def _searches(study: AutoschedStudy) -> list[str]:
    headings, times = ["claim", "source", "jobs", "printed"], time_rows(study)
    fast = [*headings, "ours", "as few evaluations", "as printed"]
    return [
        table("How many times as fast", fast, saving_rows(study), {1, 2, 6}),
        *([table("How long", [*headings, "ours, median to P99"], times, {1, 2, 3})] if times else []),
    ]


def not_measured(claims: Sequence[NotMeasured]) -> list[Section]:
    """What is printed and has nothing of ours beside it, and why."""
    rows = [[each.text, each.source, each.printed, each.reason] for each in claims]
    made = table("Printed, not measured here", ["claim", "source", "printed", "reason"], rows, {1, 2, 3})
    return [Section("What is not measured here", [made])] if claims else []
