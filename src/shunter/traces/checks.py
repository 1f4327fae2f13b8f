"""What must hold for every trace, whatever file it came from, and how the errors of a file are reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shunter.errors import TraceError
from shunter.model import GPU, Column, amounts_are_wrong, servers_are_wrong, widths_are_wrong
from shunter.world import F64, I64

if TYPE_CHECKING:
    import polars as pl

REQUIRED = ("job_id", "submit", "duration", "gpus")
RANGE = ("min_gpus", "max_gpus")
AMOUNTS = {"cpus": ("cores", 1000), "mem_gib": ("GiB", 1024)}  # of an instance
EACH = tuple(f"{end}_{name}" for name in AMOUNTS for end in ("min", "max"))  # 0: not given
RANGED = (*RANGE, *(name for each in AMOUNTS for name in (each, f"min_{each}", f"max_{each}")), "servers")
SHOWN = 5  # problems reported in full; the rest are counted
FIRST = ", the first:"  # what stands before them in a remark
FARTHEST_SUBMIT_S = 1e12  # either side of 0; anything beyond is a wrong unit, not a time


@dataclass(frozen=True)
class FaultyRows:
    """Rows with the same mistake."""

    rows: I64  # what ``describe`` is asked for
    lines: I64
    must: str  # what must hold
    describe: Callable[[int], str]  # what came, and the remedy
    in_table: bool = True  # False: the lines are so wrong that they are no rows


class Problems:
    """The mistakes found in one file: the first few in full, all of them counted."""

    def __init__(self, path: Path, lines: I64, place: str = "line") -> None:
        self.path, self.place = path, place
        self.lines = lines  # row of data -> what people look up in the file
        self._found: list[FaultyRows] = []

    def add(self, rows: NDArray[Any], must: str, describe: Callable[[int], str]) -> None:
        """Note that rows (mask or indices) are wrong: what ``must`` hold; ``describe(row)``: what came, the remedy."""
        wrong = np.flatnonzero(rows) if rows.dtype == bool else np.sort(rows)
        if len(wrong):
            self._found.append(FaultyRows(wrong, self.lines[wrong], must, describe))

    def add_lines(self, lines: I64, must: str, describe: Callable[[int], str]) -> None:
        """Note lines that are so wrong that they are no rows; ``describe`` is given their index in ``lines``."""
        if len(lines):
            self._found.append(FaultyRows(np.arange(len(lines)), lines, must, describe, in_table=False))

    def line(self, row: int) -> str:
        """Where a row stands, for people."""
        return f"{self.place} {self.lines[row]}"

    def bad(self) -> NDArray[np.bool_]:
        """Which rows something is wrong with."""
        bad = np.zeros(len(self.lines), np.bool_)
        for finding in self._found:
            if finding.in_table:
                bad[finding.rows] = True
        return bad

    def forget(self, left_out: NDArray[np.bool_]) -> None:
        """These rows are left out anyhow: what is wrong with them does not matter."""
        for at, finding in enumerate(self._found):
            if finding.in_table:
                stay = ~left_out[finding.rows]
                self._found[at] = replace(finding, rows=finding.rows[stay], lines=finding.lines[stay])
        self._found = [finding for finding in self._found if len(finding.rows)]

    def described(self, remedies: bool = True) -> list[str]:
        """The first few mistakes by line, with what to do about them."""
        first = [
            (int(line), finding, int(row))
            for finding in self._found
            for line, row in zip(finding.lines[:SHOWN], finding.rows[:SHOWN], strict=True)
        ]
        first.sort(key=lambda entry: entry[0])
        texts = [f"{self.place} {line}: {found.must}, {found.describe(row)}" for line, found, row in first[:SHOWN]]
        return texts if remedies else [text.rpartition("; ")[0] or text for text in texts]

    def raise_if_any(self) -> None:
        """Raise one TraceError with the first few mistakes and how many there are."""
        count = sum(len(finding.lines) for finding in self._found)
        if not count:
            return
        if count == 1:
            raise TraceError(f"{self.path} {self.described()[0]}")
        head = f"{self.path}: {count} problems" + (f", the first {SHOWN}:" if count > SHOWN else ":")
        raise TraceError("\n  ".join([head, *self.described()]))

    def remark(self) -> str:
        """How many rows have problems, by what must hold, and the first few in full; "" if none has."""
        if not self._found:
            return ""
        dropped = len(np.unique(np.concatenate([finding.lines for finding in self._found])))
        reasons: dict[str, int] = {}
        for finding in self._found:
            reasons[finding.must] = reasons.get(finding.must, 0) + len(finding.lines)
        counts = "; ".join(f"{count:,}: {must}" for must, count in sorted(reasons.items(), key=lambda r: -r[1]))
        head = f"left out {dropped:,} bad row{'' if dropped == 1 else 's'} ({counts}){FIRST}"
        return "\n  ".join([head, *self.described(remedies=False)])


def brief(remark: str) -> str:
    """A remark without the rows that it lists: these are of use only beside the file that has them."""
    return remark.partition(f"{FIRST}\n")[0]


def limits(name: str, about: Column) -> tuple[float, float]:
    """The range of a column as people write it, both ends allowed."""
    return (-FARTHEST_SUBMIT_S, FARTHEST_SUBMIT_S) if name == "submit" else (about.low, about.high)


def requirement(field: str, name: str, about: Column, factor: float = 1.0, unit: str = "") -> str:
    """What must hold of a number in this field, in words; ``factor`` turns its ``unit`` into the column's."""
    low, high = limits(name, about)
    if name == "gpus":
        return f"{field} must be a whole number from 1 to {high:g}, or a share of one GPU from {low:g} to 1"
    kind = "a whole number" if about.scale == 1 else "a number"
    named = unit or about.unit
    if name in EACH:
        kind, low = "0, or a number", 1 / about.scale
    return f"{field} must be {kind} from {low / factor:g} to {high / factor:g}" + (f" ({named})" if named else "")


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
    elif name in EACH:
        wrong |= (values > 0) & (np.rint(values * about.scale) < 1)
    return wrong


