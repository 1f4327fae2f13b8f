"""When nodes sleep and wake: the rule of Helios' cluster energy saving (CES), Hu et al., SC 2021."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from shunter.errors import EnergyError
from shunter.world import F64, I64

FIRST = 6  # steps in which demand is only followed: nothing is known of the past yet


@dataclass(frozen=True)
class SleepSettings:
    """The thresholds of the rule; a step is ten minutes.  In the authors' code they are h, f, xi_H, xi_F, de, ..."""

    past: int = 3  # h: demand must have fallen against the mean of this many steps before
    ahead: int = 18  # f: and the forecast for this many steps must be lower still
    fell: float = 0.5  # xi_H: by how many nodes demand must have fallen
    falls: float = 1.0  # xi_F: how many nodes the forecast must be below the present
    least: int = 2  # de: fewer nodes than that are not put to sleep
    buffer: int = 5  # nodes that stay awake beyond those in use
    keep: int = 12  # after a wake-up, nothing sleeps for this many steps
    window: int = 12  # of the rule without a forecast: the maximum is over this many steps

    def __post_init__(self) -> None:
        for name, low in {"past": 1, "ahead": 1, "fell": 0, "least": 1, "buffer": 0, "keep": 0, "window": 1}.items():
            if not getattr(self, name) >= low:
                raise EnergyError(f"{name} must be {low} or more, got {getattr(self, name)}; correct it")


PRESETS = {  # as published, by cluster
    "venus": SleepSettings(),
    "earth": SleepSettings(6, 18, 1, 1, 5, 5, 12),
    "saturn": SleepSettings(6, 18, 1, 1, 1, 5, 12),
    "uranus": SleepSettings(3, 18, 1, 1, 1, 7, 12),
    "philly": SleepSettings(2, 30, 0.1, 0, 1, 20, 10),
}


class Awake(NamedTuple):
    """What the rule remembers: how many nodes are awake, and until which step nothing sleeps."""

    nodes: int
    hold: int = 0


class Demand(NamedTuple):
    """What the rule knows at one step."""

    step: int
    used: int  # nodes that are needed now
    recent: float  # the mean over the steps before
    near: float  # the forecast mean over the next `ahead` steps; NaN: there is no forecast, only the past counts
    far: float  # and over twice as many
    total: int  # nodes that there are


def controlled(awake: Awake, demand: Demand, settings: SleepSettings) -> Awake:
    """How many nodes are to be awake from this step on."""
    step, used, total = demand.step, demand.used, demand.total
    wanted = min(used + settings.buffer, total)
    if awake.nodes < min(used, total):
        return Awake(wanted, step + settings.keep)
    nodes = min(awake.nodes, total)
    if step < awake.hold or not _falling(demand, settings):
        return awake._replace(nodes=nodes)
    spare = nodes - min(nodes, wanted)
    return awake._replace(nodes=nodes - spare if spare >= settings.least else nodes)


def _falling(demand: Demand, settings: SleepSettings) -> bool:
    """Whether demand has fallen, and is not about to rise again."""
    if demand.recent - demand.used < settings.fell:
        return False
    falls = demand.used - demand.near >= settings.falls and demand.near >= demand.far
    return falls or math.isnan(demand.near)


def followed(awake: int, used: int, peak: int, total: int, settings: SleepSettings) -> int:
    """The rule without a forecast: the most nodes in use lately, and some more, are awake; more are woken if needed."""
    wanted = min(peak + settings.buffer, total)
    return wanted if awake < min(used, total) else min(awake, wanted)


def peaks(used: I64, window: int) -> I64:
    """The maximum over each step and those before it, this many in all."""
    padded = np.concatenate([np.zeros(window - 1, np.int64), used])
    found: I64 = sliding_window_view(padded, window).max(axis=1)
    return found


@dataclass(frozen=True, eq=False)
class SleepCourse:
    """What came of the rule, from step to step."""

    used: I64  # (steps,) nodes
    total: I64
    awake: I64
    change: I64  # nodes woken, or below 0 put to sleep
    shortage: I64  # nodes that were in use, but asleep until this step


def run_series(used: I64, total: I64, near: F64, far: F64, settings: SleepSettings) -> SleepCourse:
    """The rule on a whole series; ``near`` and ``far`` are the forecasts made at each step."""
    sums = np.concatenate([[0], np.cumsum(used)])

    def decide(i: int, awake: Awake) -> Awake:
        first = max(i - settings.past, 0)
        recent = (sums[i] - sums[first]) / (i - first)
        demand = Demand(i, int(used[i]), float(recent), float(near[i]), float(far[i]), int(total[i]))
        return controlled(awake, demand, settings)

    return _course(used, total, settings, decide)


def run_peaks(used: I64, total: I64, peak: I64, settings: SleepSettings) -> SleepCourse:
    """The rule without a forecast on a whole series; ``peak`` is the maximum of the steps before and at each."""
    most = [int(nodes) for nodes in peak]
    return _course(
        used,
        total,
        settings,
        lambda i, awake: Awake(followed(awake.nodes, int(used[i]), most[i], int(total[i]), settings)),
    )


def _course(used: I64, total: I64, settings: SleepSettings, decide: Callable[[int, Awake], Awake]) -> SleepCourse:
    """What comes of a rule that decides at each step, after a few in which demand is only followed."""
    steps = len(used)
    nodes, shortage = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    awake = Awake(0)
    for i in range(steps):
        if i < FIRST:
            awake = Awake(min(int(used[i]) + settings.buffer, int(total[i])))
        else:
            shortage[i] = max(int(used[i]) - awake.nodes, 0)
            awake = decide(i, awake)
        nodes[i] = awake.nodes
    change = np.diff(nodes, prepend=nodes[:1])
    change[:FIRST] = 0
    return SleepCourse(used, total, nodes, change, shortage)
