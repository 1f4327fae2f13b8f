"""The page in a browser: each task from the first click to its result."""

from __future__ import annotations

import json
import re
import shutil

import pytest

pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")


@pytest.fixture(scope="module")
def served(serve, filled, live, tmp_path_factory):
    """A page whose folder may be changed."""
    folder = tmp_path_factory.mktemp("changed") / "runs"
    shutil.copytree(filled, folder)
    return serve(folder, live=live)


def test_runs_are_filtered_and_those_that_are_ticked_are_compared(served, opened, expect):
    page = opened(served)
    expect(page.locator("tbody tr")).to_have_count(4)
    page.get_by_label("Policy").fill("sjf")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Policy").fill("")
    expect(page.locator("tbody tr")).to_have_count(4)
    page.get_by_label("Tick both", exact=True).check()
    page.get_by_label("Tick sjf").check()
    page.get_by_role("button", name="Compare ticked").click()
    page.wait_for_url("**/runs/report?**")
    expect(page.locator("canvas[data-ready]")).to_have_count(1)
    expect(page.locator("figure.chart:not([data-drawn])")).to_have_count(0)
    assert page.locator("figure.chart").count() > 5
    assert "3 policies on" in page.locator("h1").inner_text()


def test_a_run_is_renamed_deleted_and_brought_back(served, opened):
    page = opened(served)
    page.get_by_role("button", name="Rename sjf").click()
    page.get_by_label("New name of sjf").fill("shortest first")
    page.get_by_label("New name of sjf").press("Enter")
    page.wait_for_selector("text=sjf is now called shortest first.")
    assert (served.folder / "shortest first").is_dir()
    page.get_by_role("button", name="Undo").first.click()
    page.wait_for_selector("text=sjf is back.")
    page.get_by_label("Tick sjf").check()
    page.get_by_role("button", name="Delete ticked").click()
    page.wait_for_selector("text=sjf deleted; undo brings it back.")
    assert not (served.folder / "sjf").exists()
    page.reload()
    page.get_by_text("Undo (1)").click()
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector("text=sjf is back.")
    assert (served.folder / "sjf" / "summary.json").is_file()


def test_a_what_if_is_run_copied_changed_and_kept(served, opened):
    page = opened(served, "/what-if")
    page.locator("#trace").select_option("jobs.csv")
    page.wait_for_selector("#about-trace .facts")
    page.locator("[name=nodes]").fill("2")
    page.locator("[name=gpus]").fill("4")
    page.locator("#slot-p0 summary").click()
    page.locator("[name='p0.set.backfill']").select_option("easy")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_selector(".answer .verdict")
    command = page.locator(".copy code").first.inner_text()
    assert command == f"shunter compare {served.folder}/jobs.csv --cluster 2x4 --policy fifo:backfill=easy --policy saf"
    page.get_by_role("button", name="Remove policy saf").click()
    page.locator("[name=gpus]").fill("8")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_selector("tbody.before")
    rows = page.locator("tbody tr").all_inner_texts()
    assert ["2x8" in rows[0], "2x4" in rows[1], "2x4" in rows[2]] == [True] * 3
    assert "shunter.simulate(" in page.locator(".copy code").nth(1).inner_text()
    page.get_by_label("Keep as").fill("easy")
    page.get_by_role("button", name="Keep", exact=True).click()
    page.get_by_role("link", name="easy").click()
    page.wait_for_url("**/runs/report?run=easy")
    assert json.loads((served.folder / "easy" / "summary.json").read_text())["policy"] == "fifo:backfill=easy"


def test_the_picture_of_the_racks_follows_the_sliders(served, opened, expect):
    page = opened(served, "/what-if")
    racks = page.locator("#picture svg.racks")
    expect(racks).to_have_accessible_name("16x8  128 GPUs, 16 nodes")
    page.get_by_role("slider", name="Nodes").press("ArrowRight")
    expect(racks).to_have_accessible_name("17x8  136 GPUs, 17 nodes")
    assert racks.locator("path.node").get_attribute("d").count("M") == 17
    page.locator("#cluster").select_option("dally-2rack")
    expect(racks.locator("rect")).to_have_count(2)
    page.locator("#cluster").select_option("auto")
    expect(page.locator("#picture")).to_have_text("The size follows from the trace: a load of 0.9.")