def check_stored(problems: Problems, name: str, about: Column, values: I64) -> None:
    """Check a column that is already in internal units."""
    low, high = limits(name, about)
    wrong = (values < low * about.scale) | (values > high * about.scale)
    if name == "gpus":
        wrong |= (values > GPU) & (values % GPU != 0)
    wrong &= (values != about.default) | (name in REQUIRED)
    problems.add(wrong, requirement(name, name, about), lambda row: f"got {values[row] / about.scale:g}; correct it")


def check_range(problems: Problems, given: Mapping[str, Any]) -> None:
    """A range of GPUs, or of CPU or memory per instance, must hold what is asked for; servers must leave a worker."""
    gpus = given["gpus"]
    none = np.zeros_like(gpus)
    least, most = (given.get(name, none) for name in RANGE)

    def describe(row: int) -> str:
        return f"got {least[row]} .. {most[row]} for {gpus[row] / GPU:g} GPUs; correct one of them"

    must = "min_gpus and max_gpus must be a range of whole GPUs that gpus is in"
    problems.add(widths_are_wrong(gpus, least, most), must, describe)
    for name in AMOUNTS:
        check_amounts(problems, name, gpus, *(given.get(key, none) for key in (name, f"min_{name}", f"max_{name}")))
    servers = given.get("servers", none)
    problems.add(
        servers_are_wrong(gpus, least, servers),
        "servers must leave a worker of gpus, and min_gpus must be 2 or more",
        lambda row: f"got {servers[row]} of {gpus[row] / GPU:g}, min_gpus {least[row]}; correct one of them",
    )


def check_amounts(problems: Problems, name: str, gpus: I64, whole: I64, least: I64, most: I64) -> None:
    """A range of CPU or memory of an instance must hold what it asks for: that of the job over its GPUs."""
    unit, scale = AMOUNTS[name]
    each = -(-whole // np.maximum(gpus // GPU, 1))

    def describe(row: int) -> str:
        asked = f"{each[row] / scale:g} {unit}"
        return f"got {least[row] / scale:g} .. {most[row] / scale:g} for {asked}; correct one of them"

    must = f"min_{name} and max_{name} must be a range that {name} over gpus is in"
    problems.add(amounts_are_wrong(each, least, most), must, describe)


def check_ids(problems: Problems, ids: pl.Series, kept: NDArray[np.bool_] | None = None) -> None:
    """Every job (of those ``kept``) needs an id of its own."""
    rows = np.arange(len(ids)) if kept is None else np.flatnonzero(kept)
    some = ids if kept is None else ids.filter(kept)
    empty = (some.is_null() | (some == "")).to_numpy()
    problems.add(rows[empty], "job_id must not be empty", lambda row: "but is; give every job a name of its own")
    again = (~some.is_first_distinct()).to_numpy() & ~empty

    def describe(row: int) -> str:
        first = int(rows[some.index_of(ids[row])])
        return f"got '{ids[row]}' again (first on {problems.line(first)}); rename or remove one of them"

    problems.add(rows[again], "job_id must be unique", describe)


def rows_of_after(problems: Problems, after: pl.Series, ids: pl.Series) -> I64:
    """Turn the ids in ``after`` into rows; unknown ids, a job after itself and cycles are problems."""
    import polars as pl

    given = after.fill_null("") != ""
    rows = np.full(len(after), -1, np.int64)
    if given.any():
        known = pl.DataFrame({"id": ids, "row": np.arange(len(ids))}).unique("id", keep="first")
        found = pl.DataFrame({"id": after}).join(known, on="id", how="left", maintain_order="left")["row"]
        rows = np.where(given.to_numpy(), found.fill_null(-2).to_numpy(), -1)
    itself = rows == np.arange(len(rows))
    problems.add(
        rows == -2,
        "after must name a job_id of this file",
        lambda row: f"got '{after[row]}'; add that job or leave it empty",
    )
    problems.add(
        itself, "after must name another job", lambda row: f"got the job itself, '{after[row]}'; leave it empty"
    )
    rows[(rows == -2) | itself] = -1
    problems.add(
        _on_a_cycle(rows),
        "after must not run in a circle",
        lambda row: f"but following it from '{after[row]}' comes back to this job; empty one of them",
    )
    return rows


def _on_a_cycle(parent: I64) -> I64:
    """The rows from which following ``parent`` comes back to the row itself."""
    n = len(parent)
    jump = np.append(np.where(parent >= 0, parent, n), n)  # n: the end of every chain
    for _ in range(max(n, 1).bit_length()):  # doubles the stride each time: afterwards more steps than there are jobs
        jump = jump[jump]
    lost = np.unique(jump[jump < n])  # a job that is still under way after n steps is on a cycle
    seen: set[int] = set()
    for start in lost.tolist():
        while start not in seen:
            seen.add(start)
            start = int(parent[start])  # noqa: PLW2901
    return np.array(sorted(seen), np.int64)
