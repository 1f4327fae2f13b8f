"""Which policies are better, and how sure that is."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import RunError
from shunter.sweeps.analysis import pareto, rank, seeds_needed, settings_of, sign_flip, sound
from shunter.sweeps.store import frame_of


def runs_of(values, measure="jct_s.mean", load=1.0, trace="t"):
    """A table of runs from {policy: [value per seed]}."""
    return [
        {"key": f"{trace}{load}{policy}{seed}", "trace": trace, "window": "", "cluster": "c", "load": load,
         "network": "", "overhead": "usual", "policy": policy, "seed": seed, measure: value, "settings": "{}"}
        for policy, some in values.items()
        for seed, value in enumerate(some)
    ]  # fmt: skip


def test_the_best_comes_first_and_sure_differences_are_called_so():
    noise = np.random.default_rng(1).normal(0, 10, 10)
    noise -= noise.mean()
    found = rank(frame_of(runs_of({"bad": 2000 + 3 * noise, "good": 1000 + noise, "alike": 1001 - noise})))
    assert [row.policy for row in found.rows] == ["good", "alike", "bad"]
    assert found.rows[2].chance < 0.05 < found.rows[1].chance
    assert found.rows[2].low < found.rows[2].relative < found.rows[2].high
    assert found.verdict == "good is best in jct_s.mean; no difference is shown to alike."


def test_few_seeds_can_not_show_a_difference_however_large():
    found = rank(frame_of(runs_of({"a": [1.0, 1.0, 1.0], "b": [9.0, 9.0, 9.0]})))
    assert found.seeds_needed == 6
    assert "3 seeds can't show" in found.verdict
    assert found.rows[1].chance == 0.25


def test_more_policies_need_more_seeds():
    values = {f"p{number}": [float(number)] * 3 for number in range(12)}
    assert rank(frame_of(runs_of(values))).seeds_needed == 12 == seeds_needed(12)


def test_of_utilization_more_is_better():
    found = rank(frame_of(runs_of({"low": [0.5], "high": [0.9]}, "utilization")), "utilization")
    assert [row.policy for row in found.rows] == ["high", "low"]


def test_places_without_waits_are_counted_in_the_verdict():
    idle = runs_of({"a": [0.0] * 6, "b": [0.9] * 6}, "wait_s.mean", trace="quiet")
    busy = runs_of({"a": [10.0] * 6, "b": [20.0] * 6}, "wait_s.mean", trace="busy")
    found = rank(frame_of(idle + busy), "wait_s.mean")
    assert "At 1 of 2 places all are below a second and count as equal." in found.verdict
    assert "below a second" not in rank(frame_of(busy), "wait_s.mean").verdict
    shares = runs_of({"a": [0.1] * 6, "b": [0.2] * 6}, "utilization")
    assert "below a second" not in rank(frame_of(shares), "utilization").verdict


def test_a_place_counts_once_whatever_its_size():
    """At one place all waits are a thousand times as long; the other one counts as much."""
    large = runs_of({"a": [1000.0], "b": [1100.0]}, trace="large")
    small = runs_of({"a": [2.0], "b": [1.0]}, trace="small")
    found = rank(frame_of(large + small))
    assert [row.policy for row in found.rows] == ["b", "a"]
    assert [row.best_at for row in found.rows] == [1, 1]


def test_only_shared_runs_count():
    """The policy that lacks the hard place must not look better for it."""
    easy = runs_of({"a": [1.0] * 6, "b": [1.5] * 6}, load=0.5)
    hard = runs_of({"a": [10.0] * 6}, load=1.5)
    found = rank(frame_of(easy + hard))
    assert (found.places, found.left_out) == (1, 6)
    assert found.rows[0].value == 1.0
    with pytest.raises(RunError, match="at no place do all policies"):
        rank(frame_of(runs_of({"a": [1.0]}, load=0.5) + runs_of({"b": [1.0]}, load=1.5)))


def test_failed_runs_do_not_count_and_unknown_measures_are_refused():
    rows = runs_of({"a": [1.0, 1.0], "b": [2.0, 2.0]})
    rows[3] |= {"error": "it broke", "jct_s.mean": None}
    assert rank(frame_of(rows)).seeds == 1
    with pytest.raises(RunError, match=r"did you mean jct_s.mean"):
        rank(frame_of(rows), "jct_s.meen")


@given(st.lists(st.integers(-10, 10), min_size=1, max_size=7))
def test_sign_flips_are_counted_exactly(differences):
    """Against the definition, pattern by pattern."""
    patterns = [
        abs(sum(sign * each for sign, each in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    wanted = np.mean([pattern >= abs(sum(differences)) for pattern in patterns])
    assert sign_flip(np.array(differences, np.float64)) == pytest.approx(wanted)


def test_under_no_difference_few_are_called_different():
    """Of 400 draws without any difference, about one in twenty has p <= 0.05."""
    draws = np.random.default_rng(7).normal(size=(400, 10))
    called = np.mean([sign_flip(each) <= 0.05 for each in draws])
    assert 0.02 <= called <= 0.08


def drawn_at_random(policies, seeds, number):
    """A ranking of policies that are all equal, but for chance."""
    values = np.random.default_rng(number).lognormal(size=(policies, seeds))
    return rank(frame_of(runs_of({f"p{at}": own for at, own in enumerate(values)})))


def test_equal_policies_are_seldom_called_different():
    """The best is chosen by the same runs, and still at most one ranking in twenty calls any difference."""
    called = [min(row.chance for row in drawn_at_random(10, 12, number).rows[1:]) <= 0.05 for number in range(150)]
    assert np.mean(called) <= 0.08


def test_intervals_of_equal_policies_mostly_hold_one():
    """Of two policies, whichever comes out best."""
    rows = [drawn_at_random(2, 8, number).rows[1] for number in range(300)]
    held = np.mean([row.low <= 1 <= row.high for row in rows])
    assert 0.8 <= held <= 0.99


def test_a_policy_does_not_change_how_two_others_compare():
    values = {"a": [100.0] * 6, "b": [110.0] * 6}
    elsewhere = {"a": [2.0] * 6, "b": [1.0] * 6}
    alone = rank(frame_of(runs_of(values, trace="x") + runs_of(elsewhere, trace="y")))
    awful = {"c": [1e6] * 6}
    beside = rank(frame_of(runs_of(values | awful, trace="x") + runs_of(elsewhere | awful, trace="y")))
    assert [row.policy for row in alone.rows] == [row.policy for row in beside.rows if row.policy != "c"]
    assert alone.rows[1].relative == pytest.approx(beside.rows[1].relative)
    assert alone.rows[1].relative == pytest.approx(alone.rows[1].value / alone.rows[0].value)


def test_many_policies_are_not_tested():
    found = rank(frame_of(runs_of({f"p{number}": [1.0 + number] * 6 for number in range(50)})))
    assert "50 policies are too many for a test" in found.verdict
    assert np.isnan(found.rows[1].chance)


def test_moved_arrivals_say_nothing_about_other_jobs():
    rows = runs_of({"a": [1.0] * 6, "b": [2.0] * 6})
    assert "other jobs may say the opposite" not in rank(frame_of(rows)).verdict
    assert "other jobs may say the opposite" in rank(frame_of([row | {"varies": "arrivals"} for row in rows])).verdict


def test_files_that_changed_under_one_name_are_two_places():
    old, new = runs_of({"fifo": [4.0] * 6}), runs_of({"las": [2.0] * 6})
    rows = [row | {"input": "old"} for row in old] + [row | {"input": "new"} for row in new]
    with pytest.raises(RunError, match="at no place do all policies"):
        rank(frame_of(rows))


def test_failures_are_named_beside_the_verdict():
    rows = runs_of({"a": [1.0] * 7, "b": [2.0] * 7, "never": [1.0] * 7})
    for row in rows:
        if row["policy"] == "never" or (row["policy"] == "a" and row["seed"] == 6):
            row |= {"error": "it broke", "jct_s.mean": None}
    found = rank(frame_of(rows))
    assert (found.left_out, found.unranked, found.failed) == (1, ("never",), ("a",))
    assert "Not ranked, because every run failed: never." in found.verdict
    assert "Runs of a failed" in found.verdict


def test_of_a_measure_of_ones_own_it_is_not_known_what_is_better():
    found = rank(frame_of(runs_of({"a": [1.0] * 6, "b": [2.0] * 6}, "measures.met")), "measures.met")
    assert found.verdict == "a has the smallest measures.met; each other policy is shown to be larger."


def test_rows_that_say_nothing_are_left_out():
    rows = runs_of({"a": [1.0]})
    odd = [rows[0] | {"policy": None}, rows[0] | {"load": float("nan")}, rows[0] | {"seed": None}]
    assert sound(frame_of(rows + odd)).height == 1


def test_the_front_has_whoever_is_not_beaten_in_all_measures():
    rows = []
    for policy, wait, tail in (("quick", 1.0, 9.0), ("even", 3.0, 3.0), ("bad", 3.5, 9.5)):
        rows += [row | {"wait_s.p99": tail} for row in runs_of({policy: [wait]}, "wait_s.mean")]
    found = pareto(frame_of(rows), ["wait_s.mean", "wait_s.p99"])
    assert dict(found.select("policy", "front").iter_rows()) == {"quick": True, "even": True, "bad": False}


def test_parameters_that_vary_become_columns():
    rows = runs_of({"saf:depth=5": [1.0], "saf": [2.0], "fifo": [3.0]})
    for row, text in zip(rows, ('{"depth": "5", "x": "a"}', '{"depth": "100", "x": "a"}', "{}"), strict=True):
        row["settings"] = text
    found = settings_of(frame_of(rows), "saf")
    assert found["set.depth"].to_list() == [5.0, 100.0]
    assert found.schema["set.depth"] == pl.Float64
    assert "set.x" not in found.columns


@pytest.mark.parametrize("text", ["[1, 2]", "no JSON", "[" * 100_000, '{"depth": {"a": 1}}'])
def test_settings_of_others_may_be_anything(text):
    rows = runs_of({"saf:depth=5": [1.0], "saf": [2.0]})
    rows[0]["settings"], rows[1]["settings"] = '{"depth": "5"}', text
    assert settings_of(frame_of(rows), "saf").height == 2


def test_numbers_of_others_may_be_anything():
    rows = runs_of({"a": [1.0, 2.0], "b": [float("nan"), float("inf")], "c": [3.0, 4.0]})
    assert [row.policy for row in rank(frame_of(rows)).rows] == ["a", "c"]
