"""Stopping a controller from outside, through its journal: from then on it changes nothing until it is resumed."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from shunter.live.daemons import wait
from shunter.live.journal import INTENT, STOP, Journal
from shunter.live.journal_file import JournalError
from shunter.live.locks import claimed, holder_of, lock_of

QUIET_S = 30.0  # a controller gives up a command to the manager after 20 s


@dataclass(frozen=True)
class Stopped:
    """What was found."""

    pid: str = ""  # the controller's process; "": none runs
    problem: str = ""  # why it may still change something, and what to do; "": it won't


def pause(book: Journal, by: str) -> None:
    """Ask a controller to change nothing more: its next round gives the jobs back, and then it only watches.

    A controller checks for this in the transaction in which it writes its intents, and before each change.
    """
    book.note(STOP, f"handed back by {by} ({account()}); 'shunter slurm resume' goes on")


@contextmanager
def stopped(book: Journal, by: str) -> Iterator[Stopped]:
    """Pause a controller, and wait until no change of its is under way; meanwhile none can be started."""
    problem = ""
    try:
        pause(book, by)
    except JournalError as error:  # it may be locked by a controller that hangs, or its disk be full
        problem = str(error)
    with ExitStack() as stack:
        if (claim := claimed(book.path)) is not None:
            stack.enter_context(claim)
            yield Stopped()
            return
        pid = holder_of(book.path, "controller")
        if problem:
            problem = (
                f"the controller, process {pid}, could not be asked to stop: {problem}; stop it, and run this again"
            )
        elif not wait(lambda: not under_way(book), QUIET_S):
            problem = (
                f"the controller, process {pid}, hangs within a change; end it (kill -9 {pid}), and run this again"
            )
        yield Stopped(pid, problem)


def under_way(book: Journal) -> bool:
    """Whether the running controller is about to change a job; intents of earlier controllers don't count."""
    since = lock_of(book.path, "controller").stat().st_mtime
    return any(act.at >= since and not act.note for act in book.acts(INTENT))


def account() -> str:
    """The account of this process, and its machine."""
    return f"{getpass.getuser()} on {socket.gethostname()}"
