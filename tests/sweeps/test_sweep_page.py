"""The page of a sweep, in a real browser, and the numbers in it."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import polars as pl
import pytest

import shunter
from shunter.errors import RunError
from shunter.sweeps import page, views
from shunter.sweeps.analysis import rank
from shunter.sweeps.store import COLUMNS, frame_of, schema
from shunter.sweeps.work import METRICS

LIMIT = 3_000_000  # bytes of a page
DRAWN = """() => [...document.querySelectorAll("figure.chart .plot")].filter((plot) => plot.clientWidth).map((plot) =>
  ({ title: plot.closest("figure").dataset.title, marks: plot.querySelectorAll("svg path").length,
     texts: plot.querySelectorAll("svg text").length }))"""
HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def swept():
    """Two traces, three loads, four policies of which one has two parameters, eight seeds."""
    return shunter.sweep(
        traces=["synthetic:jobs=120,gpus=16", {"trace": "synthetic:jobs=120,gpus=16,seed=5", "name": "other"}],
        clusters=["2x8"],
        loads=[0.8, 1.0, 1.3],
        seeds=8,
        policies=["fifo", "las", "saf:backfill=easy",
                  {"policy": "multifactor", "grid": {"max_age": [3600, 86400, 604800], "size": [0, 1000]}}],
        workers=1,
    )  # fmt: skip


def row(policy="p", seed=0, value=1.0, trace="t", load=1.0, **more):
    """One run."""
    numbers = dict.fromkeys(METRICS, value)
    return {
        "key": f"{trace}{load}{policy}{seed}", "trace": trace, "window": "", "cluster": "c", "load": load,
        "network": "", "overhead": "usual", "policy": policy, "seed": seed, "base_seed": 0, "version": "1",
        "settings": "{}", **numbers, **more,
    }  # fmt: skip


def failed(policy, error, command, seed=0):
    return {**row(policy, seed), **dict.fromkeys(METRICS), "error": error, "command": command}


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1000, "dark"), (1600, "light")])
def test_every_part_is_drawn(visit, swept, width, scheme):
    text = page.report(swept.runs, store="runs")
    opened = visit(text, viewport={"width": width, "height": 900}, color_scheme=scheme)
    drawn = opened.evaluate(DRAWN)
    assert [one["title"] for one in drawn] == [
        "How far behind the best", "other", "synthetic:jobs=120,gpus=16", "Mean wait against p99 of wait",
        "Mean wait against fairness (Jain)",
    ]  # fmt: skip
    assert all(one["marks"] > 3 and one["texts"] > 5 for one in drawn), drawn
    titles = opened.locator("main h2").all_text_contents()
    assert titles == ["Ranking", "Over load", "Parameters", "Trade-offs", "Place by place", "What was run"]
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.locator("figure.heat td").count() == 6
    assert opened.locator("figure.heat td.star").count() == 1
    assert len(text.encode()) < LIMIT


def test_the_table_is_the_ranking(visit, swept):
    opened = visit(page.report(swept.runs, "wait_s.p99"))
    ranking = rank(swept.runs, "wait_s.p99")
    table = opened.locator("table", has_text="relative to the best").first
    names = [name.replace("\u200b", "") for name in table.locator("tbody th").all_text_contents()]
    assert names == [row.policy for row in ranking.rows]
    cells = table.locator("tbody tr").nth(1).locator("td").all_text_contents()
    second = ranking.rows[1]
    assert cells[1] == f"{second.relative:.3f}"
    assert cells[2] == f"{second.low:.3f} to {second.high:.3f}"
    assert opened.locator(".verdict").text_content() == ranking.verdict
    assert "moves each arrival by up to 30" in opened.locator("main").text_content()


def charts_in(text, title):
    figures = re.findall(
        r'<figure class="chart" data-title="([^"]*)">.*?<script type="application/json">(.*?)</script>', text, re.S
    )
    return json.loads(dict(figures)[title])


def test_lines_over_load_are_means_over_seeds_with_intervals(swept):
    chart = charts_in(page.report(swept.runs), "other")
    fifo = next(one for one in chart["series"] if one["name"] == "fifo")
    own = swept.runs.filter(pl.col("policy") == "fifo", pl.col("trace") == "other")
    means = own.group_by("load").agg(pl.col("jct_s.mean").mean()).sort("load")
    assert chart["x"]["values"] == means["load"].to_list()
    np.testing.assert_allclose(fifo["values"], means["jct_s.mean"].to_list(), rtol=1e-3)
    assert all(low < value < high for low, value, high in zip(fifo["low"], fifo["values"], fifo["high"], strict=True))


def test_tips_data_and_files_of_the_new_charts(visit, expect, swept):
    opened = visit(page.report(swept.runs))
    front = opened.locator("figure[data-title='Mean wait against p99 of wait']")
    front.locator("summary").click()
    rows = front.locator("details tbody tr")
    expect(rows).to_have_count(swept.runs["policy"].n_unique())
    best = views.front(swept.runs, ("wait_s.mean", "wait_s.p99")).filter(pl.col("front"))["policy"].to_list()
    yes = [one.locator("th").text_content() for one in rows.all() if one.locator("td").last.text_content() == "yes"]
    assert sorted(yes) == sorted(best)
    for figure in (front, opened.locator("figure[data-title='other']")):
        with opened.expect_download() as found:
            figure.get_by_role("button", name="Save this chart as CSV").click()
        assert len(found.value.path().read_text().splitlines()) > 3
    plot = opened.locator("figure[data-title='other'] .plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    opened.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(plot.locator(".tip")).to_contain_text("fifo")
    expect(plot.locator(".tip")).to_contain_text(" to ")  # the interval


def test_hostile_texts_are_texts(visit):
    rows = [row(name, seed, value, trace=HOSTILE, load=load) for load in (0.5, 1.0)
            for name, value in ((f"{HOSTILE}:a=1", 1.0), (f"{HOSTILE}:a=2", 2.0)) for seed in range(6)]  # fmt: skip
    for at, one in enumerate(rows):
        one["settings"] = json.dumps({HOSTILE: str(at % 2), "b": HOSTILE * (at % 3)})
    rows.append(failed("broken", f"Error: {HOSTILE}</script><script>alert(2)</script>", f"shunter {HOSTILE}"))
    opened = visit(page.report(frame_of(rows), store=HOSTILE))
    assert opened.locator("img").count() == 0
    assert HOSTILE in opened.locator("h1").text_content()
    assert HOSTILE in opened.locator("section", has_text="count for nothing").locator("code").text_content()
    for plot in opened.locator(".plot").all():
        box = plot.bounding_box()
        opened.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert opened.locator("img").count() == 0


def test_failures_are_put_together_with_a_command_of_each(visit):
    rows = [row("good", seed) for seed in range(3)]
    rows += [failed("bad", "RunError: no room\nin detail", f"shunter simulate {seed}", seed) for seed in range(3)]
    rows += [failed("worse", "OSError: gone", "shunter simulate gone")]
    opened = visit(page.report(frame_of(rows)))
    part = opened.locator("section", has_text="count for nothing")
    assert part.locator("p").all_text_contents() == [
        "4 runs failed and count for nothing above.", "3 runs (bad): RunError: no room", "1 run (worse): OSError: gone",
    ]  # fmt: skip
    assert part.locator("code").all_text_contents() == ["shunter simulate 0", "shunter simulate gone"]


def test_where_every_run_failed_the_page_says_so():
    text = page.report(frame_of([failed("bad", "RunError: no room", "shunter simulate x")]))
    assert "Every run failed." in text
    assert "RunError: no room" in text


def test_one_run_is_enough_for_a_page(visit):
    opened = visit(page.report(frame_of([row()])))
    assert opened.locator("main h2").all_text_contents() == ["Ranking", "What was run"]


def test_of_many_policies_the_best_are_shown_and_the_page_says_so(visit):
    rows = [
        row(f"p{at:03}:x={at}", seed, 1.0 + at, load=load)
        for at in range(60)
        for load in (1.0, 2.0)
        for seed in range(5)
    ]
    opened = visit(page.report(frame_of(rows)))
    table = opened.locator("table", has_text="relative to the best").first
    assert table.locator("tbody tr").count() == page.MOST_RANKED
    said = opened.locator("main").text_content()
    assert "The best 40 of 60 policies are shown." in said
    assert "The best 12 of 60." in said


def test_a_page_of_100_000_runs_is_small():
    """Only means are in a page, so that its size does not grow with the runs."""
    axes = {
        "seed": range(50), "first": range(10), "second": range(10), "trace": ["a", "b", "c", "d"],
        "load": [0.5, 0.7, 0.9, 1.1, 1.3],
    }  # fmt: skip
    runs = pl.DataFrame({"cluster": ["c"], "version": ["1"], "window": [""], "network": [""], "overhead": ["usual"]})
    for name, values in axes.items():
        runs = runs.join(pl.DataFrame({name: values}), how="cross")
    draw = np.random.default_rng(0)
    runs = runs.with_columns(
        pl.format("policy:first={},second={}", "first", "second").alias("policy"),
        pl.struct(pl.col("first", "second").cast(pl.String)).struct.json_encode().alias("settings"),
        pl.int_range(pl.len()).cast(pl.String).alias("key"),
        *(pl.Series(name, 3600 * draw.lognormal(0, 0.3, runs.height)) for name in METRICS),
    )
    whole = runs.select(
        pl.col(name).cast(kind) if name in runs.columns else pl.lit(None, kind).alias(name)
        for name, kind in schema(COLUMNS).items()
    )
    text = page.report(whole)
    assert len(text.encode()) < LIMIT / 3
    assert "100,000 runs" in text


def test_a_page_is_never_put_over_something_else(tmp_path, swept):
    file = tmp_path / "page.html"
    assert swept.report(file) == file
    with pytest.raises(RunError, match="exists already"):
        swept.report(file)
    swept.report(file, force=True)
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(RunError, match="not a page of shunter"):
        swept.report(tmp_path / "mine.html", force=True)


# ------------------------------------------------------------------------------------------- numbers


def test_heat_maps_have_the_parameters_that_matter_most_first():
    rows = []
    for a, b, c, seed in itertools.product(range(3), range(2), range(2), range(2)):
        settings = json.dumps({"a": str(a), "b": str(b), "c": str(c), "d": "same"})
        rows.append(row(f"p:a={a},b={b},c={c}", seed, 1.0 + a + 10 * b + 0.1 * c, settings=settings))
    found = views.heat_maps(frame_of(rows), "p", "jct_s.mean")
    assert [{each.x, each.y} for each in found] == [{"a", "b"}, {"b", "c"}, {"a", "c"}]
    first = found[0]
    assert (first.x, first.columns, first.y, first.rows) == ("a", ["0", "1", "2"], "b", ["0", "1"])
    np.testing.assert_allclose(first.values, [[1.05, 2.05, 3.05], [11.05, 12.05, 13.05]])


def test_many_values_of_a_parameter_are_put_together():
    draw = np.random.default_rng(0)
    pairs = draw.random((100, 2))
    rows = [row(f"p:a={a},b={b}", 0, a, settings=json.dumps({"a": str(a), "b": str(b)})) for a, b in pairs.tolist()]
    found = views.heat_maps(frame_of(rows), "p", "jct_s.mean")[0]
    assert len(found.columns) == len(found.rows) == views.BINS


def test_one_parameter_is_shown_over_load():
    rows = [
        row(f"p:a={a}", 0, load * (1 + a), load=load, settings=json.dumps({"a": str(a)}))
        for a in (0, 1)
        for load in (0.5, 1.0, 2.0)
    ]
    found = views.heat_maps(frame_of(rows), "p", "jct_s.mean")
    assert [(each.x, each.y) for each in found] == [("load", "a")]
    assert found[0].values == [[0.5, 1.0, 2.0], [1.0, 2.0, 4.0]]


def test_a_place_with_long_waits_does_not_outweigh_the_others():
    """One setting is twice as good at the small place, the other one by a tenth at the large one."""
    waits = {("0", "small"): 10.0, ("1", "small"): 20.0, ("0", "large"): 110_000.0, ("1", "large"): 100_000.0}
    rows = [
        row(f"p:a={a},b={b}", 0, wait, cluster=place, settings=json.dumps({"a": a, "b": b}))
        for (a, place), wait in waits.items()
        for b in ("0", "1")
    ]
    (found,) = views.heat_maps(frame_of(rows), "p", "jct_s.mean")
    by_a = {a: np.sqrt(waits[a, "small"] * waits[a, "large"]) for a in ("0", "1")}
    values = np.array(found.values) if found.x == "a" else np.array(found.values).T
    np.testing.assert_allclose(values, [[by_a["0"], by_a["1"]]] * 2)
    assert by_a["0"] < by_a["1"]


def test_a_policy_is_judged_by_the_seeds_that_the_others_have_too():
    """A seed with which another policy failed would make this one look worse."""
    rows = [row("a", 0, 1.0), row("a", 1, 100.0), row("b", 0, 2.0), failed("b", "gone", "", 1)]
    found = views.by_place(frame_of(rows), "jct_s.mean").row(0, named=True)
    assert (found["best"], found["value"], found["next"], found["worse"]) == ("a", 1.0, "b", 2.0)


def test_the_best_settings_of_each_policy_come_into_a_chart():
    values = {"a:x=1": 1.0, "a:x=2": 2.0, "a:x=3": 3.0, "b": 9.0}
    ranking = rank(frame_of([row(policy, 0, value) for policy, value in values.items()]))
    assert views.chosen(ranking, 3, 10) == ["a:x=1", "a:x=2", "b"]
    assert views.chosen(ranking, 1, 10) == ["a:x=1", "b"]


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ("jct_s.mean", "mean JCT"),
        ("wait_s.p99", "p99 of wait"),
        ("utilization", "GPUs in use"),
        ("by_size.1.jobs", "by_size.1.jobs"),
    ],
)
def test_measures_have_names(measure, words):
    assert views.name_of(measure) == words
