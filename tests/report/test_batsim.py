"""Batsim's layout of jobs."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

import numpy as np
import pytest

import shunter
from shunter.model import GPU, Trace
from shunter.report.batsim import COLUMNS, intervals, jobs_csv


def rows_of(run):
    return list(csv.DictReader(io.StringIO(jobs_csv(run))))


def test_a_run_worked_out_by_hand():
    trace = Trace.of("t", ["a", "b", "c"], submit=[5_000, 6_000, 7_000], duration=[10_000, 10_000, 2_500],
                     gpus=[3 * GPU, 2 * GPU, GPU], user=[0, -1, 0], users=("ann",))  # fmt: skip
    rows = rows_of(shunter.simulate(trace, "2x2", "fifo").kept)
    assert tuple(rows[0]) == COLUMNS
    assert [row["job_id"] for row in rows] == ["a", "b", "c"]
    assert [row["submission_time"] for row in rows] == ["0.000", "1.000", "2.000"]
    assert [row["starting_time"] for row in rows] == ["0.000", "10.000", "10.000"]
    assert [row["finish_time"] for row in rows] == ["10.000", "20.000", "12.500"]
    assert [row["waiting_time"] for row in rows] == ["0.000", "9.000", "8.000"]
    assert [row["allocated_resources"] for row in rows] == ["0-2", "0-1", "2"]
    assert [row["profile"] for row in rows] == ["ann", "none", "ann"]
    assert {row["final_state"] for row in rows} == {"COMPLETED_SUCCESSFULLY"}
    assert float(rows[2]["stretch"]) == pytest.approx(10.5 / 2.5)


@pytest.mark.parametrize("policy", ["fifo", "srtf:estimate=oracle"])
def test_no_gpu_is_given_twice(policy):
    run = shunter.simulate("synthetic:jobs=300,gpus=16,load=1.2", "2x8", policy).kept
    rows = [row for row, stopped in zip(rows_of(run), run.jobs["preemptions"], strict=True) if not stopped]
    spans: dict[int, list[tuple[float, float]]] = {gpu: [] for gpu in range(16)}
    for row in rows:
        for part in row["allocated_resources"].split():
            low, _, high = part.partition("-")
            for gpu in range(int(low), int(high or low) + 1):
                spans[gpu].append((float(row["starting_time"]), float(row["finish_time"])))
    for of_gpu in spans.values():
        assert all(end <= begin + 1e-9 for (_, end), (begin, _) in pairwise(sorted(of_gpu)))


def test_shares_of_a_gpu():
    trace = Trace.of("t", ["a", "b", "c"], submit=[0, 0, 0], duration=np.full(3, 1000), gpus=[500, 600, 400])
    rows = rows_of(shunter.simulate(trace, "1x2", "fifo").kept)
    assert [row["allocated_resources"] for row in rows] == ["0", "1", "0"]


@pytest.mark.parametrize(("numbers", "text"), [([], ""), ([4], "4"), ([3, 1, 2, 7], "1-3 7")])
def test_intervals(numbers, text):
    assert intervals(numbers) == text
