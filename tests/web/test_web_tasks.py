"""Work that takes long, operators and screen readers, in a browser: from the first click to the result."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from itertools import pairwise

import pytest
from served import TRACE
from typer.testing import CliRunner

import shunter
from shunter import under_way
from shunter.cli.main import app
from shunter.live import warming
from shunter.live.journal import Journal
from shunter.registry import policy
from shunter.sim import engine
from shunter.testing.memory_manager import MemoryManager
from shunter.under_way import RunPoint, UnderWay, shown
from shunter.web.settings import LiveSources

pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")

LONG = "synthetic:jobs=2000,gpus=16,seed=1"
OPERATOR_TOKEN = "operat0r-" * 5
USABLE = "input:not([type=hidden]), select, textarea, button, a[href], canvas, progress, [role=region]"
NAMELESS = """(usable) => [...document.querySelectorAll(usable)]
  .filter((one) => one.offsetParent)
  .filter((one) => !(one.labels?.length || one.ariaLabel || one.title || one.textContent.trim()))
  .map((one) => one.outerHTML.slice(0, 120))"""
LEVELS = """() => [...document.querySelectorAll("h1, h2, h3, h4")]
  .filter((one) => one.offsetParent).map((one) => Number(one.tagName[1]))"""


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Before any page is served: an application must not be made while another thread compiles."""
    for name in ("sjf", "sjf:estimate=limit"):
        warming.rounds(policy(name))


@pytest.fixture(scope="module")
def served(serve, filled, live):
    return serve(filled, live=live)


def test_a_run_that_is_under_way_grows_and_then_is_in_the_list(serve, opened, expect, tmp_path, monkeypatch):
    monkeypatch.setattr(under_way, "EVERY_S", 0.0)
    page = opened(serve(tmp_path))
    with shown(tmp_path / "long", UnderWay("run", "philly", "36x8", ["las"])) as note:
        note(100, 1000)
        page.reload()
        page.wait_for_selector("text=100 of 1,000 jobs")
        points = page.locator(".course polyline").get_attribute("points")
        note(500, 1000)
        page.wait_for_selector("text=500 of 1,000 jobs")
        assert len(page.locator(".course polyline").get_attribute("points")) > len(points)
        shunter.simulate(TRACE, "4x4", "las").save(tmp_path / "long")
    page.wait_for_selector("#list >> text=las")
    expect(page.locator(".under-way li")).to_have_count(0)


def test_runs_of_a_comparison_under_way_are_reported_as_they_end(serve, opened, tmp_path, monkeypatch):
    monkeypatch.setattr(under_way, "EVERY_S", 0.0)
    shunter.simulate(TRACE, "4x4", "las").save(tmp_path / ".both.unfinished" / "1-las")
    with shown(tmp_path / "both", UnderWay("comparison", "x", "4x4", ["las", "fifo"])) as note:
        note(120, 240)
        page = opened(serve(tmp_path))
        page.get_by_role("link", name="with the report of the 1 that have ended").click()
        page.wait_for_selector("text=The comparison is under way.")
        page.wait_for_selector("figure.chart svg")
        assert page.locator("#growing figure").count() == 0
        inner = UnderWay("run", "x", "4x4", ["fifo"], gpus=16)
        with shown(tmp_path / ".both.unfinished" / "2-fifo", inner) as single:
            single.reach(RunPoint(3600.0, 20, 5, 8.0), 120)
            note(140, 240)
            page.wait_for_selector("#growing >> text=20 of 120 after 1.00 h of simulated time.")
            page.wait_for_selector("#growing >> text=50.0 % of all GPUs now.")


class Held:
    """Lets a run go from one report of its progress to the next."""

    def __init__(self):
        self.steps, self.waits = threading.Semaphore(0), 0

    def __call__(self, *_):
        self.waits += 1
        assert self.steps.acquire(timeout=120)

    def release(self, steps=1):
        self.steps.release(steps)


ALL = 10**6  # steps


def _caption(page, box):
    return page.locator(f"{box} figure figcaption p").first


def _ended(page, box):
    """How many jobs have ended by the table of a chart that grows; and what its caption says, read after it."""
    last = page.locator(f"{box} figure").first.locator("tbody tr").last.inner_text()
    return int(last.split()[-1].replace(",", "")), _caption(page, box).inner_text()


def test_charts_of_a_run_that_was_started_elsewhere_grow(serve, opened, expect, tmp_path, monkeypatch):
    monkeypatch.setattr(under_way, "EVERY_S", 0.0)
    monkeypatch.setattr(engine, "STEP", 200)
    page, held, reach = opened(serve(tmp_path)), Held(), under_way.Progressing.reach
    monkeypatch.setattr(under_way.Progressing, "reach", lambda *step: (reach(*step), held()))
    command = ["simulate", LONG, "-c", "4x4", "-p", "fifo", "--out", str(tmp_path / "long")]
    thread = threading.Thread(target=lambda: CliRunner().invoke(app, command))
    thread.start()
    held.release(2)
    page.get_by_role("link", name="Charts so far").click(timeout=120_000)
    page.wait_for_selector("#growing figure svg")
    page.locator("#growing summary").first.click()
    before = _ended(page, "#growing")
    held.release(3)
    expect(_caption(page, "#growing")).not_to_have_text(before[1])
    assert _ended(page, "#growing")[0] > before[0]  # the table that was opened stays open
    held.release(ALL)
    page.get_by_role("link", name="Report").click()
    page.wait_for_selector("#content >> text=fifo")
    thread.join(120)
    assert held.waits > 5


