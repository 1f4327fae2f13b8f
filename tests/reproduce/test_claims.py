"""What becomes of a printed factor."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from shunter.errors import RunError
from shunter.report.bootstrap import Estimate
from shunter.reproduce.board import Board, DataSet, Facts, case_of, check_data, is_oracle, marked
from shunter.reproduce.claims import Claim, place
from shunter.reproduce.qssf.experiment import EXPERIMENT
from shunter.reproduce.sheets import overview
from shunter.reproduce.study import Part, Study
from shunter.reproduce.trials import Scheduler, TrialResult, Trials

SLOW, FAST = Scheduler("Slow", "fifo", 0), Scheduler("Fast", "sjf:estimate=oracle", 1, " (variant)")
SETS = {"here": DataSet("Here", (SLOW, FAST), "", "", ())}


def board(repeats=5, stands_in=False, **factors):
    """A board on which the slow one takes so many times as long, in all repeats, whatever their luck."""
    luck = np.linspace(1, 2, repeats)

    def outcomes(scale):
        return [
            TrialResult({name: value**scale * one for name, value in factors.items()}, np.array([]), None, "")
            for one in luck
        ]

    trials = Trials(repeats, 0, {case_of("here", SLOW): outcomes(1), case_of("here", FAST): outcomes(0)})
    return Board(SETS, SLOW, trials, {"here": Facts(1, 2, None, {"v1": 3, "v2": 4})}, stands_in)


@pytest.mark.parametrize(
    ("ours", "direction", "size"),
    [
        (2.0, "yes", "yes"),
        (2.19, "yes", "yes"),
        (2.21, "yes", "larger"),
        (1.5, "yes", "smaller"),
        (3.0, "yes", "larger"),
        (0.5, "no", "smaller"),
        (1.0, "not clear", "smaller"),
    ],
)
def test_a_factor_of_two(ours, direction, size):
    claim = Claim("here", "jct_mean_s", SLOW, FAST, 2.0, source="Table 1")
    (found,) = board(jct_mean_s=ours).findings([claim])
    assert (found.direction, found.size, claim.printed) == (direction, size, "2.00×")
    assert found.ours.value == pytest.approx(ours)
    assert found.record["printed"] == 2.0
    assert found.record["ours"]["low"] == pytest.approx(ours)


def test_one_run_settles_nothing():
    (found,) = board(repeats=1, jct_mean_s=9.0).findings([Claim("here", "jct_mean_s", SLOW, FAST, 2.0)])
    assert (found.direction, found.size) == ("not clear", "not clear")
    assert found.record["ours"] == {"value": pytest.approx(9.0), "low": None, "high": None}


@pytest.mark.parametrize(
    ("low", "high", "where"),
    [
        (1.9, 2.1, "inside"),
        (1.5, 2.5, "not clear"),  # it merely overlaps, however near its middle is
        (1.0, 9.0, "not clear"),
        (2.1, 2.3, "not clear"),
        (2.3, 2.9, "above"),
        (1.2, 1.7, "below"),
    ],
)
def test_an_interval_that_merely_overlaps_is_no_reproduction(low, high, where):
    assert place(Estimate((low + high) / 2, low, high), 2.0, 2.0) == where


def test_a_range_is_widened_by_the_tolerance_alone():
    assert place(Estimate(1.5, 0.91, 2.19), 1.0, 2.0) == "inside"
    assert place(Estimate(1.5, 0.91, 2.21), 1.0, 2.0) == "not clear"
    assert place(Estimate(1.0, 0.95, 1.05), 0.9, 1.1, tolerance=1.0) == "inside"
    assert place(Estimate(1.22, 1.09, 1.38), 0.9, 1.1, tolerance=1.0) == "not clear"


@pytest.mark.parametrize(
    ("repeats", "says"),
    [
        (5, "Of 1 printed factor, 1 come out in direction, 1 of them also in size."),
        (4, "No printed factor is counted: that takes 5 repeats at least, for intervals."),
    ],
)
def test_a_quick_look_counts_nothing(repeats, says):
    claimed = replace(EXPERIMENT, claims=[Claim("here", "jct_mean_s", SLOW, FAST, 2.0)])
    found = Study(claimed, Part(("here",), repeats), board(repeats=repeats, jct_mean_s=2.0), None)
    assert says in "".join(overview(found, []))


def test_a_claim_without_a_number_has_a_direction_alone():
    (found,) = board(jct_mean_s=1.5).findings([Claim("here", "jct_mean_s", SLOW, FAST)])
    assert (found.claim.printed, found.direction, found.size) == ("above 1×", "yes", "-")
    assert found.record["printed"] is None
    assert math.isnan(found.claim.factor)


def test_claims_about_a_virtual_cluster_go_by_its_numbers():
    claim = Claim("here", "wait_mean_s", SLOW, FAST, 3.0, "v1")
    (found,) = board(**{"v1 wait_mean_s": 3.0}).findings([claim])
    assert (claim.text, found.size) == ("mean queueing delay in v1, Slow over Fast", "yes")


def test_claims_about_other_jobs_or_schedulers_are_left_out():
    claim = Claim("here", "jct_mean_s", SLOW, FAST, 2.0)
    elsewhere = Claim("there", "jct_mean_s", SLOW, FAST, 2.0)
    other = Claim("here", "jct_mean_s", SLOW, Scheduler("Other", "lifo", 2), 2.0)
    assert len(board(jct_mean_s=2.0).findings([claim, elsewhere, other])) == 1
    assert board(jct_mean_s=2.0, stands_in=True).findings([claim]) == []
    assert board(wait_mean_s=2.0).findings([claim]) == []


def test_a_scheduler_may_run_on_a_variant_and_oracles_are_marked():
    assert case_of("here", FAST).workload == "here (variant)"
    assert case_of("here", SLOW).workload == "here"
    assert (marked(SLOW), marked(FAST)) == ("Slow", "Fast*")
    assert is_oracle("qssf:estimate=noisy")
    assert not is_oracle("qssf")


def test_rows_for_scripts_have_what_there_is():
    made = board(**{"jct_mean_s": 2.0, "wait_mean_s": 4.0, "v2 jct_mean_s": 2.0, "v2 wait_mean_s": 2.0})
    slow, fast = made.rows(("jct_mean_s", "predicted r2"))
    assert (slow["scheduler"], slow["oracle"], fast["oracle"]) == ("Slow", False, True)
    assert "predicted r2" not in slow
    assert fast["slow_over_wait_mean_s"]["value"] == pytest.approx(4.0)
    assert list(fast["by_vc"]) == ["v2"]


def test_data_sets_are_taken_in_their_order():
    known = dict.fromkeys(("one", "two", "three"), SETS["here"])
    assert check_data((), known) == ("one", "two", "three")
    assert check_data(("three", "one"), known) == ("one", "three")
    with pytest.raises(RunError, match="there is no data set 'tow'; did you mean 'two'"):
        check_data(("tow",), known)
