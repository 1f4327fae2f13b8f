"""The folder that a page is about: its runs, its traces, and no way out of it."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from shunter import under_way
from shunter.comparison import UNFINISHED
from shunter.errors import RunError
from shunter.sweeps.store import MARK as SWEEP_MARK
from shunter.sweeps.store import RUNS as SWEEP_RUNS
from shunter.under_way import ENDING, UnderWay

RUN_MARK, COMPARISON_MARK = "experiment.toml", "comparison.json"
MARKS = {RUN_MARK: "run", COMPARISON_MARK: "comparison", SWEEP_MARK: "sweep"}
TRACES = "traces"  # where dropped files go
TRACE_ENDINGS = (".csv", ".tsv", ".swf", ".txt", ".json", ".jsonl", ".parquet", ".xlsx", ".log", ".gz", ".zst", ".xz")
DEEPEST = 5  # folders below the one that is shown
LONGEST_NAME, LONGEST_PATH = 255, 2000  # bytes, letters
MOST_FOLDERS = 20_000  # that are looked into
MOST_UNDER_WAY = 100  # in one folder
MOST_UNFINISHED = 1000  # runs of a comparison that wait for the others
NAME = re.compile(r"[A-Za-z0-9_=+@,()-][A-Za-z0-9._=+@,() -]{0,99}")


@dataclass(frozen=True)
class RunsFolder:
    """A folder by its real path; names are relative to it, with ``/`` between their parts."""

    root: Path

    @classmethod
    def of(cls, folder: Path) -> RunsFolder:
        """The folder, which must be there."""
        if not folder.is_dir():
            raise RunError(f"{folder}: there is no such folder; make it, or name another")
        return cls(folder.resolve())

    def path(self, name: str) -> Path:
        """What a name in the folder leads to; refused where that would be elsewhere, hidden, or behind a link."""
        parts = PurePosixPath(name).parts
        wrong = not parts or not _plain(name) or any(part.startswith((".", "/")) for part in parts)
        wrong = wrong or any(len(part.encode()) > LONGEST_NAME for part in parts) or len(name) > LONGEST_PATH
        found = self.root if wrong else self.root.joinpath(*parts)
        if wrong or found.resolve() != found:
            raise RunError("there is no such name in this folder")
        return found

    def _leads(self, name: str) -> bool:
        """Whether a name leads to something in the folder, or could."""
        try:
            self.path(name)
        except RunError:
            return False
        return True

    def name(self, path: Path) -> str:
        """A path in the folder as a name."""
        return path.relative_to(self.root).as_posix()

    def kind(self, path: Path) -> str:
        """What a folder of shunter's is; "": none of ours, or links in it lead elsewhere."""
        if _has_links(path) or _has_links(path / SWEEP_RUNS):
            return ""
        return next((kind for mark, kind in MARKS.items() if (path / mark).is_file()), "")

    def found(self) -> Iterator[tuple[Path, str]]:
        """Every run, comparison and sweep with its kind; links are not followed, hidden folders are left out."""
        return ((folder, kind) for folder, kind in self._folders() if kind)

    def under_way(self) -> Iterator[tuple[str, UnderWay]]:
        """The names of the folders that are still being made, with how far each is."""
        for folder, kind in self._folders():
            for file in _files_under_way(folder) if not kind else ():
                name = self.name(folder / file.name.removeprefix(".").removesuffix(ENDING))
                found = _alive(file) if self._leads(name) else None
                if found is not None:
                    yield name, found

    def work_on(self, name: str) -> UnderWay | None:
        """How far the work on the folder of this name is; None: no process works on it."""
        return _alive(under_way.file_of(self.path(name)))

    def running(self, name: str) -> list[UnderWay]:
        """The single runs of a comparison under way that are computed now."""
        stash = self._stash(name)
        return [found for file in (_files_under_way(stash) if stash else ()) if (found := _alive(file)) is not None]

    def _stash(self, name: str) -> Path | None:
        """Where the runs of a comparison wait for the others; None: there is no such place."""
        path = self.path(name)
        stash = path.with_name(f".{path.name}{UNFINISHED}")
        return stash if stash.is_dir() and not _has_links(stash) else None

    def _folders(self) -> Iterator[tuple[Path, str]]:
        """Every folder that is looked into, with what it is; "": none of ours."""
        seen, todo = 0, [(self.root, 0)]
        while todo and seen < MOST_FOLDERS:
            folder, depth = todo.pop()
            seen += 1
            kind = self.kind(folder) if depth else ""
            yield folder, kind
            if kind in ("", "comparison") and depth < DEEPEST:
                todo += [(each, depth + 1) for each in _folders(folder)]

    def unfinished(self, name: str) -> list[Path]:
        """The runs of a comparison under way that have ended."""
        stash = self._stash(name)
        if stash is None:
            return []
        found = sorted(each.parent for each in islice(stash.glob(f"*/{RUN_MARK}"), MOST_UNFINISHED))
        return [each for each in found if self.kind(each) == "run"]

    def traces(self) -> list[str]:
        """The files here and in the folder of dropped files that may be traces."""
        found = [
            entry
            for folder in (self.root, self.root / TRACES)
            if folder.is_dir() and not folder.is_symlink()
            for entry in os.scandir(folder)
            if entry.is_file(follow_symlinks=False) and not entry.name.startswith(".") and _plain(entry.name)
        ]
        return sorted(self.name(Path(entry)) for entry in found if entry.name.lower().endswith(TRACE_ENDINGS))

    async def keep_trace(self, wanted: str, content: AsyncIterator[bytes]) -> str:
        """Write a dropped file, whole or not at all; its name may change, so that nothing is replaced."""
        plain = re.sub(r"[^A-Za-z0-9._=+-]+", "_", PurePosixPath(wanted.replace("\\", "/")).name).lstrip(".")[:80]
        if not plain.lower().endswith(TRACE_ENDINGS):
            raise RunError(f"'{wanted[:80]}' does not end like a trace; the endings are {', '.join(TRACE_ENDINGS)}")
        place = self.root / TRACES
        place.mkdir(exist_ok=True)
        self.path(TRACES)  # no link
        part = place / f".{secrets.token_hex(8)}.part"
        try:
            with part.open("xb") as file:
                async for piece in content:
                    file.write(piece)
            return self.name(_put(part, place, plain))
        except OSError as error:
            raise RunError(f"{TRACES}: can't be written: {error.strerror}; make room there") from None
        finally:
            part.unlink(missing_ok=True)


