"""When jobs would be done, from a history alone: waits and run times of similar jobs, calibrated by past answers.

No queue is known.  Waits are those of the last jobs that started: of the same virtual cluster and size, else of the
same size, else of all.  What is forecast so of each past job is compared with when it ended, and later forecasts are
read at the levels that held.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from shunter.errors import LiveError
from shunter.live.end_forecast import EndForecast
from shunter.live.moments import started
from shunter.live.run_times import RecentJobs, ended
from shunter.live.snapshot import LiveJob
from shunter.model import GPU, Trace
from shunter.report.terminal.tables import duration
from shunter.seeding import rng
from shunter.world import F64, I64

LAST = 100  # starts whose waits count
FEWEST = 10  # below which a broader group is used
RANKED = 1000  # past ends that calibrate
FEWEST_RANKED = 200
LEVELS = (np.arange(40) + 0.5) / 40
END, RUN = range(2)
SIZES = (1, 2, 4, 8)  # GPUs; jobs between two of them wait alike


class WantedJob(NamedTuple):
    """A job as far as its end depends on it."""

    user: str
    name: str
    gpus: int
    vc: str
    limit: int  # ms; 0: none

    @property
    def job(self) -> LiveJob:
        """The same as a waiting job."""
        return LiveJob("", "", "PENDING", user=self.user, name=self.name, gpus=self.gpus, limit=self.limit)


class PastEnds:
    """Walks through a history: what is known at each instant of waits, run times and past forecasts."""

    def __init__(self, trace: Trace) -> None:
        if not (trace.recorded_wait >= 0).any():
            raise LiveError(
                f"history '{trace.name}' has no recorded waits; add the column recorded_wait (seconds), or use a"
                " history that has them, such as a 'sacct -P' listing"
            )
        self.trace, self._starts = trace, started(trace)
        self._ends = self._starts + np.maximum(trace.duration, 1)
        self._by_start, self._by_end = (np.argsort(each, kind="stable") for each in (self._starts, self._ends))
        self._started = self._ended = 0
        self._waits: dict[tuple[str, ...], deque[float]] = {}
        self._seen = RecentJobs()
        self._asked: dict[int, tuple[float, float]] = {}  # ranks of end and run time of jobs that have not ended yet
        self._ranks: deque[tuple[float, float]] = deque(maxlen=RANKED)
        self._drawn = rng(0, "ranks among equals")

    def until(self, now: int) -> None:
        """Learn what was known at an instant, which must not be before the previous one."""
        while self._started < len(self._by_start) and self._starts[row := int(self._by_start[self._started])] <= now:
            wait = float(max(self.trace.recorded_wait[row], 0))
            for key in _groups(self._wanted(row)):
                self._waits.setdefault(key, deque(maxlen=LAST)).append(wait)
            self._started += 1
        while self._ended < len(self._by_end) and self._ends[row := int(self._by_end[self._ended])] <= now:
            self._seen.add(ended(self.trace, row))
            if row in self._asked:
                self._ranks.append(self._asked.pop(row))
            self._ended += 1

    def ask(self, row: int) -> EndForecast:
        """The forecast for a job of the history at its submission; its end calibrates later ones."""
        self.until(int(self.trace.submit[row]))
        found = self.forecast(self._wanted(row), int(self.trace.submit[row]))
        if not found.because:
            drawn = self._drawn.random()
            self._asked[row] = (
                _rank(found.ends, self._ends[row], drawn),
                _rank(found.runs, self.trace.duration[row], drawn),
            )
        return found

    def forecast(self, wanted: WantedJob, now: int) -> EndForecast:
        """When a job would be done that is submitted now."""
        waits = next(
            (np.array(known) for known in map(self._waits.get, _groups(wanted)) if known and len(known) >= FEWEST), None
        )
        if waits is None:
            few = f"fewer than {FEWEST} jobs of '{self.trace.name}' have started"
            return EndForecast(now, np.zeros(0, np.int64), np.zeros(0), because=(few,))
        times = self._seen.run_times(self.trace.name, (wanted.job,))
        starts: I64 = now + waits.astype(np.int64)
        past = self.ranks()
        said = (
            times.source,
            f"it waits like the last {len(waits)} similar jobs of the history ({_waited(waits)}); the queue of"
            " today is not known",
            "how long it runs does not depend on when it starts",
            "not calibrated: the history is too short"
            if past is None
            else f"calibrated by {len(past):,} past forecasts: before that, {100 * np.mean(past <= 0.9):.0f} % of those"
            " jobs were done by their time for 90 %",
        )
        return EndForecast(now, starts, times.draw(wanted.job, LEVELS), said, past=past)

    def ranks(self, of: int = END) -> F64 | None:
        """Ranks of past ends, or run times, in what was forecast of them; None: they are too few."""
        return np.array(self._ranks)[:, of] if len(self._ranks) >= FEWEST_RANKED else None

    def end_of(self, row: int) -> int:
        """When a job of the history ended (ms)."""
        return int(self._ends[row])

    @property
    def last_end(self) -> int:
        """When the last job of the history ended (ms)."""
        return int(self._ends.max())

    @property
    def most_gpus(self) -> int:
        """GPUs of the largest job of the history."""
        return max(int(self.trace.gpus.max()) // GPU, 1)

    def _wanted(self, row: int) -> WantedJob:
        trace = self.trace
        user, name, vc = trace.user[row], trace.job_name[row], trace.vc[row]
        return WantedJob(
            trace.users[user] if user >= 0 else "",
            trace.job_names[name] if name >= 0 else "",
            max(int(trace.gpus[row]) // GPU, 1),
            trace.vcs[vc] if vc >= 0 else "",
            int(trace.limit[row]),
        )

    def job(self, job_id: str) -> WantedJob:
        """What a job of the history asked for."""
        found = np.flatnonzero(np.asarray(self.trace.job_id) == job_id)
        if not len(found):
            raise LiveError(f"history '{self.trace.name}' has no job {job_id}; describe the job with --gpus and --user")
        return self._wanted(int(found[-1]))


def _rank(forecast: F64, actual: float, among_equals: float) -> float:
    """The share of a forecast, sorted, that is shorter, and a part of what is as long.

    That part is drawn. Where many times are equal, a fixed one would make all past jobs seem early, or late.
    """
    shorter, no_longer = (int(np.searchsorted(forecast, actual, side=side)) for side in ("left", "right"))
    return (shorter + among_equals * (no_longer - shorter)) / len(forecast)


def _waited(waits: I64) -> str:
    """How long half, nine in ten and all of them waited; of those that did not wait, only the largest share."""
    shares = (("half of them", 0.5), ("nine in ten", 0.9), ("all", 1.0))
    found = [(name, float(np.quantile(waits, level)) / 1000) for name, level in shares]
    if not waits.any():
        return "none of them waited"
    at_once = [f"{name} not at all" for name, wait_s in found if wait_s <= 0]
    return ", ".join([*at_once[-1:], *(f"{name} up to {duration(wait_s)}" for name, wait_s in found if wait_s > 0)])


def _groups(wanted: WantedJob) -> tuple[tuple[str, ...], ...]:
    size = str(sum(wanted.gpus > each for each in SIZES))
    return (("vc", wanted.vc, size), ("size", size), ("all",))


def replayed(trace: Trace, most: int = 2 * RANKED, seed: int = 0) -> PastEnds:
    """A whole history, with questions about some of its last jobs, so that what is forecast now is calibrated."""
    walk = PastEnds(trace)
    last = np.arange(max(len(trace) - 4 * most, 0), len(trace))
    for row in np.sort(rng(seed, "past ends").choice(last, min(most, len(last)), replace=False)).tolist():
        walk.ask(row)
    walk.until(int(np.iinfo(np.int64).max))
    return walk


def held(walk: PastEnds, rows: I64, levels: tuple[float, ...]) -> F64:
    """For each of these jobs, whether it ended by the times that were forecast at the levels; NaN: no forecast."""
    found = np.full((len(rows), len(levels)), np.nan)
    for at, row in enumerate(rows.tolist()):
        forecast = walk.ask(row)
        if forecast.because:
            continue
        for column, level in enumerate(levels):
            end = forecast.at(level)
            found[at, column] = end is None or walk.end_of(row) <= end
    return found
