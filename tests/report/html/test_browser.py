"""Reports in a real browser: everything is drawn, nothing is asked for, nothing is complained about."""

from __future__ import annotations

import base64
import itertools
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest

import shunter
from shunter.report.html import charts, page
from shunter.report.html.report import report

LIMIT = 3_000_000  # bytes of a report
HTML_OF_A_PAGE = page.render("Empty", "", [])


@pytest.fixture(scope="session")
def compared(kept):
    return report(kept)


DRAWN = """() => [...document.querySelectorAll("figure.chart .plot")].filter((plot) => plot.clientWidth).map((plot) =>
  ({ title: plot.closest("figure").dataset.title, marks: plot.querySelectorAll("svg path").length,
     texts: plot.querySelectorAll("svg text").length }))"""
PRINTED = """() => [...document.querySelectorAll("figure.chart svg[viewBox]")]
  .filter((svg) => svg.clientWidth).map((svg) =>
  ({ svg: svg.getAttribute("viewBox"), drawn: `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}` }))"""
INK = """(canvas) => { const { width, height } = canvas;
  const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const seen = new Set(); for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 3).join());
  return seen.size; }"""


def test_every_chart_of_a_comparison_is_drawn(visit, compared):
    opened = visit(compared)
    drawn = opened.evaluate(DRAWN)
    assert [one["title"] for one in drawn] == [
        "Mean against tail", "Completion time (JCT)", "Wait in the queue", "Wait by job size", "Wait by user",
        "GPUs in use",
        "Jobs that wait", "Fragmentation", "Why jobs waited, by policy", "Why jobs waited, over time",
        "Why jobs waited, by size",
    ]  # fmt: skip
    assert all(one["marks"] > 5 and one["texts"] > 5 for one in drawn), drawn
    assert opened.locator("canvas").evaluate(INK) > 8
    assert len(compared.encode()) < LIMIT


def test_every_chart_of_one_run_is_drawn_in_the_dark(visit, expect, kept):
    opened = visit(report(kept[:1]), color_scheme="dark")
    drawn = opened.evaluate(DRAWN)
    assert len(drawn) == 9
    assert all(one["marks"] > 3 for one in drawn), drawn
    ground = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", ground))) < 150
    opened.get_by_role("button", name="Light colours").click()  # the button names what it switches to
    expect(opened.locator("#theme")).to_have_text("Dark colours")
    ground = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", ground))) > 600


def test_keys_alone_reach_and_work_the_controls(visit, expect, compared):
    opened = visit(compared)
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.className") == "skip"
    opened.keyboard.press("Enter")
    paths = "document.querySelectorAll('figure.chart .plot')[1].querySelectorAll('svg path').length"
    before = opened.evaluate(paths)
    for _ in range(30):
        opened.keyboard.press("Tab")
        if opened.evaluate("document.activeElement.dataset.series") == "las":
            break
    assert opened.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    opened.keyboard.press("Space")
    expect(opened.locator("#announce")).to_have_text("las is hidden")
    pressed = [b.get_attribute("aria-pressed") for b in opened.locator("button[data-series='las']").all()]
    assert len(pressed) > 5
    assert set(pressed) == {"false"}
    assert opened.evaluate(paths) < before


def test_the_theme_changes_at_a_button_and_for_print(visit, expect, compared):
    opened = visit(compared)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = opened.evaluate(ground)
    opened.get_by_role("button", name="Dark colours").click()
    expect(opened.locator("#theme")).to_have_text("Light colours")
    assert opened.evaluate(ground) != light
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.evaluate(ground) == light
    opened.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.evaluate(ground) != light


@pytest.fixture(scope="session")
def compared_with_intervals(tmp_path_factory):
    """The report of a whole comparison, with intervals, as a page."""
    file = tmp_path_factory.mktemp("report") / "compared.html"
    trace, policies = "synthetic:jobs=300,seed=1,gpus=16,load=1.3", ["fifo", "las"]
    shunter.compare(trace, "4x4", policies, workers=1, report=file)
    return file.read_text()


