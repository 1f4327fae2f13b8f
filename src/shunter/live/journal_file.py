"""A journal's file: only its owner may write it and a group read it, and it is checked before it is trusted."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path

from shunter.caches import why_replaceable
from shunter.errors import LiveError

MODE = 0o640
LOCK_MODE = 0o600  # an account that may read a file may also lock it
FOLDER_MODE = 0o750
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
REMEDY = "put the journal into a folder that only you can write, such as /var/lib/shunter (--journal)"
LONGEST = 2**24  # bytes of a text that is read
BUSY_S = 10.0  # another process may have it locked for so long


class JournalError(LiveError):
    """The journal can't be read or written just now: nothing may be changed."""


class DamagedError(JournalError):
    """The file is not a journal, or no longer a whole one."""


class ReplacedError(JournalError):
    """The file that was opened is no longer the one that has the journal's name."""


def damaged(path: Path, why: object) -> DamagedError:
    """What to say about a journal that can't be used, with the way back."""
    return DamagedError(
        f"{path}: this is not a journal, or it is damaged: {why}; give the jobs back with"
        " 'shunter slurm release --from-marks', move the file away, and start again"
    )


def own_file(path: Path, allowed: int = MODE) -> None:
    """Make a file that only its owner may write; refuse one that others can write or replace.

    The checks look at names, not at open files: closing a file that SQLite has open would drop SQLite's locks.
    """
    try:
        _check_folder(path)
        with suppress(FileExistsError):
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, allowed)
            os.fchmod(made, allowed)  # whatever the umask
            os.close(made)
        found = path.lstat()
        _check_file(path, found)
        if found.st_mode & 0o7777 & ~allowed:
            path.chmod(found.st_mode & allowed)
    except OSError as error:
        raise LiveError(f"{path}: can't be written: {error.strerror}; check the path and its permissions") from None


def make_folder(path: Path) -> None:
    """Make the folder of a file, for its owner and a group alone."""
    try:
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise LiveError(f"{path}: its folder can't be made: {error.strerror}; check the path") from None


def check_place(path: Path) -> None:
    """Refuse a place whose journal could not be trusted; nothing is made there."""
    real = path.resolve()
    _check_folder(real)
    if os.path.lexists(real):
        _check_file(real, real.lstat())


def _check_folder(path: Path) -> None:
    folder = path.parent.absolute()
    found = folder.stat()
    if found.st_mode & OTHERS_WRITE or found.st_uid not in (0, os.geteuid()):
        raise LiveError(f"{path}: other users can replace files in {folder.resolve()}; {REMEDY}")
    if why := why_replaceable(folder):
        raise LiveError(f"{path}: other users can replace its folder: {why}; {REMEDY}")


def _check_file(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise LiveError(f"{path}: must be a plain file; remove it, or name another (--journal)")
    if found.st_uid not in (0, os.geteuid()):
        raise LiveError(
            f"{path}: belongs to another user (uid {found.st_uid}), whose journal is not trusted; run this as that user"
        )
    if found.st_mode & OTHERS_WRITE:
        raise LiveError(
            f"{path}: other users can write it (mode {stat.S_IMODE(found.st_mode):o}); if its contents can be trusted,"
            f" chmod {MODE:o} {path}"
        )


def writable(path: Path) -> sqlite3.Connection:
    """The file, made if it is not there; SQLite gives its side files the same mode."""
    real = path.resolve()  # a link to a journal is that journal
    make_folder(real)
    own_file(real)
    try:
        file = sqlite3.connect(real, timeout=BUSY_S, isolation_level=None)
        file.execute("pragma trusted_schema = off")
        file.execute("pragma journal_mode = wal")
        file.execute("pragma synchronous = full")
    except sqlite3.Error as error:
        raise opening_failed(path, error) from None
    return file


def readable(path: Path) -> sqlite3.Connection:
    """The file, for an account that may read it and write nothing, not even beside it.

    Beside a running controller, or after a crash, SQLite reads the log that lies there.  Where none lies there it
    would make one, which needs a folder that can be written; then the file is all there is, and is read as it is.
    """
    real = path.resolve()
    alone = not real.with_name(f"{real.name}-wal").exists()
    address = f"{real.as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
    try:
        file = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)
        file.execute("pragma trusted_schema = off")
        file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        file.execute("pragma query_only = on")
        file.execute("pragma user_version")
    except sqlite3.Error as error:
        raise opening_failed(path, error) from None
    return file


def opening_failed(path: Path, error: sqlite3.Error) -> LiveError:
    """What to say about a file that SQLite would not open."""
    if isinstance(error, sqlite3.OperationalError):  # locked, not to be read, no room
        return JournalError(f"{path}: the journal can't be opened: {error}; check its owner and permissions")
    return damaged(path, error)


def which(path: Path) -> tuple[int, int] | None:
    """What distinguishes the file that has this name now from any other; None: there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
