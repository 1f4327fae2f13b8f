"""The page about a trace in a real browser."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shunter import clusters
from shunter.report.describe import describe
from shunter.report.html.trace_page import trace_page
from shunter.report.quality import validate
from shunter.traces.synthetic import synthetic

LIMIT = 3_000_000
DRAWN = """() => [...document.querySelectorAll("figure.chart")].map((figure) => [figure.dataset.title,
  figure.querySelectorAll(".plot svg path").length > 5, figure.querySelectorAll("details table tbody tr").length])"""


@pytest.fixture(scope="module")
def page():
    made = synthetic(2000)
    trace = dataclasses.replace(
        made, submit=made.submit + 1_599_436_800_000, vc=np.arange(2000) % 3, vcs=("a", "b", "c"),
        outcome=np.arange(2000) % 2, outcomes=("completed", "failed"),
    )  # fmt: skip
    cluster = clusters.load("16x8")
    return trace_page(trace, describe(trace, cluster), validate(trace, cluster))


def test_the_load_is_over_dates(visit, expect):
    made = synthetic(2000, load=0.1)
    trace = dataclasses.replace(made, submit=made.submit + 1_599_436_800_000)
    cluster = clusters.load("16x8")
    about = describe(trace, cluster)
    assert len(about["load"]["by_day"]) > 20
    opened = visit(trace_page(trace, about, []))
    figure = opened.locator("figure[data-title='Load by day of submission']")
    assert figure.locator(".label.x").text_content() == "day of submission"
    assert "2020-09" in figure.locator(".plot svg").text_content()
    figure.locator("summary").click()
    expect(figure.locator("tbody th").first).to_have_text("2020-09-07")


def test_it_is_small_and_says_what_was_found(page):
    assert len(page.encode()) < LIMIT
    for part in ("larger than a node", "Run times by size", "2020-09-07 00:00:00 to", "no recorded_wait"):
        assert part in page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_and_has_its_data_as_a_table(visit, expect, page, scheme):
    opened = visit(page, color_scheme=scheme)
    for summary in opened.query_selector_all("figure.chart details summary"):
        summary.click()
    expect(opened.locator("figure.chart details table")).to_have_count(8)
    drawn = opened.evaluate(DRAWN)
    assert [title for title, _, _ in drawn] == [
        "Job sizes", "Run times", "Submissions by hour", "Submissions by weekday", "Busiest users",
        "Virtual clusters by share", "Outcomes by share", "Load by day of submission",
    ]  # fmt: skip
    assert all(has_marks and rows > 1 for _, has_marks, rows in drawn), drawn
