"""Classes of run times, and run times drawn from them."""

from __future__ import annotations

import numpy as np
import pytest

from shunter.generating.durations import (
    DURATION_MODELS,
    DurationPredictor,
    PastShares,
    drawn_within,
    duration_model,
    fitted_model,
    possible,
)
from shunter.generating.known_jobs import DAY, HOUR, MINUTE, UNKNOWN, KnownJobs
from shunter.generating.snapshots import CLASSES, FEATURES, classes_of, features_of, labelled


def history(jobs: int = 600, days: int = 10, seed: int = 0) -> KnownJobs:
    """One GPU: 10 to 20 minutes; eight GPUs: 5 to 9 hours; all ran at once."""
    draws = np.random.default_rng(seed)
    submit, large = np.sort(draws.integers(0, days * DAY, jobs)), draws.random(jobs) < 0.4
    long, short = draws.integers(5 * HOUR, 9 * HOUR, jobs), draws.integers(10 * MINUTE, 20 * MINUTE, jobs)
    duration = np.where(large, long, short)
    none = np.full(jobs, -1)
    return KnownJobs(submit, duration, submit + duration, duration, np.where(large, 8000, 1000), none, none, none)


def test_classes_are_cut_where_the_paper_cuts_them() -> None:
    minutes = [0, 4.9, 5, 29, 30, 59, 60, 119, 120, 239, 240, 9999]
    assert classes_of(np.array(minutes) * MINUTE).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_what_was_known_at_an_instant() -> None:
    jobs = history()
    then = jobs.at(5 * DAY)
    assert len(then) == np.count_nonzero(jobs.submit <= 5 * DAY)
    over = jobs.ended[: len(then)] <= 5 * DAY
    assert (then.duration[over] == jobs.duration[: len(then)][over]).all()
    assert (then.duration[~over] == UNKNOWN).all()
    assert (then.ended[~over] == UNKNOWN).all()
    assert then.executed[~over].tolist() == (5 * DAY - jobs.submit[: len(then)][~over]).tolist()


def test_features_do_not_depend_on_what_comes_later() -> None:
    jobs, now = history(), 5 * DAY
    changed = jobs.duration + np.where(jobs.ended > now, 3 * HOUR, 0)
    other = KnownJobs(jobs.submit, changed, jobs.submit + changed, changed, *list(vars(jobs).values())[4:])
    known = jobs.at(now)
    rows = np.flatnonzero(~known.finished)
    assert len(rows) > 3
    found = features_of(known, rows, now)
    assert found.shape == (len(rows), len(FEATURES))
    assert found.tolist() == features_of(other.at(now), rows, now).tolist()


def test_labels_are_classes_of_whole_run_times() -> None:
    jobs = history()
    rows = labelled(jobs, DAY, 8 * DAY, 0)
    assert set(rows.classes.tolist()) <= {1, 5}
    assert (rows.classes[rows.gpus == 8000] == 5).all()
    assert (rows.classes[rows.gpus == 1000] == 1).all()
    assert (classes_of(rows.executed) <= rows.classes).all()


@pytest.mark.parametrize("name", [name for name in DURATION_MODELS if name not in ("reached", "majority")])
def test_a_model_tells_small_from_large_jobs(name: str) -> None:
    if name != "past":
        pytest.importorskip("sklearn")
        pytest.importorskip("lightgbm")
    jobs = history(3000, 20)
    known = jobs.at(15 * DAY)
    model = fitted_model(name, known, 15 * DAY, 0)
    later = labelled(jobs, 15 * DAY, 19 * DAY, 1)
    chances = possible(model.chances(later.features, later.executed, later.gpus), later.executed)
    assert chances.sum(axis=1) == pytest.approx(1)
    assert (np.argmax(chances, axis=1) == later.classes).mean() > 0.95


def test_a_class_that_is_left_behind_is_impossible() -> None:
    chances = np.tile([0.5, 0.3, 0.1, 0.1, 0.0, 0.0], (3, 1))
    found = possible(chances, np.array([0, 45 * MINUTE, 10 * HOUR]))
    assert found[0].tolist() == pytest.approx([0.5, 0.3, 0.1, 0.1, 0, 0])
    assert found[1].tolist() == pytest.approx([0, 0, 0.5, 0.5, 0, 0])
    assert found[2].tolist() == [0, 0, 0, 0, 0, 1]


def test_run_times_are_drawn_from_the_class_and_beyond_what_has_elapsed() -> None:
    jobs, now = history(), 5 * DAY
    known = jobs.at(now)
    rows = np.flatnonzero(~known.finished)
    for drawn_class in (True, False):
        found = DurationPredictor("past", 3, drawn_class).durations(known, rows, now)
        assert (found > known.executed[rows]).all()
        assert (classes_of(found) >= classes_of(known.executed[rows])).all()
        past = set(known.duration[known.finished].tolist())
        beyond = known.executed[rows] > max(past)
        assert set(found[~beyond].tolist()) <= past
    draws = np.random.default_rng(0)
    short = drawn_within(known, rows[:1], np.array([5]), draws)
    assert short[0] >= 4 * HOUR


def test_run_times_of_a_user_are_preferred_where_there_are_enough() -> None:
    many = 60
    user = np.array([0] * 30 + [1] * 30 + [1])
    duration = np.array([10 * MINUTE] * 30 + [20 * MINUTE] * 30 + [UNKNOWN])
    submit, none = np.arange(many + 1), np.full(many + 1, -1)
    jobs = KnownJobs(submit, duration, duration, np.zeros(many + 1, np.int64), none + 1001, user, none, none)
    draws = np.random.default_rng(0)
    assert {int(drawn_within(jobs, np.array([60]), np.array([1]), draws)[0]) for _ in range(20)} == {20 * MINUTE}


def test_a_model_is_fitted_once_a_day() -> None:
    jobs, predictor = history(), DurationPredictor("past")
    first = predictor._model(jobs.at(5 * DAY), 5 * DAY)
    assert predictor._model(jobs.at(5 * DAY + HOUR), 5 * DAY + HOUR) is first
    assert predictor._model(jobs.at(6 * DAY), 6 * DAY) is not first


def test_the_baselines() -> None:
    rows = labelled(history(), DAY, 8 * DAY, 0)
    reached = duration_model("reached").fit(rows).chances(rows.features, rows.executed, rows.gpus)
    assert np.argmax(reached, axis=1).tolist() == classes_of(rows.executed).tolist()
    majority = duration_model("majority").fit(rows).chances(rows.features, rows.executed, rows.gpus)
    assert set(np.argmax(majority, axis=1).tolist()) == {int(np.bincount(rows.classes).argmax())}
    assert PastShares().fit(rows).chances(rows.features, rows.executed, rows.gpus).shape == (len(rows.gpus), CLASSES)
