"""What was measured: workloads alone, and the speeds of every two that share a GPU.

The package has its own tables (``measured/``), made by ``shunter profile``, one for each way in which a GPU is shared;
a folder of the same form can be read instead. A speed is the steps per second beside a neighbour over those alone at
the same time: the speed of a machine's CPU drifts by a tenth within seconds, and workloads that wait for it with it.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter.cluster import USUAL_SHARING
from shunter.errors import SharingError, did_you_mean
from shunter.safe_files import text_of
from shunter.sharing.measuring import PAIRS, SOLO
from shunter.texts import unrepeated
from shunter.world import F64, I64

if TYPE_CHECKING:
    from shunter.sharing.interference import Interference

Mask: TypeAlias = NDArray[np.bool_]

LARGEST = {"steps_per_s": 1e9, "gpu_util": 100.0, "mem_util": 100.0, "mem_mib": 1e7}
MEASURES = tuple(LARGEST)
MOST_WORKLOADS = 1000  # every two of them have a speed
AGAIN = "measure with 'shunter profile'"
LATEST = 1e11  # seconds since 1970
FASTEST = 2.0  # a speed beside a neighbour, as a ratio to that alone, can't be more than a slip
PACE_S = 10.0  # seconds over which the drift of the CPU's speed is much the same
DOUBT = 0.3  # drift is taken to be that much nearer to 0 than few measurements say


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
    spread: F64  # (workloads,) of steps per second alone: the best less the worst measurement, over the mean
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
def measured(way: str = USUAL_SHARING) -> Profiles:
    """The package's own tables of a way of sharing, one of ``cluster.SHARING``."""
    with as_file(files(__package__).joinpath("measured", way)) as folder:
        return read(folder)


def read(folder: Path) -> Profiles:
    """The tables of a folder that ``shunter profile`` wrote."""
    solo, pairs = folder / "solo.csv", folder / "pairs.csv"
    if not solo.exists():
        raise SharingError(f"{folder}: has no solo.csv; measure with 'shunter profile --out {folder}'")
    rows = _rows(solo, SOLO)
    if not rows:
        raise SharingError(f"{solo}: has no workload; measure some with 'shunter profile --out {folder}'")
    names = tuple(dict.fromkeys(row["name"] for _, row in rows))
    if len(names) > MOST_WORKLOADS:
        raise SharingError(
            f"{solo}: must have at most {MOST_WORKLOADS:,} workloads, got {len(names):,}; leave some out"
        )
    who = np.array([names.index(row["name"]) for _, row in rows])
    at = np.array([_number(solo, line, "at", row["at"], LATEST) for line, row in rows])
    every = np.array([[_number(solo, line, key, row[key], LARGEST[key]) for key in MEASURES] for line, row in rows])
    mean = np.array([every[who == each].mean(axis=0) for each in range(len(names))])  # (workloads, measures)
    if not every[:, 0].all():
        idle = names[who[np.argmin(every[:, 0])]]
        raise SharingError(f"{solo}: steps_per_s of {idle} must be more than 0; measure it again")
    pace = _Pace.of(who, at, every[:, 0], 1 - mean[:, 1] / 100)
    found = dict(zip(MEASURES, mean.T, strict=True)) | {"steps_per_s": pace.steps_per_s}
    return Profiles(
        names,
        tuple(name.partition("-")[0] for name in names),
        **found,
        pair=matrix(names, _speeds(pairs, names, pace) if pairs.exists() else ()),
        spread=np.array([np.ptp(every[who == each, 0]) for each in range(len(names))]) / mean[:, 0],
        about=_about(folder / "about.json"),
    )


