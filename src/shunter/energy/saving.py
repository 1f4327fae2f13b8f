"""A node series under the rule: forecast from earlier data, then controlled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shunter.energy.control import SleepCourse, SleepSettings, peaks, run_peaks, run_series
from shunter.energy.forecast import PEAK, STEPS_A_DAY, Forecasts, forecasts
from shunter.energy.series import NodeSeries
from shunter.errors import EnergyError
from shunter.world import I64

Control = Callable[[SleepSettings], SleepCourse]


@dataclass(frozen=True, eq=False)
class Saving:
    """What came of a part of a series."""

    series: NodeSeries  # in steps, up to the end of that part
    begin: int  # the step with which it begins
    course: SleepCourse  # from then on
    scores: dict[str, float]  # of the forecast

    @property
    def time(self) -> I64:
        """When each of its steps begins, ms."""
        return self.series.time[self.begin :]


def saving(
    series: NodeSeries, begin: int | None, end: int | None, forecast: str, settings: SleepSettings, seed: int = 0
) -> Saving:
    """Control a series from ``begin`` (ms; its last quarter if not given) up to ``end``; the rest is learned from."""
    steps = series.resampled()
    last = len(steps) if end is None else steps.at(end)
    first = last - last // 4 if begin is None else steps.at(begin)
    if last - first < STEPS_A_DAY:
        raise EnergyError(
            f"{series.name}: the time to be controlled must be a day or more, and {max(last - first, 0) / 6:.1f} h"
            " of it are in the series; move its beginning or its end"
        )
    steps = NodeSeries(steps.name, steps.time[:last], steps.used[:last], steps.total[:last])
    if forecast == PEAK:
        return Saving(steps, first, controls(forecast, steps, first)(settings), {})
    found = forecasts(forecast, steps, first, settings.ahead, seed=seed)
    part = slice(first, last)
    course = run_series(steps.used[part], steps.total[part], found.near[part], found.far[part], settings)
    return Saving(steps, first, course, found.scores)


def controls(kind: str, steps: NodeSeries, begin: int) -> Control:
    """Control of the steps from ``begin`` on with any settings; each forecast is made once."""
    used, total = steps.used[begin:], steps.total[begin:]
    made: dict[int, Forecasts] = {}

    def control(settings: SleepSettings) -> SleepCourse:
        if kind == PEAK:
            return run_peaks(used, total, peaks(steps.used, settings.window)[begin:], settings)
        if settings.ahead not in made:
            made[settings.ahead] = forecasts(kind, steps, begin, settings.ahead, scored=False)
        found = made[settings.ahead]
        return run_series(used, total, found.near[begin:], found.far[begin:], settings)

    return control
