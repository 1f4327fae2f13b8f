"""The page: what is printed and ours, side by side."""

from __future__ import annotations

from shunter.report.html.page import Section, code, facts, paragraph, render, table
from shunter.report.html.page import points as bullets
from shunter.reproduce.qoredl import paper
from shunter.reproduce.qoredl.design import ASSUMED, CHOSEN_BY, OURS
from shunter.reproduce.qoredl.study import QoredlStudy
from shunter.reproduce.qoredl.view import defined, headings, met_rows, points, rest_rows, setting_rows
from shunter.run_folder import versions
from shunter.texts import between


def page(study: QoredlStudy, command: str) -> str:
    """The whole page; ``command`` leads there again."""
    cells = [heading.replace("\n", ", ") for heading in headings(study)]
    other, claims = study.best_other, [[claim, printed, points(ours)] for claim, printed, ours in study.findings()]
    lead = f"Deadlines met by {OURS}, compared with the next best ({other}): {points(study.ahead(OURS, other))}."
    about, part = versions(), study.part
    run = [
        ("runs", f"{len(part.policies) * len(part.cells) * part.seeds:,} of {part.jobs} jobs"),
        ("seeds", between(str(part.seed), str(part.seed + part.seeds - 1))),
        ("shunter", about["shunter"]),
        ("on", about["platform"]),
    ]
    sections = [
        Section("Summary", [paragraph(lead)]),
        Section(
            "Deadlines met",
            [
                table("Of those that could be met alone", ["policy", *cells, "mean"], met_rows(study)),
                table("Means of all", ["policy", "late", "moves a job", "efficiency"], rest_rows(study)),
                bullets(defined(study)),
            ],
        ),
        Section(
            "What is printed",
            [
                table("Claims", ["claim", "printed", "ours"], claims, words={1}),
                bullets(paper.WHY),
                table(
                    "What can't be compared", ["printed", "value", "why"], [list(row) for row in paper.NOT_RUN], {1, 2}
                ),
            ],
        ),
        Section(
            "How it was run",
            [
                bullets(ASSUMED),
                table("Settings", ["policy", "settings", "prediction", "widths"], setting_rows(study), {1, 2, 3}),
                bullets(CHOSEN_BY),
            ],
        ),
        Section("What was run", [facts(run), code(command)]),
    ]
    return render("Qore-DL's experiments, again", f"{paper.TITLE}: three testbeds, ours beside it.", sections)
