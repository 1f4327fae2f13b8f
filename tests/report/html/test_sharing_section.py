"""The sections about predictions and about shared GPUs."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shunter
from shunter.report.html.density import BINS, counts, density, frame_of
from shunter.report.html.report import report
from shunter.report.html.shared import SLOWDOWNS, slowed

TIMES = st.lists(st.tuples(st.floats(0.0, 1e8), st.floats(0.001, 1e8)), min_size=1, max_size=60)


def headings(text):
    return re.findall(r"<h2[^>]*>([^<]+)</h2>", text)


@pytest.fixture(scope="session")
def both(packed):
    """A page about a policy that tells all, and one that tells nothing."""
    return report([packed.kept, shunter.simulate(packed.trace, packed.cluster, "fifo").kept])


# ------------------------------------------------------------------------------------------- the plane


@given(TIMES)
def test_every_point_is_in_the_cell_that_its_times_say(points):
    x, y = (np.array(column) for column in zip(*points, strict=True))
    frame = frame_of(x, y)
    found = counts(x, y, frame)
    assert found.sum() == len(points)
    for axis, column in ((1, x), (0, y)):
        edges = [frame.low * (frame.high / frame.low) ** (i / BINS) for i in range(BINS + 1)]
        expected = np.zeros(BINS, np.int64)
        for time in np.maximum(column, frame.low):
            expected[min(sum(time >= edge * (1 - 1e-12) for edge in edges[:-1]) - 1, BINS - 1)] += 1
        assert np.abs(np.cumsum(found.sum(axis=axis)) - np.cumsum(expected)).max() <= _on_an_edge(column, edges)


def _on_an_edge(times, edges):
    """Times so near an edge that either side is right."""
    return sum(any(math.isclose(max(time, edges[0]), edge, rel_tol=1e-9) for edge in edges) for time in times)


def test_a_plane_of_100_000_jobs_is_small():
    draw = np.random.default_rng(0)
    x, y = draw.lognormal(7, 2.5, 100_000), draw.lognormal(7, 2.5, 100_000)
    drawn = density("a plane", x, y, ("x", "y"), frame_of(x, y))
    assert len(drawn) < 60_000
    most = int(counts(x, y, frame_of(x, y)).max())
    assert f"{most:,} in a cell" in drawn
    assert drawn.count('<path class="cells"') == 6


def test_one_job_is_one_cell():
    drawn = density("one", np.array([60.0]), np.array([60.0]), ("x", "y"), frame_of(np.array([60.0])))
    cells = re.findall(r'class="cells"[^>]* d="([^"]*)"', drawn)
    assert "".join(cells).count("M") == 1
    assert "1 job in a cell" in drawn


# ------------------------------------------------------------------------------------------- sections


def test_pages_without_estimates_or_sharing_have_no_such_sections(kept):
    assert not {"Predicted and actual", "Sharing"} & set(headings(report(kept)))


def test_the_page_shows_the_numbers_of_the_summary(packed, both):
    names = headings(both)
    assert names[names.index("Predicted and actual") + 1] == "Sharing"
    told, sharing = packed.summary["prediction"], packed.summary["sharing"]
    line = next(row for row in re.findall(r"<tr>.*?</tr>", both) if '<td class="word">rolling</td>' in row)
    assert f"<td>{told['jobs']:,}</td><td>{told['mean_abs_log_error']:.2f}</td>" in line
    assert (
        f"<td>{sharing['pairs']}</td><td>{sharing['packed_jobs']}</td><td>{sharing['mean_slowdown']:.2f}x</td>" in both
    )


def test_pairs_of_workloads_are_counted_whoever_came_first(packed, both):
    pairs = packed.insights.pairs
    names = [tuple(sorted(each)) for each in pairs.select("workload", "partner_workload").iter_rows()]
    first, second = max(set(names), key=lambda each: (names.count(each), [-ord(c) for c in each[0]]))
    rows = re.findall(r'<th scope="row">([a-z0-9-]+) \+ ([a-z0-9-]+)<small>\w+ \+ \w+</small></th><td>(\d+)</td>', both)
    assert (first, second, str(names.count((first, second)))) in rows
    assert len(rows) == min(len(set(names)), 15)


def test_a_run_without_pairs_says_so(packed):
    nobody = replace(packed.kept, pairs=packed.insights.pairs.head(0))
    assert "No two jobs shared a GPU." in report([nobody])


def test_slowdowns_are_sorted_into_classes():
    shares = slowed(np.array([1.0, 1.0 + 1e-9, 1.01, 1.1, 3.0]))
    assert dict(zip([name for name, _ in SLOWDOWNS], shares.tolist(), strict=True)) == {
        "1": 0.4, "to 1.02": 0.2, "to 1.05": 0, "to 1.1": 0.2, "to 1.2": 0, "to 1.5": 0, "to 2": 0, "over 2": 0.2,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------- in a browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_sections_are_drawn(visit, both, scheme):
    opened = visit(both, color_scheme=scheme, viewport={"width": 390, "height": 800})
    box = opened.locator("svg.plane").bounding_box()
    assert box["width"] > 200
    assert abs(box["width"] / box["height"] - 392 / 374) < 0.02
    shades = opened.evaluate(
        "[...document.querySelectorAll('svg.plane .cells')].map((path) => getComputedStyle(path).fill)"
    )
    assert len(shades) >= 3
    assert set(shades) == {{"light": "rgb(11, 79, 138)", "dark": "rgb(58, 143, 216)"}[scheme]}
    assert opened.locator(".tree svg rect").count() >= 4
    bars = "[data-title='Slowdown of jobs that shared GPUs'] .plot svg path"
    assert opened.locator(bars).count() > 5
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