def test_charts_of_a_what_if_grow_while_it_runs(served, opened, expect, monkeypatch):
    from shunter.web.routes import trying
    from shunter.web.tasks import BackgroundTask

    monkeypatch.setattr(trying, "SOON_S", 0.0)
    monkeypatch.setattr(engine, "STEP", 200)
    held, report = Held(), BackgroundTask.report
    monkeypatch.setattr(BackgroundTask, "report", lambda *step: (report(*step), held()))
    page = opened(served)
    page.get_by_role("link", name="What if").click()
    page.get_by_label("Jobs", exact=True).fill("2000")
    page.get_by_role("button", name="Run", exact=True).click()
    held.release(3)
    page.wait_for_selector(".growing figure svg")
    page.locator(".growing summary").first.click()
    before = _ended(page, ".growing")
    held.release(3)
    expect(_caption(page, ".growing")).not_to_have_text(before[1])
    assert _ended(page, ".growing")[0] > before[0]
    held.release(ALL)
    page.wait_for_selector(".answer")
    expect(page.locator(".growing")).to_have_count(0)


def test_a_what_if_is_stopped(served, opened, monkeypatch):
    from shunter.web.routes import trying

    going = threading.Event()

    def forever(wanted, task):
        while True:
            going.set()
            task.report(1, 10)
            time.sleep(0.01)

    monkeypatch.setattr(trying, "SOON_S", 0.0)
    monkeypatch.setattr(trying, "answered", forever)
    page = opened(served, "/what-if")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_selector("text=1 of 10 jobs")
    assert going.is_set()
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector("#answer >> text=stopped; change something and run it again")


def test_the_cluster_that_suits_a_trace_is_set_and_the_answer_comes_into_view(served, opened, expect):
    page = opened(served, "/what-if", viewport={"width": 400, "height": 700})
    page.locator("#trace").select_option("jobs.csv")
    page.get_by_role("button", name="Use it").click()
    size = page.locator("#about-trace dd").last.inner_text().split()[0]
    nodes, gpus = size.split("x")
    assert [page.locator(f"[name={name}]").input_value() for name in ("nodes", "gpus")] == [nodes, gpus]
    page.locator("[name=checkpointable]").fill("none")
    page.locator("[name=overhead]").fill("30,60")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_selector(".answer .verdict")
    command = page.locator(".copy code").first.inner_text()
    assert f"--cluster {size} " in command
    assert command.endswith("--overhead 30,60 --checkpointable none")
    expect(page.locator("#answer")).to_be_focused()
    expect(page.locator(".answer .verdict").first).to_be_in_viewport()


def test_an_operator_tries_and_pauses_a_controller(serve, opened, expect, tmp_path):
    manager = MemoryManager()
    for minutes in (600, 600, 300, 100):
        manager.submit(4, minutes)
    manager.schedule()
    manager.snapshot().save(tmp_path / "now.json")
    live = LiveSources(snapshot=tmp_path / "now.json", journal=tmp_path / "j.db")
    operated = serve(tmp_path, live=live, operator_token=OPERATOR_TOKEN)
    operated.state.operator.manager = lambda: manager
    page = opened(operated, "/cluster")
    page.get_by_text("For operators").click()
    page.get_by_label("Operators' token").fill(OPERATOR_TOKEN)
    page.get_by_role("button", name="Enter").click()
    page.get_by_label("Policy", exact=True).fill("sjf:estimate=limit")
    page.get_by_role("button", name="Dry-run", exact=True).click()
    expect(page.get_by_role("button", name="Confirm dry-run")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_selector("#operation >> text=set 4 nice=")
    assert manager.calls["change"] == 0
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#operation")).to_have_text("")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name="Confirm pause").click()
    page.wait_for_selector("#operation >> text=From now on nothing is changed")
    page.wait_for_selector("#controller >> text=handed back by an operator on the page")
    with closing(Journal.reading(tmp_path / "j.db")) as book:
        assert [kind for _, kind, _ in book.events()] == ["operator", "operator", "stop"]
    page.get_by_role("button", name="Leave").click()
    page.wait_for_selector("text=For operators")


@pytest.mark.parametrize(
    "path",
    ["/runs", "/what-if", "/learn", "/learn/sjf", "/cluster", "/cluster/jobs/3", "/api/docs", "/runs/report?run=both"],
)
def test_everything_that_can_be_used_has_a_name_and_headings_have_an_order(served, opened, path):
    page = opened(served, path)
    page.wait_for_load_state("networkidle")
    assert page.evaluate(NAMELESS, USABLE) == []
    levels = page.evaluate(LEVELS)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("main").count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
