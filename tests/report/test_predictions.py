"""What a policy tells of a run beside its schedule: predicted run times, who shared GPUs, who was profiled."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import shunter
from shunter import run_folder
from shunter import world as w
from shunter.capabilities import Explains, Wraps
from shunter.model import Trace
from shunter.report.insights import insights
from shunter.report.prediction_error import foresight
from shunter.report.terminal.tables import summary_view

TIMES = st.lists(st.tuples(st.integers(1000, 10**9), st.integers(1000, 10**9)), min_size=2, max_size=40)
JOBS = "synthetic:jobs=120,seed=2,gpus=16,load=1.2"


def small(limits):
    """Jobs of one GPU, one after the other."""
    jobs = len(limits)
    return Trace.of(
        "small", [f"j{i}" for i in range(jobs)], submit=[0] * jobs, duration=[60_000] * jobs, gpus=[1000] * jobs,
        limit=limits,
    )  # fmt: skip


def printed(summary):
    console = Console(width=100)
    with console.capture() as captured:
        console.print(summary_view(summary))
    return captured.get()


# ------------------------------------------------------------------------------------------- how good they are


def slow_rank(values, value):
    """The mean place of a value in the order, counted one by one."""
    return sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2


@given(TIMES)
def test_predictions_are_judged_as_by_hand(pairs):
    predicted, actual = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    found = foresight(predicted, actual)
    errors = [math.log(a / b) for a, b in pairs]
    assert found["mean_abs_log_error"] == pytest.approx(sum(map(abs, errors)) / len(pairs))
    assert found["bias"] == pytest.approx(sum(errors) / len(pairs))
    ranks = [[slow_rank(column, value) for value in column] for column in zip(*pairs, strict=True)]
    if len(set(ranks[0])) == 1 or len(set(ranks[1])) == 1:
        assert found["rank_correlation"] is None
    else:
        assert found["rank_correlation"] == pytest.approx(np.corrcoef(*ranks)[0, 1])


@given(TIMES, st.integers(1, 50))
def test_estimates_that_are_all_longer_by_a_factor_keep_their_order(pairs, factor):
    predicted, actual = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    before, after = foresight(predicted, actual), foresight(predicted * factor, actual)
    assert after["bias"] == pytest.approx(before["bias"] + math.log(factor), abs=1e-9)
    assert after["rank_correlation"] == before["rank_correlation"]


def test_nothing_is_said_of_no_predictions():
    none = np.zeros(0, np.int64)
    assert foresight(none, none) == {"jobs": 0, "mean_abs_log_error": None, "rank_correlation": None, "bias": None}


# ------------------------------------------------------------------------------------------- whose they are


def test_the_limit_is_the_prediction_of_policies_that_use_it():
    result = shunter.simulate(small([120_000, 30_000, 240_000]), "1x1", "sjf:estimate=limit")
    assert result.jobs["predicted"].to_list() == [120.0, 30.0, 240.0]
    assert result.jobs["actual"].to_list() == [60.0, 60.0, 60.0]
    errors = [math.log(2), math.log(0.5), math.log(4)]
    told = result.summary["prediction"]
    assert (told["model"], told["jobs"], told["rank_correlation"]) == ("limit", 3, None)
    assert told["mean_abs_log_error"] == pytest.approx(sum(map(abs, errors)) / 3)
    assert told["bias"] == pytest.approx(sum(errors) / 3)


@pytest.mark.parametrize("policy", ["fifo", "sjf:estimate=oracle", "sjf:estimate=noisy", "las"])
def test_a_policy_without_estimates_or_with_the_truth_is_not_judged(policy):
    result = shunter.simulate(JOBS, "4x4", policy)
    assert not {"prediction", "sharing"} & set(result.summary)
    assert not {"predicted", "actual", "profiled", "workload", "slowdown"} & set(result.jobs.columns)
    assert result.kept.pairs is None


@pytest.mark.parametrize("policy", ["fifo:backfill=easy,estimate=history", "qssf:estimate=rolling"])
def test_estimates_of_a_queue_are_reported(policy):
    result = shunter.simulate(JOBS, "4x4", policy)
    assert result.jobs["predicted"].null_count() == 0
    assert result.summary["prediction"]["jobs"] == 120
    assert result.summary["prediction"]["model"] == policy.rpartition("=")[2]
    assert "run times expected" in printed(result.summary)


def test_a_policy_that_schedules_by_another_reports_what_that_one_reports():
    class Inner(Explains):
        def predictions(self, memory):
            return memory

    class Outer(Wraps):
        inner = Inner()

        def inner_memory(self, memory):
            return memory.inner

        def start_around(self, cluster, inner):
            return SimpleNamespace(inner=inner)

    expected = np.array([5, 0, 7])
    assert insights(Outer(), SimpleNamespace(inner=expected), None, 3).predicted is expected


# ------------------------------------------------------------------------------------------- who shared


def test_a_profiled_job_was_stopped_or_ended_there(packed):
    sharing, table = packed.insights.sharing, packed.table
    stopped, there = table[w.PREEMPTIONS] > 0, sharing.ended_there
    assert there.any()
    assert not (there & stopped).any()
    assert (sharing.profiled == (there | stopped)).all()
    assert (table[w.ATTEMPTS, there] == 1).all()
    assert table[w.EXECUTED, there].max() <= 200_000
    told = packed.summary["sharing"]
    assert (told["profiled"], told["ended_in_profiler"]) == (sharing.profiled.sum(), there.sum())
    assert told["share"] == sharing.profiled.sum() / len(packed.trace)


def test_pairs_are_on_the_same_nodes_at_that_time(packed):
    rows, events = packed.insights.sharing.rows, packed.events
    assert len(rows) > 10
    for time, job, partner in rows.tolist():
        starts = {
            who: events[(events[:, 1] == w.START) & (events[:, 2] == who) & (events[:, 0] <= time)]
            for who in (job, partner)
        }
        last = {who: own[own[:, 0] == own[-1, 0]] for who, own in starts.items()}
        assert last[job][0, 0] == time
        assert set(last[job][:, 3].tolist()) == set(last[partner][:, 3].tolist())


def test_only_jobs_that_shared_were_slowed_and_not_below_the_measured_speed(packed):
    jobs, pairs = packed.jobs, packed.insights.pairs
    slowdown, shared = jobs["slowdown"].to_numpy(), np.zeros(len(jobs), bool)
    shared[[*pairs["job"], *pairs["partner"]]] = True
    np.testing.assert_allclose(slowdown[~shared], 1.0, atol=1e-3)
    slowest = np.ones(len(jobs))
    np.minimum.at(slowest, pairs["job"].to_numpy(), pairs["speed"].to_numpy())
    np.minimum.at(slowest, pairs["partner"].to_numpy(), pairs["partner_speed"].to_numpy())
    assert (slowdown <= 1 / slowest + 1e-3).all()
    assert slowdown[shared].max() > 1.01
    told = packed.summary["sharing"]
    assert (told["pairs"], told["packed_jobs"]) == (len(pairs), shared.sum())
    assert told["mean_slowdown"] == pytest.approx(slowdown[shared].mean())


def test_pairs_name_the_workloads_of_their_jobs(packed):
    jobs, pairs = packed.jobs, packed.insights.pairs
    assert pairs["workload"].to_list() == jobs["workload"][pairs["job"]].to_list()
    assert pairs["partner_workload"].to_list() == jobs["workload"][pairs["partner"]].to_list()
    assert (pairs["score"] + pairs["partner_score"]).max() <= 2
    assert pairs["score"].min() >= 0


def test_jobs_that_ended_in_the_profiler_were_never_estimated(packed):
    there = packed.insights.sharing.ended_there
    assert (packed.jobs["predicted"].is_null().to_numpy() == there).all()
    assert packed.summary["prediction"]["jobs"] == (~there).sum()


def test_a_folder_keeps_pairs_and_columns(packed, tmp_path):
    again = run_folder.load(packed.save(tmp_path / "run"))
    assert again.pairs.equals(packed.insights.pairs)
    assert again.jobs.equals(packed.kept.jobs)
    assert again.summary == packed.summary


def test_the_summary_shows_it_in_lines_that_fit(packed):
    text = printed(packed.summary)
    told = packed.summary["sharing"]
    assert f"{told['packed_jobs']} jobs in {told['pairs']} pairs, {told['mean_slowdown']:.2f}x as long" in text
    assert f"{told['profiled']} jobs (" in text
    assert f"{told['ended_in_profiler']} ended there" in text


def test_without_profiler_and_packing_nothing_is_shared():
    result = shunter.simulate(JOBS, "4x4", "lucid:profiling=off,packing=off,estimate=none")
    told = result.summary["sharing"]
    assert (told["pairs"], told["profiled"], told["mean_slowdown"]) == (0, 0, None)
    assert "prediction" not in result.summary
