"""How long jobs may yet run: draws from what like jobs took, given that they have run so long already."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from shunter.model import Trace
from shunter.seeding import rng
from shunter.slurm.client import Client
from shunter.slurm.snapshot import Job
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
FINE = (np.arange(1000) + 0.5) / 1000
LIKE = {"name": 5, "user": 20, "all": 50}  # so many ended jobs make a sample: of the same user and name, user, anybody
LAST = 100  # so many of them, the last to end: habits change
LEFT = 3  # a running job that has outlived all but fewer of a sample is not like them
# Jobs of one user and name tend to run alike, long or short: so often in a hundred they draw the same level.  Without
# that, forecasts are far too sure of themselves, see docs/reference/slurm-asking.md.
ALIKE = 70
DAYS = 30  # of accounting that are read
ENDS = "CD,F,TO,OOM,NF"


class Ended(NamedTuple):
    """A job that has ended."""

    user: str
    name: str
    ran: float  # ms
    limit: float  # ms; 0: none


class Sample(NamedTuple):
    """What like jobs took, sorted."""

    times: F64  # ms
    ratios: F64  # over their limits


DEFAULT = Sample(1000 * np.interp(FINE, LEVELS, SECONDS), np.interp(FINE, LEVELS, OVER_LIMIT))


@dataclass(frozen=True)
class RunTimes:
    """Samples of run times: those of the site where it has a history, else AAIC's."""

    source: str = "run times over limits as in AAIC's trace, since no history of this site was given"
    groups: dict[tuple[str, ...], Sample] = field(default_factory=dict)

    @classmethod
    def of(cls, ended: Iterable[Ended], source: str) -> RunTimes:
        """Samples of a history, the last to end last: by user and name, by user, and of all."""
        members: dict[tuple[str, ...], list[Ended]] = {}
        for job in ended:
            for group in (("name", job.user, job.name), ("user", job.user), ("all",)):
                members.setdefault(group, []).append(job)
        groups = {group: _sample(jobs[-LAST:]) for group, jobs in members.items() if len(jobs) >= LIKE[group[0]]}
        count = len(members.get(("all",), ()))
        if not groups:
            return cls(f"{cls().source.partition(',')[0]}, since {source} has only {count} ended jobs")
        return cls(f"run times as of {count:,} jobs in {source}; AAIC's for whom there is none like", groups)

    def draws(self, jobs: Sequence[Job], samples: int, seed: int) -> I64:
        """Total run times (ms, one row for each job) in so many samples."""
        draw = rng(seed, "run times")
        own, alike = draw.random((2, len(jobs), samples))
        shared = {key: draw.random(samples) for key in dict.fromkeys((job.user, job.name) for job in jobs)}
        times = [
            self.draw(job, np.where(alike[row] < ALIKE / 100, shared[job.user, job.name], own[row]))
            for row, job in enumerate(jobs)
        ]
        return np.maximum(np.ceil(np.array(times).reshape(len(jobs), samples)), 1).astype(np.int64)

    def draw(self, job: Job, levels: F64) -> F64:
        """Total run times (ms) of a job at these levels, 0 to 1, given how long it has run."""
        if job.state == "COMPLETING":
            return np.full(len(levels), job.ran + 1.0)
        if job.told.run_time_ms > job.ran:
            return np.full(len(levels), float(job.told.run_time_ms))
        for sample, by_limit in self._samples(job):
            found = _beyond(sample.ratios * job.limit if by_limit else sample.times, job.ran, levels)
            if found is not None:
                return np.minimum(found, job.limit) if job.limit > job.ran else found
        end = job.limit if job.limit > job.ran else 2 * job.ran  # who has outlived all others may do so for long
        return job.ran + levels * (end - job.ran)

    def _samples(self, job: Job) -> Iterable[tuple[Sample, bool]]:
        """The samples that a job may be like, nearest first, and whether its limit tells more than their times do."""
        for group in (("name", job.user, job.name), ("user", job.user), ("all",)):
            if group in self.groups:
                yield self.groups[group], group[0] != "name" and job.limit > 0 and len(self.groups[group].ratios) > 0
        yield DEFAULT, job.limit > 0


def _sample(jobs: Sequence[Ended]) -> Sample:
    ratios = [min(job.ran / job.limit, 1.0) for job in jobs if job.limit > 0]
    return Sample(np.sort([job.ran for job in jobs]), np.sort(np.array(ratios, np.float64)))


def _beyond(times: F64, ran: float, levels: F64) -> F64 | None:
    """The sample's times that are longer than a job has run by now, at these levels; None if there are too few."""
    left = times[np.searchsorted(times, ran, side="right") :] if ran else times
    if len(left) < LEFT:
        return None
    return np.maximum(left[np.minimum((levels * len(left)).astype(np.int64), len(left) - 1)], 1.0)


# ------------------------------------------------------------------------------------------- histories


def of_trace(trace: Trace) -> RunTimes:
    """Samples of a history that was kept as a trace."""
    users, names = (*trace.users, ""), (*trace.job_names, "")
    order = np.argsort(trace.submit + np.maximum(trace.recorded_wait, 0) + trace.duration, kind="stable")
    columns = (trace.user, trace.job_name, trace.duration, trace.limit)
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    return RunTimes.of((Ended(users[user], names[name], ran, limit) for user, name, ran, limit in rows), trace.name)


def of_accounting(client: Client) -> RunTimes:
    """Samples of what slurmdbd knows of the last days."""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - DAYS * 86_400))
    columns = "End,User,ElapsedRaw,TimelimitRaw,JobName"  # the name last: it may hold anything
    text = client.run(
        "sacct", "--allusers", "--allocations", "--noheader", "--parsable2", f"--starttime={since}", "--endtime=now",
        f"--state={ENDS}", f"--format={columns}",
    )  # fmt: skip
    return RunTimes.of(_ended(text), f"the last {DAYS} days of accounting")


def _ended(text: str) -> Iterable[Ended]:
    for line in sorted(text.splitlines()):  # by their ends
        _, user, ran, limit, name = (*line.split("|", 4), "", "", "", "")[:5]
        if ran.isdigit():
            yield Ended(user, name, 1000.0 * int(ran), 60_000.0 * int(limit) if limit.isdigit() else 0.0)
