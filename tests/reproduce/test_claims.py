"""What becomes of a printed factor."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shunter.errors import RunError
from shunter.reproduce.board import Board, DataSet, Facts, case_of, check_data, is_oracle, marked
from shunter.reproduce.claims import Claim
from shunter.reproduce.trials import Outcome, Scheduler, Trials

SLOW, FAST = Scheduler("Slow", "fifo", 0), Scheduler("Fast", "sjf:estimate=oracle", 1, " (variant)")
SETS = {"here": DataSet("Here", (SLOW, FAST), "", "", ())}


def board(repeats=5, stands_in=False, **factors):
    """A board on which the slow one takes so many times as long, in all repeats, whatever their luck."""
    luck = np.linspace(1, 2, repeats)

    def outcomes(scale):
        return [
            Outcome({name: value**scale * one for name, value in factors.items()}, np.array([]), None, "")
            for one in luck
        ]

    trials = Trials(repeats, 0, {case_of("here", SLOW): outcomes(1), case_of("here", FAST): outcomes(0)})
    return Board(SETS, SLOW, trials, {"here": Facts(1, 2, None, {"v1": 3, "v2": 4})}, stands_in)


@pytest.mark.parametrize(
    ("ours", "direction", "size"),
    [
        (2.0, "yes", "yes"),
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
    assert (found.direction, found.size) == ("not clear", "yes")
    assert found.record["ours"] == {"value": pytest.approx(9.0), "low": None, "high": None}


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