def test_the_first_screen_has_the_verdict_three_tiles_and_the_spread(visit, compared_with_intervals):
    opened = visit(compared_with_intervals)
    assert "synthetic:jobs=300" in opened.title()
    assert "mean JCT" in opened.locator(".verdict").text_content()
    assert opened.locator(".tile").count() == 3
    lowest = opened.locator("figure[data-title='Mean against tail'] .plot").bounding_box()
    assert lowest["y"] + lowest["height"] < 1000
    assert "earlier" not in opened.locator(".verdict").text_content()
    order = opened.evaluate("[...document.querySelectorAll('main caption')].map((one) => one.textContent)")
    assert order[0].startswith("Which jobs win and which lose: ")
    names = opened.locator("figure[data-title='Mean against tail'] svg text").all_text_contents()
    assert {"fifo", "las"} <= set(names)
    assert opened.locator("th abbr[title]").count() > 5


TOGETHER = {f"policy{at}": (at // 3 * 9.0 + 1, 5.0 + at % 3 / 100) for at in range(6)}
IN_A_ROW = {
    "fifo": (1, 5),
    "edf": (5.9, 5),
    "pedf": (6.4, 5.02),
    "elastic": (6.2, 4.9),
    "sjf": (9.9, 5),
    "saf": (9.5, 5),
}
MANY = {f"policy{at}": (5.0, 5.0) for at in range(20)}


@pytest.mark.parametrize(("points", "named"), [(TOGETHER, 6), (IN_A_ROW, 6), (MANY, 8)])
def test_names_of_points_that_lie_together_do_not_overlap(visit, points, named):
    """They are nudged apart; those for which there is no room are in the legend alone."""
    axis = charts.Axis("mean", "duration")
    crosses = {name: ((x, x - 0.5, x + 0.5), (y, y - 1, y + 1)) for name, (x, y) in points.items()}
    body = [page.figure("Points", "Some of them together.", charts.scatter(crosses, axis, axis))]
    opened = visit(page.render("Points", "", [page.Section("Points", body)]))
    texts = [text for text in opened.locator("svg text").all() if text.text_content() in points]
    boxes = [text.bounding_box() for text in texts]
    assert len(boxes) == named
    for one, other in itertools.combinations(boxes, 2):
        aside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
        above = one["y"] + one["height"] <= other["y"] + 3 or other["y"] + other["height"] <= one["y"] + 3
        assert aside or above  # 3 px: lines of text have room around their letters


def test_every_chart_is_saved_as_svg_and_csv(visit, compared_with_intervals):
    opened = visit(compared_with_intervals)
    assert opened.locator(".saving button").count() == 2 * opened.locator("figure.chart").count()
    kinds = ("Mean against tail", "Completion time (JCT)", "Wait by job size", "Jobs that wait")  # of each one
    for title in kinds:  # a browser asks after ten files
        figure = opened.locator(f"figure[data-title='{title}']")
        with opened.expect_download() as found:
            figure.get_by_role("button", name="Save this chart as SVG").click()
        drawing = found.value.path().read_text()
        assert drawing.startswith("<svg"), title
        assert "var(--" not in drawing
        with opened.expect_download() as found:
            figure.get_by_role("button", name="Save this chart as CSV").click()
        lines = found.value.path().read_text().splitlines()
        assert found.value.suggested_filename.endswith(".csv")
        assert len(lines) > 1, title
        assert len({len(line.split(",")) for line in lines if '"' not in line}) == 1, title


def test_reasons_and_policies_have_different_colours(visit, compared):
    opened = visit(compared)
    fills = """(title) => [...document.querySelectorAll(`figure[data-title='${title}'] .legend rect`)]
      .map((one) => getComputedStyle(one).fill)"""
    reasons = opened.evaluate(fills, "Why jobs waited, by policy")
    policies = opened.evaluate(fills, "Wait by job size")
    assert reasons
    assert policies
    assert not set(reasons) & set(policies)


@pytest.mark.parametrize("title", ["Completion time (JCT)", "GPUs in use"])
def test_axes_are_labelled_to_their_end(visit, compared, title):
    opened = visit(compared)
    ends = opened.evaluate(
        """(title) => { const plot = document.querySelector(`figure[data-title='${title}'] .plot`);
        const frame = plot.getBoundingClientRect();
        const labels = [...plot.querySelectorAll("svg text")].map((one) => one.getBoundingClientRect())
          .filter((box) => box.top > frame.bottom - 30);
        return [frame.right, Math.max(...labels.map((box) => box.right))]; }""",
        title,
    )
    assert ends[0] - 40 < ends[1] <= ends[0] + 1


def test_zoom_is_shared_by_all_charts_over_time(visit, expect, compared):
    opened = visit(compared)
    texts = "[...document.querySelectorAll('figure.chart')].map(f => f.querySelector('.plot').textContent)"
    note = opened.locator(".timeline .note")
    before, whole = opened.evaluate(texts), note.text_content()
    opened.locator("figure[data-title='GPUs in use'] button[aria-label='Zoom in']").click()
    expect(note).not_to_have_text(whole)
    after, half = opened.evaluate(texts), note.text_content()
    titles = opened.evaluate("[...document.querySelectorAll('figure.chart')].map(f => f.dataset.title)")
    changed = {title for title, a, b in zip(titles, before, after, strict=True) if a != b}
    assert {"GPUs in use", "Jobs that wait", "Fragmentation", "Why jobs waited, over time"} == changed
    plot = opened.locator("figure[data-title='Fragmentation'] .plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    opened.mouse.move(box["x"] + 300, box["y"] + 60)
    opened.mouse.down()
    opened.mouse.move(box["x"] + 400, box["y"] + 80)
    opened.mouse.up()
    expect(note).not_to_have_text(half)
    assert opened.evaluate(texts)[5] != after[5]
    opened.mouse.dblclick(box["x"] + 300, box["y"] + 60)
    expect(note).to_have_text(whole)
    assert opened.evaluate(texts) == before


def test_a_job_is_found_on_the_timeline(visit, expect, compared, kept):
    opened = visit(compared)
    opened.get_by_label("Policy").last.select_option("sjf:estimate=oracle*")
    opened.wait_for_selector("canvas[data-ready='sjf:estimate=oracle*']")
    opened.get_by_label("Job id").fill("17")
    opened.keyboard.press("Enter")
    job = kept[2].jobs.row(16, named=True)
    expect(opened.locator("#announce")).to_contain_text("Job 17 ")
    text = opened.locator("#announce").text_content()
    assert f"Job 17 of {job['user']}: {job['gpus']:g} GPU" in text
    nodes = ", ".join(map(str, job["nodes"]))
    assert f"node{'s' if len(job['nodes']) > 1 else ''} {nodes}" in text
    opened.get_by_label("Job id").fill("nobody")
    opened.keyboard.press("Enter")
    expect(opened.locator("#announce")).to_have_text("There is no job nobody.")


def raw(data, level, strategy=zlib.Z_DEFAULT_STRATEGY):
    squeeze = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
    return base64.b64encode(squeeze.compress(data) + squeeze.flush()).decode()


def test_what_python_packs_the_page_unpacks(visit):
    draw = np.random.default_rng(0)
    texts = [b"", b"a", b"abc" * 50_000, draw.bytes(200_000), np.arange(60_000).tobytes(), HTML_OF_A_PAGE.encode()]
    opened = visit(HTML_OF_A_PAGE)
    call = """(text) => { const bytes = Stays.bytesOf(text);
      return [bytes.length, bytes.reduce((sum, byte) => (sum * 31 + byte) % 1000003, 0)]; }"""
    for data in texts:
        checksum = 0
        for byte in data:
            checksum = (checksum * 31 + byte) % 1000003
        for packed in (raw(data, 0), raw(data, 1), raw(data, 6), raw(data, 9), raw(data, 6, zlib.Z_FIXED)):
            assert opened.evaluate(call, packed) == [len(data), checksum]


def shifted(run, ids):
    import polars as pl

    return replace(run, jobs=run.jobs.with_columns(job_id=pl.Series(ids)))


def test_a_job_is_found_by_its_id_and_not_by_its_row(visit, expect, kept):
    ids = [str(3 * number + 200) for number in range(300)][::-1]  # most of them are rows of other jobs
    opened = visit(report([shifted(kept[0], ids)]))
    job = kept[0].jobs.row(ids.index("233"), named=True)
    opened.get_by_label("Job id").fill("233")
    opened.keyboard.press("Enter")
    expect(opened.locator("#announce")).to_contain_text("Job 233 ")
    text = opened.locator("#announce").text_content()
    assert f"Job 233 of {job['user']}: {job['gpus']:g} GPU" in text
    assert f"node{'s' if len(job['nodes']) > 1 else ''} {', '.join(map(str, job['nodes']))}" in text
    opened.get_by_label("Job id").fill("17")
    opened.keyboard.press("Enter")
    expect(opened.locator("#announce")).to_have_text("There is no job 17.")


def test_without_ids_jobs_are_called_rows(visit, expect, kept, monkeypatch):
    monkeypatch.setattr("shunter.report.html.timeline.packed_ids", lambda ids: {"text": "x" * 3_000_000})
    opened = visit(report([kept[0]]))
    job = kept[0].jobs.row(16, named=True)
    opened.get_by_label("Row (not the job's id)").fill("17")
    opened.keyboard.press("Enter")
    expect(opened.locator("#announce")).to_contain_text(f"Job row 17 of {job['user']}")
    expect(opened.locator("#announce")).to_contain_text("Job ids are not in this page")
    for wrong in ("301", "0", "x"):
        opened.get_by_label("Row (not the job's id)").fill(wrong)
        opened.keyboard.press("Enter")
        expect(opened.locator("#announce")).to_contain_text(f"There is no row {wrong}. Job ids are not in")


def test_the_queue_shows_the_peak_that_its_text_names(visit, expect, kept):
    opened = visit(report(kept[:1]))
    figure = opened.locator("figure[data-title='Jobs that wait']")
    most = int(re.search(r"Up to ([\d,]+) jobs wait at once", figure.text_content())[1].replace(",", ""))
    ticks = [int(text.replace(",", "")) for text in figure.locator("svg text").all_text_contents() if text.isdigit()]
    assert max(ticks) >= most
    assert re.match(
        r"jobs in the queue, means over [\d.]+ [smh]; thin lines: the most", figure.locator(".label.y").text_content()
    )
    data = opened.evaluate(
        "JSON.parse(document.querySelector(\"figure[data-title='Jobs that wait'] script\").textContent)"
    )
    assert max(filter(None, data["series"][0]["peaks"])) == most == kept[0].series["queue"].max()
    far = figure.locator(".label.y").text_content()
    figure.locator("button[aria-label='Zoom in']").click()
    expect(figure.locator(".label.y")).not_to_have_text(far)


def dated(run, seconds=1_530_244_242):
    import polars as pl

    events = run.events.copy()
    events[:, 0] += 1000 * seconds
    jobs = run.jobs.with_columns(pl.col("submit") + seconds)
    series = run.series.with_columns(pl.col("time") + seconds)
    told = run.decisions.with_columns(pl.col("time") + 1000 * seconds)
    return replace(run, events=events, jobs=jobs, series=series, decisions=told)


def test_times_are_dates_where_the_trace_has_them(visit, expect, kept):
    opened = visit(report([dated(kept[0])]))
    for title in ("GPUs in use", "Jobs that wait", "Why jobs waited, over time"):
        figure = opened.locator(f"figure[data-title='{title}']")
        assert figure.locator(".label.x").text_content() == "time (UTC)"
        assert re.search(r"2018-0[67]-\d\d|0[67]-\d\d \d\d:00", figure.locator(".plot svg").text_content())
    assert re.match(r"Nodes 0 to 3, 2018-06-29 03:50 to 2018-", opened.locator(".timeline .note").text_content())
    plot = opened.locator("figure[data-title='GPUs in use'] .plot")
    plot.scroll_into_view_if_needed()
    plot.hover(position={"x": 300, "y": 60})
    expect(plot.locator(".tip b")).to_have_text(re.compile(r"^2018-0[67]-\d\d \d\d:\d\d"))


@pytest.mark.parametrize(
    ("days", "ticks"),
    [
        (185, ["2018-07-01", "2018-08-01", "2018-09-01", "2018-10-01", "2018-11-01", "2018-12-01"]),
        (1500, ["2019-01-01", "2020-01-01", "2021-01-01", "2022-01-01"]),
        (24, ["2018-07-02", "2018-07-09", "2018-07-16", "2018-07-23"]),
        (1, ["06-29 06:00", "06-29 12:00", "06-29 18:00", "06-30 00:00"]),
        (1 / 1440, ["03:50:50", "03:51:00", "03:51:10", "03:51:20", "03:51:30", "03:51:40"]),
    ],
)
def test_ticks_of_dates_are_round(visit, days, ticks):
    opened = visit(HTML_OF_A_PAGE)
    call = f"Numbers.scale({{ unit: 'elapsed', origin: 1530244242 }}, 0, {days * 86400}, 8)"
    assert opened.evaluate(f"(() => {{ const s = {call}; return s.ticks.map(s.label); }})()") == ticks


def test_a_chart_has_its_data_as_a_table(visit, compared, kept):
    opened = visit(compared)
    details = opened.locator("figure[data-title='Wait by job size'] details")
    details.locator("summary").click()
    details.locator("table").wait_for()
    cells = details.locator("tbody tr").first.locator("td").all_text_contents()
    assert len(cells) == len(kept)
    assert all(re.fullmatch(r"[\d.]+ [smhd]|0 s", cell) for cell in cells), cells


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_window(visit, compared, width):
    opened = visit(compared, viewport={"width": width, "height": 800})
    assert opened.evaluate("document.documentElement.scrollWidth") <= width


def test_a_thousand_nodes_and_a_hundred_thousand_jobs(visit, expect, large):
    text = report([large])
    assert len(text.encode()) < LIMIT
    opened = visit(text)
    canvas = opened.locator("canvas")
    assert canvas.evaluate(INK) > 20
    for _ in range(7):
        opened.get_by_role("button", name="Show fewer nodes").click()
    for _ in range(3):
        opened.locator("figure.timeline button[aria-label='Zoom in']").click()
    expect(opened.locator(".timeline .note")).to_contain_text("Every bar is a job")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    tip = opened.locator(".timeline .tip")
    for step in range(40):
        opened.mouse.move(box["x"] + 80 + 20 * step, box["y"] + 10)
        if tip.is_visible():
            break
    assert re.match(r"Job application_1506638472019_\d+user", tip.text_content())


def test_six_times_a_thousand_nodes_are_drawn_as_maps(visit, large, monkeypatch):
    monkeypatch.setattr("shunter.report.html.report.LIMIT", 1_500_000)
    rows = [{**large.summary, "policy": f"p{number}", "difference": None} for number in range(6)]
    opened = visit(report([large] * 6, rows))
    assert "Single jobs are not in this page" in opened.locator(".timeline .note").text_content()
    assert opened.locator("canvas").evaluate(INK) > 8


def test_all_kinds_of_charts(visit):
    x, y = charts.Axis("time", "elapsed"), charts.Axis("jobs", "count")
    drawn = {
        "lines": charts.lines([0, 60, 120], {"a": [1, 2, 3], "b": [3, None, 1]}, x, y),
        "steps": charts.lines([0, 60, 120], {"a": [1, 2, 3]}, x, y, kind="steps"),
        "stacked": charts.lines([0, 60, 120], {"a": [1, 2, 3], "b": [1, 1, 1]}, x, y, kind="stacked"),
        "bars": charts.bars(["one", "two"], {"a": [1, 2]}, "name", y),
        "cdf": charts.cdf({"a": [0, 1, 10, 1e6]}, charts.Axis("wait", "duration", log=True)),
        "nothing": charts.cdf({"a": []}, charts.Axis("wait", "duration", log=True)),
    }
    body = [page.figure(title, "Something is to be seen.", chart) for title, chart in drawn.items()]
    text = page.render("All", "Kinds.", [page.Section("Charts", body)])
    opened = visit(text)
    assert all(one["texts"] >= 2 for one in opened.evaluate(DRAWN))


def test_a_page_printed_as_soon_as_it_is_loaded_is_whole(visit, compared):
    opened = visit(compared)
    opened.emulate_media(media="print")
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    for plot in opened.evaluate(PRINTED):
        assert plot["svg"] == plot["drawn"], plot
    assert opened.locator("canvas").evaluate(INK) > 8


def test_the_timeline_is_drawn_before_the_page_is_loaded(browser, compared, tmp_path):
    (tmp_path / "page.html").write_text(compared, encoding="utf-8")
    opened = browser.new_page()
    opened.set_default_timeout(180_000)
    opened.add_init_script(
        "addEventListener('load', () => { window.early = document.querySelector('canvas').dataset.ready; })"
    )
    opened.goto((tmp_path / "page.html").as_uri())
    assert opened.evaluate("window.early") == "fifo"
    opened.close()
