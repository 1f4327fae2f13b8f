"""Every corner of a declared space ends within the stated budget of decisions, where stops are dear and jobs queue."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from shunter import registry
from shunter.adapting.abandoning import AHEAD, most_decisions
from shunter.setup import Setup, set_up
from shunter.simulation import Draw, simulator_for
from shunter.tuning.spaces import choosable, space_of

SEARCHED = [name for name in (*choosable(), "lucid") if space_of(name).dimensions]


@pytest.fixture(scope="module")
def overloaded() -> Setup:
    return set_up("synthetic:jobs=60,gpus=8,load=4", "2x4", overhead="0,62")


def corners(policy: str) -> list[str]:
    """Every number at one of its ends, with every combination of categories."""
    space = space_of(policy)
    ends = [(np.arange(count) + 0.5) / count if count else (0.0, 1.0) for count in space.categories]
    return list(dict.fromkeys(text for end in itertools.product(*ends) if (text := space.text(np.array(end)))))


@pytest.mark.parametrize("policy", SEARCHED)
def test_every_corner_ends_within_the_budget(policy: str, overloaded: Setup) -> None:
    budget = most_decisions(len(overloaded.trace), AHEAD)
    for text in corners(policy):
        made = registry.policy(text)
        simulator = simulator_for(Draw(overloaded, 0), made)[0]
        simulator.run(made, budget=budget)
        assert simulator.over, text
        assert not simulator.exhausted, text


def test_what_needs_more_is_cut_off_at_the_budget(overloaded: Setup) -> None:
    """The same run with a budget that is too small makes exactly as many decisions."""
    policy = registry.policy("themis:lease=120")
    ended = set()
    for compiled in (True, False):
        simulator = simulator_for(Draw(overloaded, 0), policy)[0]
        simulator.run(policy, budget=700, compiled=compiled)
        assert simulator.exhausted
        assert not simulator.over
        ended.add(simulator.now)
    assert len(ended) == 1


def test_what_may_stop_jobs_is_among_them() -> None:
    assert {"gittins", "las", "srsf", "themis", "tiresias", "lucid"} <= set(SEARCHED)
    assert len(corners("tiresias")) == 3 * 4 * 3 * 2  # orders; limits none, least, most, both; starve off and ends
