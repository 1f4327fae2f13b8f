"""2,000 jobs of every recorded trace: the engine, the slow reference and a job log say the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shunter
from shunter import traces
from shunter.model import GPU, Trace
from shunter.report.batsim import jobs_csv
from shunter.testing import job_log, reference
from shunter.testing.reference import RefJob, RefNode

JOBS = 2_000
RECORDED = {  # with as many nodes of 8 GPUs as keep jobs waiting
    "philly": ("philly/philly_jobs.csv.gz", 10),
    "helios": ("helios/venus_gpu_jobs.csv.gz", 40),
    "pai": ("pai/pai_tasks_sample.csv.gz", 24),
    "aaic": ("aaic/aaicwl-201807-201812.csv.gz", 12),
}
KEYS = {
    "fifo": lambda i, job, now, executed: job.submit,
    "saf": lambda i, job, now, executed: job.gpus * (job.estimate / 1000),
}


def jobs_of(data, name, count):
    """The first jobs that fit, with a limit of the next power of two of their run time."""
    file, nodes = RECORDED[name]
    found = traces.read(data / file, name)
    kept = np.flatnonzero((found.gpus <= nodes * 8 * GPU) & (found.gpus % GPU == 0))[:count]
    return found.select(kept)


def plain(trace):
    limit = [2 ** math.ceil(math.log2(max(run, 1))) for run in trace.duration.tolist()]
    same = {"submit": (trace.submit - trace.submit[0]).tolist(), "duration": trace.duration.tolist()}
    return Trace.of(trace.name, list(trace.job_id), **same, gpus=trace.gpus.tolist(), limit=limit)


def compared(data, name, order, count):
    nodes = RECORDED[name][1]
    jobs = plain(jobs_of(data, name, count))
    policy = f"{order}:estimate=limit,bound=0,backfill=easy,placement=tight"
    run = shunter.simulate(jobs, f"{nodes}x8", policy).kept
    columns = zip(jobs.submit.tolist(), jobs.duration.tolist(), jobs.gpus.tolist(), jobs.limit.tolist(), strict=True)
    slow = [RefJob(submit, duration, gpus // GPU, limit, limit=limit) for submit, duration, gpus, limit in columns]
    expected = reference.simulate(slow, [RefNode(8)] * nodes, KEYS[order], backfill="easy", placement="tight")
    assert reference.runs_of(run.events, len(slow)) == expected
    assert job_log.check(jobs_csv(run), 8 * nodes) == len(slow)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("order", KEYS)
@pytest.mark.parametrize("name", RECORDED)
def test_2000_jobs_of_a_recorded_trace(data, name, order):
    run = compared(data, name, order, JOBS)
    assert run.summary["finished"] == JOBS
    assert run.jobs["wait"].max() > 0  # else nothing was decided


@pytest.mark.parametrize("name", RECORDED)
def test_the_first_jobs_of_a_recorded_trace(data, name):
    compared(data, name, "saf", 150)