def test_a_dropped_trace_is_described_and_checked_and_a_bad_one_is_named(served, opened, tmp_path):
    page = opened(served, "/what-if")
    good, bad = tmp_path / "mine.csv", tmp_path / "bad.csv"
    good.write_text("job_id,submit,duration,gpus\na,0,60,1\nb,5,0,2\nc,6,50,1\n")
    bad.write_text("job_id,submit,duration,gpus\na,0,-60,1\n")
    page.locator("#file").set_input_files(good)
    page.wait_for_selector("#about-trace .facts")
    assert page.locator("#trace").input_value() == "traces/mine.csv"
    assert page.locator("#about-trace .findings li").count() > 0
    page.locator("#file").set_input_files(bad)
    page.wait_for_selector("#about-trace .problem")
    assert "duration" in page.locator("#about-trace .problem").inner_text()
    assert str(served.folder) not in page.content()


def test_work_that_takes_longer_shows_its_progress(served, opened, monkeypatch):
    from shunter.web.routes import trying

    monkeypatch.setattr(trying, "SOON_S", 0.0)
    page = opened(served, "/what-if")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("Jobs", exact=True).fill("3000")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_selector(".answer")
    assert any(url.endswith("/events") for url in asked)


def test_a_policy_is_learned_step_by_step(served, opened, expect):
    page = opened(served, "/learn")
    page.get_by_role("link", name="sjf", exact=True).click()
    page.wait_for_selector(".stepper[data-drawn]")
    first = page.locator(".now").inner_text()
    page.get_by_role("button", name="Next step").click()
    expect(page.locator(".now")).not_to_have_text(first)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".now")).to_have_text(first)
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".waiting li").first).to_be_visible()
    expect(page.locator(".waiting")).to_contain_text("head of the queue")
    page.locator("[name='set.backfill']").select_option("easy")
    page.get_by_role("button", name="Show the example with these").click()
    expect(page.locator(".stepper[data-drawn] h3")).to_have_text("sjf:backfill=easy")


def test_names_in_docstrings_are_shown_as_code(served, opened):
    page = opened(served, "/learn/express")
    assert page.locator(".lead code").first.inner_text() == "gittins"
    assert "``" not in page.locator("main").inner_text()
    page.goto(f"{served.url}/api/docs")
    assert page.locator(".lead code").inner_text() == "--json"
    assert "`" not in page.locator("main").inner_text()


def test_a_stretch_of_a_run_is_stepped_through(served, opened, expect):
    page = opened(served, "/runs/report?run=both")
    page.get_by_role("link", name="both/1-fifo").click()
    page.wait_for_selector(".stepper[data-drawn]")
    page.get_by_role("link", name="Later").click()
    page.wait_for_selector("text=Instants 61 to 120")
    page.wait_for_selector(".stepper[data-drawn]")
    page.get_by_role("button", name="Last step").click()
    expect(page.locator(".stepper output")).to_have_text("60 of 60")


def test_a_user_sees_the_cluster_and_asks_why_and_when(served, opened, expect):
    page = opened(served, "/cluster")
    expect(page.locator(".tiles").first).to_contain_text("3 jobs")
    page.locator(".map[data-drawn] canvas").press("ArrowRight")
    expect(page.locator(".map .about")).to_contain_text("n1: 8 of 8 a100 GPUs in use")
    page.get_by_label("User").fill("ann")
    expect(page.locator("#queue tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Forecast when they start").click()
    page.wait_for_selector("#queue >> text=P90")
    expect(page.locator("#queue tbody tr").first).to_contain_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"))
    page.get_by_label("GPUs").fill("2")
    page.get_by_role("button", name="When would it start?").click()
    page.wait_for_selector("#when .tile")
    expect(page.locator("#when")).to_contain_text("24 h: over 99 %")  # a forecast is never certain
    page.get_by_role("link", name="3", exact=True).click()
    page.wait_for_selector("text=When it may start")
    assert "waits:" in page.locator(".verdict").inner_text()


def test_the_controller_is_shown_with_what_it_changed_and_why(served, opened, expect):
    page = opened(served, "/cluster")
    expect(page.locator("#controller")).to_contain_text("the policy puts it at place 1 of 3")
    expect(page.locator("#queue")).to_contain_text("<b>eve</b>")


@pytest.mark.parametrize("width", [400, 1000, 1600])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_is_wider_than_its_window_and_themes_are_kept(served, opened, expect, width, theme):
    page = opened(served, viewport={"width": width, "height": 800}, color_scheme=theme)
    for path in ("/runs", "/what-if", "/learn", "/learn/fifo", "/cluster", "/api/docs", "/runs/report?run=sjf"):
        page.goto(served.url + path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    page.get_by_role("button", name="Light colours" if theme == "dark" else "Dark colours").click()
    page.reload()
    expect(page.get_by_role("button", name="Dark colours" if theme == "dark" else "Light colours")).to_be_visible()
