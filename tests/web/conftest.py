"""A page that is served in this process, and a browser that is signed in."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from served import HOUR, NOW, TOKEN, TRACE, Served, waiting

import shunter
from shunter.live import warming
from shunter.live.journal import DONE, Journal
from shunter.live.levers import Order
from shunter.live.nodes import Node
from shunter.live.snapshot import Snapshot
from shunter.live.surroundings import Defaults
from shunter.registry import policy

REFUSED = "status of 422"  # a browser notes that bad input was refused
# htmx notes that a page was left while a request was under way. Where a server does not answer, it notes a third thing.
LEFT = ("htmx:afterRequest", "htmx:sendAbort")


@pytest.fixture(scope="module")
def serve():
    """Serves pages; they stop with the module."""
    uvicorn = pytest.importorskip("uvicorn", reason="no uvicorn; the extra web has it")
    pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")
    from shunter.web.app import make_app
    from shunter.web.serving import config_of, open_port
    from shunter.web.settings import WebSettings

    servers = []

    def begin(folder: Path, operator_token: str = "", **about) -> Served:
        listening = open_port(WebSettings(folder, port=0))
        port = listening.getsockname()[1]
        app = make_app(WebSettings(folder, port=port, **about), TOKEN, operator_token)
        server = uvicorn.Server(config_of(app, "error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        servers.append((server, thread, listening))
        return Served(folder, port, app.state.shunter)

    yield begin
    for server, _, _ in servers:
        server.should_exit = True
    for _, thread, listening in servers:
        thread.join(120)
        listening.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    """A folder with a run, a comparison of two and a trace."""
    folder = tmp_path_factory.mktemp("page")
    shunter.simulate(TRACE, "4x4", "sjf", decisions=True).save(folder / "sjf")
    shunter.compare(TRACE, "4x4", ["fifo", "las"], out=folder / "both", workers=1, decisions=True)
    rows = ["job_id,submit,duration,gpus", *(f"j{n},{60 * n},{300 + 10 * n},{1 + n % 4}" for n in range(40))]
    (folder / "jobs.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A recorded cluster and a controller's journal."""
    pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")
    from shunter.web.settings import LiveSources

    warming.rounds(policy("sjf"))  # an application must not be made while another thread compiles
    folder = tmp_path_factory.mktemp("live")
    runs = {"state": "RUNNING", "reason": "", "start": NOW - HOUR, "ran": HOUR, "limit": 4 * HOUR}
    jobs = (
        waiting(1, **runs, gpus=8, user="bob", nodes=("n1",)),
        waiting(2, **runs, gpus=5, user="cid", nodes=("n2",)),
        waiting(3, gpus=8, priority=200, reason="Resources"),
        waiting(4, gpus=4, user="<b>eve</b>"),
        waiting(5, gpus=2, limit=HOUR // 2),
    )
    nodes = tuple(
        Node(name, "mixed", ("main",), 8, "a100", used=tuple(range(used)), cpus=64, mem_mib=512_000)
        for name, used in (("n1", 8), ("n2", 5))
    )
    Snapshot(NOW, jobs, nodes, defaults=(Defaults("main"),)).save(folder / "now.json")
    book = Journal(folder / "j.db")
    book.note("begin", "sjf in mode act")
    (act,) = book.intend(1, [Order("5", "nice", "-1000", "0", "the policy puts it at place 1 of 3")])
    book.settle(act, DONE)
    book.close()
    return LiveSources(snapshot=folder / "now.json", journal=folder / "j.db")


@pytest.fixture
def opened(browser):
    """Opens a page as a person does, by its printed address; it must say nothing and ask nobody else."""
    said, asked, contexts = [], [], []

    def open_page(served: Served, path: str = "/runs", **settings):
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | settings)
        context.set_default_timeout(180_000)  # milliseconds; a busy machine takes its time
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{served.url}/enter#token={TOKEN}")
        page.wait_for_url("**/runs")
        if path != "/runs":
            page.goto(served.url + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in said if REFUSED not in text and not text.startswith(LEFT)] == []
    assert [url for url in asked if not url.startswith(("http://127.0.0.1:", "blob:", "data:"))] == []
