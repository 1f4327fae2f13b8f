"""``shunter slurm release``: stop a controller and give jobs back what they had, with or without its journal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from shunter.errors import LiveError
from shunter.live.journal import INTENT, LANDING_S, UNMARKED, Journal
from shunter.live.journal_copy import copy_of, not_ours, read_copy
from shunter.live.locks import held, holder_of
from shunter.live.manager import ResourceManager, UnreachableError
from shunter.live.releasing import release
from shunter.live.rivals import rivals
from shunter.live.stopping import Stopped, stopped

COMMAND = "'shunter slurm release'"


@dataclass(frozen=True)
class Report:
    """What came of it."""

    undone: int
    problems: list[str]  # what could not be undone, or may be done again, and what to do
    controller: str  # the process that was stopped; "": none ran


def back_out(manager: ResourceManager, journal: Path, from_marks: bool, by: str = COMMAND) -> Report:
    """Undo what the controller of a journal did; with ``from_marks`` what any did, also without a journal."""
    with _journal(journal, from_marks, by) as (book, controller):
        name, lost = read_copy(journal)
        lost = lost if name != book.id else []
        if from_marks:
            book.adopt(lost, UNMARKED)
        try:
            if book.acts(INTENT):  # of a controller that was killed, or that the manager has not answered
                manager.snapshot()
                time.sleep(LANDING_S)
            undone, problems = release(manager, book, manager.snapshot(), own=not from_marks)
            left = rivals(manager.snapshot(), book.id)
        except UnreachableError as silence:
            later = "the controller gives the jobs back when it answers" if controller.pid else "run this again then"
            raise LiveError(f"{manager.name} does not answer: {silence}; {later}") from None
    if left.jobs and not from_marks:
        problems.append(f"{left}: release these with that journal, or with --from-marks")
    if lost and not from_marks:
        problems.append(f"{not_ours(journal, name)}: release these with --from-marks")
    if from_marks and not problems and book.path != journal:  # else the journal keeps it up to date
        copy_of(journal).unlink(missing_ok=True)
    return Report(undone, problems + [controller.problem] * bool(controller.problem), controller.pid)


@contextmanager
def _journal(path: Path, from_marks: bool, by: str) -> Iterator[tuple[Journal, Stopped]]:
    """The journal, with its controller stopped; where it can't be used, an empty one."""
    try:
        book = Journal(path) if path.is_file() or not from_marks else None
    except LiveError:
        if not from_marks:
            raise
        book = None
    if book is None:
        with closing(Journal.in_memory()) as empty:
            yield empty, _unstopped(path)
        return
    with closing(book), stopped(book, by) as controller:
        yield book, controller


def _unstopped(path: Path) -> Stopped:
    """Whether a controller runs that can't be stopped through its journal."""
    try:
        lock = held(path, "controller") if path.parent.is_dir() else None
    except LiveError:
        return Stopped()
    if lock is not None:
        lock.close()
        return Stopped()
    pid = holder_of(path, "controller")
    return Stopped(pid, f"a controller runs, process {pid}, and can't be asked to stop; end it, and run this again")
