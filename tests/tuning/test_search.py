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
        ["sjf:estimate=oracle", "sjf:estimate=history"],
        ["sjf:estimate=oracle,blocking=skip", "sjf:estimate=oracle"],
    ]
    assert best == "sjf:estimate=oracle,blocking=skip"  # the first of equals


def test_a_policy_may_say_what_is_worth_trying():
    assert set(grid_of("lucid", ())) == {"profile_time", "profile_nodes", "profile_gpus", "capacity", "certainty"}
    assert grid_of("lucid", ["ratio=1/2"]) == {"ratio": ["1", "2"]}


@pytest.mark.parametrize(
    ("policy", "wanted", "why"),
    [
        ("fifo", (), "declares no values to try"),
        ("lucid", ("profile_tim=3",), "did you mean 'profile_time'"),
        ("lucid", ("profile_time",), "must be KEY=VALUE/VALUE"),
        ("lucid", ("capacity=9",), "must be 0 .. 4"),
    ],
)
def test_what_can_not_be_tried(policy, wanted, why):
    with pytest.raises(PolicyError, match=why):
        grid_of(policy, wanted)
