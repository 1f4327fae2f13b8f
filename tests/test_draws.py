"""Random numbers of kernels: what they calculate with 64 bits goes round, whatever kernel they are part of."""

from __future__ import annotations

import numpy as np
import pytest

from shunter.compiled import kernel
from shunter.draws import mixed, next_draw, plus, times
from shunter.world import I64

LOWEST, HIGHEST = -(2**63), 2**63 - 1
SOME = [0, 1, -1, 7, 2**31 - 1, 6364136223846793005, -7046029254386353131, LOWEST, HIGHEST]


def within(number: int) -> int:
    """A number of any size as one of 64 bits with a sign."""
    return (number - LOWEST) % 2**64 + LOWEST


def scrambled_in_python(number: int) -> int:
    """The end of splitmix64, with shifts that keep the sign."""
    number = within((number ^ (number >> 30)) * -4658895280553007687)
    number = within((number ^ (number >> 27)) * -7723592293110705685)
    return number ^ (number >> 31)


@kernel
def sequence(drawn: I64, state: int) -> None:
    """A kernel that draws again and again, so that LLVM sees what becomes of each number."""
    for i in range(len(drawn)):
        state = next_draw(state)
        drawn[i] = state


@pytest.mark.parametrize("a", SOME)
@pytest.mark.parametrize("b", SOME)
def test_sums_and_products_go_round(a: int, b: int) -> None:
    assert plus(a, b) == within(a + b)
    assert times(a, b) == within(a * b)


@pytest.mark.parametrize("number", SOME)
@pytest.mark.parametrize("value", [0, 3, 2**31 - 1])
def test_hashes_are_those_of_unbounded_numbers(number: int, value: int) -> None:
    assert mixed(number, value) == scrambled_in_python(within((number ^ value) - 7046029254386353131))


def test_draws_of_a_sequence_are_never_below_0() -> None:
    drawn, state = np.zeros(100, np.int64), 12345
    sequence(drawn, state)
    for number in drawn.tolist():
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**63
        assert number == state
