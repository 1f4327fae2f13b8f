"""Every view of the page as pictures, light and dark, at three widths; run by ``scripts/web-views``.

A small folder is prepared and served in this process: runs, a comparison with repeats, a sweep, a run under way, a
cluster in memory with a controller's journal, and operators.  With ``--axe FILE`` (axe-core, from npm) each view is
checked too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import Page, sync_playwright

import shunter
from shunter import under_way
from shunter.live.journal import DONE, Journal, WaitsEntry
from shunter.live.levers import Order
from shunter.testing.memory_manager import MemoryManager
from shunter.under_way import RunPoint, UnderWay, shown
from shunter.web.app import make_app
from shunter.web.serving import open_port
from shunter.web.settings import LiveSources, WebSettings

TOKEN, OPERATOR_TOKEN = "picture-" * 5, "0perator-" * 5
TRACE = "synthetic:jobs=400,seed=1,gpus=32,load=1.2"
WIDTHS, THEMES = (400, 1000, 1600), ("light", "dark")
TALLEST = 3200  # pixels of a picture
SERIOUS = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations.map(
  ({ id, help, nodes }) => `${id}: ${help}; ${nodes.length}x, first ${nodes[0].html.slice(0, 150)}` +
    ` ${nodes[0].any.map((one) => one.message).join("; ").slice(0, 200)}`)"""


@dataclass(frozen=True)
class View:
    """One view: its name, its address, and what is clicked there."""

    name: str
    path: str
    steps: Callable[[Page], Any] = lambda page: None


def _entered(page: Page) -> None:
    page.get_by_text("For operators").click()
    page.get_by_label("Operators' token").fill(OPERATOR_TOKEN)
    page.locator("#operator").get_by_role("button", name="Enter").click()
    page.wait_for_selector("#operator-form")


def _confirming(page: Page) -> None:
    _entered(page) if page.locator("#operator-form").count() == 0 else None
    page.get_by_role("button", name="Dry-run").click()
    page.wait_for_selector(".confirm")


def _dry_run(page: Page) -> None:
    _confirming(page)
    page.get_by_role("button", name="Confirm dry-run").click()
    page.wait_for_selector(".done-operation", timeout=120_000)


def _answered(page: Page) -> None:
    page.locator("#trace").select_option("jobs.csv")
    page.wait_for_selector("#about-trace .facts")
    page.get_by_role("button", name="Use it").click()
    page.locator("#slot-p1 summary").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_selector(".answer .verdict", timeout=120_000)


def _stepped(page: Page) -> None:
    page.wait_for_selector(".stepper[data-drawn]", timeout=120_000)
    for _ in range(12):
        page.get_by_role("button", name="Next step").click()


def _asked(page: Page) -> None:
    page.get_by_role("button", name="When would it start?").click()
    page.wait_for_selector("#when details", timeout=120_000)
    page.get_by_role("button", name="Forecast when they start").click()
    page.wait_for_selector("#queue [data-when='1']", timeout=120_000)


def _deleted(page: Page) -> None:
    page.get_by_label("Tick gone", exact=True).check()
    page.get_by_role("button", name="Delete ticked").click()
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector("text=gone is back.")


VIEWS = (
    View("runs", "/runs", lambda page: page.wait_for_selector(".under-way li")),
    View("runs-undo", "/runs", _deleted),
    View("runs-filtered", "/runs?policy=nothing"),
    View("so-far", "/runs/so-far?run=long", lambda page: page.wait_for_selector("#growing svg")),
    View("report-run", "/runs/report?run=sjf"),
    View("report-comparison", "/runs/report?run=both"),
    View("report-beside", "/runs/report?run=both&run=sjf"),
    View("report-sweep", "/runs/report?run=grid"),
    View("steps", "/runs/steps?run=sjf&at=60", _stepped),
    View("what-if", "/what-if", lambda page: page.wait_for_selector("#picture svg")),
    View("what-if-answer", "/what-if", _answered),
    View("learn", "/learn"),
    View("lesson", "/learn/tiresias", _stepped),
    View("cluster", "/cluster", lambda page: page.wait_for_selector("#operator summary")),
    View("cluster-asked", "/cluster", _asked),
    View("job", "/cluster/jobs/12"),
    View("api", "/api/docs"),
    View("problem", "/runs/report?run=nothing"),
    View("operator", "/cluster", _confirming),
    View("operator-done", "/cluster", _dry_run),
)


