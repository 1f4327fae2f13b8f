"""The watchdog: what could strand a job is lifted when its controller is gone, silent or done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from shunter.errors import LiveError
from shunter.live import watchdog
from shunter.live.daemons import wait
from shunter.live.journal import DONE, UNDONE, Journal
from shunter.live.levers import Order
from shunter.live.locks import held, lock_of
from shunter.live.manager import UnreachableError
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.watchdog import Watchdog, ensure, watch
from shunter.slurm.client import Client
from shunter.slurm.manager import SlurmManager

INTERVAL_S = 4.0
NOT_A_PROCESS = 2**22 + 1  # above what the kernel gives out
PIN = Order("7", "pin", "n1", "", "the policy chose these nodes")
NICE = Order("8", "nice", "-50", "0")


class Recording(Client):
    """Takes down commands instead of running them."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[str, ...]] = []
        self.away = 0  # calls that get no answer

    def run(self, program, *arguments, **more):
        if self.away:
            self.away -= 1
            raise UnreachableError("slurmctld is away")
        self.said.append((program, *arguments))
        return ""


@pytest.fixture
def set_up(tmp_path, monkeypatch):
    """A journal with a pin and a nice in force, on two jobs that wait."""
    jobs = (LiveJob("7", "7", "PENDING", wanted_nodes="n1"), LiveJob("8", "8", "PENDING", nice=-50))
    monkeypatch.setattr(watchdog, "UNDER_WAY_S", 0.0)
    book, client = Journal(tmp_path / "j.db"), Recording()

    def snapshot(self):
        self.client.run("squeue")
        return Snapshot(0, jobs, ())

    monkeypatch.setattr(SlurmManager, "snapshot", snapshot)
    for act in book.intend(1, [PIN, NICE]):
        book.settle(act, DONE)
    yield book, client
    book.close()


def seen(book, client):
    dog = Watchdog(book.path, SlurmManager(client))
    try:
        return dog.look()
    finally:
        dog._book.close()


LIFTED = [("squeue",), ("scontrol", "update", "jobid=7", "ReqNodeList=")]


def test_a_controller_that_lives_is_left_alone(set_up):
    book, client = set_up
    book.live(os.getpid(), 60)
    assert seen(book, client)
    assert client.said == []


def test_before_there_was_a_controller_there_is_nothing_to_do(set_up):
    book, client = set_up
    assert seen(book, client)
    assert client.said == []


def test_a_controller_that_is_gone_leaves_no_pin_and_keeps_its_order(set_up):
    book, client = set_up
    book.live(NOT_A_PROCESS, 60)
    assert not seen(book, client)
    assert client.said == LIFTED
    assert list(book.in_force()) == [("8", "nice")]
    assert "is gone: 1 of pin, shard lifted" in book.last_event("watchdog")[2]


def test_another_process_with_its_number_is_not_the_controller(set_up, monkeypatch):
    book, client = set_up
    child = subprocess.Popen(["sleep", "60"])
    try:
        monkeypatch.setattr(time, "time", lambda real=time.time: real() - 3600)
        book.live(child.pid, 86_400)  # said an hour before this child was there
        monkeypatch.undo()
        monkeypatch.setattr(SlurmManager, "snapshot", lambda _: Snapshot(0, (), ()))
        assert not seen(book, client)
    finally:
        child.kill()
        child.wait()


def test_a_silent_one_loses_its_pins_and_is_still_watched(set_up, monkeypatch):
    book, client = set_up
    book.live(os.getpid(), 1000)
    real = time.time
    monkeypatch.setattr(watchdog, "_is_there", lambda pid, at: True)
    monkeypatch.setattr(watchdog.time, "time", lambda: real() + 1400)
    assert seen(book, client)  # a round may take a while
    assert client.said == []
    monkeypatch.setattr(watchdog.time, "time", lambda: real() + 1501)
    assert seen(book, client)
    assert client.said == LIFTED
    for act in book.intend(2, [PIN]):  # it wakes up in the middle of a round, without a sign of life
        book.settle(act, DONE)
    assert seen(book, client)
    assert client.said == LIFTED * 2
    assert seen(book, client)
    assert client.said == LIFTED * 2


def test_one_that_stopped_in_order_leaves_no_pin(set_up):
    book, client = set_up
    book.live(os.getpid(), 60)
    book.note("end", "stopped")
    assert not seen(book, client)
    assert client.said == LIFTED
    book.live(os.getpid(), 60)  # another begins
    assert seen(book, client)


def test_slurm_away_is_tried_again_until_it_answers(set_up):
    book, client = set_up
    book.live(NOT_A_PROCESS, 0.2)
    client.away = 3
    told: list[str] = []
    watch(book.path, SlurmManager(client), told.append)
    assert client.said == LIFTED
    assert [text for text in told if "trying again" in text] == ["slurmctld is away; trying again"] * 3
    assert not [act for act in book.acts(DONE) if act.order.lever == "pin"]
    assert [act.state for act in book.acts() if act.order.lever == "pin"] == [UNDONE]


def test_it_does_not_try_for_ever_for_a_journal_that_was_removed(set_up, monkeypatch):
    book, client = set_up
    book.live(NOT_A_PROCESS, 0.2)
    client.away = 1_000_000
    dog = Watchdog(book.path, SlurmManager(client))
    assert dog._goes_on()
    book.path.unlink()
    assert dog._goes_on()  # the marks on jobs say what it has to lift
    monkeypatch.setattr(watchdog, "LOST_S", 0.0)
    assert not dog._goes_on()
    dog._book.close()


