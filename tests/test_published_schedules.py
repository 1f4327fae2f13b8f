"""Schedules that independent simulators agree on, and large jobs of a real trace against the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import shunter
from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.model import Trace
from shunter.sim import Simulator
from shunter.testing import reference

# policy, mean JCT, mean wait, makespan: seconds, exact to the millisecond
ROWS = [
    ("fifo:placement=count", 16257.883, 2590.842, 2176232),
    ("fifo", 16530.172, 2863.131, 2176232),
    ("fifo:placement=first-fit", 16530.340, 2863.299, 2176232),
    ("fifo:blocking=skip,placement=count", 16141.133, 2474.092, 2176232),
    ("fifo:blocking=skip", 16144.464, 2477.423, 2176232),
    ("sjf:estimate=oracle", 15936.698, 2269.657, 2176232),
    ("sjf:estimate=oracle,blocking=skip", 15888.527, 2221.486, 2176232),
]


@pytest.mark.parametrize(("policy", "jct", "wait", "makespan"), ROWS)
def test_the_seven_exact_rows(data: Path, policy: str, jct: float, wait: float, makespan: float) -> None:
    summary = shunter.simulate(data / "reference" / "philly_1000.csv", "32x8", policy).summary
    assert summary["jct_s"]["mean"] == pytest.approx(jct, abs=5e-7)
    assert summary["wait_s"]["mean"] == pytest.approx(wait, abs=5e-7)
    assert summary["makespan_s"] == makespan


def test_srtf_is_near_the_one_source_there_is(data: Path) -> None:
    """Tiresias' simulator: 14161.542 s and 384 preemptions, tie rules unknown; ours differs by two preemptions."""
    policy = "srtf:estimate=oracle,placement=count,blocking=skip"
    summary = shunter.simulate(data / "reference" / "philly_1000.csv", "32x8", policy, overhead=0).summary
    assert summary["jct_s"]["mean"] == pytest.approx(14161.542, rel=1e-4)
    assert abs(summary["preemptions"] - 384) <= 4


@pytest.fixture(scope="module")
def around_large_jobs(data: Path) -> list[reference.RefJob]:
    """500 consecutive jobs of the Philly file, chosen so that many want more GPUs than a node has."""
    frame = pl.read_csv(data / "philly" / "philly_jobs.csv.gz", try_parse_dates=True).sort("timestamp")
    large = (frame["num_gpus"] > 8).to_numpy().astype(int)
    first = int(np.argmax(np.convolve(large, np.ones(500, int), mode="valid")))
    part = frame[first : first + 500]
    submit = (part["timestamp"].dt.epoch("s") - part["timestamp"].dt.epoch("s").min()).to_list()
    durations, gpus = part["duration"].cast(pl.Int64).to_list(), part["num_gpus"].to_list()
    return [reference.RefJob(s, d, g, d) for s, d, g in zip(submit, durations, gpus, strict=True)]


@pytest.mark.parametrize("blocking", ["strict", "skip"])
@pytest.mark.parametrize("placement", ["consolidate", "first-fit", "spread"])
def test_jobs_larger_than_a_node(around_large_jobs: list[reference.RefJob], blocking: str, placement: str) -> None:
    jobs = around_large_jobs
    assert sum(job.gpus > 8 for job in jobs) > 15
    expected = reference.simulate(
        jobs,
        [reference.RefNode(8)] * 6,
        lambda index, job, now, executed: job.submit,
        blocking=blocking,  # type: ignore[arg-type]
        placement=placement,  # type: ignore[arg-type]
    )
    assert sum(runs[0].start > job.submit for runs, job in zip(expected, jobs, strict=True)) > len(jobs) / 2
    trace = Trace.of(
        "philly",
        [str(i) for i in range(len(jobs))],
        submit=[job.submit * 1000 for job in jobs],
        duration=[job.duration * 1000 for job in jobs],
        gpus=[job.gpus * 1000 for job in jobs],
    )
    simulator = Simulator(trace, Cluster("part", (NodeGroup(6, 8),)))
    simulator.run(registry.policy(f"fifo:blocking={blocking},placement={placement}"))
    assert (simulator.world.jobs[w.STARTED] // 1000).tolist() == [runs[0].start for runs in expected]
    assert (simulator.world.jobs[w.ENDED_AT] // 1000).tolist() == [runs[0].end for runs in expected]
