"""Which past hour the next one may be like: AutoSched's search for the nearest hour, and plain rules beside it.

A rule looks at all submissions so far and names jobs that are replayed: the real ones of a past hour, moved to the
hour that begins now.  Counts are those of five minutes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shunter.errors import RunError, did_you_mean
from shunter.generating.known_jobs import DAY, HOUR, MINUTE, KnownJobs
from shunter.seeding import rng
from shunter.world import F64, I64

STEP = 5 * MINUTE
POINTS = HOUR // STEP  # counts of an hour
HOURS_OF_DAY = 24
NEAREST_AGO = 2  # hours; a window that ends later is not compared
FEWEST_DAYS = 3  # of history; with less, the last hour is replayed
FREQUENCIES = 5  # that remain beside the mean, the strongest ones ...
SHORTEST_PERIOD = 2 * HOUR  # ... of those with longer periods
MOST_POINTS = 56 * DAY // STEP  # of history that is compared
SEASONS = 4  # weeks of which a seasonal mean is made
DISTANCES = ("manhattan", "euclidean", "cosine", "pearson")


class ReplayedJobs(NamedTuple):
    """Jobs that arrive in the next hour: rows of known jobs, and when they come (ms), in this order."""

    rows: I64
    submit: I64


class ArrivalRule(ABC):
    """What the hour from ``now`` on is expected to be like."""

    name: str

    @abstractmethod
    def replay(self, jobs: KnownJobs, now: int, seed: int) -> ReplayedJobs:
        """The jobs of the next hour; none of ``jobs`` was submitted after ``now``."""


def replayed(jobs: KnownJobs, begin: int, now: int) -> ReplayedJobs:
    """The jobs of the hour from ``begin`` on, moved to the one from ``now`` on."""
    rows = np.arange(len(jobs))[jobs.between(begin, begin + HOUR)]
    return ReplayedJobs(rows, jobs.submit[rows] + (now - begin))


@dataclass(frozen=True)
class HoursAgo(ArrivalRule):
    """The hour that began this many hours ago: the last one, the same of yesterday, or of last week."""

    name: str
    hours: int

    def replay(self, jobs: KnownJobs, now: int, seed: int) -> ReplayedJobs:
        """That hour, or the last one if the history is shorter."""
        begin = now - self.hours * HOUR
        there = len(jobs) and begin >= int(jobs.submit[0])
        return replayed(jobs, begin if there else now - HOUR, now)


@dataclass(frozen=True)
class SeasonalMean(ArrivalRule):
    """As many jobs as on average in the same hour of the last weeks, drawn from those hours."""

    name: str = "seasonal"

    def replay(self, jobs: KnownJobs, now: int, seed: int) -> ReplayedJobs:
        """Jobs of the same hour of the week, or of the day if the history is shorter than two weeks."""
        first = int(jobs.submit[0]) if len(jobs) else now
        apart = 7 * DAY if now - first >= 14 * DAY else DAY
        begins = [now - k * apart for k in range(1, SEASONS + 1) if now - k * apart >= first]
        if not begins:
            return replayed(jobs, now - HOUR, now)
        parts = [replayed(jobs, begin, now) for begin in begins]
        rows, submit = (np.concatenate(each) for each in zip(*parts, strict=True))
        draws = rng(seed, f"seasonal {now}")
        kept = draws.permutation(len(rows))[: round(len(rows) / len(begins))]
        kept = kept[np.argsort(submit[kept], kind="stable")]
        return ReplayedJobs(rows[kept], submit[kept])


@dataclass(frozen=True)
class NearestHour(ArrivalRule):
    """AutoSched's global generator: the past hour whose counts are nearest to those of the last hour.

    Only hours at about the same time of day are compared.  ``periodic``: counts without what the strongest frequencies
    leave unexplained.  ``after``: the hour after the nearest one is replayed, in place of that one itself.
    """

    distance: str = "manhattan"
    periodic: bool = True
    after: bool = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """What it is called in tables."""
        return f"{'fft' if self.periodic else 'raw'}-{self.distance}-{'after' if self.after else 'itself'}"

    def replay(self, jobs: KnownJobs, now: int, seed: int) -> ReplayedJobs:
        """The nearest hour, or the one after it."""
        counts = counts_before(jobs, now)
        if len(counts) * STEP < FEWEST_DAYS * DAY:
            return replayed(jobs, now - HOUR, now)
        curve = periodic_part(counts) if self.periodic else counts.astype(np.float64)
        ago = _hours_to_compare(len(curve))
        windows = np.stack([curve[len(curve) - h * POINTS - POINTS : len(curve) - h * POINTS] for h in ago])
        nearest = int(ago[np.argmin(distances(windows, curve[-POINTS:], self.distance))])
        return replayed(jobs, now - (nearest + (0 if self.after else 1)) * HOUR, now)


def _hours_to_compare(points: int) -> I64:
    """How many hours ago windows end that are compared: at about the same time of day."""
    ago = np.arange(NEAREST_AGO, points // POINTS - 1)
    return ago[np.isin(ago % HOURS_OF_DAY, (0, 1, HOURS_OF_DAY - 1))]


def counts_before(jobs: KnownJobs, now: int) -> I64:
    """Submissions in each five minutes up to now, the last ones last; of weeks at the most."""
    if not len(jobs):
        return np.zeros(0, np.int64)
    points = min((now - int(jobs.submit[0])) // STEP, MOST_POINTS)
    ago = (now - 1 - jobs.submit[jobs.between(now - points * STEP, now)]) // STEP
    counts: I64 = np.bincount(points - 1 - ago, minlength=points)[:points]
    return counts


def periodic_part(counts: I64) -> F64:
    """The mean and the strongest of the slow frequencies, never below 0."""
    spectrum = np.fft.rfft(counts)
    strength = np.abs(spectrum)
    slow = np.arange(len(spectrum)) * SHORTEST_PERIOD <= len(counts) * STEP
    strength[0], strength[~slow] = 0, 0
    kept = np.append(np.argsort(strength)[-FREQUENCIES:], 0)
    alone = np.zeros_like(spectrum)
    alone[kept] = spectrum[kept]
    return np.maximum(np.fft.irfft(alone, len(counts)), 0)


def distances(windows: F64, reference: F64, distance: str) -> F64:
    """How far each window (rows) is from the reference."""
    match distance:
        case "manhattan":
            found = np.abs(windows - reference).sum(axis=1)
        case "euclidean":
            found = np.sqrt(np.square(windows - reference).sum(axis=1))
        case "cosine":
            found = 1 - _alike(windows, reference)
        case "pearson":
            found = 1 - _alike(windows - windows.mean(axis=1, keepdims=True), reference - reference.mean())
        case _:
            raise RunError(f"there is no distance '{distance}'; {did_you_mean(distance, DISTANCES)}")
    return np.asarray(found, np.float64)


def _alike(windows: F64, reference: F64) -> F64:
    """The cosine of the angle to the reference; 0 where either has no direction."""
    lengths = np.linalg.norm(windows, axis=1) * np.linalg.norm(reference)
    found: F64 = np.divide(windows @ reference, lengths, out=np.zeros(len(windows)), where=lengths > 1e-12)
    return found


LAST_HOUR = HoursAgo("last-hour", 1)
PLAIN_RULES: tuple[ArrivalRule, ...] = (
    LAST_HOUR,
    HoursAgo("yesterday", HOURS_OF_DAY),
    HoursAgo("last-week", 7 * HOURS_OF_DAY),
    SeasonalMean(),
)
NEAREST_RULES = tuple(
    NearestHour(distance, periodic, after)
    for distance in DISTANCES
    for periodic in (True, False)
    for after in (False, True)
)
RULES: dict[str, ArrivalRule] = {rule.name: rule for rule in (*PLAIN_RULES, *NEAREST_RULES)}


def rule_named(name: str) -> ArrivalRule:
    """The rule of this name."""
    if name not in RULES:
        raise RunError(f"there is no generator '{name}'; {did_you_mean(name, ('auto', *RULES))}")
    return RULES[name]
