"""What was measured: workloads alone, and the speeds of every two that share a GPU.

The package has its own tables (``measured/``), made by ``shunter profile``; a folder of the same form can be read
instead. A folder may have several runs, each in a folder of its own. The speed of a machine's CPU drifts, so what
counts are means: the steps per second of a workload alone over all of its measurements, and those beside a neighbour
over all runs, both weighted by the seconds of the run; a speed is the one divided by the other.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
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
    spread: (
        F64  # (workloads,) steps per second alone: the difference of the best and the worst measurement, of the mean
    )
    about: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def interference(self) -> Interference:
        """What the measured pairs say about any two workloads."""
        from shunter.sharing.interference import Interference

        return Interference.fit(self)

    def speeds(self) -> F64:
        """Speed of each workload beside each, 1 at most: measured where it was, else fitted."""
        missing = np.isnan(self.pair)
        return np.where(missing, self.interference.speeds(self), np.minimum(self.pair, 1.0))

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
    """The tables of a folder that ``shunter profile`` wrote, or of a folder of such folders."""
    places = [folder] if (folder / "solo.csv").exists() else sorted(file.parent for file in folder.glob("*/solo.csv"))
    if not places:
        raise SharingError(f"{folder}: has no solo.csv, nor has any folder in it; make one with 'shunter profile'")
    runs = [_Run.read(place) for place in places]
    for run in runs[1:]:
        if (run.about["gpu"], set(run.alone)) != (runs[0].about["gpu"], set(runs[0].alone)):
            raise SharingError(
                f"{run.folder}: must have the GPU and the workloads of {runs[0].folder}; keep them apart"
            )
    names = tuple(runs[0].alone)
    weights = [run.seconds for run in runs for _ in range(run.times)]
    every = np.array([[run.alone[name][i] for name in names] for run in runs for i in range(run.times)])
    mean = np.average(every, axis=0, weights=weights)  # (workloads, measures)
    rates = [(who, beside, rate, run.seconds) for run in runs for who, beside, rate in run.rates()]
    return Profiles(
        names,
        tuple(name.partition("-")[0] for name in names),
        **dict(zip(MEASURES, mean.T, strict=True)),
        pair=matrix(names, rates) / mean[:, :1],
        spread=np.ptp(every[:, :, 0], axis=0) / mean[:, 0],
        about={**runs[-1].about, "runs": len(runs)},
    )


@dataclass(frozen=True)
class _Run:
    """The tables of one run as they are."""

    folder: Path
    alone: dict[str, list[list[float]]]  # for each workload its measurements alone, each of MEASURES
    pairs: list[tuple[str, str, float, float]]  # speeds are told relative to the first measurement alone
    about: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> _Run:
        file = folder / "solo.csv"
        alone: dict[str, list[list[float]]] = {}
        for line, row in _rows(file, SOLO):
            numbers = [_number(file, line, key, row[key], LARGEST[key]) for key in MEASURES]
            alone.setdefault(row["name"], []).append(numbers)
        if not alone:
            raise SharingError(f"{file}: has no workload; measure some with 'shunter profile --out {folder}'")
        idle = next((name for name, rows in alone.items() if rows[0][0] == 0), None)
        if idle is not None:
            raise SharingError(f"{file}: steps_per_s of {idle} must be more than 0; measure it again")
        pairs = folder / "pairs.csv"
        return cls(folder, alone, _pairs(pairs, set(alone)) if pairs.exists() else [], _about(folder / "about.json"))

    @property
    def seconds(self) -> float:
        return float(self.about["seconds"])

    @property
    def times(self) -> int:
        """How often every workload was measured alone."""
        return min(map(len, self.alone.values()))

    def rates(self) -> Iterator[tuple[str, str, float]]:
        """Steps per second of (who, beside whom)."""
        for one, two, *speeds in self.pairs:
            for who, beside, speed in ((one, two, speeds[0]), (two, one, speeds[1])):
                yield who, beside, speed * self.alone[who][0][0]


def _pairs(file: Path, names: set[str]) -> list[tuple[str, str, float, float]]:
    found = []
    for line, row in _rows(file, PAIRS):
        unknown = [row[key] for key in ("name1", "name2") if row[key] not in names]
        if unknown:
            raise SharingError(f"{file}, line {line}: solo.csv has no workload {unknown[0]}; measure it alone first")
        one, two = (_number(file, line, key, row[key], FASTEST) for key in ("speed1", "speed2"))
        found.append((row["name1"], row["name2"], one, two))
    return found


def matrix(names: tuple[str, ...], values: Iterable[tuple[str, str, float, float]]) -> F64:
    """Weighted means of values as (who, beside whom, value, weight); NaN where there is none."""
    place = {name: i for i, name in enumerate(names)}
    total, weights = np.zeros((2, len(names), len(names)))
    for who, beside, value, weight in values:
        total[place[who], place[beside]] += weight * value
        weights[place[who], place[beside]] += weight
    return np.divide(total, weights, out=np.full_like(total, np.nan), where=weights > 0)


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
        about: dict[str, Any] = json.loads(_text(file))
    except json.JSONDecodeError as error:
        raise SharingError(f"{file}: is no JSON: {error}; measure anew with 'shunter profile'") from None
    told = isinstance(about, dict) and (about.get("gpu"), about.get("seconds"))
    if not told or not isinstance(told[0], str) or not isinstance(told[1], int | float) or not told[1] > 0:
        raise SharingError(f"{file}: must name the gpu and the seconds of a measurement; measure anew")
    return about
