"""How well rules would have forecast past hours; the best one is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shunter.generating.arrivals import LAST_HOUR, POINTS, STEP, ArrivalRule, ReplayedJobs, replayed
from shunter.generating.known_jobs import DAY, HOUR, KnownJobs
from shunter.world import F64, I64

BACKTEST_DAYS = 7
FEWEST_HOURS = 24  # with fewer hours to try, the last hour is replayed


@dataclass(frozen=True)
class RuleScore:
    """How far a rule was off, as parts of what came: 0 is exact."""

    rule: ArrivalRule
    requests: float  # jobs per hour
    course: float  # jobs in each five minutes
    service: float  # GPU hours per hour
    hours: int  # that were tried
    by_day: tuple[float, ...] = ()  # requests, day by day

    @property
    def error(self) -> float:
        """What rules are chosen by."""
        return (self.requests + self.service) / 2

    def as_dict(self) -> dict[str, float | int | str]:
        """For scripts."""
        numbers = {"requests": self.requests, "course": self.course, "service": self.service}
        return {"rule": self.rule.name, **numbers, "hours": self.hours}


def backtested(jobs: KnownJobs, hours: Sequence[int], rules: Iterable[ArrivalRule], seed: int = 0) -> list[RuleScore]:
    """How each rule does on the hours that begin then; a rule sees only what was submitted before."""
    true = [replayed(jobs, begin, begin) for begin in hours]
    return [_score(jobs, hours, true, rule, seed) for rule in rules]


def _score(
    jobs: KnownJobs, hours: Sequence[int], true: Sequence[ReplayedJobs], rule: ArrivalRule, seed: int
) -> RuleScore:
    found = [rule.replay(jobs.select(jobs.between(0, begin)), begin, seed) for begin in hours]
    service = jobs.service
    off = np.array([len(a.rows) - len(b.rows) for a, b in zip(found, true, strict=True)], np.float64)
    came = np.array([len(each.rows) for each in true], np.float64)
    course = [np.abs(_counts(a, at) - _counts(b, at)).sum() for a, b, at in zip(found, true, hours, strict=True)]
    work = np.array([[service[each.rows].sum() for each in pair] for pair in zip(found, true, strict=True)])
    work = work.reshape(-1, 2)
    return RuleScore(
        rule,
        _part(np.abs(off).sum(), came.sum()),
        _part(float(np.sum(course)), came.sum()),
        _part(np.abs(work[:, 0] - work[:, 1]).sum(), work[:, 1].sum()),
        len(hours),
        tuple(_by_day(hours, off, came)),
    )


def _by_day(hours: Sequence[int], off: F64, came: F64) -> list[float]:
    days = np.asarray(hours, np.int64) // DAY
    return [_part(np.abs(off[days == day]).sum(), came[days == day].sum()) for day in np.unique(days)]


def _counts(replay: ReplayedJobs, begin: int) -> I64:
    counts: I64 = np.bincount((replay.submit - begin) // STEP, minlength=POINTS)[:POINTS]
    return counts


def _part(off: float, whole: float) -> float:
    return float(off / whole) if whole else 0.0


def hours_before(jobs: KnownJobs, now: int, days: int = BACKTEST_DAYS) -> list[int]:
    """The hours of the last days that the history leaves room for: half of it is kept to look back on."""
    first = int(jobs.submit[0]) if len(jobs) else now
    count = min(days * DAY // HOUR, (now - first) // (2 * HOUR))
    return [now - k * HOUR for k in range(count, 0, -1)]


def best_rule(jobs: KnownJobs, now: int, rules: Iterable[ArrivalRule], seed: int = 0) -> ArrivalRule:
    """The rule with the best forecasts of the last days; without enough of them, the last hour."""
    hours = hours_before(jobs, now)
    if len(hours) < FEWEST_HOURS:
        return LAST_HOUR
    return min(backtested(jobs, hours, rules, seed), key=lambda score: score.error).rule
