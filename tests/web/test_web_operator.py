"""Operators act from the page: with their own token, each action confirmed, and noted in the controller's journal."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from contextlib import closing, contextmanager

import pytest
from served import TOKEN

pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")

from shunter.errors import LiveError, RunError
from shunter.experiment import TraceSource
from shunter.live import audit, daemons, locks, warming
from shunter.live.backend import Rhythm
from shunter.live.controller import ChangeLimits, Mode
from shunter.live.daemons import wait
from shunter.live.journal import DONE, Journal, WaitsEntry
from shunter.live.levers import Order
from shunter.live.locks import claimed
from shunter.live.proposals import proposed, record
from shunter.live.running import ControllerSettings, run
from shunter.registry import policy
from shunter.testing.memory_manager import MemoryManager
from shunter.web import operating
from shunter.web.access import Access
from shunter.web.operating import ACTIONS
from shunter.web.settings import LiveSources

OPERATOR_TOKEN = "operat0r-" * 5
SJF = "sjf:estimate=limit"


class Desk:
    """A page with a cluster in memory, and a browser's cookies."""

    def __init__(self, serve, folder):
        self.manager = MemoryManager()
        for _ in range(self.manager.node_count):
            self.manager.submit(4, 600)
        self.manager.schedule()
        self.jobs = [self.manager.submit(4, minutes) for minutes in (300, 200, 100)]
        self.journal = folder / "j.db"
        self.manager.snapshot().save(folder / "now.json")
        live = LiveSources(snapshot=folder / "now.json", journal=self.journal)
        self.page = serve(folder, live=live, operator_token=OPERATOR_TOKEN, user_header="X-Remote-User")
        self.page.state.operator.manager = lambda: self.manager
        self.access = Access(TOKEN, self.page.port, OPERATOR_TOKEN)
        self.cookies = [f"{self.access.cookie_name}={self.access.cookie}"]

    def post(self, path, fields="", **headers):
        known = {"Cookie": "; ".join(self.cookies), "X-Form-Token": self.access.form_token, "X-Remote-User": "ann"}
        return self.page.ask("POST", path, fields.encode(), **(known | headers))

    def enter(self):
        found = self.post("/cluster/operator/enter", f"token={OPERATOR_TOKEN}")
        assert found.status == 200
        self.cookies.append(found.headers["set-cookie"].partition(";")[0])
        return found

    def do(self, action):
        return self.post("/cluster/operator/do", f"action={action}&policy={SJF}&confirmed={action}")

    def events(self):
        with closing(Journal.reading(self.journal)) as book:
            return [(kind, text) for _, kind, text in book.events()]

    def nices(self):
        return [self.manager.jobs[name].nice for name in self.jobs]


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Before any page is served: an application must not be made while another thread compiles."""
    warming.rounds(policy(SJF))


@pytest.fixture
def desk(serve, tmp_path):
    return Desk(serve, tmp_path)


@contextmanager
def acting(desk):
    """A controller of the journal, in a thread."""
    stop, settings = threading.Event(), ControllerSettings(Mode.ACT, Rhythm(0.2, 0.1))
    thread = threading.Thread(
        target=run, args=(policy(SJF), desk.manager, desk.journal, settings), kwargs={"stop": stop}
    )
    thread.start()
    try:
        assert wait(lambda: any(desk.nices()), 180)
        yield
    finally:
        stop.set()
        thread.join()


def test_the_token_of_the_page_is_not_that_of_operators(desk):
    for action in ACTIONS:
        assert desk.do(action).status == 403
    assert desk.post("/cluster/operator/enter", f"token={TOKEN}").status == 403
    assert not desk.journal.exists()
    with pytest.raises(RunError, match="a token of their own"):
        Access(TOKEN, 1, TOKEN)


def test_the_cookie_of_operators_is_strict_and_goes_to_their_addresses_alone(desk):
    cookie = desk.enter().headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/cluster/operator"} <= set(cookie.split("; "))
    assert OPERATOR_TOKEN not in cookie
    assert desk.do("watch").status == 200
    del desk.cookies[0]  # it opens nothing by itself
    assert desk.do("watch").status == 401


def test_a_page_without_their_token_does_nothing(serve, tmp_path):
    page = serve(tmp_path)
    access = Access(TOKEN, page.port)
    empty = f"{access.cookie_name}={access.cookie}; {access.operator_cookie_name}={access.operator_cookie}"
    about = {"Cookie": empty, "X-Form-Token": access.form_token}
    assert page.ask("POST", "/cluster/operator/do", b"action=pause&confirmed=pause", **about).status == 403
    assert page.ask("POST", "/cluster/operator/enter", b"token=", **about).status == 403


def test_an_action_needs_a_form_of_the_page_and_a_confirmation(desk):
    desk.enter()
    fields = f"action=pause&policy={SJF}"
    assert desk.post("/cluster/operator/do", f"{fields}&confirmed=pause", X_Form_Token="0").status == 403
    assert desk.page.ask("GET", f"/cluster/operator/do?{fields}", Cookie="; ".join(desk.cookies)).status == 405
    assert "not confirmed" in desk.post("/cluster/operator/do", fields).text
    assert "not confirmed" in desk.post("/cluster/operator/do", f"{fields}&confirmed=watch").text
    shown = desk.post("/cluster/operator/confirm", fields)
    assert "changes nothing more" in shown.text
    assert not desk.journal.exists()


@pytest.mark.parametrize(
    "bad",
    ["policy=os.path", "interval=0", "changes=-1", "users=--policy", "action=kill", f"partitions={'p' * 200_000}"],
)
def test_what_an_operator_sends_is_checked(desk, bad):
    desk.enter()
    assert desk.post("/cluster/operator/confirm", f"action=act&policy={SJF}&{bad}").status == 422


def test_watch_and_dry_run_show_changes_and_make_none(desk):
    desk.enter()
    assert "the policy puts it at place 1 of 3" in desk.do("watch").text
    assert re.search(r"set \d+ nice=-?\d+", desk.do("dry-run").text)
    assert desk.manager.calls["change"] == 0
    assert [text.partition(" (")[0] for kind, text in desk.events() if kind == "operator"] == ["ann on the page"] * 2


def test_a_command_that_acts_is_shown_before_it_is_run(desk):
    desk.enter()
    shown = desk.post("/cluster/operator/confirm", f"action=act&policy={SJF}&users=bob&partitions=gpu,big").text
    assert "--exclude-user bob --exclude-partition gpu --exclude-partition big --mode act" in shown
    assert not desk.journal.exists()


def test_a_controller_is_paused_goes_on_and_is_released_through_its_journal(desk):
    desk.enter()
    with acting(desk):
        assert desk.do("pause").status == 200
        assert wait(lambda: not any(desk.nices()), 180)  # its next round gives the jobs back
        assert "handed back by ann on the page" in desk.page.get("/cluster/controller").text
        assert "may change jobs again" in desk.do("act").text
        assert wait(lambda: any(desk.nices()), 180)
        other = desk.post("/cluster/operator/do", "action=act&policy=fifo&confirmed=act")
        assert other.status == 422
        assert f"a controller with &#39;{SJF}&#39; runs" in other.text
        assert "it goes on as it was started" in desk.do("act").text
        other = desk.post("/cluster/operator/do", f"action=act&policy={SJF}&users=bob&confirmed=act")
        assert other.status == 422
        assert "leaves other jobs alone" in other.text
        assert "undone" in desk.do("release").text
        assert not any(desk.nices())
    with closing(Journal.reading(desk.journal)) as book:
        assert book.hands_off() == []  # what we gave back ourselves is no change by others
    kinds = [kind for kind, _ in desk.events()]
    assert kinds.count("operator") == 6
    assert kinds.count("stop") == 2


def test_a_pause_does_not_wait_for_another_action(desk):
    desk.enter()
    asked, goes_on = threading.Event(), threading.Event()

    def slow():
        asked.set()
        assert goes_on.wait(180)
        return desk.manager

    desk.page.state.operator.manager = slow
    thread = threading.Thread(target=desk.do, args=("dry-run",))
    thread.start()
    try:
        assert asked.wait(180)
        assert "another action is under way" in desk.do("watch").text
        assert desk.do("pause").status == 200
    finally:
        goes_on.set()
        thread.join()


def test_a_pause_holds_against_a_controller_that_has_not_begun_yet(desk, monkeypatch):
    started = []

    def start(command, log):
        started.append(command)
        raise LiveError(f"{log.name}: not here")

    monkeypatch.setattr(operating, "_started", start)
    desk.enter()
    desk.do("pause")
    shown = desk.post("/cluster/operator/confirm", f"action=act&policy={SJF}").text
    assert re.search(r"shunter slurm resume --journal \S+ &amp;&amp; shunter slurm run", shown)
    assert desk.do("act").status == 422
    with closing(Journal.reading(desk.journal)) as book:
        assert not book.handed_back()
    desk.do("pause")
    assert "--resume" not in started[0]
    with closing(Journal.reading(desk.journal)) as book:
        assert book.handed_back()


def test_a_release_that_has_no_controller_still_undoes(desk):
    desk.enter()
    with acting(desk):
        pass
    assert any(desk.nices())
    assert "undone" in desk.do("release").text
    assert not any(desk.nices())


def test_places_of_a_policy_and_waits_against_the_shadow_are_shown(desk):
    shown = desk.page.get("/cluster/queue", policy=SJF).text
    rows = re.findall(r">(\d+)</a></th>.*?Place\">(\d+)</td>.*?place\">(\d+)</td>", shown)
    assert rows == [("3", "1", "3"), ("4", "2", "2"), ("5", "3", "1")]
    assert "does not know duration" in desk.page.get("/cluster/queue", policy="sjf:estimate=oracle").text
    with closing(Journal(desk.journal)) as book:
        now = time.time()
        for ago, real in ((90_000, 1), (600, 120), (300, 7200)):
            book.note_waits(WaitsEntry(now - ago, 25, real, 480, 900, 1800))
    shown = desk.page.get("/cluster/controller").text
    assert "25 jobs waited on average" in shown
    assert "2.00 h" in shown
    assert (
        len(json.loads(re.search(r"<script[^>]*>(\{.*?\})</script>", shown, re.DOTALL)[1])["series"][0]["values"]) == 2
    )


# -- for programs

BOTH = {"Authorization": f"Bearer {TOKEN}", "X-Operator-Token": OPERATOR_TOKEN}


def call(desk, action, about=BOTH, **fields):
    body = json.dumps({"confirmed": action, "policy": SJF} | fields).encode()
    headers = {"Content-Type": "application/json", "X-Remote-User": "ann"} | about
    return desk.page.ask("POST", f"/api/operator/{action}", body, **headers)


def test_programs_need_both_tokens_as_headers_and_no_browser_can_act_for_them(desk):
    desk.enter()
    cookies = {"Cookie": "; ".join(desk.cookies), "X-Form-Token": desk.access.form_token}
    for about in (
        {},
        {"X-Operator-Token": OPERATOR_TOKEN},
        {"Authorization": f"Bearer {TOKEN}"},
        {"Authorization": f"Bearer {OPERATOR_TOKEN}", "X-Operator-Token": OPERATOR_TOKEN},
        {"Authorization": f"Bearer {TOKEN}", "X-Operator-Token": TOKEN},
        {"Authorization": f"Bearer {TOKEN}", "X-Operator-Token": ""},
        cookies,
        cookies | {"X-Operator-Token": OPERATOR_TOKEN},
        BOTH | cookies,
        BOTH | {"Origin": desk.page.url, "X-Form-Token": desk.access.form_token},
        BOTH | {"Sec-Fetch-Site": "same-origin", "X-Form-Token": desk.access.form_token},
    ):
        for action in ACTIONS:
            assert call(desk, action, about).status in (401, 403), about
    assert desk.page.ask("GET", "/api/operator/pause", **BOTH).status == 405
    assert not desk.journal.exists()


def test_without_an_operators_token_programs_can_do_nothing(serve, tmp_path):
    page = serve(tmp_path)
    about = {"Authorization": f"Bearer {TOKEN}", "X-Operator-Token": "", "Content-Type": "application/json"}
    assert page.ask("POST", "/api/operator/pause", b'{"confirmed": "pause"}', **about).status == 403


@pytest.mark.parametrize(
    "bad",
    [{"policy": "os.path"}, {"interval": 0}, {"changes": -1}, {"users": "--policy"}, {"confirmed": "pause"},
     {"confirmed": ""}, {"partitions": "p" * 200_000}],
)  # fmt: skip
def test_what_a_program_sends_is_checked(desk, bad):
    assert call(desk, "act", **bad).status == 422
    assert call(desk, "kill").status == 422
    assert not desk.journal.exists()


def test_programs_watch_pause_and_release_with_the_numbers_of_the_command_line(desk):
    settings = ControllerSettings(Mode.DRY_RUN, Rhythm(60, 5), bounds=ChangeLimits(100))
    found = call(desk, "dry-run").json
    shown = json.loads(json.dumps(record(proposed(policy(SJF), desk.manager, desk.journal, settings), desk.manager)))
    assert found["result"] | {"now": 0} == shown | {"now": 0}
    assert len(found["result"]["orders"]) > 0
    assert call(desk, "watch").json["said"] == found["said"]
    assert desk.manager.calls["change"] == 0
    with acting(desk):
        assert call(desk, "pause").json["result"] == {"paused": True}
        assert wait(lambda: not any(desk.nices()), 180)
        assert call(desk, "act").json["result"] == {"resumed": True}
        assert wait(lambda: any(desk.nices()), 180)
        assert call(desk, "release").json["result"]["undone"] > 0
        assert not any(desk.nices())
    noted = [text.partition(":")[0] for kind, text in desk.events() if kind == "operator"]
    assert len(noted) == 5
    assert all(text.startswith("ann by the API (") for text in noted)


def test_the_api_of_operators_is_described(desk):
    about = desk.page.get("/api/openapi.json").json["paths"]["/api/operator/{action}"]["post"]
    assert {"action", "X-Operator-Token"} == {one["name"] for one in about["parameters"]}
    assert "X-Operator-Token" in desk.page.get("/api/docs").text


def test_a_controller_that_still_compiles_is_shown(desk):
    Journal(desk.journal).close()
    assert "No controller has run" in desk.page.get("/cluster/controller").text
    with claimed(desk.journal):
        found = desk.page.get("/cluster/controller").text
        assert f"Process {os.getpid()} is there; its first round comes when all is compiled." in found
    locks.lock_of(desk.journal, "controller").write_text(str(2**22 + 1))  # of a process that is gone
    assert "No controller has run" in desk.page.get("/cluster/controller").text


def test_of_a_long_journal_and_a_long_log_only_the_end_is_read(desk, monkeypatch):
    with closing(Journal(desk.journal)) as book:
        for number in range(30):
            book.note("note", f"number {number}")
            book.leave_alone(f"job {number}", "changed by another")
            for act in book.intend(1, [Order(f"{number}", "nice", "1", "0", "why")]):
                book.settle(act, DONE)
        whole, last = audit.entries(book), audit.entries(book, most=5)
        assert last == sorted(whole, key=lambda one: one.at)[-len(last) :]
        assert len(last) == 15
    log = desk.journal.with_name("a.log")
    log.write_text("first\n" * 1000 + "one\ntwo\nthree\n")
    assert daemons.last_lines(log) == "one | two | three"
    monkeypatch.setattr(daemons, "LONGEST_END", 8)
    assert daemons.last_lines(log) == "o | three"
    assert "said nothing" in daemons.last_lines(desk.journal.with_name("none.log"))


def test_a_controller_reads_the_history_as_the_page_does(tmp_path):
    past = TraceSource(str(tmp_path / "jobs.csv"), format="table:gpus=n", on_bad_row="skip")
    desk = operating.OperatorDesk(LiveSources(journal=tmp_path / "j.db", history=past), MemoryManager)
    words = desk.command(operating.Operation("act", "fifo"))
    assert words[words.index("--history") :] == [
        "--history", past.path, "--on-bad-row", "skip", "--format", "table:gpus=n",
    ]  # fmt: skip
