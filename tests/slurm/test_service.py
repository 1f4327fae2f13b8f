"""As a service: what systemd hears of the controller and the watchdog, and whether the units are sound."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from shunter.live.daemons import wait
from shunter.live.journal import Journal
from shunter.live.levers import Order
from shunter.live.notify import alive, notify, patience

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "packaging" / "systemd").glob("*.service"))
EXPOSURE = 2.0  # of 10: what 'systemd-analyze security' allows


class Manager:
    """The service manager's end of the protocol: a real socket, and all fields that came through it."""

    def __init__(self, address):
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0"))
        self.socket.setblocking(False)
        self.fields = []

    def heard(self):
        while True:
            try:
                text = self.socket.recv(4096).decode()
            except BlockingIOError:
                return self.fields
            self.fields += [tuple(line.split("=", 1)) for line in text.splitlines()]


@pytest.fixture(params=["@shunter-test-{pid}", "{folder}/notify"], ids=["abstract", "file"])
def manager(request, tmp_path, monkeypatch):
    made = Manager(request.param.format(pid=os.getpid(), folder=tmp_path))
    monkeypatch.setenv("NOTIFY_SOCKET", made.address)
    with made.socket:
        yield made


def test_the_manager_hears_what_is_sent(manager):
    alive("two\nlines, and one\tmore")
    assert manager.heard() == [("READY", "1"), ("WATCHDOG", "1"), ("STATUS", "two lines, and one more")]


def test_systemd_waits_longer_where_the_interval_is_long(manager, monkeypatch):
    patience(1000)
    monkeypatch.setenv("WATCHDOG_USEC", "300000000")
    patience(200)
    assert manager.heard() == []
    patience(1000)
    assert manager.heard() == [("WATCHDOG_USEC", "1000000000")]


@pytest.mark.parametrize("address", ["", "nowhere", "/no/such/socket", "@nobody-listens", "vsock:2:1"])
def test_without_a_manager_nothing_happens(address, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    notify(READY="1")


def test_a_manager_that_does_not_read_holds_nothing_up(manager):
    for _ in range(10_000):
        alive("a full queue")


# ------------------------------------------------------------------------------------------- on a real Slurm


@contextmanager
def started(lab, *command):
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**os.environ, "SLURM_CONF": str(lab.conf)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("manager", ["{folder}/notify"], indirect=True)
def test_live_the_controller_is_ready_after_a_round_and_alive_also_while_slurm_is_away(manager, lab, tmp_path):
    options = ("-p", "fifo", "--interval", "0.5", "--poll", "0.3", "--journal", str(tmp_path / "j.db"))
    with started(lab, "shunter", "slurm", "run", *options) as controller:
        assert wait(lambda: ("READY", "1") in manager.heard(), 180)
        assert any(name == "STATUS" and "would change" in text for name, text in manager.fields)
        lab.stop_controller()
        assert wait(lambda: any("Unable to contact" in text for _, text in manager.heard()), 180)
        away = next(at for at, (_, text) in enumerate(manager.fields) if "Unable to contact" in text)
        assert manager.fields[away - 1] == ("WATCHDOG", "1")
        lab.start_controller()
        controller.send_signal(signal.SIGTERM)
        assert controller.wait(180) == 0
    assert ("STOPPING", "1") in manager.heard()


@pytest.mark.parametrize("manager", ["{folder}/notify"], indirect=True)
def test_live_the_watchdog_waits_for_a_journal_and_outlives_controllers(manager, lab, tmp_path):
    journal = tmp_path / "j.db"
    with started(lab, "shunter.slurm.watchdog", "--stay", str(journal)) as watchdog:
        assert wait(lambda: ("READY", "1") in manager.heard(), 180)
        for _ in range(2):
            number = pinned(lab, journal)
            assert wait(lambda number=number: lab.job(number)["ReqNodeList"] == "(null)", 180)
        assert watchdog.poll() is None


@pytest.mark.parametrize("manager", ["{folder}/notify"], indirect=True)
def test_live_a_watchdog_that_is_stopped_looks_once_more(manager, lab, tmp_path):
    """Where a machine shuts down, the watchdog is stopped as soon as the controller is gone."""
    journal = tmp_path / "j.db"
    Journal(journal).close()
    with started(lab, "shunter.slurm.watchdog", "--stay", str(journal)) as watchdog:
        assert wait(lambda: ("READY", "1") in manager.heard(), 180)
        assert wait(lambda: manager.heard().count(("WATCHDOG", "1")) >= 2, 180)
        number = pinned(lab, journal)
        watchdog.terminate()
        assert watchdog.wait(180) == 0
        assert lab.job(number)["ReqNodeList"] == "(null)"


def pinned(lab, journal):
    """A waiting job that a controller has pinned, which is gone since."""
    number = lab.submit("--gpus=1", "--begin=now+1hour")
    gone = subprocess.Popen(["true"])
    gone.wait()
    book = Journal(journal)
    book.live(gone.pid, 60.0)
    (act,) = book.intend(1, [Order(str(number), "pin", "p100-1", "", "test")])
    lab.run("scontrol", "update", f"jobid={number}", "reqnodelist=p100-1")
    book.settle(act, "done")
    book.close()
    return number


# ------------------------------------------------------------------------------------------- units

needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")


def analysed(*command):
    said = subprocess.run(["systemd-analyze", *command], capture_output=True, text=True, check=False)
    return said.stdout + said.stderr


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_nothing_wrong_with_a_unit(unit):
    complaints = analysed("verify", *map(str, UNITS)).splitlines()
    assert [line for line in complaints if "is not executable" not in line] == []  # /opt/shunter need not be here


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_exposes_little(unit):
    threshold = f"--threshold={EXPOSURE * 10:.0f}"
    said = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", threshold, str(unit)], capture_output=True, check=False
    )
    assert said.returncode == 0, said.stdout.decode()[-200:]


def test_the_watchdog_starts_before_the_controller_and_stops_after_it():
    controller, watchdog = (
        (ROOT / "packaging/systemd" / name).read_text() for name in ("shunter.service", "shunter-watchdog.service")
    )
    assert "After=network-online.target munge.service slurmctld.service shunter-watchdog.service\n" in controller
    for bond in ("PartOf", "BindsTo", "Requires"):
        assert bond not in watchdog, "it must not stop with the controller"


REFUSING = "import ctypes; assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0\n"  # what MemoryDenyWriteExecute= does


@pytest.mark.parametrize(
    ("unit", "work", "works"),
    [
        ("shunter-watchdog.service", "import shunter.slurm.watchdog, sqlite3; sqlite3.connect(':memory:')", True),
        (
            "shunter.service",
            "import llvmlite.binding as b; b.initialize_native_target(); b.check_jit_execution()",
            False,
        ),
    ],
)
def test_memory_that_is_written_is_executable_only_where_numba_needs_it(unit, work, works):
    if subprocess.run([sys.executable, "-c", REFUSING], capture_output=True, check=False).returncode:
        pytest.skip("this kernel has no PR_SET_MDWE (Linux 6.3)")
    ended = subprocess.run([sys.executable, "-c", REFUSING + work], capture_output=True, check=False)
    assert (ended.returncode == 0) is works, ended.stderr.decode()[-300:]
    assert ("\nMemoryDenyWriteExecute=yes\n" in (ROOT / "packaging/systemd" / unit).read_text()) is works