def prepare(folder: Path) -> MemoryManager:
    """Fill a folder; the cluster in memory that operators act on."""
    for name in ("sjf", "gone"):
        shunter.simulate(TRACE, "4x8", "sjf", decisions=True).save(folder / name)
    names = ["fifo", "las", "tiresias:starve=2"]
    shunter.compare(TRACE, "4x8", names, out=folder / "both", workers=1, decisions=True, repeat=2)
    policies = ["fifo", {"policy": "saf", "grid": {"backfill": ["none", "easy"]}}]
    shunter.sweep(
        traces=["synthetic:jobs=100,gpus=32"], clusters=["4x8"], loads=[0.8, 1.2], policies=policies, seeds=2,
        workers=1, out=folder / "grid",
    )  # fmt: skip
    rows = [f"j{n},{60 * n},{300 + 10 * n},{1 + n % 4},user{n % 5}" for n in range(300)]
    (folder / "jobs.csv").write_text("\n".join(["job_id,submit,duration,gpus,user", *rows]) + "\n")
    (folder / "broken").mkdir()
    (folder / "broken" / "comparison.json").write_text("{")
    manager = MemoryManager()
    for _ in range(manager.node_count):
        manager.submit(4, 600)
    manager.schedule()
    for number in range(40):
        manager.submit(1 + number % 4, 30 * (1 + number % 9))
    manager.snapshot().save(folder / "now.json")
    with closing(Journal(folder / "journal.db")) as book:
        for ago in range(20, 0, -1):
            book.note_waits(WaitsEntry(time.time() - 3600 * ago, 40, 3000 - 60 * ago, 3300, 9000, 9900))
        book.note("begin", "sjf in mode act")
        (act,) = book.intend(1, [Order("12", "nice", "-1000", "0", "the policy puts it at place 1 of 40")])
        book.settle(act, DONE)
    return manager


@contextmanager
def served(folder: Path, manager: MemoryManager) -> Iterator[str]:
    """The page of a folder, in this process."""
    listening = open_port(WebSettings(folder, port=0))
    port = listening.getsockname()[1]
    live = LiveSources(snapshot=folder / "now.json", journal=folder / "journal.db")
    app = make_app(WebSettings(folder, port=port, live=live), TOKEN, OPERATOR_TOKEN)
    app.state.shunter.operator.manager = lambda: manager
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def pictures(browser: Any, url: str, out: Path, axe: str, only: str) -> int:
    """One picture of every view, width and theme; how many things axe reports."""
    reported = 0
    for theme in THEMES:
        for width in WIDTHS:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=bool(axe))
            page.set_default_timeout(60_000)
            page.goto(f"{url}/enter")
            reported += _taken(page, out / f"enter-{width}-{theme}.png", axe)
            page.goto("about:blank")  # else it would be the same page, at another place
            page.goto(f"{url}/enter#token={TOKEN}")
            page.wait_for_url("**/runs")
            for view in VIEWS:
                if only in view.name:
                    page.goto(url + view.path)
                    view.steps(page)
                    reported += _taken(page, out / f"{view.name}-{width}-{theme}.png", axe)
            page.close()
    return reported


def _taken(page: Page, file: Path, axe: str) -> int:
    page.wait_for_timeout(300)
    height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
    width = page.viewport_size["width"] if page.viewport_size else WIDTHS[0]
    page.screenshot(path=file, full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
    found = []
    if axe:
        page.evaluate(axe)
        found = page.evaluate(SERIOUS)
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append("wider than its window")
    for one in found:
        sys.stdout.write(f"{file.stem}: {one}\n")
    return len(found)


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--axe", type=Path, help="axe.min.js of the package axe-core")
    parser.add_argument("--only", default="", help="views whose names have this part")
    wanted = parser.parse_args()
    wanted.out.mkdir(parents=True, exist_ok=True)
    program = os.environ.get("SHUNTER_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    under_way.EVERY_S = 0.0
    about = UnderWay("run", "philly", "64x8", ["tiresias"], gpus=512)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        manager = prepare(Path(name))
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        with served(Path(name), manager) as url, shown(Path(name) / "long", about) as course:
            for hour in range(1, 60):
                course.reach(RunPoint(3600.0 * hour, 40 * hour, (7 * hour) % 90, min(512.0, 30.0 * hour)), 4000)
            axe = wanted.axe.read_text() if wanted.axe else ""
            reported = pictures(browser, url, wanted.out, axe, wanted.only)
        browser.close()
    raise SystemExit(1 if reported else 0)


if __name__ == "__main__":
    main()