def _alive(file: Path) -> UnderWay | None:
    """What a file says of work that still goes on."""
    found = under_way.read(file) if file.is_file() and not file.is_symlink() else None
    return found if found is not None and found.alive else None


def _files_under_way(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            found = [each for each in entries if each.name.endswith(ENDING) and each.is_file(follow_symlinks=False)]
    except OSError:
        return []  # not ours to read
    return [Path(each) for each in sorted(found, key=lambda each: each.name)[:MOST_UNDER_WAY]]


def _folders(folder: Path) -> list[Path]:
    try:
        entries = [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # not ours to read
    shown = [entry for entry in entries if not entry.name.startswith(".") and _plain(entry.name)]
    return [Path(entry) for entry in sorted(shown, key=lambda each: each.name)]


def _plain(name: str) -> bool:
    """Whether a name is text that can be sent."""
    try:
        return b"\0" not in name.encode()
    except UnicodeEncodeError:
        return False


def _has_links(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return folder.is_symlink() or any(entry.is_symlink() for entry in entries)
    except OSError:
        return False  # nothing there to read


def _put(part: Path, place: Path, plain: str) -> Path:
    """Give a file its name; one of the same name and content is that file already."""
    stem, dot, ending = plain.partition(".")
    for number in range(1000):
        wanted = place / (plain if number == 0 else f"{stem}-{number}{dot}{ending}")
        try:
            os.link(part, wanted)  # fails where something is
        except FileExistsError:
            if wanted.is_file() and not wanted.is_symlink() and wanted.read_bytes() == part.read_bytes():
                return wanted
            continue
        return wanted
    raise RunError(f"there are too many files called '{plain}'; rename yours")


def check_name(name: str) -> str:
    """A new name for a run; refused if it is none."""
    if not NAME.fullmatch(name):
        raise RunError("a name has 1 to 100 letters, digits, spaces and . _ = + @ , ( ) - and begins with no point")
    return name
