"""A node series under the rule: forecast from what was before, then controlled."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.energy.control import Course, Settings, run_series
from shunter.energy.forecast import STEPS_A_DAY, forecasts
from shunter.energy.series import NodeSeries
from shunter.errors import EnergyError
from shunter.world import I64


@dataclass(frozen=True, eq=False)
class Saving:
    """What came of a part of a series."""

    series: NodeSeries  # in steps, up to the end of that part
    begin: int  # the step with which it begins
    course: Course  # from then on
    scores: dict[str, float]  # of the forecast

    @property
    def time(self) -> I64:
        """When each of its steps begins, ms."""
        return self.series.time[self.begin :]


def saving(series: NodeSeries, begin: int | None, end: int | None, forecast: str, settings: Settings) -> Saving:
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
    found = forecasts(forecast, steps, first, settings.ahead)
    part = slice(first, last)
    course = run_series(steps.used[part], steps.total[part], found.near[part], found.far[part], settings)
    return Saving(steps, first, course, found.scores)
