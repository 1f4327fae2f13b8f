"""The search of Lucid's settings in small: what is tried, and how it is ranked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import lucid_search

from shunter import registry
from shunter.reproduce import standin
from shunter.reproduce.trials import TrialCase


def test_every_candidate_is_a_policy_that_differs_from_its_base():
    tried = lucid_search.candidates()
    texts = [registry.text(registry.policy(one.policy)) for one in tried]
    assert len(set(texts)) == len(tried)
    assert {one.base for one in tried} == {lucid_search.LUCID, lucid_search.TIRESIAS}
    assert [one.policy for one in tried if one.policy == one.base] == [lucid_search.LUCID, lucid_search.TIRESIAS]
    some = [one.policy for one in lucid_search.candidates(["capacity="]) if one.base == lucid_search.LUCID]
    assert some == [lucid_search.LUCID, f"{lucid_search.LUCID},capacity=2", f"{lucid_search.LUCID},capacity=3"]


def test_tiresias_is_searched_as_hard_as_lucid():
    """Lucid's settings were tried about twice as often as the list says (decision 20)."""
    bases = [one.base for one in lucid_search.candidates()]
    assert bases.count(lucid_search.TIRESIAS) - 1 == 2 * (bases.count(lucid_search.LUCID) - 1)


def test_the_best_of_each_are_run_again_beside_the_defaults():
    ranking = [lucid_search.Candidate(*pair) for pair in (("b", "a"), ("a", "a"), ("c", "a"), ("y", "x"), ("x", "x"))]
    assert [one.policy for one in lucid_search.best(ranking, 1)] == ["a", "x", "b", "y"]
    assert [one.policy for one in lucid_search.best(ranking, 2)] == ["a", "x", "b", "y"]
    assert [one.policy for one in lucid_search.best(ranking, 3)] == ["a", "x", "b", "c", "y"]


def test_candidates_are_ranked_by_the_mean_over_the_rules(monkeypatch):
    monkeypatch.setattr(standin, "JOBS", 400)
    found = lucid_search.setups(made_up=True)
    tried = [lucid_search.Candidate(text, "fifo") for text in ("fifo", "sjf:estimate=oracle")]
    trials = lucid_search.run(found, tried, 2, workers=1)
    rules = tuple(found)
    assert lucid_search.score(trials, rules, tried[0]).value == pytest.approx(1)
    factors = [
        trials.factor(*(TrialCase(name, "", one.policy) for one in tried[::-1]), "jct_mean_s").value for name in rules
    ]
    assert lucid_search.score(trials, rules, tried[1]).value == pytest.approx(
        (factors[0] * factors[1] * factors[2]) ** (1 / 3)
    )
    shown = lucid_search.table(trials, rules, tried)
    assert list(shown.columns[0].cells) == ["sjf:estimate=oracle", "fifo"]  # the better one first
