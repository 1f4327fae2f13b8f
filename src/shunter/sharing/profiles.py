"""What was measured: workloads alone, and the speeds of every two that share a GPU.

The package has its own tables (``measured/``), made by ``shunter profile``; a folder of the same form can be read
instead.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.errors import SharingError, did_you_mean
from shunter.sharing.measuring import PAIRS, SOLO
from shunter.world import F64

if TYPE_CHECKING:
    from shunter.sharing.interference import Interference

LARGEST = {"steps_per_s": 1e9, "gpu_util": 100.0, "mem_util": 100.0, "mem_mib": 1e7}
MEASURES = tuple(LARGEST)
FASTEST = 2.0  # a speed beside a neighbour, as a ratio to that alone, can't be more than a slip


@dataclass(frozen=True, eq=False)
class Profiles:
    """Workloads by index: what each does alone, and how fast each runs beside each other one."""

    names: tuple[str, ...]
    models: tuple[str, ...]  # which of them are one model, with other settings
    steps_per_s: F64  # (workloads,)
    gpu_util: F64  # (workloads,) per cent of the time in which a kernel runs
    mem_util: F64  # (workloads,) per cent of the time in which memory is read or written
    mem_mib: F64  # (workloads,)
    pair: F64  # (workloads, workloads) speed of the first beside the second, 1 alone; NaN: not measured
    about: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def interference(self) -> Interference:
        """What the measured pairs say about any two workloads."""
        from shunter.sharing.interference import Interference

        return Interference.fit(self)

    def speeds(self) -> F64:
        """Speed of each workload beside each: measured where it was, else fitted."""
        fitted = self.interference.speeds(self)
        return np.where(np.isnan(self.pair), fitted, np.clip(self.pair, *self.interference.bounds))

    def index(self, name: str) -> int:
        """Of the workload of this name."""
        if name not in self.names:
            raise SharingError(f"there is no workload '{name}'; {did_you_mean(name, self.names)}")
        return self.names.index(name)


@cache
def measured() -> Profiles:
    """The package's own tables."""
    with as_file(files(__package__).joinpath("measured")) as folder:
        return read(folder)


def read(folder: Path) -> Profiles:
    """The tables of a folder that ``shunter profile`` wrote."""
    solo = _rows(folder / "solo.csv", SOLO)
    names = tuple(row["name"] for _, row in solo)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SharingError(f"{folder / 'solo.csv'}: workload {twice} is there twice; keep one")
    if not names:
        raise SharingError(
            f"{folder / 'solo.csv'}: has no workload; measure some with 'shunter profile --out {folder}'"
        )
    columns = {
        key: np.array([_number(folder / "solo.csv", line, key, row[key], LARGEST[key]) for line, row in solo])
        for key in MEASURES
    }
    return Profiles(
        names,
        tuple(name.partition("-")[0] for name in names),
        **columns,
        pair=_pairs(folder / "pairs.csv", names),
        about=_about(folder / "about.json"),
    )


def _pairs(file: Path, names: tuple[str, ...]) -> F64:
    """The matrix of speeds; a pair that was measured several times has the mean."""
    found: list[tuple[str, str, float]] = []
    for line, row in _rows(file, PAIRS):
        pair = row["name1"], row["name2"]
        unknown = [name for name in pair if name not in names]
        if unknown:
            raise SharingError(f"{file}, line {line}: solo.csv has no workload {unknown[0]}; measure it alone first")
        speeds = [_number(file, line, key, row[key], FASTEST) for key in ("speed1", "speed2")]
        found += [(*pair, speeds[0]), (*pair[::-1], speeds[1])]
    return matrix(names, found)


def matrix(names: tuple[str, ...], speeds: list[tuple[str, str, float]]) -> F64:
    """Speeds of (who, beside whom) as a matrix; NaN where there is none, the mean where there are several."""
    place = {name: i for i, name in enumerate(names)}
    total, count = np.zeros((2, len(names), len(names)))
    for who, beside, speed in speeds:
        total[place[who], place[beside]] += speed
        count[place[who], place[beside]] += 1
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def _rows(file: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """The rows of a table with the numbers of their lines."""
    rows = csv.reader(_text(file).splitlines())
    if tuple(next(rows, ())) != columns:
        raise SharingError(f"{file}: must begin with the line {','.join(columns)}; measure with 'shunter profile'")
    found = []
    for row in rows:
        if len(row) != len(columns):
            raise SharingError(f"{file}, line {rows.line_num}: must have {len(columns)} fields, got {len(row)}")
        found.append((rows.line_num, dict(zip(columns, row, strict=True))))
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise SharingError(
            f"{file}: can't be read; it must be one of solo.csv, pairs.csv and about.json of 'shunter profile'"
        ) from None


def _number(file: Path, line: int, column: str, text: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        raise SharingError(f"{file}, line {line}: {column} must be a number from 0 to {most:g}, got {text!r}")
    return value


def _about(file: Path) -> dict[str, Any]:
    try:
        about = json.loads(_text(file))
    except json.JSONDecodeError as error:
        raise SharingError(f"{file}: is no JSON: {error}; measure anew with 'shunter profile'") from None
    if not isinstance(about, dict) or not isinstance(about.get("gpu"), str):
        raise SharingError(f"{file}: must be a table that names the gpu; measure anew with 'shunter profile'")
    return about
