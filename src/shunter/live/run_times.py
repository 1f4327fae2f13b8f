"""How long jobs may yet run: draws from the run times of similar jobs, given how long they have run already."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from shunter.live.snapshot import LiveJob
from shunter.model import Trace
from shunter.seeding import rng
from shunter.texts import counted
from shunter.world import F64, I64

# Run time over limit of AAIC's 124,425 jobs (July to December 2018), at these levels: benchmarks/run_times.py makes
# the two tables from the trace.
LEVELS = (
    0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95,
    0.96, 0.97, 0.975, 0.98, 0.985, 0.99, 1,
)  # fmt: skip
OVER_LIMIT = (
    0, 0.000066, 0.00067, 0.0021, 0.011, 0.019, 0.025, 0.029, 0.034, 0.043, 0.062, 0.076, 0.1, 0.14, 0.16, 0.2, 0.25,
    0.3, 0.34, 0.38, 0.42, 0.46, 0.51, 0.56, 0.62, 0.79, 1, 1,
)  # fmt: skip
SECONDS = (
    0, 8, 30, 74, 281, 663, 911, 1080, 1230, 1410, 1680, 2080, 2660, 3240, 3870, 4780, 6690, 9620, 13800, 17900, 22900,
    36700, 39600, 41000, 43200, 61400, 108000, 1210000,
)  # fmt: skip
GRID = (np.arange(40) + 0.5) / 40
LAST = 300  # ended jobs of a group that count, the most recent: habits change
BROADER = 20.0  # weight of the broader group, in jobs
NONE_LEFT = 1e-9
Group: TypeAlias = tuple[str, ...]


class EndedJob(NamedTuple):
    """A job that has ended."""

    user: str
    name: str
    ran: float  # ms
    limit: float  # ms; 0: none


class Sample(NamedTuple):
    """What jobs of a group took, or have taken by now."""

    times: F64  # ms
    ratios: F64  # over their limits


class Curve(NamedTuple):
    """How long jobs run: times that occur (ms, sorted), and the share of jobs that have ended by then."""

    times: F64
    ended: F64

    def at(self, levels: F64) -> F64:
        """The times by which such shares have ended."""
        found = np.searchsorted(self.ended, levels, side="right")
        return self.times[np.minimum(found, len(self.times) - 1)]

    def by(self, time: float) -> float:
        """The share that has ended by a time."""
        place = int(np.searchsorted(self.times, time, side="right"))
        return float(self.ended[place - 1]) if place else 0.0


@dataclass(frozen=True)
class RunTimes:
    """How long jobs run: as in the site's history where there is one, else as AAIC's."""

    source: str = "run times over limits as in AAIC's trace, since no history of this site was given"
    groups: dict[Group, Sample] = field(default_factory=dict)
    running: dict[Group, Sample] = field(default_factory=dict)  # jobs that have not ended
    curves: dict[tuple[Group, int], Curve] = field(default_factory=dict, repr=False, compare=False)  # by group, limit

    @classmethod
    def of(cls, ended: Iterable[EndedJob], source: str) -> RunTimes:
        """Run times of a history, the last to end last."""
        seen = RecentJobs()
        for job in ended:
            seen.add(job)
        return seen.run_times(source)

    def beside(self, jobs: Iterable[LiveJob]) -> Self:
        """The same, given that such jobs run by now and have not ended: without them, long jobs would seem rare."""
        running = [EndedJob(job.user, job.name, job.ran, job.limit) for job in jobs if job.runs and self.groups]
        seen = RecentJobs(len(running))
        for job in running:
            seen.add(job)
        return replace(self, running=seen.samples(), curves={})

    def draws(self, jobs: Sequence[LiveJob], samples: int, seed: int) -> I64:
        """Total run times (ms, one row for each job) in a number of samples.

        Jobs of one user and name draw the same levels: they are long or short together.  Drawn each by itself,
        forecasts would be far too sure of themselves.
        """
        draw, known, even = rng(seed, "run times"), self.beside(jobs), np.arange(samples)
        levels = {
            key: (draw.permutation(even) + draw.random(samples)) / samples  # a Latin hypercube: few samples do
            for key in dict.fromkeys((job.user, job.name) for job in jobs)
        }
        times = [known.draw(job, levels[job.user, job.name]) for job in jobs]
        return np.maximum(np.ceil(np.array(times).reshape(len(jobs), samples)), 1).astype(np.int64)

    def draw(self, job: LiveJob, levels: F64) -> F64:
        """Total run times (ms) of a job at these levels, 0 to 1, given how long it has run."""
        if job.state == "COMPLETING":
            return np.full(len(levels), job.ran + 1.0)
        if job.hints.run_time_ms > job.ran:
            return np.full(len(levels), float(job.hints.run_time_ms))
        curve = self.curve(_groups(job.user, job.name, job.limit), job.limit)
        gone = curve.by(job.ran) if job.ran else 0.0
        if 1 - gone < NONE_LEFT:
            end = job.limit if job.limit > job.ran else 2 * job.ran  # a job that outlived all others may run for long
            return job.ran + levels * (end - job.ran)
        found = np.maximum(curve.at(gone + levels * (1 - gone)), max(job.ran, 1.0))
        return np.minimum(found, job.limit) if job.limit > job.ran else found

    def curve(self, groups: tuple[Group, ...], limit: int) -> Curve:
        """How long jobs of the first of these groups run that have this limit; the others are ever broader ones."""
        if not groups:
            times = np.interp(GRID, LEVELS, OVER_LIMIT) * limit if limit else 1000 * np.interp(GRID, LEVELS, SECONDS)
            return Curve(times, GRID + GRID[0])
        if (groups[0], limit) not in self.curves:
            broader = self.curve(groups[1:], limit)
            times, running = (self._times(of, groups[0], limit) for of in (self.groups, self.running))
            known = len(times) + len(running) > 0
            self.curves[groups[0], limit] = survival(times, running, broader) if known else broader
        return self.curves[groups[0], limit]

    def _times(self, of: dict[Group, Sample], group: Group, limit: int) -> F64:
        """A group's times; of jobs that are less alike, what they would be with this limit."""
        times, ratios = of.get(group, NOTHING)
        by_limit = group[0] in ("user", "all") and limit > 0 and len(self.groups.get(group, NOTHING).ratios) > 0
        return ratios * limit if by_limit else times


