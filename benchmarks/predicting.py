"""Learned estimates: how long fitting takes, and estimating."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.measures import Row, Size, best_of
from shunter import extras
from shunter.model import Trace
from shunter.predictors import features as f
from shunter.predictors.evaluating import everything
from shunter.predictors.fitted import estimates
from shunter.predictors.models import model
from shunter.seeding import rng

ASKED = 10_000
USERS, KINDS = 200, 4


def habits(jobs: int) -> Trace:
    """A made-up year of users who each have some kinds of jobs, requests included."""
    draw = rng(0, "habits")
    user, kind = draw.zipf(1.5, jobs) % USERS, draw.integers(0, KINDS, jobs)
    typical = draw.uniform(3, 11, (USERS, KINDS))[user, kind]
    return Trace.of(
        "habits",
        [str(job) for job in range(jobs)],
        submit=1_530_000_000_000 + np.cumsum(draw.exponential(300_000, jobs)).astype(np.int64),
        duration=(1000 * np.exp(typical + draw.normal(0, 1, jobs))).astype(np.int64),
        gpus=1000 * 2 ** draw.integers(0, 4, (USERS, KINDS))[user, kind],
        user=user,
        limit=3_600_000 * 4 ** draw.integers(0, 4, (USERS, KINDS))[user, kind],
        recorded_wait=draw.exponential(600_000, jobs).astype(np.int64),
        users=tuple(map(str, range(USERS))),
    )


def predictors(size: Size) -> Iterator[Row]:
    """Fitting on as many cores as there are, features included; estimating on one."""
    for name, library in (("gbm", "lightgbm"), ("ebm", "interpret.glassbox")):
        if not extras.is_there(library):
            continue
        trace, kind = habits(size.learned), model(name)
        everything(trace.select(np.arange(200)), kind)  # has the kernels compiled
        wall, cpu = time.perf_counter(), time.process_time()
        jobs = everything(trace, kind)
        fitted = kind.fit(jobs)
        taken = time.perf_counter() - wall
        remark = f"{time.process_time() - cpu:.0f} s of CPU"
        yield Row(f"predictors: fit {name}", f"seconds for {size.learned:,} jobs", taken, "s", 60, True, remark)
        some = np.ascontiguousarray(f.stream(trace)[:ASKED])
        estimates(fitted, some[:1])
        took = best_of(size.repeats, lambda fitted=fitted, some=some: estimates(fitted, some))  # type: ignore[misc]
        what, measure = f"predictors: estimate by {name}", f"seconds for {len(some):,} jobs"
        yield Row(what, measure, took.wall, "s", 0.5, True, took.remark)
