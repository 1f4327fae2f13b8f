"""The numbers of a run, on tables small enough to work out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from growth import FAR_BELOW_QUADRATIC, growth
from shunter import world as w
from shunter.model import Trace
from shunter.report.metrics import bounded_slowdown, fairness, spread, summary
from shunter.report.replay import replay


def run_one_after_another(count=3, gpus=1000, **columns):
    """``count`` jobs of 60 s on one node of 2 GPUs, each started when the one before has ended."""
    trace = Trace.of(
        "t", [str(i) for i in range(count)], submit=np.zeros(count), duration=np.full(count, 60_000),
        gpus=np.full(count, gpus), **columns,
    )  # fmt: skip
    table = np.zeros((w.JOB_COLUMNS, count), np.int64)
    table[w.STATE] = w.DONE
    table[w.EXECUTED] = 60_000
    table[w.WAITED] = np.arange(count) * 60_000
    table[w.ENDED_AT] = table[w.WAITED] + 60_000
    rows = [(0, w.ARRIVE, job, 0, 0) for job in range(count)]
    for job in range(count):
        rows += [(job * 60_000, w.START, job, 0, gpus), ((job + 1) * 60_000, w.FINISH, job, 0, 0)]
    return trace, table, replay(np.array(sorted(rows, key=lambda r: r[0])), np.array([2]), count)


def test_a_run_worked_out_by_hand():
    trace, table, course = run_one_after_another()
    found = summary(trace, table, course, gpus=2)
    assert found["jct_s"] == {"mean": 120.0, "p50": 120.0, "p90": 168.0, "p95": 174.0, "p99": 178.8, "max": 180.0}
    assert found["wait_s"]["mean"] == 60.0
    assert found["bsld"]["mean"] == pytest.approx(2.0)
    assert (found["makespan_s"], found["utilization"], found["gpu_hours"]) == (180.0, 0.5, 0.05)
    assert found["fragmentation"] == 1.0  # while jobs wait, the one free GPU is always on a partly used node
    assert found["by_size"]["1"]["jobs"] == 3
    assert found["fairness"]["over"] == "jobs"


def test_jobs_that_did_not_finish_do_not_count():
    trace, table, course = run_one_after_another()
    table[w.STATE, 2] = w.FAILED
    found = summary(trace, table, course, gpus=2)
    assert (found["jobs"], found["finished"], found["jct_s"]["max"], found["makespan_s"]) == (3, 2, 120.0, 180.0)


def test_nothing_finished_is_all_zeros():
    trace, table, course = run_one_after_another()
    table[w.STATE] = w.PENDING
    found = summary(trace, table, course, gpus=2)
    assert (found["finished"], found["jct_s"]["p99"], found["makespan_s"], found["utilization"]) == (0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("gpus", "size"),
    [(0.25, "1"), (1, "1"), (1.5, "2-4"), (4, "2-4"), (5, "5-8"), (8, "5-8"), (9, "9-16"), (32, "17-32"), (33, "33+")],
)
def test_the_bins_of_sizes(gpus, size):
    found = summary(*run_one_after_another(gpus=round(gpus * 1000)), gpus=2)["by_size"]
    assert {name: group["jobs"] for name, group in found.items() if group["jobs"]} == {size: 3}
    assert list(found) == ["1", "2-4", "5-8", "9-16", "17-32", "33+"]


def test_virtual_clusters_apart():
    found = summary(*run_one_after_another(vc=[1, 0, 1], vcs=("a", "b", "unused")), gpus=2)["by_vc"]
    assert {name: (group["jobs"], group["jct_s"]["mean"]) for name, group in found.items()} == {
        "a": (1, 120.0),
        "b": (2, 120.0),
    }


def test_fairness_over_users_is_of_their_means():
    users = fairness(np.array([1.0, 3.0, 6.0]), np.array([0, 0, 1]), ("ann", "bob", "idle"))
    assert users == {"jain": pytest.approx(8**2 / (2 * (4 + 36))), "over": "users", "count": 2, "worst_bsld": 6.0}


@pytest.mark.parametrize(
    ("wait", "run", "slowdown"), [(0, 1, 1.0), (5, 5, 1.0), (20, 5, 2.5), (100, 100, 2.0), (0, 0, 1.0)]
)
def test_bounded_slowdown(wait, run, slowdown):
    table = np.zeros((w.JOB_COLUMNS, 1), np.int64)
    table[w.WAITED], table[w.EXECUTED] = wait * 1000, run * 1000
    assert bounded_slowdown(table)[0] == slowdown


def test_means_are_exact_sums():
    values = np.full(1_000_000, 1_700_000_000_001)
    values[0] += 1_000_000
    assert spread(values, 1000)["mean"] == 1_700_000_000_002 / 1000


def test_a_summary_takes_as_long_as_there_are_jobs():
    def run(jobs):
        return run_one_after_another(jobs, vc=np.arange(jobs) % 14, vcs=tuple("abcdefghijklmn"))

    assert growth(lambda made: summary(*made, gpus=2), run(10_000), run(160_000)) < FAR_BELOW_QUADRATIC


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_percentiles_are_those_of_numpy_to_the_last_bit(kind):
    random = np.random.default_rng(3)
    for jobs in range(1, 400, 7):
        values = (random.lognormal(8, 4, jobs) * 1000).astype(kind)
        found, percents = spread(values), (50, 90, 95, 99)
        assert [found[f"p{percent}"] for percent in percents] == np.percentile(values, percents).tolist()
