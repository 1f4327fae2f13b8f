"""A large cluster in the page: what is in the document stays small, and so does the memory over many events."""

from __future__ import annotations

import gc
import re

import pytest
from served import HOUR, NOW, waiting

from shunter.live import warming
from shunter.live.nodes import Node
from shunter.live.snapshot import Snapshot
from shunter.live.surroundings import Defaults
from shunter.registry import policy
from shunter.web.settings import LiveSources

pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")

JOBS, NODES = 10_000, 1_000
MOST_ELEMENTS = 1500  # of a document, whatever the cluster's size
BAD = "<img src=x onerror=alert(1)>\"'<script>alert(2)</script>"


def cluster(jobs: int, nodes: int, now: int = NOW) -> Snapshot:
    running = {"state": "RUNNING", "reason": "", "start": now - HOUR, "ran": HOUR, "limit": 4 * HOUR}
    some = [waiting(number, **running, gpus=8, nodes=(f"n{number}",)) for number in range(1, nodes + 1)]
    some += [waiting(nodes + 1 + number, user=f"u{number % 500}", priority=2 * jobs - number) for number in range(jobs)]
    names = (f"n{number}" for number in range(1, nodes + 1))
    machines = tuple(Node(name, "mixed", ("main",), 8, "a100", used=tuple(range(8)), cpus=64) for name in names)
    return Snapshot(now, tuple(some), machines, defaults=(Defaults("main"),))


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Before any page is served: an application must not be made while another thread compiles."""
    warming.rounds(policy("fifo"))


@pytest.fixture(scope="module")
def large(serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    cluster(JOBS, NODES).save(folder / "now.json")
    return serve(folder, live=LiveSources(snapshot=folder / "now.json"))


def elements(page) -> int:
    return page.evaluate("document.querySelectorAll('*').length")


def test_ten_thousand_jobs_and_a_thousand_nodes_are_few_elements(large, opened, expect):
    page = opened(large, "/cluster")
    page.wait_for_selector(".virtual[data-drawn]")
    assert elements(page) < MOST_ELEMENTS
    frame = page.locator(".virtual")
    assert page.locator("table[aria-rowcount]").get_attribute("aria-rowcount") == str(JOBS + 1)
    first = page.locator("tbody.rows tr").first.get_attribute("aria-rowindex")
    assert first == "2"
    for share, begin in ((0.5, r"[45]\d{3}"), (1.0, r"99\d\d")):
        frame.evaluate("(frame, share) => frame.scrollTo(0, frame.scrollHeight * share)", share)
        expect(page.locator("tbody.rows tr").first).to_have_attribute("aria-rowindex", re.compile(begin))
        assert page.locator("tbody.rows tr").count() <= 60
        assert elements(page) < MOST_ELEMENTS
    expect(page.locator("tbody.rows tr").last).to_have_attribute("aria-rowindex", str(JOBS + 1))
    assert page.locator("tbody.rows tr").last.is_visible()
    frame.evaluate("frame => frame.scrollTo(0, 0)")
    expect(page.locator("tbody.rows tr").first).to_have_attribute("aria-rowindex", "2")
    assert page.locator("figure.map *").count() < 20
    page.locator(".map[data-drawn] canvas").press("ArrowDown")
    expect(page.locator(".map .about")).to_contain_text("8 of 8 a100 GPUs in use")


def test_a_filter_shortens_the_list(large, opened, expect):
    page = opened(large, "/cluster")
    page.get_by_label("User").fill("u7")
    expect(page.locator("table[aria-rowcount]")).to_have_attribute("aria-rowcount", str(JOBS // 500 + 1))
    expect(page.locator("tbody.rows tr")).to_have_count(JOBS // 500)


def test_many_events_leave_nothing_behind_in_the_browser(serve, opened, tmp_path):
    """Parts of the page that are replaced all the time: what they were is forgotten."""
    cluster(100, 50).save(tmp_path / "now.json")
    page = opened(serve(tmp_path, live=LiveSources(snapshot=tmp_path / "now.json")), "/cluster")
    session = page.context.new_cdp_session(page)

    def events(count: int) -> tuple[int, int, int]:
        page.evaluate(
            """async (count) => { for (let i = 0; i < count; i++) {
                 await htmx.ajax("GET", "/cluster/now", "#now");
                 await htmx.ajax("GET", "/cluster/queue", { target: "#queue", source: "#queue-filters" });
                 await htmx.ajax("GET", "/cluster/controller", "#controller");
               } }""",
            count,
        )
        session.send("HeapProfiler.collectGarbage")
        counters = session.send("Memory.getDOMCounters")
        return elements(page), counters["nodes"], counters["jsEventListeners"]

    events(5)
    before, after = events(10), events(60)
    assert after[0] == before[0]
    assert after[1] <= before[1] * 1.2
    assert after[2] < before[2] + 30  # fewer than one for two events


def test_many_events_leave_nothing_behind_on_the_server(serve, tmp_path):
    """A new look at the cluster each time, as over a day."""
    page = serve(tmp_path, live=LiveSources(snapshot=tmp_path / "now.json"))

    def events(first: int, count: int) -> int:
        for number in range(first, first + count):
            cluster(20, 10, NOW + 1000 * number).save(tmp_path / "now.json")
            for path in ("/cluster/now", "/cluster/queue?policy=fifo", "/runs/list", "/runs/under-way"):
                assert page.get(path).status == 200
        gc.collect()
        return len(gc.get_objects())

    events(0, 10)
    before = events(10, 10)
    assert events(20, 60) < before * 1.05


def test_hostile_names_of_a_cluster_run_nothing(serve, opened, expect, tmp_path):
    some = cluster(5, 3)
    jobs = tuple(
        waiting(number, name=BAD, user=BAD, partition=f"main,{BAD}", reason="Priority") for number in range(10, 13)
    )
    nodes = (Node(BAD, BAD, ("main", BAD), 8, BAD, used=(0,), cpus=64), *some.nodes)
    Snapshot(NOW, (*some.jobs, *jobs), nodes, defaults=(Defaults("main"),)).save(tmp_path / "now.json")
    page = opened(serve(tmp_path, live=LiveSources(snapshot=tmp_path / "now.json")), "/cluster")
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.wait_for_selector(".virtual[data-drawn]")
    page.locator(".map[data-drawn] canvas").press("ArrowRight")
    expect(page.locator(".map .about")).to_contain_text(BAD)
    expect(page.locator("tbody.rows")).to_contain_text("<script>alert(2)</script>")
    assert page.locator("img").count() == 0
    for job in ("10", "11"):
        page.goto(f"{page.url.partition('/cluster')[0]}/cluster/jobs/{job}")
        assert page.locator("img").count() == 0
