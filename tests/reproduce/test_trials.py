"""Many runs, compared repeat by repeat."""

from __future__ import annotations

import numpy as np
import pytest

from shunter import simulation
from shunter.model import GPU, Trace
from shunter.reproduce.dally.standin import standin
from shunter.reproduce.numbers import WAITED_CLOSER, WAITED_FULL, waiting
from shunter.reproduce.trials import TrialCase, TrialExtras, TrialResult, Trials, run_cases, with_settings
from shunter.setup import set_up

CASE = TrialCase("batch", "dally-2rack", "fifo", "dally")
OTHER = TrialCase("batch", "dally-2rack", "lifo", "dally")


def made(**values):
    """Trials with these makespans, by policy."""
    cases = {TrialCase("batch", "c", policy, "n"): found for policy, found in values.items()}
    outcomes = {
        c: [TrialResult({"makespan_s": v}, np.array([]), None, "") for v in found] for c, found in cases.items()
    }
    return Trials(len(next(iter(values.values()))), 0, outcomes), list(cases)


def test_numbers_of_a_trial_are_those_of_the_summary():
    trace = standin("batch").select(np.arange(100))
    watch = TrialExtras(course=lambda case: case == OTHER)
    found = run_cases({"batch": trace}, [CASE, OTHER, CASE], 2, watch=watch, workers=1)
    assert list(found.outcomes) == [CASE, OTHER]
    for repeat, outcome in enumerate(found.outcomes[OTHER]):
        result = simulation.run(set_up(trace, CASE.cluster, network="dally"), "lifo", 0, repeat)
        summary, numbers = result.summary, outcome.numbers
        assert outcome.digest == result.digest
        assert sorted(outcome.jct) == sorted(result.jobs["jct"])
        for key in ("makespan_s", "utilization", "preemptions", "finished"):
            assert numbers[key] == pytest.approx(summary[key])
        for name in ("jct", "wait", "communication"):
            for point in ("mean", "p50", "p95", "p99"):
                assert numbers[f"{name}_{point}_s"] == summary[f"{name}_s"][point]
    first, second = found.outcomes[OTHER]
    assert (first.course.remaining[0], first.course.remaining[-1]) == (100, 0)
    assert 0.9 < first.course.busy.max() <= 1
    assert second.course is None
    assert found.outcomes[CASE][0].course is None
    assert found.table["repeat"].to_list() == [0, 1, 0, 1]
    assert first.digest != second.digest


def jobs_of(*rows):
    """A trace of (submission, run time, GPUs), in seconds."""
    submit, duration, gpus = (np.array(column) for column in zip(*rows, strict=True))
    names = [str(number) for number in range(len(rows))]
    return Trace.of("jobs", names, submit=submit * 1000, duration=duration * 1000, gpus=gpus * GPU)


def test_restarts_cost_what_the_case_says():
    """The lease of an hour ends once; the job goes on at once, 62 s later."""
    cases = [TrialCase("batch", "dally-2rack", "dally", restart=restart) for restart in (0.0, 62.0)]
    found = run_cases({"batch": jobs_of((0, 5000, 1))}, cases, 1, workers=1)
    assert [found.outcomes[case][0].numbers["jct_mean_s"] for case in cases] == [5000, 5062]


@pytest.mark.parametrize(
    ("jobs", "free", "closer"),
    [
        ([(0, 1000, 128), (0, 1000, 128)], 1.0, 0.0),  # all GPUs are taken
        ([(0, 5000, 1), (0, 100, 7)] * 16 + [(100, 1000, 8)], 0.0, 1.0),  # 7 are free on each machine
    ],
)
def test_what_jobs_waited_for(jobs, free, closer):
    case = TrialCase("batch", "dally-2rack", "dally")
    watch = TrialExtras(reasons=lambda case: True)
    found = run_cases({"batch": jobs_of(*jobs)}, [case], 1, watch=watch, workers=1, more=waiting)
    numbers = found.outcomes[case][0].numbers
    assert numbers["wait_mean_s"] > 0
    assert (numbers[WAITED_FULL], numbers[WAITED_CLOSER]) == (free, closer)
    unseen = run_cases({"batch": jobs_of(*jobs)}, [case], 1, workers=1, more=waiting)
    assert WAITED_FULL not in unseen.outcomes[case][0].numbers
    assert unseen.outcomes[case][0].digest == found.outcomes[case][0].digest


def test_a_case_that_always_takes_twice_as_long_is_surely_twice_as_long():
    """However much the repeats differ: what is compared is paired."""
    found, (slow, fast) = made(slow=[2.0, 20.0, 200.0, 2.0, 200.0], fast=[1.0, 10.0, 100.0, 1.0, 100.0])
    assert found.change(slow, fast, "makespan_s") == pytest.approx((1.0, 1.0, 1.0))
    alone = found.of(slow, "makespan_s")
    assert alone.value == pytest.approx(84.8)
    assert alone.low < 10
    assert alone.high > 150


def test_a_single_repeat_has_no_interval():
    found, (one, other) = made(one=[3.0], other=[4.0])
    change = found.change(one, other, "makespan_s")
    assert change.value == pytest.approx(-0.25)
    assert np.isnan([change.low, change.high]).all()


@pytest.mark.parametrize(
    ("policy", "settings", "text"),
    [
        ("fifo", {}, "fifo"),
        ("fifo:blocking=skip", {"placement": "spread"}, "fifo:blocking=skip,placement=spread"),
        ("fifo:blocking=skip", {"blocking": "strict"}, "fifo"),
        ("fifo", {"no_such_thing": 3}, "fifo"),
        ("dally:timers=manual", {"lease": 3600}, "dally:timers=manual"),
        ("dally", {"lease": 1200, "draw": "list"}, "dally:lease=1200"),
    ],
)
def test_settings_are_given_to_policies_that_have_them(policy, settings, text):
    assert with_settings(policy, settings) == text
