"""Every corner of a declared space ends within the stated budget of decisions, where stops are dear and jobs queue."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from shunter import registry
from shunter.adapting.abandoning import AHEAD, most_decisions
from shunter.seeding import rng
from shunter.setup import Setup, set_up
from shunter.simulation import Draw, simulator_for
from shunter.tuning.spaces import choosable, space_of

MOST_CORNERS = 32
SEARCHED = [name for name in (*choosable(), "lucid") if len(space_of(name).categories) > 2]  # these may stop jobs


@pytest.fixture(scope="module")
def overloaded() -> Setup:
    return set_up("synthetic:jobs=60,gpus=8,load=4", "2x4", overhead="0,62")


def corners(policy: str) -> list[str]:
    """Every coordinate at one of its ends; of many corners, some."""
    space = space_of(policy)
    ends = np.array(list(itertools.product((0.0, 1.0), repeat=len(space.categories))))
    taken = rng(0, policy).permutation(len(ends))[:MOST_CORNERS]
    return list(dict.fromkeys(text for end in ends[taken] if (text := space.text(end))))


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
    assert len(SEARCHED) >= 6
