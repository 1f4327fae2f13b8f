"""Settings searched one parameter after the other."""

from __future__ import annotations

import pytest

from shunter.errors import PolicyError
from shunter.tuning.search import grid_of, search


def test_a_later_parameter_is_tried_with_the_best_of_those_before():
    asked = []

    def evaluate(policies):
        asked.append(list(policies))
        return [0.0 if "estimate=oracle" in policy else 1.0 for policy in policies]

    best = search("sjf", {"estimate": ["oracle", "history"], "blocking": ["skip", "strict"]}, evaluate)
    assert asked == [
        ["sjf"],
        ["sjf", "sjf:estimate=oracle", "sjf:estimate=history"],
        ["sjf:estimate=oracle", "sjf:estimate=oracle,blocking=skip"],
    ]
    assert best == "sjf:estimate=oracle"  # of equals, the one that was there


def test_the_policy_as_given_stays_if_no_value_is_better():
    """Also where its own value is not among those that are tried; the next parameter is tried with it."""
    values = {"sjf:estimate=oracle": 2.0, "sjf:estimate=oracle,blocking=skip": 1.0}
    tried = {"estimate": ["history"], "blocking": ["skip"]}
    best = search("sjf:estimate=oracle", tried, lambda policies: [values.get(policy, 9.0) for policy in policies])
    assert best == "sjf:estimate=oracle,blocking=skip"


def test_values_to_try_are_read_from_texts():
    assert grid_of("lucid", ["ratio=1/2", "capacity=2/3"]) == {"ratio": ["1", "2"], "capacity": ["2", "3"]}


@pytest.mark.parametrize(
    ("policy", "wanted", "why"),
    [
        ("lucid", ("profile_tim=3",), "did you mean 'profile_time'"),
        ("lucid", ("profile_time",), "must be KEY=VALUE/VALUE"),
        ("lucid", ("capacity=9",), "must be 0 .. 4"),
        ("lucid", ("ratio=1", "ratio=2"), "'ratio' was named before"),
    ],
)
def test_what_can_not_be_tried(policy, wanted, why):
    with pytest.raises(PolicyError, match=why):
        grid_of(policy, wanted)