NOTHING = Sample(np.zeros(0), np.zeros(0))


def _groups(user: str, name: str, limit: float) -> tuple[Group, ...]:
    """The groups of which a job is one, nearest first."""
    named: tuple[Group, ...] = (("name", user, name),) if name else ()
    return (("kind", user, name, f"{limit:.0f}"), *named, ("user", user), ("all",))


class RecentJobs:
    """Ended jobs of a history that goes on: the last ones of each group."""

    def __init__(self, last: int = LAST) -> None:
        self.count = 0
        self._last = last
        self._members: dict[Group, deque[EndedJob]] = {}
        self._samples: dict[Group, Sample] = {}
        self._changed: set[Group] = set()

    def add(self, job: EndedJob) -> None:
        """A job has ended, after all others."""
        self.count += 1
        for group in _groups(job.user, job.name, job.limit):
            self._members.setdefault(group, deque(maxlen=self._last)).append(job)
            self._changed.add(group)

    def samples(self, asked: Iterable[LiveJob] | None = None) -> dict[Group, Sample]:
        """What the jobs of each group took, as of now; of all groups, or of those of the jobs that are asked for."""
        wanted: Collection[Group] = self._members
        if asked is not None:
            groups = {group for job in asked for group in _groups(job.user, job.name, job.limit)}
            wanted = [group for group in groups if group in self._members]
        for group in self._changed.intersection(wanted):
            self._samples[group] = _sample(self._members[group])
        self._changed.difference_update(wanted)
        return {group: self._samples[group] for group in wanted}

    def run_times(self, source: str, asked: Iterable[LiveJob] | None = None) -> RunTimes:
        """How long jobs run, as of now; ``source`` names the history.

        ``asked``: only the groups of these jobs are needed.  A history may have millions, too many for each question.
        """
        if not self.count:
            return RunTimes(f"{RunTimes().source.partition(',')[0]}, since {source} has no ended jobs")
        words = f"run times as of {counted(self.count, 'job')} in {source}, and AAIC's where these are few"
        return RunTimes(words, self.samples(asked))


def _sample(jobs: Collection[EndedJob]) -> Sample:
    ratios = [min(job.ran / job.limit, 1.0) for job in jobs if job.limit > 0]
    return Sample(np.array([job.ran for job in jobs], np.float64), np.array(ratios, np.float64))


def survival(ended: F64, running: F64, broader: Curve) -> Curve:
    """Kaplan and Meier's estimate (1958) from jobs that ended after such times and ones that run since such times.

    ``BROADER`` jobs of a broader group count beside them, so that few jobs say little.
    """
    times = np.concatenate((ended, broader.at(GRID), running))
    weights = np.repeat([1.0, BROADER / len(GRID), 1.0], [len(ended), len(GRID), len(running)])
    over = np.arange(len(times)) < len(ended) + len(GRID)
    order = np.lexsort((~over, times))
    times, weights, over = times[order], weights[order], over[order]
    left = np.cumsum(weights[::-1])[::-1]
    stays = np.cumprod(np.where(over, np.maximum(1 - weights / left, 0.0), 1.0))
    share = 1 - stays[over]
    return Curve(times[over], share / share[-1])  # jobs that outlive all others end with the last


# ------------------------------------------------------------------------------------------- histories


def of_trace(trace: Trace) -> RunTimes:
    """Samples of a history that was kept as a trace."""
    order = np.argsort(trace.submit + np.maximum(trace.recorded_wait, 0) + trace.duration, kind="stable")
    return RunTimes.of((ended(trace, row) for row in order.tolist()), trace.name)


def ended(trace: Trace, row: int) -> EndedJob:
    """A job of a history."""
    user, name = trace.user[row], trace.job_name[row]
    return EndedJob(
        trace.users[user] if user >= 0 else "",
        trace.job_names[name] if name >= 0 else "",
        float(trace.duration[row]),
        float(trace.limit[row]),
    )
