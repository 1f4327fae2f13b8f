"""A copy of what is in force, beside the journal: jobs can be given back by it if the journal is lost.

The marks on jobs serve the same purpose, but only administrators of the manager may write these; an operator may not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from shunter.errors import LiveError
from shunter.live.journal_file import MODE, JournalError, check_place
from shunter.live.levers import VALUES, Order


def copy_of(journal: Path) -> Path:
    """Where the copy is."""
    journal = journal.resolve()
    return journal.with_name(f"{journal.name}.copy")


def write_copy(journal: Path, name: str, orders: Iterable[Order]) -> None:
    """Replace the copy, whole or not at all; ``name`` is the journal's id."""
    path = copy_of(journal)
    part = path.with_name(f"{path.name}.part")
    rows = [[order.handle, order.lever, order.value, order.before] for order in orders if order.lever in VALUES]
    try:
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE), "w") as file:
            os.fchmod(file.fileno(), MODE)  # whatever the umask
            json.dump({"journal": name, "jobs": rows}, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise JournalError(f"{path}: the journal's copy can't be written: {error.strerror}") from None


def read_copy(journal: Path) -> tuple[str, list[Order]]:
    """The id of the journal that it is a copy of, and what was in force; ("", []): there is none."""
    path = copy_of(journal)
    if not path.exists():
        return "", []
    try:
        check_place(path)
        read = json.loads(path.read_text())
        why = "from the copy of a lost journal"
        orders = [Order(str(job), str(lever), str(value), str(own), why) for job, lever, value, own in read["jobs"]]
        return str(read["journal"]), orders
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise LiveError(f"{path}: must be the copy that a controller wrote: {error}; move it away") from None


def not_ours(journal: Path, name: str) -> str:
    """What to say of a copy that was left by another journal in the same place."""
    return f"{copy_of(journal)} has changes of a journal that is lost ({name})"
