"""Renaming and deleting runs, and the way back: what is deleted waits in a hidden folder until that is emptied."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from shunter.errors import RunError
from shunter.safe_files import text_of
from shunter.web.folder import RunsFolder, check_name

BIN = ".shunter-bin"
ORIGIN = "origin.json"  # beside a deleted folder: where it was
MOST_CHANGES = 20  # that can be undone


@dataclass(frozen=True)
class FolderChange:
    """Something that can be undone."""

    id: str
    kind: str  # "renamed" or "deleted"
    before: str  # names in the folder
    after: str  # "": it is in the bin


@dataclass
class Changes:
    """The changes to a folder, the last first."""

    folder: RunsFolder
    renamed: list[FolderChange] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def rename(self, name: str, wanted: str) -> FolderChange:
        """Give a run another name beside its present one."""
        path = self._ours(name)
        target = path.with_name(check_name(wanted.strip()))
        with self._lock:
            _move(path, target)
            change = FolderChange(secrets.token_hex(8), "renamed", name, self.folder.name(target))
            self.renamed = [change, *self.renamed][:MOST_CHANGES]
        return change

    def delete(self, name: str) -> FolderChange:
        """Put a run into the bin."""
        path, number = self._ours(name), f"{time.time_ns()}-{secrets.token_hex(8)}"
        place = self.folder.root / BIN / number
        with self._lock:
            if place.parent.is_symlink():
                raise RunError(f"{BIN}: is a link; remove it")
            place.mkdir(parents=True, mode=0o700)
            (place / ORIGIN).write_text(json.dumps({"name": name}))
            _move(path, place / "kept")
        return FolderChange(number, "deleted", name, "")

    def undo(self, change_id: str) -> FolderChange:
        """Take back one change."""
        with self._lock:
            change = next((each for each in self.all() if each.id == change_id), None)
            if change is None:
                raise RunError("this change can't be undone any longer")
            target = self.folder.path(change.before)
            target.parent.mkdir(parents=True, exist_ok=True)
            if change.kind == "deleted":
                place = self.folder.root / BIN / change.id
                _move(place / "kept", target)
                shutil.rmtree(place, ignore_errors=True)
            else:
                _move(self.folder.path(change.after), target)
                self.renamed.remove(change)
        return change

    def empty(self) -> int:
        """Delete for good what is in the bin; returns how many runs that were."""
        with self._lock:
            found = list(self._deleted())
            for change in found:
                shutil.rmtree(self.folder.root / BIN / change.id, ignore_errors=True)
        return len(found)

    def all(self) -> list[FolderChange]:
        """What can be undone: renames of this session, and everything in the bin."""
        return [*self.renamed, *self._deleted()]

    def _deleted(self) -> Iterator[FolderChange]:
        place = self.folder.root / BIN
        if not place.is_dir() or place.is_symlink():
            return
        for each in sorted(place.iterdir(), reverse=True):
            if each.is_symlink() or not (each / "kept").is_dir():
                continue
            try:
                name = json.loads(text_of(each / ORIGIN, RunError))["name"]
                self.folder.path(name)
            except (RunError, ValueError, KeyError, TypeError):
                continue  # not of ours
            yield FolderChange(each.name, "deleted", name, "")

    def _ours(self, name: str) -> Path:
        path = self.folder.path(name)
        if not self.folder.kind(path):
            raise RunError(f"{name}: is no run, comparison or sweep")
        return path


def _move(path: Path, target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise RunError(f"{target.name}: exists already; choose another name")
    try:
        path.rename(target)
    except OSError as error:
        raise RunError(f"{path.name}: can't be moved: {error.strerror}") from None
