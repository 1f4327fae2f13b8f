"""Folders in which Shunter keeps what it made before, and where no other account can have put anything.

Machine code is unpickled when it is loaded, and fitted models and finished runs are believed.  So a cache is used only
if no other account could have written there: the folder and all above it belong to this account or to root, and others
may not write to them, neither by their mode nor by an access control list.  This is the rule by which ``sshd`` accepts
a file of keys.
"""

from __future__ import annotations

import atexit
import errno
import grp
import os
import pwd
import shlex
import shutil
import stat
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOT = 0
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# -- POSIX access control lists: their attributes, and the entries of one
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"  # of an entry itself; of what is made in it
ENTRY = struct.Struct("<HHI")  # tag, permissions, account or group
NAMED_USER, NAMED_GROUP = 0x02, 0x08
MAY_WRITE = 2


class NotPrivateError(Exception):
    """A folder can't be made, or others could have written to it; the message says why and what to do."""


def user_folder(name: str, variable: str = "") -> Path:
    """The place of a cache: a folder of the user's cache, or what an environment variable names instead."""
    if named := os.environ.get(variable):
        return Path(named)
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # the account has no home
        remedy = f"name a place with {variable or 'XDG_CACHE_HOME'}"
        raise NotPrivateError(f"this account has no home folder for a cache; {remedy}") from None
    return caches / "shunter" / name


def private(folder: Path) -> Path:
    """Make a folder, if it is not there, that only this account can write to; raises ``NotPrivateError``."""
    folder = folder.absolute()
    try:
        _make(folder)
        why = why_replaceable(folder.parent) or _tampered(folder)
    except OSError as error:
        raise NotPrivateError(f"{error.filename or folder}: {error.strerror}; it must be a folder of yours") from None
    if why:
        raise NotPrivateError(why)
    return folder


def temporary(prefix: str) -> Path:
    """A private folder that is deleted when this process ends."""
    folder, owner = Path(tempfile.mkdtemp(prefix=prefix)), os.getpid()
    if why := why_replaceable(folder.parent):
        folder.rmdir()
        raise NotPrivateError(f"{why}; or name another place for temporary files with TMPDIR")

    def delete() -> None:
        if os.getpid() == owner:  # not in a process that was forked off
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(delete)
    return folder


def trusted(folder: Path, owners: frozenset[int]) -> bool:
    """Whether a folder is there, and only these accounts can have written what is in it."""
    try:
        return not why_replaceable(folder.absolute(), owners) and not _tampered(folder, owners)
    except OSError:
        return False


def replaceable(folder: Path) -> bool:
    """Whether others can rename or remove what this account makes in a folder."""
    found = folder.stat()
    return _others_write(folder, found) and not found.st_mode & stat.S_ISVTX


def _make(folder: Path) -> None:
    """Like ``mkdir --parents``, with every new folder open to this account alone."""
    if not folder.exists():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        for kind in (ACCESS, DEFAULT):  # lists that it got from the folder above
            with suppress(OSError):
                os.removexattr(folder, kind)


def why_replaceable(folder: Path, owners: frozenset[int] | None = None) -> str:
    """Why others could put another folder in this one's place; "": they can't."""
    owners = owners or frozenset({os.geteuid(), ROOT})
    for place in _above(folder):
        found = place.lstat()
        if found.st_uid not in owners:
            return f"{place}: belongs to another account (user {found.st_uid}), so it is not used"
        kept_apart = found.st_mode & stat.S_ISVTX  # there only the owner of an entry can replace it
        if not stat.S_ISLNK(found.st_mode) and _others_write(place, found) and not kept_apart:
            return f"{place}: others can write there, so it is not used; run: chmod go-w {shlex.quote(str(place))}"
    return ""


def _above(folder: Path) -> Iterator[Path]:
    """A folder and those above it, as it is written, and as it is where links lead elsewhere."""
    yield from (folder, *folder.parents)
    resolved = folder.resolve()
    if resolved != folder:
        yield from (resolved, *resolved.parents)


def _tampered(folder: Path, owners: frozenset[int] | None = None) -> str:
    """Why a folder is not what we make, or has something in it that is not ours; "": all is ours."""
    owners = owners or frozenset({os.geteuid()})
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder}: must be a folder, not a link or a file"
    # plain texts: there are thousands, and every process looks
    entries = (f"{place}/{name}" for place, folders, files in os.walk(folder) for name in (*folders, *files))
    odd = next((entry for entry in entries if _others_made(entry, owners)), None)
    if _others_made(folder, owners) or odd is not None:
        return f"{odd or folder}: another account could have written it, so it is not used; delete {folder}"
    return ""


def _others_made(entry: Path | str, owners: frozenset[int]) -> bool:
    found = os.lstat(entry)
    if stat.S_ISLNK(found.st_mode) or found.st_uid not in owners or _others_write(entry, found):
        return True
    return stat.S_ISDIR(found.st_mode) and _lets_others_write(entry, DEFAULT)


def _others_write(entry: Path | str, found: os.stat_result) -> bool:
    """Whether others may write; where an entry has an access control list, its group's mode says what that allows."""
    mode = found.st_mode & OTHERS_WRITE
    if mode == stat.S_IWGRP and _own_group(found.st_gid):
        return _lets_others_write(entry, ACCESS)
    return bool(mode)


def _lets_others_write(entry: Path | str, kind: str) -> bool:
    """Whether an access control list lets another account write."""
    try:
        found = os.getxattr(entry, kind, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):  # it has none, or the file system knows none
            return False
        raise
    own = (os.geteuid(), ROOT)
    return any(
        (tag == NAMED_USER and owner not in own) or (tag == NAMED_GROUP and not _own_group(owner))
        for tag, allowed, owner in ENTRY.iter_unpack(found[4:])  # after its version
        if allowed & MAY_WRITE
    )


@cache
def _own_group(gid: int) -> bool:
    """Whether a group is this account's alone, as many systems make one for every user."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    if user.pw_gid != gid or group.gr_name != user.pw_name or set(group.gr_mem) - {user.pw_name}:
        return False
    return all(other.pw_uid == user.pw_uid for other in pwd.getpwall() if other.pw_gid == gid)
