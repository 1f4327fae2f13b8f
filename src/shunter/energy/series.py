"""How many nodes were in use over time: read from a file, or from the event log of a run."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shunter import world as w
from shunter.errors import EnergyError
from shunter.safe_files import TooLargeError, opened, unpacked
from shunter.world import I64

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("time", "active", "total")
LONGEST_HEADER = 1000  # bytes
STEP_MS = 600_000  # of what is forecast and controlled
DAY_MS = 86_400_000
MOST_STEPS = 10_000_000  # of a run: two centuries of ten minutes
_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")
_RELEASES = (w.FINISH, w.FAIL, w.PREEMPT, w.MOVE)


@dataclass(frozen=True, eq=False)
class NodeSeries:
    """Nodes in use and nodes that there are, from step to step."""

    name: str
    time: I64  # (steps,) ms; when each begins, ascending
    used: I64  # (steps,)
    total: I64  # (steps,)

    def __len__(self) -> int:
        return len(self.time)

    def resampled(self, step: int = STEP_MS) -> NodeSeries:
        """The largest values of each step; steps of which nothing is known are left out."""
        bins = self.time // step
        first = np.flatnonzero(np.diff(bins, prepend=-1))
        used, total = (np.maximum.reduceat(values, first) for values in (self.used, self.total))
        return NodeSeries(self.name, bins[first] * step, used, total)

    def gaps(self, step: int = STEP_MS) -> int:
        """How many steps are missing between the first and the last."""
        return int((self.time[-1] - self.time[0]) // step) + 1 - len(self)

    def at(self, time: int) -> int:
        """The index of the first step that begins then or later."""
        return int(np.searchsorted(self.time, time))


# ------------------------------------------------------------------------------------------- from a file


def recognises(path: Path) -> bool:
    """Whether a file is a node series, by its first line."""
    import gzip

    try:
        with opened(path) as file:
            packed = path.suffix == ".gz"
            first = (gzip.GzipFile(fileobj=file) if packed else file).readline(LONGEST_HEADER)
        return tuple(first.decode().strip().split(",")) == COLUMNS
    except (OSError, EOFError, ValueError, zlib.error):
        return False


def read(path: Path) -> NodeSeries:
    """A file with the columns time, active, total, as Philly's, packed or not; times are dates or seconds."""
    import polars as pl

    if not path.is_file():
        raise EnergyError(f"{path}: there is no such file; name a CSV with the columns {', '.join(COLUMNS)}")
    try:
        frame = pl.read_csv(_plain(path), infer_schema=False, truncate_ragged_lines=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise EnergyError(f"{path}: can't be read as CSV ({reason}); correct it") from None
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise EnergyError(f"{path} line 1: column '{missing[0]}' is missing; a node series has {', '.join(COLUMNS)}")
    if frame.is_empty():
        raise EnergyError(f"{path}: has no rows; a node series has one per minute or per ten minutes")
    time = _checked(path, frame, "time", _times(frame["time"]), "a date such as 2017-10-03 00:01:00, or seconds")
    used, total = (
        _checked(path, frame, name, frame[name].str.strip_chars().cast(pl.Int64, strict=False), "a whole number")
        for name in COLUMNS[1:]
    )
    _require(path, frame, "time", np.diff(time, prepend=time[0] - 1) > 0, "later than the one before; sort the rows")
    _require(path, frame, "total", total >= 1, "1 or more; correct it")
    _require(path, frame, "active", (used >= 0) & (used <= total), "from 0 to total; correct it")
    return NodeSeries(path.name, time, used, total)


def _plain(path: Path) -> Path | bytes:
    """A packed file's text: unpacked here, where its size is bounded."""
    import gzip

    try:
        with opened(path) as file:
            if file.read(2) != b"\x1f\x8b":
                _check_unpacked(path)
                return path
        with gzip.open(path) as stream:
            return unpacked(stream.read)
    except TooLargeError as error:
        raise EnergyError(f"{path}: {error}; unpack it and name a part of it") from None
    except (EOFError, zlib.error) as error:
        raise EnergyError(f"{path}: the gzip data is damaged or cut off ({error}); fetch or pack it again") from None


def _check_unpacked(path: Path) -> None:
    if path.suffix == ".gz":
        raise EnergyError(f"{path}: ends in .gz, but is no gzip file; fetch or pack it again, or rename it")


def _times(texts: pl.Series) -> pl.Series:
    """Times in ms: dates where they are such, else seconds."""
    import polars as pl

    column = pl.col("time").str.strip_chars()
    dates = [column.str.to_datetime(form, strict=False).dt.epoch("ms") for form in _FORMATS]
    seconds = (column.cast(pl.Float64, strict=False) * 1000).round().cast(pl.Int64, strict=False)
    return texts.to_frame("time").select(pl.coalesce(*dates, seconds)).to_series()


def _checked(path: Path, frame: pl.DataFrame, name: str, values: pl.Series, wanted: str) -> I64:
    _require(path, frame, name, values.is_not_null().to_numpy(), f"{wanted}; correct it")
    numbers: I64 = values.to_numpy().astype(np.int64)
    return numbers


def _require(path: Path, frame: pl.DataFrame, name: str, holds: np.ndarray, wanted: str) -> None:
    """Refuse the first row for which something does not hold, by file, line and field."""
    bad = np.flatnonzero(~holds)
    if len(bad):
        row = int(bad[0])
        raise EnergyError(f"{path} line {row + 2}: {name} must be {wanted}, got '{frame[name][row]}'")


# ------------------------------------------------------------------------------------------- from a run


def stays(events: I64) -> I64:
    """The stays of jobs on nodes as rows (node, begin, end, thousandths of GPUs), by the log of a run."""
    rows = np.flatnonzero(np.isin(events[:, 1], (w.START, *_RELEASES)))
    rows = rows[np.argsort(events[rows, 2], kind="stable")]
    time, kind, job, node, amount = events[rows].T
    released = np.where(kind == w.START, len(rows), np.arange(len(rows)))
    following = np.minimum.accumulate(released[::-1])[::-1]  # the next release after each row ...
    starts = np.flatnonzero((kind == w.START) & (node >= 0))
    after = np.minimum(following[starts], len(rows) - 1)
    own = (following[starts] < len(rows)) & (job[after] == job[starts])  # ... if it is of the same job
    last = events[-1, 0] if len(events) else 0
    return np.stack([node[starts], time[starts], np.where(own, time[after], last), amount[starts]], axis=1)


def used_nodes(events: I64) -> tuple[I64, I64]:
    """How many nodes have a job, as a step function: the times at which that changes, and the number from then on."""
    found = stays(events)
    node = np.concatenate([found[:, 0], found[:, 0]])
    time = np.concatenate([found[:, 1], found[:, 2]])
    change = np.repeat([1, -1], len(found))
    order = np.lexsort((-change, time, node))
    node, time, change = node[order], time[order], change[order]
    jobs = np.cumsum(change)  # on this node: those of the nodes before it have all left again
    busy = (jobs > 0).astype(np.int64)
    turns = np.diff(busy, prepend=0)
    return summed(time[turns != 0], turns[turns != 0])


def summed(time: I64, change: I64) -> tuple[I64, I64]:
    """Changes as a step function: the times, ascending, each once, and the sum up to then."""
    times, at = np.unique(time, return_inverse=True)
    changes = np.bincount(at, change, minlength=len(times)).astype(np.int64)
    return times[changes != 0], np.cumsum(changes[changes != 0])


def of_run(name: str, events: I64, nodes: int, step: int = STEP_MS) -> NodeSeries:
    """The node series of a run on this many nodes: the most that were in use in each step."""
    time, used = used_nodes(events)
    if not len(time):
        raise EnergyError(f"no job of '{name}' ran on a node; there is nothing to forecast")
    first, last = (int(events[row, 0]) // step for row in (0, -1))
    if last - first > MOST_STEPS:
        raise EnergyError(
            f"'{name}' spans {last - first:,} steps of {step / 1000:g} s, at most {MOST_STEPS:,} can be; leave out "
            "jobs that are far from the others with 'shunter trace slice'"
        )
    steps = np.arange(first, last + 1) * step
    held = used[np.maximum(np.searchsorted(time, steps, side="right") - 1, 0)]  # when the step begins
    held = np.where(steps < time[0], 0, held)
    points = np.concatenate([steps, time])
    order = np.argsort(points, kind="stable")
    series = NodeSeries(name, points[order], np.concatenate([held, used])[order], np.full(len(points), nodes, np.int64))
    return series.resampled(step)