@dataclass(frozen=True, eq=False)
class _Pace:
    """How fast workloads run alone at a time: the speed of the CPU drifts, and all that wait for it drift together."""

    at: F64  # (measurements alone,) seconds
    drift: F64  # (measurements alone,) logarithm of the speed, of the workload's mean
    on_cpu: F64  # (workloads,) the share of the time in which it waits for the CPU
    weight: F64  # (measurements alone,) the same
    steps_per_s: F64  # (workloads,) at the mean pace

    @classmethod
    def of(cls, who: I64, at: F64, steps_per_s: F64, on_cpu: F64) -> _Pace:
        """The means and the drift explain each other, so each is computed from the other, twice."""
        logs = np.log(steps_per_s)
        pace = cls(at, np.zeros(len(at)), on_cpu, on_cpu[who], np.zeros(0))
        for _ in range(3):
            even = logs - np.array([on_cpu[each] * pace.drift_at(when) for each, when in zip(who, at, strict=True)])
            means = np.bincount(who, even) / np.bincount(who)
            pace = replace(pace, drift=logs - means[who], steps_per_s=np.exp(means))
        return pace

    def drift_at(self, when: float) -> float:
        """The drift that the measurements around this time show."""
        near = np.exp(-np.abs(self.at - when) / PACE_S) * self.weight
        return float(near @ self.drift / (near @ self.weight + DOUBT))

    def alone(self, workload: int, when: float) -> float:
        """Steps per second of a workload if it had run alone then."""
        return float(self.steps_per_s[workload] * np.exp(self.on_cpu[workload] * self.drift_at(when)))


def _speeds(file: Path, names: tuple[str, ...], pace: _Pace) -> Iterator[tuple[str, str, float, float]]:
    """(workload, neighbour, speed, seconds): the speed beside the neighbour over the speed alone at the same time."""
    for line, row in _rows(file, PAIRS):
        unknown = [row[key] for key in ("name1", "name2") if row[key] not in names]
        if unknown:
            raise SharingError(f"{file}, line {line}: solo.csv has no workload {unknown[0]}; measure it alone first")
        at, seconds = (_number(file, line, key, row[key], LATEST) for key in ("at", "seconds"))
        for own, other in (("1", "2"), ("2", "1")):
            key, name = "steps_per_s" + own, row["name" + own]
            alone = pace.alone(names.index(name), at)
            yield name, row["name" + other], _number(file, line, key, row[key], FASTEST * alone) / alone, seconds


def matrix(names: tuple[str, ...], values: Iterable[tuple[str, str, float, float]]) -> F64:
    """Weighted means of values as (workload, neighbour, value, weight); NaN where there is none."""
    place = {name: i for i, name in enumerate(names)}
    total, weights = np.zeros((2, len(names), len(names)))
    for who, beside, value, weight in values:
        total[place[who], place[beside]] += weight * value
        weights[place[who], place[beside]] += weight
    return np.divide(total, weights, out=np.full_like(total, np.nan), where=weights > 0)


def _rows(file: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """The rows of a table with the numbers of their lines."""
    rows = csv.reader(text_of(file, SharingError, AGAIN).splitlines())
    found: list[tuple[int, dict[str, str]]] = []
    try:
        if tuple(next(rows, ())) != columns:
            raise SharingError(f"{file}: must begin with the line {','.join(columns)}; {AGAIN}")
        for row in rows:
            if len(row) != len(columns):
                raise SharingError(f"{file}, line {rows.line_num}: must have {len(columns)} fields, got {len(row)}")
            found.append((rows.line_num, dict(zip(columns, row, strict=True))))
    except csv.Error as error:
        raise SharingError(f"{file}, line {rows.line_num}: is no line of a table ({error}); {AGAIN}") from None
    return found


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
        about: dict[str, Any] = json.loads(text_of(file, SharingError, AGAIN), object_pairs_hook=unrepeated)
    except (ValueError, RecursionError) as error:
        raise SharingError(f"{file}: is no JSON: {error}; {AGAIN}") from None
    if not isinstance(about, dict) or not isinstance(about.get("gpu"), str):
        raise SharingError(f"{file}: must name the gpu of a measurement; measure again")
    return about
