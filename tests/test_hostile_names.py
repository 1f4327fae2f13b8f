"""Names that others wrote, in messages and records: many, long and repeated ones."""

from __future__ import annotations

import json

import pytest

from growth import FAR_BELOW_QUADRATIC, growth
from shunter import errors
from shunter.errors import did_you_mean
from shunter.texts import unrepeated


def test_few_names_are_all_listed_and_the_nearest_is_named():
    assert did_you_mean("Fife", ["sjf", "fifo"]) == "did you mean 'fifo'? known: fifo, sjf"


def test_many_names_and_long_ones_make_no_long_message():
    said = did_you_mean("gpu", [f"{at}{'x' * 10**5}" for at in range(1000)])
    assert len(said) < errors.MOST_LISTED * (errors.LONGEST_NAME + 10)
    assert said.endswith("... and 940 more")


def test_of_millions_of_names_some_are_compared(monkeypatch):
    compared = []
    monkeypatch.setattr(errors.difflib, "get_close_matches", lambda name, names, n: compared.extend(names) or [])
    did_you_mean("node-1", ["long" * 100, *(f"node-{at}" for at in range(30_000))])
    assert len(compared) == errors.MOST_COMPARED
    assert "long" * 100 not in compared


def test_a_repeated_key_is_found_among_many():
    def refused(count: int) -> None:
        keys = ",".join([*(f'"key{at}":0' for at in range(count)), f'"key{count - 1}":1'])
        with pytest.raises(ValueError, match=f"key 'key{count - 1}' is given twice"):
            json.loads(f"{{{keys}}}", object_pairs_hook=unrepeated)

    assert growth(refused, 2_500, 40_000) < FAR_BELOW_QUADRATIC
