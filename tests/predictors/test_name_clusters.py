"""Job names that mean the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import FAR_BELOW_QUADRATIC, growth
from shunter.predictors import names
from shunter.predictors.names import clusters, plain
from shunter.seeding import rng


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Train_ResNet-3fa9c2b1_v12", "train resnet v"),
        ("train_resnet_17", "train resnet"),
        ("facade", "facade"),  # letters of a hash, but no number in it
        ("2020", ""),
    ],
)
def test_what_changes_from_run_to_run_is_left_out(name, expected):
    assert plain(name) == expected


def test_near_names_are_one():
    codes = clusters(["train_resnet50_lr0.1", "train_resnet101_lr.01", "train_resnext_lr", "eval_bert", "train"])
    assert codes[0] == codes[1] == codes[2]
    assert len(set(codes)) == 3


def slow_distance(a: str, b: str) -> int:
    if not a or not b:
        return len(a) + len(b)
    return min(slow_distance(a[1:], b) + 1, slow_distance(a, b[1:]) + 1, slow_distance(a[1:], b[1:]) + (a[0] != b[0]))


@settings(max_examples=60, deadline=None)
@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_distance_is_levenshteins(a, b):
    codes = [np.array([ord(letter) for letter in word], np.int64) for word in (a, b)]
    found = names.distance(codes[0], len(a), codes[1], len(b), np.zeros((2, 9), np.int64))
    assert found == slow_distance(a, b)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text("abcd12_", max_size=8), max_size=20), st.integers(0, 20))
def test_later_names_change_nothing(words, upto):
    assert clusters(words)[:upto].tolist() == clusters(words[:upto]).tolist()


def test_names_are_not_all_compared_with_all_others():
    draw = rng(0, "names")
    words = ["".join(chr(97 + letter) for letter in draw.integers(0, 26, 20)) for _ in range(20_000)]
    assert len(clusters(words)) == len(words)
    assert growth(clusters, words[:1_250], words) < FAR_BELOW_QUADRATIC
