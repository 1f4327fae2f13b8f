"""Settings tried one by one on the past."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.comparison import compare_setup
from shunter.errors import PolicyError
from shunter.setup import set_up
from shunter.tune.search import grid_of, tune

SCENE = "synthetic:jobs=150,gpus=16,load=1.4", "2x8"


def test_the_best_is_the_best_of_what_was_tried():
    setup = set_up(*SCENE)
    tried = tune(setup, "dally", {"lease": ["300", "3600"], "timers": ["none", "auto"]})
    assert len({each.policy for each in tried}) == len(tried) >= 3
    assert [each.value for each in tried] == sorted(each.value for each in tried)
    again = compare_setup(setup, [tried[0].policy]).policies[0]
    assert again["jct_s"]["mean"] == tried[0].value


def test_a_later_parameter_is_tried_with_the_best_of_those_before():
    tried = tune(set_up(*SCENE), "sjf", {"estimate": ["oracle", "history"], "blocking": ["strict", "skip"]})
    first = min((each for each in tried if "blocking" not in each.policy), key=lambda each: each.value)
    assert any(each.policy.startswith(first.policy) and "blocking=skip" in each.policy for each in tried)


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


def test_on_the_command_line():
    arguments = ["tune", SCENE[0], "-c", SCENE[1], "-p", "sjf", "--try", "blocking=strict/skip", "--json"]
    found = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert found["best"] in {each["policy"] for each in found["tried"]} == {"sjf", "sjf:blocking=skip"}


def test_an_unknown_objective_is_refused():
    result = CliRunner().invoke(app, ["tune", SCENE[0], "-c", SCENE[1], "-p", "lucid", "--objective", "jet"])
    assert result.exit_code == 2
    assert "did you mean 'jct'" in result.stderr
