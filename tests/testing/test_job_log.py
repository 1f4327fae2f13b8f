"""The check of job logs finds what can't be, and nothing else."""

from __future__ import annotations

import pytest

import shunter
from shunter.report.batsim import COLUMNS, jobs_csv
from shunter.testing.job_log import check

GOOD = {
    "job_id": "a", "submission_time": "1.000", "requested_number_of_resources": "2", "starting_time": "3.000",
    "execution_time": "4.000", "finish_time": "7.000", "waiting_time": "2.000", "turnaround_time": "6.000",
    "allocated_resources": "0-1",
}  # fmt: skip


def log(*rows):
    lines = [",".join(COLUMNS), *(",".join(row.get(name, "") for name in COLUMNS) for row in rows)]
    return "\n".join(lines) + "\n"


def test_a_possible_log_passes():
    after = {**GOOD, "job_id": "b", "starting_time": "7.000", "waiting_time": "6.000", "finish_time": "11.000"}
    assert check(log(GOOD, {**after, "turnaround_time": "10.000"}), 2) == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"starting_time": "0.500"}, "starts before it is submitted"),
        ({"waiting_time": "1.000"}, "its wait is not"),
        ({"execution_time": "5.000"}, "its run time is not"),
        ({"turnaround_time": "5.000"}, "its turnaround is not"),
        ({"allocated_resources": "0"}, "holds other GPUs than asked"),
        ({"allocated_resources": "1-2"}, "that the cluster lacks"),
    ],
)
def test_what_cannot_be_is_named(changes, says):
    with pytest.raises(AssertionError, match=says):
        check(log({**GOOD, **changes}), 2)


def test_two_jobs_on_one_gpu_are_found_unless_one_was_stopped():
    other = {**GOOD, "job_id": "b"}
    with pytest.raises(AssertionError, match="jobs a and b hold GPU 0"):
        check(log(GOOD, other), 2)
    assert check(log(GOOD, other), 2, stopped={"b"}) == 1


def test_our_own_log_passes():
    run = shunter.simulate("synthetic:jobs=300,gpus=16,load=1.2", "2x8", "fifo").kept
    assert check(jobs_csv(run), 16) == 300
