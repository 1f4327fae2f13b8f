"""The watchdog: a small process that lifts what could strand a job when its controller is gone or silent.

It shares nothing with the controller but the journal, and imports next to nothing, so that what breaks the one does
not break the other.  A resource manager has a module that runs it as a process: see ``slurm/watchdog.py``.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import IO

from shunter.errors import LiveError
from shunter.live.daemons import alive
from shunter.live.journal import BEGIN, DONE, END, INTENT, LANDING_S, UNMARKED, Journal
from shunter.live.journal_copy import read_copy
from shunter.live.journal_file import DamagedError, JournalError, ReplacedError
from shunter.live.levers import STRANDING
from shunter.live.locks import held
from shunter.live.manager import ResourceManager
from shunter.live.notify import alive as report_alive
from shunter.live.releasing import release
from shunter.texts import printable

SILENT_INTERVALS = 1.5  # without a sign of life: it counts as hung, early enough that all is lifted within two
LOOKS = 8  # at the journal within one interval
LONGEST_LOOK_S = 5.0
UNDER_WAY_S = 0.5  # after a controller's death a command of its last round may still be on its way to the manager
START_S = 30.0
LOST_S = 3600.0  # for so long jobs are tried to be freed without a journal

Say = Callable[[str], None]


class Watchdog:
    """Watches the controller of one journal."""

    def __init__(
        self, journal: Path, manager: ResourceManager, say: Say = lambda _: None, stop: threading.Event | None = None
    ) -> None:
        self.path, self.manager, self.say, self.stop = journal, manager, say, stop or threading.Event()
        self._book = Journal(journal)
        self._rest_s, self._lost_at = LONGEST_LOOK_S, 0.0
        self._left = False  # something can't be lifted yet: the manager changes it only of waiting jobs
        self._reported: tuple[str, ...] = ()
        self._until = -float("inf")  # when all that was under way has landed

    def watch(self) -> None:
        """Until the controller has ended and nothing of its is left that could strand a job, or until stopped."""
        try:
            while self._goes_on() and not self.stop.wait(self._look_s()):
                report_alive()
            if self.stop.is_set():  # a machine that shuts down ends the controller just before
                self._goes_on()
        finally:
            self._book.close()

    def _goes_on(self) -> bool:
        try:
            return self.look()
        except (ReplacedError, DamagedError) as problem:
            return self._without_journal(problem)
        except LiveError as problem:  # the manager is away or won't, or the journal is locked
            self.say(f"{problem}; trying again")
            return True

    def _without_journal(self, problem: LiveError) -> bool:
        """Lift what the marks on jobs and the journal's copy say, since no one else does; whether to try again."""
        self._lost_at = self._lost_at or time.monotonic()
        try:
            with closing(Journal.in_memory(self._book.id)) as book:
                name, lost = read_copy(self.path)
                book.adopt(lost if name == book.id else (), UNMARKED)
                undone, problems = release(self.manager, book, self.manager.snapshot(), STRANDING)
        except LiveError as other:
            undone, problems = 0, [str(other)]
        for text in (f"{problem}; {undone} of {', '.join(STRANDING)} lifted without it", *problems):
            self.say(text)
        return bool(problems) and time.monotonic() - self._lost_at < LOST_S

    def look(self) -> bool:
        """Look at the controller once, and lift what is in force if it is gone or silent; False: there is no more."""
        why, over = self.state()
        open_acts = self._book.acts(INTENT) if why else []
        if why and (self._strands() or self._landing()):
            time.sleep(UNDER_WAY_S)
            self.lift(why)
            if any(act.order.lever in STRANDING for act in open_acts):
                self._until = time.monotonic() + LANDING_S
        return not over or self._strands() or self._landing()  # what the manager would not lift is tried again

    def _landing(self) -> bool:
        """Whether a command without a known result may still reach the manager, which then shows its mark."""
        return time.monotonic() < self._until

    def _strands(self) -> bool:
        return any(act.order.lever in STRANDING for act in self._book.acts(INTENT, DONE))

    def state(self) -> tuple[str, bool]:
        """What is wrong with the controller, "": nothing; and whether it is gone for good."""
        life = self._book.life()
        if life is None:
            return "", False
        pid, at, interval_s = life
        last = self._book.last_event(BEGIN, END)
        if last is not None and last[1] == "end" and last[0] >= at:
            return "the controller has stopped", True
        if not _is_there(pid, at):
            return f"the controller, process {pid}, is gone", True
        silent_s = time.time() - at
        if silent_s > SILENT_INTERVALS * interval_s:
            return f"the controller, process {pid}, has given no sign of life for {silent_s:.0f} s", False
        return "", False

    def lift(self, why: str) -> None:
        """Undo all that could strand a job."""
        undone, problems = release(self.manager, self._book, self.manager.snapshot(), STRANDING)
        lines = (f"{why}: {undone} of {', '.join(STRANDING)} lifted", *problems)
        self._left = bool(problems)
        if undone or lines != self._reported:  # a pinned job may run for days
            self._reported = lines
            self._book.note("watchdog", "; ".join(lines))
            for text in lines:
                self.say(text)

    def _look_s(self) -> float:
        with suppress(JournalError):  # what can't be read now was as long before
            life = self._book.life()
            self._rest_s = LONGEST_LOOK_S if life is None else min(max(life[2] / LOOKS, 0.05), LONGEST_LOOK_S)
            if self._left and life is not None:
                self._rest_s = life[2] / 2
        return self._rest_s


