"""What operators do from the page: each action is noted in the controller's journal before it is done.

The page has no way of its own to change a job. It starts ``shunter slurm run``, or does what ``release`` and
``resume`` do; watching and dry runs are one round that changes nothing.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from shunter import registry
from shunter.errors import LiveError
from shunter.live import running
from shunter.live.backend import Rhythm, Scope
from shunter.live.backing_out import back_out
from shunter.live.controller import ChangeLimits, Mode, to_read
from shunter.live.daemons import last_lines, wait
from shunter.live.journal import Journal
from shunter.live.locks import held, holder_of
from shunter.live.manager import ResourceManager
from shunter.live.proposals import proposed, record
from shunter.live.stopping import account, pause
from shunter.texts import agreeing, counted, printable
from shunter.web.choices import checked_policy
from shunter.web.forms import Sent
from shunter.web.settings import LiveSources

OPERATOR = "operator"  # the kind of event in the journal
MOST_LINES = 200  # of a proposal
LONGEST_NAMES = 2000  # letters of a list of names
FAILS_WITHIN_S = 3.0  # a controller that can't begin mostly ends so soon
ACTIONS = {
    "watch": "Show what the policy would change now. Nothing is changed.",
    "dry-run": "Show the exact commands that would be run now. Nothing is changed.",
    "act": "Let a controller change waiting jobs, round after round, until it is paused or the jobs are released.",
    "pause": "The controller changes nothing more. Its next round gives the jobs back, and then it only watches.",
    "release": "Stop the controller, undo every change to jobs that still wait, and give them back to Slurm, now.",
}


@dataclass(frozen=True)
class Operation:
    """What an operator wants."""

    action: str
    policy: str
    interval_s: int = 60
    changes: int = 100
    users: tuple[str, ...] = ()  # whose jobs are left alone
    partitions: tuple[str, ...] = ()  # that are left alone

    @property
    def words(self) -> str:
        """The same in words, for the journal."""
        return f"{self.action} {' '.join(self.options)}" if self.action in tuple(Mode) else self.action

    @property
    def options(self) -> list[str]:
        """The options of ``shunter slurm run`` for it."""
        found = ["--policy", self.policy, "--interval", str(self.interval_s), "--max-changes", str(self.changes)]
        found += [word for user in self.users for word in ("--exclude-user", user)]
        return found + [word for name in self.partitions for word in ("--exclude-partition", name)]

    def settings(self, mode: Mode) -> running.ControllerSettings:
        """How a controller would run."""
        scope = Scope(frozenset(self.users), frozenset(self.partitions))
        return running.ControllerSettings(
            mode, Rhythm(self.interval_s, min(5.0, self.interval_s)), scope, bounds=ChangeLimits(self.changes)
        )


@dataclass(frozen=True)
class OperationResult:
    """What came of it."""

    said: str
    lines: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)  # for programs, as the command line prints it


def of_form(form: Sent) -> Operation:
    """What a form asks for."""
    numbers = (_whole(form.one("interval", "60"), "interval", 1), _whole(form.one("changes", "100"), "changes", 1))
    return asked(form.one("action"), form.one("policy"), *numbers, form.one("users"), form.one("partitions"))


def asked(action: str, policy: str, interval_s: int, changes: int, users: str, partitions: str) -> Operation:
    """An operation of which every part was checked; names are separated by commas."""
    if action not in ACTIONS:
        raise LiveError(f"there is no such action; the actions are {', '.join(ACTIONS)}")
    chosen = checked_policy(policy.strip()) if action in tuple(Mode) else ""
    return Operation(action, chosen, interval_s, changes, _names(users), _names(partitions))


def _whole(text: str, what: str, least: int) -> int:
    if not text.strip().isdecimal() or len(text) > 6 or int(text) < least:
        raise LiveError(f"{what} must be a whole number of {least} or more, got '{text[:40]}'")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    wrong = any(name.startswith("-") or not name.isprintable() or " " in name for name in found)
    if wrong or len(text) > LONGEST_NAMES:
        raise LiveError(f"names are separated by commas and have no spaces, got '{text[:80]}'")
    return found


class OperatorDesk:
    """Does what operators confirm, one thing at a time."""

    def __init__(self, live: LiveSources, manager: Callable[[], ResourceManager]) -> None:
        self.live, self.manager = live, manager
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def journal(self) -> Path:
        """The controller's journal; a controller that is started here has another current folder."""
        if self.live.journal is None:
            raise LiveError("there is no journal; start the page with --journal FILE")
        return self.live.journal.resolve()

    def command(self, wanted: Operation) -> list[str]:
        """What is run for ``act``."""
        words = ["shunter", "slurm", "run", *wanted.options, "--mode", "act", "--journal", str(self.journal)]
        past = self.live.history
        if past is None:
            return words
        words += ["--history", past.path, "--on-bad-row", past.on_bad_row]
        return words + (["--format", past.format] if past.format else [])

    def shown_command(self, wanted: Operation) -> str:
        """The same for people; after jobs were handed back, they are to be taken again first."""
        with closing(to_read(self.journal)) as book:
            taking = ["shunter", "slurm", "resume", "--journal", str(self.journal)] if book.handed_back() else []
        return " && ".join(shlex.join(words) for words in (taking, self.command(wanted)) if words)

    def perform(self, wanted: Operation, who: str, where: str = "on the page") -> OperationResult:
        """Note it, and do it; all but a pause is refused while another action is under way."""
        by = printable(f"{who or 'an operator'} {where}")[:100]
        if wanted.action == "pause":
            self._note(wanted, by)
            said = "From now on nothing is changed. A controller that runs gives the jobs back."
            return OperationResult(said, record={"paused": True})
        if not self._lock.acquire(blocking=False):
            raise LiveError("another action is under way; wait until it is done, or pause")
        try:
            self._note(wanted, by)
            if wanted.action == "release":
                return self._release(by)
            return self._act(wanted) if wanted.action == "act" else self._propose(wanted)
        finally:
            self._lock.release()

    def _note(self, wanted: Operation, by: str) -> None:
        with closing(Journal(self.journal)) as book:
            book.note(OPERATOR, f"{by} ({account()}): {wanted.words}")
            if wanted.action == "pause":
                pause(book, by)

    def _propose(self, wanted: Operation) -> OperationResult:
        manager, mode = self.manager(), Mode(wanted.action)
        found = record(proposed(registry.policy(wanted.policy), manager, self.journal, wanted.settings(mode)), manager)
        orders, later = found["orders"], found["postponed"]
        lines = [
            line
            for order in orders
            for line in (
                [shlex.join(command) for command in order["commands"]] if mode is Mode.DRY_RUN else [_change(order)]
            )
        ]
        runs = agreeing("run", found["running"])
        said = (
            f"{counted(found['pending'], 'job', 'wait')}, {found['running']} {runs}; {len(orders)} would be changed now"
        )
        said += f", {later} later." if later else "."
        return OperationResult(said, tuple(lines[:MOST_LINES]), (found["paused"],) if found["paused"] else (), found)

    def _act(self, wanted: Operation) -> OperationResult:
        """Resume the controller of this journal, or start one.

        The jobs are taken again here and not by that controller: it begins later, and a pause until then must hold.
        """
        lock = held(self.journal, "controller")
        if lock is None:
            return self._resume(wanted)
        with lock, closing(Journal(self.journal)) as book:
            if book.handed_back():
                running.resume(book)
        log, command = self.journal.with_name(f"{self.journal.name}.log"), self.command(wanted)
        self._child = child = _started(command, log)
        if wait(lambda: child.poll() is not None, FAILS_WITHIN_S):
            raise LiveError(f"the controller ended with code {child.returncode}: {last_lines(log)}")
        said = f"A controller was started, process {child.pid}. Its first round comes when all is compiled."
        lines = (shlex.join(command), f"what it reports is in {log.name}")
        return OperationResult(said, lines, record={"started": child.pid, "command": command})

    def _resume(self, wanted: Operation) -> OperationResult:
        process = holder_of(self.journal, "controller") or "that has just begun"
        with closing(Journal(self.journal)) as book:
            present, policy = running.policy_of(book), registry.policy(wanted.policy)
            if present != registry.text(policy):
                raise LiveError(
                    f"a controller with '{present}' runs, process {process}; release the jobs, end it, then act"
                )
            begun, asked = running.begun(book), running.described(policy, wanted.settings(Mode.ACT), book.id)
            if begun != asked and (wanted.users or wanted.partitions):
                raise LiveError(
                    f"the controller that runs, process {process}, leaves other jobs alone ({begun}); release the jobs,"
                    " end it, then act"
                )
            goes_on = (f"it goes on as it was started: {begun}",)
            if not running.resume(book):
                said = f"The controller acts already, process {process}."
                return OperationResult(said, goes_on, record={"resumed": False})
        said = f"The controller may change jobs again, process {process}."
        return OperationResult(said, goes_on, record={"resumed": True})

    def _release(self, by: str) -> OperationResult:
        found = back_out(self.manager(), self.journal, from_marks=False, by=by)
        said = f"{found.undone} change{'' if found.undone == 1 else 's'} undone."
        said += f" Controller {found.controller} only watches until someone acts." if found.controller else ""
        record = {"undone": found.undone, "problems": found.problems, "controller": found.controller or None}
        return OperationResult(said, problems=tuple(found.problems), record=record)

    def news(self) -> str:
        """What became of a controller that was started here and has ended; "": nothing to report."""
        if self._child is None or (code := self._child.poll()) is None:
            return ""
        log = self.journal.with_name(f"{self.journal.name}.log")
        return f"The controller that was started here has ended with code {code}: {last_lines(log)}"


def _change(order: dict[str, str]) -> str:
    return f"job {order['handle']}: {order['lever']} {order['before'] or '-'} -> {order['value']}; {order['why']}"


def _started(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """A process that goes on when the page ends."""
    words = [sys.executable, "-m", *command]
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        said = os.open(log, flags, 0o600)
    except OSError as error:
        raise LiveError(f"{log.name}: the controller's log can't be written: {error.strerror}") from None
    try:
        return subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", start_new_session=True
        )
    finally:
        os.close(said)
