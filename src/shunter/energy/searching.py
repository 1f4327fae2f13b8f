"""Settings of each way to control sleep, searched equally hard on early steps and judged on later ones.

What counts is the share of node time asleep, less a price for shortage: a node that is needed while it sleeps costs as
much as that many sleeping nodes earn in the same time.  A site on which no job should wait sets a high price.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shunter.energy.control import SleepCourse, SleepSettings
from shunter.energy.forecast import PEAK, STEPS_A_DAY
from shunter.energy.saving import controls
from shunter.energy.series import NodeSeries
from shunter.errors import EnergyError
from shunter.seeding import rng
from shunter.world import F64

WINDOWS = (3, 6, 12, 18, 24, 36, 48, 72, 108, 144, 216, 288)
BUFFERS = (0, 1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40)
TRIED = len(WINDOWS) * len(BUFFERS)  # settings of each
OTHERS = {  # of the authors' rule
    "past": (1, 2, 3, 6, 12),
    "ahead": (6, 18, 30),
    "fell": (0.0, 0.1, 0.5, 1.0, 2.0),
    "falls": (-1e6, 0.0, 0.5, 1.0, 2.0),
    "least": (1, 2, 5),
    "buffer": BUFFERS,
    "keep": (0, 6, 12, 36, 72),
}
PARTS = 12  # of the later steps, in which ways are compared
PRICES = (12.0, 48.0, 144.0)  # of shortage; 144: a node that lacks for ten minutes outweighs one that sleeps for a day


@dataclass(frozen=True, eq=False)
class Judged:
    """A way with settings, and what it did later."""

    kind: str
    settings: SleepSettings
    tried: int  # settings
    course: SleepCourse  # of the later steps

    def net(self, price: float) -> F64:
        """(PARTS,) the share of node time asleep, less the price of shortage, in each part of the later steps."""
        edges = np.linspace(0, len(self.course.used), PARTS + 1).astype(np.int64)
        return np.array([net(self.course, price, slice(*pair)) for pair in itertools.pairwise(edges.tolist())])


def net(course: SleepCourse, price: float, part: slice = slice(None)) -> float:
    """The share of node time asleep, less the price of shortage."""
    asleep = (course.total - course.awake)[part].sum() - price * course.shortage[part].sum()
    return float(asleep / course.total[part].sum())


def candidates(kind: str, published: SleepSettings) -> list[SleepSettings]:
    """As many settings of each kind; of the authors' rule drawn, the published ones among them."""
    if kind == PEAK:
        return [replace(published, window=window, buffer=buffer) for window in WINDOWS for buffer in BUFFERS]
    draws = rng(0, "energy search")
    drawn: list[dict[str, Any]] = [
        {key: values[draws.integers(len(values))] for key, values in OTHERS.items()} for _ in range(TRIED - 1)
    ]
    return [published, *(replace(published, **each) for each in drawn)]


def search(
    series: NodeSeries, begin: int, end: int | None, kinds: Sequence[str], published: SleepSettings
) -> dict[float, list[Judged]]:
    """For each price and kind the settings that are best on the early steps, and what they do on the later ones.

    Forecasts for the early steps are learned from their first half, and settings are searched on the second.
    """
    steps = series.resampled()
    first, last = steps.at(begin), len(steps) if end is None else steps.at(end)
    if last - first < PARTS * STEPS_A_DAY:
        raise EnergyError(
            f"{series.name}: ways are compared in {PARTS} parts of a day or more, and the time to be judged is "
            f"{max(last - first, 0) / STEPS_A_DAY:.1f} days; move its beginning or its end"
        )
    steps = NodeSeries(steps.name, steps.time[:last], steps.used[:last], steps.total[:last])
    early = NodeSeries(steps.name, steps.time[:first], steps.used[:first], steps.total[:first])
    found: dict[float, list[Judged]] = {price: [] for price in PRICES}
    for kind in kinds:
        tried, later = candidates(kind, published), controls(kind, steps, first)
        courses = [*map(controls(kind, early, first // 2), tried)]
        for price in PRICES:
            best = max(range(len(tried)), key=lambda at: net(courses[at], price))
            found[price].append(Judged(kind, tried[best], len(tried), later(tried[best])))
    return found