def test_a_journal_that_a_hung_controller_has_locked_keeps_no_job_pinned(set_up):
    book, client = set_up
    book.live(NOT_A_PROCESS, 60)
    book._file.execute("begin immediate")
    dog = Watchdog(book.path, SlurmManager(client))
    dog._book._file.execute("pragma busy_timeout = 50")
    assert dog._goes_on()
    assert client.said == LIFTED
    book._file.execute("rollback")
    assert not dog._goes_on()
    assert list(book.in_force()) == [("8", "nice")]
    dog._book.close()


def test_there_is_one_for_each_journal(set_up):
    book, client = set_up
    with held(book.path, "watchdog"):
        with pytest.raises(LiveError, match="watches it already"):
            watch(book.path, SlurmManager(client))
        ensure(book.path, SlurmManager(client))  # somebody does
    assert lock_of(book.path, "watchdog").exists()
    with held(book.path, "watchdog") as again:
        assert again is not None


def test_it_imports_next_to_nothing():
    heavy = ["numpy", "numba", "polars", "pyarrow", "pydantic", "typer", "rich"]
    code = f"import sys, shunter.slurm.watchdog; print([name for name in {heavy} if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_a_detached_one_survives_and_ends_with_its_controller(tmp_path):
    book = Journal(tmp_path / "j.db")
    child = subprocess.Popen(["sleep", "60"])
    book.live(child.pid, 1.0)
    ensure(book.path, SlurmManager(Client()))
    assert held(book.path, "watchdog") is None
    child.kill()
    child.wait()

    def ended():
        lock = held(book.path, "watchdog")
        if lock is not None:
            lock.close()
        return lock is not None

    assert wait(ended, 180)
    book.close()


def test_a_place_where_it_cannot_write_is_said(tmp_path):
    with pytest.raises(LiveError, match="must write beside the journal"):
        held(tmp_path / "nowhere" / "j.db", "watchdog")


@contextmanager
def controller_at_work(lab, journal):
    """A controller that has closed a round, in a process of its own."""
    command = [sys.executable, "-m", "shunter", "slurm", "run", "-p", "fifo", "--mode", "act", "--levers", "nice,pin"]
    process = subprocess.Popen(
        [*command, "--interval", str(INTERVAL_S), "--poll", "1", "--journal", str(journal)],
        env={**os.environ, "SLURM_CONF": str(lab.conf)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert wait(lambda: watched(journal), 600)
        book = Journal(journal)
        assert wait(lambda: (begun := book.last_event("begin")) is not None and book.life()[1] > begun[0], 180)
        yield process, book
        book.close()
    finally:
        process.kill()
        process.wait()


def watched(journal):
    if not lock_of(journal, "watchdog").exists():
        return False
    lock = held(journal, "watchdog")
    if lock is not None:
        lock.close()
    return lock is None


def pin(lab, book, jobs):
    """Pins that only the journal knows of."""
    for number in jobs:
        for act in book.intend(0, [Order(str(number), "pin", "p100-1", "", "test")]):
            lab.run("scontrol", "update", f"jobid={number}", "ReqNodeList=p100-1")
            book.settle(act, DONE)


def stop(controller, book):
    """Halt a controller, but not while it writes: we want to write too."""
    book._file.execute("begin immediate")
    controller.send_signal(signal.SIGSTOP)
    book._file.execute("rollback")


def pinned(lab, jobs):
    return [number for number in jobs if lab.job(number)["ReqNodeList"] != "(null)"]


def test_a_silent_controller_is_noticed_within_two_intervals():
    assert watchdog.SILENT_INTERVALS + 1 / watchdog.LOOKS < 2


def test_pins_of_a_hung_and_of_a_killed_controller_are_lifted(lab, tmp_path):
    """The real thing: all jobs are pinned to a node that is down, so that they would wait for ever."""
    lab.run("scontrol", "update", "nodename=p100-1", "state=drain", "reason=test")
    first = lab.submit("--exclusive", "--gpus-per-node=1", "--time=9", "-N8", script="sleep 300")
    lab.wait_job(first, "RUNNING")
    jobs = [lab.submit("--gres=gpu:1", "--time=5", script="sleep 1") for _ in range(4)]
    with controller_at_work(lab, tmp_path / "j.db") as (controller, book):
        for sign in (signal.SIGSTOP, signal.SIGKILL):
            stop(controller, book)  # so that it does not lift them itself
            pin(lab, book, jobs)
            assert pinned(lab, jobs) == jobs
            controller.send_signal(sign)
            assert wait(lambda: not pinned(lab, jobs), 180), sign  # two intervals on a machine that is not busy
            if sign is signal.SIGSTOP:
                controller.send_signal(signal.SIGCONT)
                assert wait(lambda: time.time() - book.life()[1] < 1, 180)  # it may still have to compile
        assert wait(lambda: not watched(book.path), 180)
        assert book.in_force().keys() <= {(str(number), "nice") for number in jobs}
    lab.run("scancel", str(first))
    for number in jobs:
        lab.wait_job(number, "COMPLETED")
