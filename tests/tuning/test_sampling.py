"""Settings drawn from declared ranges, within them and within a budget."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shunter import registry
from shunter.params import Among, Between, Growing, declared, named
from shunter.seeding import rng
from shunter.tuning.halving import RUNGS, drawn_settings, halved
from shunter.tuning.sampling import FRUITLESS, METHODS, ExponentialWeights, sampled, search_named
from shunter.tuning.spaces import SearchedParam, choosable, space_of, spaces_of


@pytest.mark.parametrize("policy", choosable())
def test_every_point_of_a_space_is_a_policy_within_its_declared_range(policy: str) -> None:
    space, draws = space_of(policy), rng(1, policy)
    point, made = space.drawn(draws), 0
    for _ in range(60):
        text = space.text(point)
        for key, value in named(text)[1].items() if text else ():
            search = declared(registry.policy_class(policy))[key][2].search
            if isinstance(search, Between) and value != search.off:
                assert search.low <= float(value) <= search.high
            elif isinstance(search, Among):
                assert value in search.values
        made += bool(text)
        point = space.near(point, 0.3, draws)
        assert ((point >= 0) & (point <= 1)).all()
    assert made > 20


def test_thresholds_depend_on_how_many_there_are() -> None:
    limits = SearchedParam("limits", Growing(300, 1e6, most=4), whole=False)
    assert limits.categories == (5, 0, 0, 0, 0)
    assert limits.text([0.0, 0.5, 0.5, 0.5, 0.5]) == "none"
    assert limits.text([0.25, 0.0, 0.9, 0.9, 0.9]) == "300"
    assert limits.text([0.5, 1.0, 0.0, 0.9, 0.9]) == "300/1e+06"
    assert limits.text([1.0, 0.5, 0.5, 0.0, 1.0]) == "300/17300/1e+06"  # equal ones count once
    off = SearchedParam("starve", Between(1800, 7200, log=True, off="0"), whole=False)
    assert [off.text([0.1, 0.5]), off.text([0.9, 0.5])] == ["0", "3600"]


def test_any_has_no_oracle_and_nothing_that_shares_or_sleeps() -> None:
    found = choosable()
    assert {"fifo", "tiresias", "themis", "las"} <= set(found)
    assert not {"lucid", "gandiva", "ces", "scored"} & set(found)
    assert not any(registry.policy(name).needs for name in found)


@pytest.mark.parametrize("policy", sorted({*choosable(), "lucid", "gandiva"} - {"easypp"}))  # that is one rule
def test_every_policy_that_is_compared_declares_what_to_search(policy: str) -> None:
    space = space_of(policy)
    assert len({space.text(space.drawn(rng(seed, policy))) for seed in range(30)} - {""}) > 1


def test_a_policy_with_two_names_is_searched_once() -> None:
    found = choosable()
    assert "gittins" in found
    assert "express" not in found
    assert {"dally", "marshal", "saf", "smallest"} <= set(found)  # these differ from what they inherit


def test_one_point_bluefin_tries_one_setting_at_a_time_and_moves_towards_it() -> None:
    search = search_named("bluefin-one", [space_of("themis")], 60, 3)
    (first,) = search.ask()
    before = search.centres[0].copy()
    search.tell([first], [1.0])
    moved = search.centres[0] - before
    numbers = np.array(search.spaces[0].categories) == 0
    assert (moved[numbers] * (first.point - before)[numbers]).sum() > 0
    assert (search.centres[0] >= search.RADIUS).all()
    assert (search.centres[0] <= 1 - search.RADIUS).all()


def distance(text: str) -> float:
    """Least for las:look_again=600,min_run=10 with skipping; other policies are worse."""
    name, given = named(text)
    if name != "las":
        return 50.0
    away = [math.log(float(given.get(key, best)) / best) for key, best in (("look_again", 600), ("min_run", 10))]
    return 1 + float(np.square(away).sum()) + (given.get("blocking") != "skip")


@pytest.mark.parametrize("method", METHODS)
def test_a_search_keeps_its_budget_and_finds_better_settings(method: str) -> None:
    if method in ("tpe", "cmaes"):
        pytest.importorskip("optuna")
        pytest.importorskip("cmaes")
    asked: list[str] = []

    def evaluate(policies):
        asked.extend(policies)
        return [distance(policy) for policy in policies]

    search = search_named(method, [space_of("fifo"), space_of("las")], 60, 3)
    best = sampled(search, ["fifo", "las:min_run=1"], evaluate)
    assert len(asked) == len(set(asked)) == 60
    assert distance(best) == min(map(distance, asked)) < distance("las:min_run=1")


@pytest.mark.parametrize("method", METHODS)
def test_every_search_tries_a_setting_that_can_be_off_both_ways(method: str) -> None:
    if method in ("tpe", "cmaes"):
        pytest.importorskip("optuna")
        pytest.importorskip("cmaes")
    search = search_named(method, [space_of("tiresias")], 40, 0)
    sampled(search, ["tiresias"], lambda policies: [1.0 + len(policy) for policy in policies])
    drawn = [named(each.text)[1].get("starve", "0") for _, each in search.results]
    assert "0" in drawn
    assert set(drawn) > {"0"}


def test_what_is_abandoned_is_never_the_best() -> None:
    def evaluate(policies):
        return [math.inf if "blocking=skip" in policy else distance(policy) for policy in policies]

    for method in ("random", "bluefin"):
        assert "skip" not in sampled(search_named(method, spaces_of("las"), 30, 0), ["las"], evaluate)


@pytest.mark.parametrize("method", METHODS)
def test_a_search_ends_once_all_settings_are_tried(method: str) -> None:
    if method in ("tpe", "cmaes"):
        pytest.importorskip("optuna")
        pytest.importorskip("cmaes")
    search, batches = search_named(method, [space_of("fifo")], 4000, 0), 0
    ask = search.ask

    def counted():
        nonlocal batches
        batches += 1
        return ask()

    search.ask = counted
    sampled(search, ["fifo"], lambda policies: [distance(policy) for policy in policies])
    assert len(search.seen) == 3  # fifo has a choice of three
    assert batches < FRUITLESS + 30


def test_a_search_goes_on_where_the_best_policy_has_no_settings_left() -> None:
    """The best of all has three settings, and others have many."""
    search = search_named("random", [space_of("fifo"), space_of("sjf"), space_of("las")], 60, 0)
    asked: list[str] = []

    def evaluate(policies):
        asked.extend(policies)
        return [2.0 if named(policy)[0] == "las" else 1.0 for policy in policies]

    sampled(search, ["fifo"], evaluate)
    assert len(set(asked)) == 60


def test_a_policy_counts_by_the_best_of_what_it_begins_with() -> None:
    """Strict, it looks worse than one that is worse."""
    spaces = [each for each in spaces_of("any") if each.policy in ("fifo", "multifactor", "themis")]
    assert [each.also for each in spaces] == [("fifo:backfill=easy",), ("multifactor:backfill=easy",), ()]
    search = search_named("random", spaces, 100, 0)
    search.seen = {"fifo": 4.0, "multifactor": 5.0, "themis": 3.0, "multifactor:backfill=easy": 1.0}
    assert [search._best_of(at) for at in range(3)] == [4.0, 1.0, 3.0]


def test_exponential_weights_learn_which_category_pays() -> None:
    weights, draws = ExponentialWeights(3), rng(0, "weights")
    for _ in range(400):
        taken = weights.draw(draws)
        weights.reward(taken, [0.2, 1.0, 0.3][taken])
    assert np.argmax(weights.odds) == 1
    assert weights.chances().sum() == pytest.approx(1)
    assert weights.chances().min() >= math.sqrt(3 / 400) / 3 - 1e-9  # each is still tried now and then


def test_halving_runs_the_better_half_for_longer_and_what_is_kept_in_any_case() -> None:
    asked: list[tuple[int, float]] = []

    def values_at(texts: list[str], part: float) -> list[float]:
        asked.append((len(texts), part))
        return [float(text) for text in texts]

    found = halved([str(number) for number in range(16)], ["15"], values_at)
    assert [part for _, part in asked] == [1 / 8, 1 / 4, 1 / 2, 1]
    assert [count for count, _ in asked] == [16, 9, 5, 3]
    assert len(asked) == RUNGS
    assert found == {"0": 0.0, "1": 1.0, "15": 15.0}


def test_halving_begins_with_twice_the_budget() -> None:
    spaces = spaces_of("tiresias")
    texts = drawn_settings(spaces, ["tiresias"], 8, 1)
    assert len(texts) == len(set(texts)) == 16
    assert texts[0] == "tiresias"
    assert texts == drawn_settings(spaces, ["tiresias"], 8, 1) != drawn_settings(spaces, ["tiresias"], 8, 2)
