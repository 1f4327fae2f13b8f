"""Ended jobs of a site on disk: a Parquet file per hour of submission, of a limited number of hours.

A file may come from anywhere: what is not a table of jobs of its hour is left out, and reported.
"""

from __future__ import annotations

import dataclasses
import errno
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.errors import InputError, TraceError
from shunter.generating.known_jobs import HOUR
from shunter.model import Trace
from shunter.safe_files import most_loaded, parquet_frame, whole, write_parquet
from shunter.world import I64

if TYPE_CHECKING:
    import polars as pl

NUMBERS = ("submit", "duration", "gpus", "cpus", "mem_gib", "limit")  # columns of a trace, in its own units
ADDED = ("limit",)  # which files of older releases lack
NAMES = ("user", "vc", "gpu_type")
MOST_HOURS = 24 * 7 * 12
MOST_JOBS = 20_000  # of one hour
MOST_BYTES = 2**26  # of one file, unpacked
MOST_READ = 4_000_000  # jobs of all files together, the last ones
PART_S = 2 * 3600.0  # seconds after which a part of a file has no writer any more
MOST_NAME = 200  # characters
LONGEST_PROBLEM = 300
PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EINTR, errno.EAGAIN, errno.EBUSY, errno.ESTALE)
FILE = re.compile(r"hour-(0|[1-9][0-9]{0,8})\.parquet")


class WorkloadRepository:
    """A folder with the jobs of a site."""

    def __init__(self, folder: Path, most_hours: int = MOST_HOURS) -> None:
        self.folder, self.most_hours = folder, most_hours
        self.problems: list[str] = []  # files that were left out, and why

    def add(self, jobs: Trace) -> None:
        """Keep ended jobs; one that is there already is replaced, and the oldest hours go.

        Files of hours after these jobs were not written by us and don't count.
        """
        import polars as pl

        self.folder.mkdir(parents=True, exist_ok=True)
        frame, hours = _frame(jobs), jobs.submit // HOUR
        for hour in np.unique(hours[hours >= 0])[-self.most_hours :].tolist():
            path = self.folder / f"hour-{hour}.parquet"
            if path.is_dir() and not path.is_symlink():  # no file can take its place
                self.problems.append(f"{path.name}: is a folder")
                continue
            new = frame.filter(pl.Series(hours == hour))
            before = self._read(path, hour) if path.exists() else None
            made = new if before is None else pl.concat([before, new])
            made = made.unique("job_id", keep="last", maintain_order=True).sort("submit", maintain_order=True)
            with whole(path, InputError) as part:
                write_parquet(made.tail(MOST_JOBS), part)
        self._remove_parts()
        last = int(hours.max(initial=-1))
        for path in [path for path in self._files() if _hour(path) <= last][: -self.most_hours]:
            with suppress(OSError):  # a folder, or gone
                path.unlink()

    def _remove_parts(self) -> None:
        """Remove what writers that were killed have left."""
        for path in self.folder.glob(".hour-*.parquet.*.part"):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > PART_S:
                    path.unlink()

    def read(self, like: Trace, before: int) -> Trace:
        """All jobs that were submitted before an instant, with the codes of names as in another trace."""
        import polars as pl

        found = pl.concat([_frame(like).clear(), *self._frames(before)])
        found = found.filter(pl.col("submit") < before).unique("job_id", keep="last", maintain_order=True)
        columns = {name: found[name].to_numpy() for name in NUMBERS}
        named = {name: _codes(found[name].to_list(), getattr(like, Trace.names_of(name))) for name in NAMES}
        names = {Trace.names_of(name): known for name, (_, known) in named.items()}
        codes = {name: code for name, (code, _) in named.items()}
        return Trace.of(self.folder.name, found["job_id"].to_list(), **columns, **codes, **names)

    def _frames(self, before: int) -> list[pl.DataFrame]:
        """The tables of the last hours before an instant, the oldest first; no more than fit into memory."""
        found: list[pl.DataFrame] = []
        jobs = size = 0
        past = [path for path in self._files() if _hour(path) * HOUR < before]
        for path in reversed(past[-self.most_hours :]):
            frame = self._readable(path)
            if frame is None:
                continue
            jobs, size = jobs + len(frame), size + int(frame.estimated_size())
            if jobs > MOST_READ or size > most_loaded():
                much = f"{MOST_READ:,} jobs" if jobs > MOST_READ else f"{most_loaded() / 2**20:,.0f} MiB"
                self.problems.append(f"{path.name} and all before: more than {much}")
                break
            found.append(frame)
        return found[::-1]

    def _readable(self, path: Path) -> pl.DataFrame | None:
        """The jobs of a file; None, and a problem, also if it can't be read just now: all others are still of use."""
        try:
            return self._read(path, _hour(path))
        except OSError as problem:
            self.problems.append(f"{path.name}: {problem}"[:LONGEST_PROBLEM])
            return None

    def _files(self) -> list[Path]:
        """Those of hours, the oldest first."""
        there = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted((path for path in there if FILE.fullmatch(path.name)), key=_hour)

    def _read(self, path: Path, hour: int) -> pl.DataFrame | None:
        """The jobs of a file; None, and a problem, if they are none. If it can't be read just now, an OSError."""
        try:
            if path.is_symlink():
                raise ValueError("is a link")
            return _checked(parquet_frame(path, MOST_BYTES), hour)
        except (OSError, ValueError) as problem:
            if isinstance(problem, OSError) and problem.errno in PASSING:
                raise
            self.problems.append(f"{path.name}: {problem}"[:LONGEST_PROBLEM])
            return None


