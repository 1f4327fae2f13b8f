"""Slack over time: worked out by hand, and against a slow walk through the log."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shunter import world as w
from shunter.model import GPU, Trace
from shunter.report.html.report import report
from shunter.report.slack import levels, slack, with_deadlines
from shunter.reproduce.qoredl.design import TESTBEDS, workload
from shunter.simulation import simulate


def two() -> Trace:
    """On one GPU: the second waits for a minute and ends half a minute late."""
    return Trace.of(
        "t", ["a", "b"], submit=[0, 0], duration=[60_000, 60_000], gpus=[GPU] * 2, deadline=[100_000, 90_000]
    )


def test_slack_falls_while_a_job_waits_and_ends_as_how_early_it_was():
    run = simulate(two(), "1x1", "fifo").kept
    found = slack(run, with_deadlines(run), np.array([0.0, 30.0, 59.0, 60.0, 119.0, 120.0]))
    assert found[0, :3].tolist() == [40, 40, 40]  # it runs at once
    assert np.isnan(found[0, 3:]).all()
    assert found[1].tolist()[:5] == [30, 0, -29, -30, -30]
    assert np.isnan(found[1, 5])
    assert levels(found, (0.5,))[0, :2].tolist() == [35, 20]
    assert np.isnan(levels(found, (0.5,))[0, 5])


def slow_slack(run, row: int, at: float) -> float:
    """To the deadline, less the seconds on GPUs from then on: second by second through the log."""
    about = run.jobs.row(row, named=True)
    left, begun = 0.0, None
    for time, kind, job, *_ in run.events.tolist():
        if job == row and kind == w.START and begun is None:
            begun = time / 1000
        if job == row and kind in (w.FINISH, w.FAIL, w.PREEMPT):
            left += max(time / 1000 - max(begun, at), 0)
            begun = None
    return about["submit"] + about["deadline"] - at - left


def test_jobs_that_are_stopped_and_resized_agree_with_a_slow_walk():
    bed = TESTBEDS["gpu"]
    jobs = workload(bed, 1.6, seed=1, jobs=25)
    run = simulate(dataclasses.replace(jobs, user=np.arange(25) % 2, users=("ann", "bob")), bed.cluster, "elastic").kept
    assert run.summary["deadlines"]["moves_per_job"] > 0
    rows = with_deadlines(run)
    times = np.linspace(0, float(run.jobs["end"].max()), 23)
    found = slack(run, rows, times)
    for at, row in enumerate(rows):
        for when, value in zip(times, found[at], strict=True):
            if np.isfinite(value):
                assert value == pytest.approx(slow_slack(run, int(row), when), abs=1e-6)
    page = report([run, run], [run.summary | {"difference": None}] * 2)
    assert "Slack of unfinished jobs, tightest tenth" in page
    assert "Deadlines met by user" in page
    assert "Slack" not in report([simulate("synthetic:jobs=5,gpus=8", "1x8", "fifo").kept])
