"""The main tables for a terminal."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType

from shunter.report.bootstrap import Estimate
from shunter.report.terminal.tables import duration, number, share, table
from shunter.reproduce import views
from shunter.reproduce.qoredl import paper
from shunter.reproduce.qoredl.design import ASSUMED, CHOSEN_BY, NOISE, TESTBEDS, Variant
from shunter.reproduce.qoredl.study import QoredlStudy
from shunter.reproduce.writing import interval

DEFINED = (
    "met: share of the deadlines that could be met alone; efficiency: instance time at the width asked for over that"
    " which was used",
    "prediction: users declare an upper bound of the work, and policies plan with it (none); noisy and true put a"
    f" prediction in its place, noisy with a mean error of {NOISE:.0%} of the declared run; no policy sees the truth",
)


def defined(study: QoredlStudy) -> list[str]:
    """What words and parentheses mean."""
    if any(math.isfinite(found.low) for _, _, found in study.findings()):
        return [*DEFINED, "in parentheses: 95 % intervals over seeds, of differences seed by seed"]
    return [*DEFINED, "no intervals: there are too few seeds for them"]


def points(found: Estimate) -> str:
    """A difference of shares in points, with its interval."""
    text = f"{100 * found.value:+.1f}"
    ends = interval(Estimate(*(100 * value for value in found)), lambda value: f"{value:+.1f}")
    return f"{text} ({ends}) points" if ends else f"{text} points"


def view(study: QoredlStudy) -> RenderableType:
    """Deadlines met by testbed and load, the rest, and what is claimed."""
    return Group(
        met(study), rest(study), claims(study), *views.notes(*defined(study), *paper.WHY, *ASSUMED, *CHOSEN_BY)
    )


def setting_rows(study: QoredlStudy) -> list[list[str]]:
    """What each label stands for."""
    return [
        [name, variant.policy, variant.prediction, _instances(variant)] for name, variant in study.part.policies.items()
    ]


def _instances(variant: Variant) -> str:
    """What is not as usual of the instances of jobs."""
    if variant.equipped:
        return "with servers and a range of CPU"
    return "" if variant.ranged else "as asked for"


def met_rows(study: QoredlStudy) -> list[list[str]]:
    """Deadlines met in each cell, and in the mean."""
    rows = []
    for policy in study.part.policies:
        cells = [share(study.of(policy, "met", [cell]).value) for cell in study.part.cells]
        rows.append([policy, *cells, share(study.of(policy, "met").value)])
    return rows


def rest_rows(study: QoredlStudy) -> list[list[str]]:
    """Lateness, moves, efficiency: means of all cells."""
    return [
        [
            policy,
            duration(study.of(policy, "late_s").value),
            number(study.of(policy, "moves").value),
            share(study.of(policy, "efficiency").value),
        ]
        for policy in study.part.policies
    ]


def headings(study: QoredlStudy) -> list[str]:
    """Of the cells."""
    return [f"{TESTBEDS[bed].title}\nload {load:g}" for bed, load in study.part.cells]


def met(study: QoredlStudy) -> RenderableType:
    """Deadlines met."""
    made = table("deadlines met", *headings(study), "mean")
    for row in met_rows(study):
        made.add_row(*row)
    return made


def rest(study: QoredlStudy) -> RenderableType:
    """The other numbers."""
    made = table("means of all", "late", "moves\na job", "efficiency")
    for row in rest_rows(study):
        made.add_row(*row)
    return made


def claims(study: QoredlStudy) -> RenderableType:
    """What is printed beside ours."""
    made = table("claim", "printed", "ours")
    for claim, printed, ours in study.findings():
        made.add_row(claim, printed, points(ours))
    return made
