"""Locks beside a journal: a process has one as long as it lives, whatever ends it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from shunter.errors import LiveError
from shunter.live.journal_file import LOCK_MODE, make_folder, own_file


def lock_of(journal: Path, holder: str) -> Path:
    """The file whose lock means that there is a holder; it stays when it is not locked."""
    journal = journal.resolve()  # a link to it is the same journal
    return journal.with_name(f"{journal.name}.{holder}")


def held(journal: Path, holder: str) -> IO[bytes] | None:
    """Take a lock: it is held until the file is closed; None: another process has it."""
    path = lock_of(journal, holder)
    try:
        own_file(path, LOCK_MODE)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC), "ab")
    except (LiveError, OSError) as error:
        raise LiveError(f"the {holder} must write beside the journal: {error}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:
        file.close()
        raise LiveError(f"{journal}: a lock can't be taken there ({error.strerror}); put it on a local disk") from None
    return file


def holder_of(journal: Path, holder: str) -> str:
    """The process that has or had a lock, as it wrote itself down; "": it has not yet."""
    return lock_of(journal, holder).read_text()


def claimed(journal: Path) -> IO[bytes] | None:
    """Take the place of the one controller, with our process written down; None: another has it."""
    lock = held(journal, "controller")
    if lock is not None:
        lock.truncate(0)
        lock.write(str(os.getpid()).encode())
        lock.flush()
    return lock


@contextmanager
def only_controller(journal: Path) -> Iterator[None]:
    """Act as the one controller of a journal; refused as long as another does."""
    make_folder(journal.resolve())
    lock = claimed(journal)
    if lock is None:
        raise LiveError(
            f"{journal}: another controller acts, process {holder_of(journal, 'controller') or 'that has just begun'};"
            " stop it first, or only watch"
        )
    with lock:
        yield
