"""Locks beside a journal: a process has one as long as it lives, whatever ends it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from shunter.errors import SlurmError


def lock_of(journal: Path, holder: str) -> Path:
    """The file whose lock means that there is a holder; it stays when nobody holds it."""
    journal = journal.resolve()  # a link to it is the same journal
    return journal.with_name(f"{journal.name}.{holder}")


def held(journal: Path, holder: str) -> IO[bytes] | None:
    """Take a lock: it is held until the file is closed; None: somebody else has it."""
    try:
        file = lock_of(journal, holder).open("ab")
    except OSError as error:
        raise SlurmError(f"{journal}: the {holder} must write beside the journal: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError as error:
        file.close()
        raise SlurmError(f"{journal}: no lock can be had there ({error.strerror}); put it on a local disk") from None
    return file


@contextmanager
def only_controller(journal: Path) -> Iterator[None]:
    """Act as the one controller of a journal; refused as long as another does."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    lock = held(journal, "controller")
    if lock is None:
        pid = lock_of(journal, "controller").read_text() or "that has just begun"
        raise SlurmError(f"{journal}: another controller acts, process {pid}; stop it first, or only watch")
    with lock:
        lock.truncate(0)
        lock.write(str(os.getpid()).encode())
        lock.flush()
        yield
