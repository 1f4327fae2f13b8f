"""Traces as such: their digest and their dates."""

from __future__ import annotations

import dataclasses

import numpy as np

from shunter.model import Trace, renamed


def two(**given):
    return Trace.of("two", ["a", "b"], **({"submit": [0, 5], "duration": [1, 1], "gpus": [1000, 1000]} | given))


def test_the_digest_is_of_names_not_of_their_codes():
    plain = two(user=[0, 1], users=("ann", "bob"))
    same = two(user=[2, 0], users=("bob", "nobody", "ann"))
    assert same.digest == plain.digest
    assert two(user=[1, 0], users=("ann", "bob")).digest != plain.digest
    assert two(user=[0, -1], users=("ann", "bob")).digest != plain.digest
    assert two(vc=[0, 1], vcs=("ann", "bob")).digest != plain.digest


def test_renamed_puts_names_in_order_of_appearance():
    codes, names = renamed(np.array([3, -1, 0, 3]), ("a", "b", "c", "d"))
    assert (codes.tolist(), names) == ([0, -1, 1, 0], ("d", "a"))
    codes, names = renamed(np.array([-1, -1]), ("a",))
    assert (codes.tolist(), names) == ([-1, -1], ())


def test_a_trace_is_dated_where_its_times_are_counted_from_1970():
    assert not two().dated
    assert two(submit=[1_500_000_000_000, 1_500_000_000_001]).dated
    empty = dataclasses.replace(two().select(np.array([], np.int64)))
    assert not empty.dated
