"""The benchmark itself, at tiny sizes: it fills every row, and the loops that it compares with are right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from benchmarks import measures, peers  # noqa: E402
from benchmarks.against import TimedRun, compared  # noqa: E402
from benchmarks.measures import Row  # noqa: E402


@pytest.fixture(scope="module")
def told():
    environment = {**os.environ, "SHUNTER_DATA": str(ROOT / "nowhere")}
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_it_says_what_it_was_measured_on(told):
    assert "synthetic trace" in told["about"]
    assert told["quick"] is True


@pytest.mark.parametrize(
    "what",
    [
        "static",
        "varies",
        "preemptive",
        "turns",
        "resizes",
        "shares GPUs",
        "--decisions",
        "plain Python",
        "growth",
        "memory",
        "reading",
        "the next hour in an excerpt",
        "search of an hour",
        "network",
        "large cluster",
        "predictors",
        "correctness",
    ],
)
def test_every_line_of_the_table_has_a_row_with_an_aim(told, what):
    rows = [row for row in told["rows"] if row["what"].startswith(what)]
    assert rows
    assert all(row["measured"] > 0 and row["aim"] for row in rows)


@pytest.mark.parametrize("policy", ["las", "tiresias", "dally", "gandiva"])
def test_policies_that_stop_jobs_are_measured(told, policy):
    (row,) = [row for row in told["rows"] if row["what"] == f"preemptive: {policy}"]
    assert row["aim"] == 20_000


def test_lucid_is_measured_with_its_model_and_without(told):
    pytest.importorskip("interpret.glassbox")
    found = [row["what"].partition(": ")[2] for row in told["rows"] if row["what"].startswith("shares GPUs")]
    assert found == measures.LUCID


def test_the_peers_give_the_same_schedule(told):
    verdicts = [row["verdict"] for row in told["rows"] if row["what"].startswith("peer")]
    assert len(verdicts) == 3
    assert all("same mean JCT" in verdict for verdict in verdicts)


def test_the_sample_equals_the_reference(told):
    (row,) = [row for row in told["rows"] if row["what"] == "correctness"]
    assert row["met"]


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (Row("a", "", 90, "jobs/s", 100), "falls short by 10 %"),
        (Row("a", "", 110, "jobs/s", 100), "met"),
        (Row("a", "", 33, "s", 30, at_most=True), "is 10 % above"),
        (Row("a", "", 30, "s", 30, at_most=True), "met"),
        (Row("a", "", 5, "jobs/s", remark="slow"), "slow"),
    ],
)
def test_the_verdict_says_by_how_much(row, verdict):
    assert row.verdict == verdict


def test_the_loops_by_hand():
    # one node of 2: B wants both GPUs and waits for A; C may pass it only where skipping is allowed
    jobs = [(0, 3, 1), (0, 4, 2), (1, 5, 1)]
    assert peers.event_loop(jobs, 1, 2, skip=False) == peers.tick_loop(jobs, 1, 2) == [3, 7, 12]
    assert peers.event_loop(jobs, 1, 2, skip=True) == [3, 10, 6]


def test_a_job_larger_than_a_node_takes_idle_nodes():
    assert peers.place([8, 3, 8, 8], 8, 12) == [(0, 8), (2, 4)]
    assert peers.place([8, 3, 5], 8, 16) is None


@pytest.mark.parametrize(("events", "digest", "ratio", "median"), [(100, "a", 1.25, 1.5), (50, "b", 2.5, 3.0)])
def test_a_checkout_is_compared_by_its_least_time_and_per_event_if_the_events_differ(events, digest, ratio, median):
    ours = [TimedRun(cpu, 100, "a") for cpu in (4.0, 2.0, 2.0)]
    theirs = [TimedRun(cpu, events, digest) for cpu in (2.5, 3.0, 4.0)]
    found = compared("fifo", ours, theirs, 10)
    assert (found.same, found.ratio, found.median) == (digest == "a", ratio, median)
