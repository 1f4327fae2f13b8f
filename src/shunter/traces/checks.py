"""What must hold of every trace, whatever file it came from, and how a file's mistakes are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shunter.errors import TraceError
from shunter.model import GPU, Column
from shunter.world import F64, I64

REQUIRED = ("job_id", "submit", "duration", "gpus")
SHOWN = 5  # problems told in full; the rest are counted
FARTHEST_SUBMIT_S = 1e12  # either side of 0; anything beyond is a wrong unit, not a time


class Problems:
    """The mistakes found in one file: the first few in full, all of them counted."""

    def __init__(self, path: Path, line_of: Callable[[int], int], place: str = "line") -> None:
        self.path, self.place = path, place
        self._line_of = line_of  # row of data -> what people look up in the file
        self._count = 0
        self._told: list[tuple[int, str]] = []

    def add(self, rows: NDArray[Any], tell: Callable[[int], str]) -> None:
        """Note that these rows (mask or indices) are wrong; ``tell(row)``: what must hold, what came, the remedy."""
        wrong = np.flatnonzero(rows) if rows.dtype == bool else np.sort(rows)
        self._count += len(wrong)
        self._told += [(self._line_of(int(row)), tell(int(row))) for row in wrong[:SHOWN]]

    def line(self, row: int) -> str:
        """Where a row stands, for people."""
        return f"{self.place} {self._line_of(row)}"

    def raise_if_any(self) -> None:
        """Raise one TraceError that tells the first few mistakes and how many there are."""
        if not self._count:
            return
        told = [f"{self.place} {line}: {text}" for line, text in sorted(self._told)[:SHOWN]]
        if self._count == 1:
            raise TraceError(f"{self.path} {told[0]}")
        head = f"{self.path}: {self._count} problems" + (f", the first {SHOWN}:" if self._count > SHOWN else ":")
        raise TraceError("\n  ".join([head, *told]))


def limits(name: str, about: Column) -> tuple[float, float]:
    """The range of a column as people write it, both ends allowed."""
    return (-FARTHEST_SUBMIT_S, FARTHEST_SUBMIT_S) if name == "submit" else (about.low, about.high)


def requirement(name: str, about: Column) -> str:
    """What must hold of a number in this column, in words, with the remedy for the likeliest mistake."""
    low, high = limits(name, about)
    unit = f" ({about.unit})" if about.unit else ""
    if name == "gpus":
        return f"must be a whole number from 1 to {high:g}, or a share of one GPU from {low:g} to 1"
    kind = "a whole number" if about.scale == 1 else "a number"
    return f"must be {kind} from {low:g} to {high:g}{unit}"


REMEDIES = {
    "submit": "give seconds, not milliseconds",
    "duration": "give seconds, and leave out jobs whose end is not known",
    "gpus": "round it, and leave out jobs without GPUs",
}


def number_is_wrong(name: str, about: Column, values: F64) -> NDArray[np.bool_]:
    """Which written numbers can't stand in this column; NaN is wrong everywhere."""
    low, high = limits(name, about)
    wrong: NDArray[np.bool_] = ~((values >= low) & (values <= high))
    if name == "gpus":
        wrong |= (values > 1) & (values != np.floor(values))
    elif about.scale == 1:
        wrong |= values != np.floor(values)
    return wrong


def check_stored(problems: Problems, name: str, about: Column, values: I64) -> None:
    """Check a column that is already in internal units."""
    low, high = limits(name, about)
    wrong = (values < low * about.scale) | (values > high * about.scale)
    if name == "gpus":
        wrong |= (values > GPU) & (values % GPU != 0)
    wrong &= (values != about.default) | (name in REQUIRED)
    must = requirement(name, about)
    problems.add(wrong, lambda row: f"{name} {must}, got {values[row] / about.scale:g}")


def check_ids(problems: Problems, ids: Sequence[str | None]) -> dict[str, int]:
    """Every job needs an id of its own; returns the row of each."""
    row_of: dict[str, int] = {}
    empty, again = [], []
    for row, job in enumerate(ids):
        if not job:
            empty.append(row)
        elif row_of.setdefault(job, row) != row:
            again.append(row)
    problems.add(np.array(empty, np.int64), lambda row: "job_id must not be empty; give every job a name of its own")
    problems.add(
        np.array(again, np.int64),
        lambda row: f"job_id must be unique, got '{ids[row]}' again (first on {problems.line(row_of[str(ids[row])])})",
    )
    return row_of


def rows_of_after(problems: Problems, after: Sequence[str | None], row_of: dict[str, int]) -> I64:
    """Turn the ids in ``after`` into rows; unknown ids, a job after itself and cycles are problems."""
    rows = np.array([-1 if not job else row_of.get(job, -2) for job in after], np.int64)
    itself = rows == np.arange(len(rows))
    problems.add(
        rows == -2,
        lambda row: f"after must name a job_id of this file, got '{after[row]}'; add that job or leave it empty",
    )
    problems.add(itself, lambda row: f"after must name another job, got the job itself, '{after[row]}'; leave it empty")
    rows[(rows == -2) | itself] = -1
    caught = _on_a_cycle(rows)
    problems.add(
        caught,
        lambda row: f"after must not run in a circle, but following it from '{after[row]}' comes back to this job",
    )
    return rows


def _on_a_cycle(parent: I64) -> I64:
    """The rows from which following ``parent`` comes back to the row itself."""
    n = len(parent)
    jump = np.append(np.where(parent >= 0, parent, n), n)  # n: the end of every chain
    for _ in range(max(n, 1).bit_length()):  # doubles the stride each time: afterwards more steps than there are jobs
        jump = jump[jump]
    lost = np.unique(jump[jump < n])  # whoever is still under way after n steps stands on a cycle
    seen: set[int] = set()
    for start in lost.tolist():
        while start not in seen:
            seen.add(start)
            start = int(parent[start])  # noqa: PLW2901
    return np.array(sorted(seen), np.int64)