def _hour(path: Path) -> int:
    found = FILE.fullmatch(path.name)
    assert found is not None
    return int(found[1])


def _frame(jobs: Trace) -> pl.DataFrame:
    """Jobs as a table; names are cut to the length that a file may have."""
    import polars as pl

    columns: dict[str, pl.Series] = {"job_id": pl.Series(jobs.job_id.tolist(), dtype=pl.String)}
    columns |= {name: pl.Series(getattr(jobs, name), dtype=pl.Int64) for name in NUMBERS}
    for name in NAMES:
        known = (*getattr(jobs, Trace.names_of(name)), "")  # the code -1 is the last
        columns[name] = pl.Series([known[code] for code in getattr(jobs, name).tolist()], dtype=pl.String)
    return pl.DataFrame(columns).with_columns(pl.col(pl.String).str.slice(0, MOST_NAME))


def _checked(frame: pl.DataFrame, hour: int) -> pl.DataFrame:
    """The table, if it is one of jobs of this hour."""
    import polars as pl

    missing = [name for name in ADDED if name not in frame.columns]
    frame = frame.with_columns(pl.lit(0, pl.Int64).alias(name) for name in missing)
    expected = {"job_id": pl.String, **dict.fromkeys(NUMBERS, pl.Int64), **dict.fromkeys(NAMES, pl.String)}
    frame = frame.select(name for name in expected if name in frame.columns) if missing else frame
    if dict(frame.schema) != expected:
        raise ValueError(f"must have the columns {', '.join(expected)} with numbers and names")
    if len(frame) > MOST_JOBS or any(frame[name].null_count() for name in expected):
        raise ValueError(f"must have at most {MOST_JOBS:,} jobs, and no empty cell")
    for name in NUMBERS[1:]:
        about = Trace.columns()[name]
        low, high = about.low * about.scale, about.high * about.scale
        if not frame[name].is_between(low, high).all():
            raise ValueError(f"{name} must be from {low:g} to {high:g}")
    if not (frame["submit"] // HOUR == hour).all():
        raise ValueError("jobs must be submitted in the hour of the file's name")
    if any((frame[name].str.len_chars() > MOST_NAME).any() for name in ("job_id", *NAMES)):
        raise ValueError(f"names must have at most {MOST_NAME} characters")
    return frame


def _codes(names: Sequence[str], known: Sequence[str]) -> tuple[I64, tuple[str, ...]]:
    """Names as codes, -1 for none; the known ones keep theirs."""
    code = {name: at for at, name in enumerate(known)} | {"": -1}
    for name in names:
        code.setdefault(name, len(code) - 1)
    return np.array([code[name] for name in names], np.int64), tuple(name for name in code if name)


def with_past(history: Trace | None, more: Trace) -> Trace:
    """Two pasts as one, each job once; codes of names are those of ``more``, which knows all of them."""
    if history is None or not len(history):
        return more
    new = more.select(~np.isin(more.job_id.astype(str), history.job_id.astype(str)))
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(history, name), getattr(new, name)]) for name in Trace.columns()
    }
    if (history.after >= 0).any():
        columns["after"] = np.full(len(history) + len(new), -1)
    order = np.argsort(columns["submit"], kind="stable")
    ids = np.concatenate([history.job_id, new.job_id])[order]
    columns = {name: values[order] for name, values in columns.items()}
    return dataclasses.replace(history, job_id=ids, users=more.users, vcs=more.vcs, gpu_types=more.gpu_types, **columns)


def check_folder(folder: Path) -> Path:
    """The folder of a repository, which may not be there yet."""
    if folder.exists() and not folder.is_dir():
        raise TraceError(f"{folder}: must be a folder, which has a file per hour; name another")
    return folder
