"""The page: schedulers that adapt beside those that don't, and what is printed."""

from __future__ import annotations

from shunter.adapting.study import LABELS
from shunter.report.html.page import Section, code, facts, points, table
from shunter.reproduce import sheets
from shunter.reproduce.autosched.paper import TITLE, WHY
from shunter.reproduce.autosched.study import AutoschedStudy
from shunter.reproduce.autosched.view import ablation_rows, about, factor, goal
from shunter.run_folder import versions

HEADINGS = ("settings", "objective", "times as good as Fixed, by the past", "as Fixed, in hindsight", "switches",
            "evaluations")  # fmt: skip


def page(study: AutoschedStudy, command: str) -> str:
    """The whole page; ``command`` leads there again."""
    sections = [
        *(Section(f"{policy} on {data}", [_cell(study, data, policy)]) for data, policy in study.cells),
        *([Section("Parts of AutoSched", [_ablations(study)])] if study.part.ablations else []),
        Section("What is printed", [_claims(study), points(WHY)]),
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