def _is_there(pid: int, at: float) -> bool:
    """Whether the process that gave a sign of life then is there, and not another that got its number since."""
    if not alive(pid):
        return False
    try:
        since_boot = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return False
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot / os.sysconf("SC_CLK_TCK")
    return time.time() - age_s <= at + 1


# -- one for each journal


def ensure(journal: Path, manager: ResourceManager) -> None:
    """See to it that a watchdog watches this journal; it survives the process that asks for it."""
    lock = held(journal, "watchdog")
    if lock is None:
        return
    lock.close()
    environment = manager.environment | {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    command = [sys.executable, "-m", manager.watchdog, str(journal.resolve()), "--detach"]
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            cwd="/", timeout=START_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LiveError(f"the watchdog did not start within {START_S:.0f} s; without it, nothing is pinned") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise LiveError(f"the watchdog did not start: {said[-1] if said else done.returncode}")


def watch(journal: Path, manager: ResourceManager, say: Say = lambda _: None) -> None:
    """Be the watchdog of a journal until its controller has ended."""
    with _only_watchdog(journal):
        Watchdog(journal, manager, say).watch()


def stay(journal: Path, manager: ResourceManager, say: Say, stop: threading.Event) -> None:
    """Be the watchdog of all controllers that will use a journal, as a service; it need not exist yet."""
    with _only_watchdog(journal):
        report_alive("waiting for a controller")
        while not stop.is_set():
            if journal.exists():
                try:
                    Watchdog(journal, manager, say, stop).watch()
                except LiveError as problem:  # half written, or not readable yet
                    say(f"{problem}; trying again")
            report_alive()
            stop.wait(LONGEST_LOOK_S)


def _only_watchdog(journal: Path) -> IO[bytes]:
    lock = held(journal, "watchdog")
    if lock is None:
        raise LiveError(f"{journal}: a watchdog watches it already; there can be only one")
    return lock


def main(module: str, manager: Callable[[], ResourceManager]) -> int:
    """The process, which is started as ``python -m`` this module."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=__doc__)
    parser.add_argument("journal", type=Path)
    parser.add_argument("--detach", action="store_true", help="go into the background once it watches")
    parser.add_argument("--stay", action="store_true", help="watch the next controllers too: for a service")
    given = parser.parse_args()
    try:
        if given.detach:
            return _detached(given.journal, manager)
        if given.stay:
            stop = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: stop.set())
            stay(given.journal, manager(), lambda text: _write(f"{text}\n"), stop)
            return 0
        watch(given.journal, manager(), lambda text: _write(f"{text}\n"))
    except LiveError as error:
        _write(f"{error}\n")
        return 2
    return 0


def _write(text: str) -> None:
    sys.stderr.write(printable(text))
    sys.stderr.flush()


def _detached(journal: Path, manager: Callable[[], ResourceManager]) -> int:
    lock = held(journal, "watchdog")
    if lock is None or os.fork():
        return 0  # there is a watchdog: another one, or the child, which has the lock from here
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    with lock:
        Watchdog(journal, manager()).watch()
    return 0
