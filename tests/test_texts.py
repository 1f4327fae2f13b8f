"""Counts in sentences."""

from __future__ import annotations

import pytest

from shunter.texts import agreeing, counted


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1, "job"), "1 job"),
        ((0, "job"), "0 jobs"),
        ((1200, "node"), "1,200 nodes"),
        (("2-4", "GPU"), "2-4 GPUs"),
        ((3, "policy"), "3 policies"),
        ((1, "policy"), "1 policy"),
        ((2, "day"), "2 days"),
        ((1, "node", "are"), "1 node is"),
        ((1, "job", "wait"), "1 job waits"),
        ((5, "job", "wait"), "5 jobs wait"),
    ],
)
def test_nouns_and_verbs_agree_with_their_number(arguments, words):
    assert counted(*arguments) == words


def test_a_verb_agrees_with_the_part_that_is_counted():
    assert f"1 of 4 nodes {agreeing('are', 1)} down" == "1 of 4 nodes is down"
    assert agreeing("were", 2) == "were"
