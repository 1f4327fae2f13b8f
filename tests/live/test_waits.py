"""What past waits say about a forecast: learned from the past alone, stored safely, and better than the simulation."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter import clusters
from shunter.cli.main import app
from shunter.errors import ModelError
from shunter.live import waits
from shunter.live.forecast import Outlook
from shunter.live.forest import Forest, quantiles
from shunter.live.moments import Moments, started
from shunter.live.queue_state import NAMES, QueueState
from shunter.live.rules import Rules
from shunter.live.run_times import RunTimes
from shunter.live.snapshot import LiveJob
from shunter.live.waits import Ask, Questions, Waits, moments, questions
from shunter.model import Trace
from shunter.predictors import storing
from shunter.testing.live import habitual
from shunter.traces.writing import write

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import forecasting
from benchmarks.forecasting import plain_nodes, rolled, simulated

HOUR = 3_600_000
NODES = plain_nodes(4)


@pytest.fixture(scope="module")
def history() -> Trace:
    """A record in which every job waits for an hour more than the cluster would make it, for reasons unknown."""
    trace = simulated(habitual(1500, 32, 0.8), clusters.load("4x8"))
    return replace(trace, recorded_wait=trace.recorded_wait + HOUR)


@pytest.fixture(scope="module")
def asked(history: Trace) -> Questions:
    first, last = int(history.submit[300]), int(history.submit[-1])
    return questions(history, NODES, moments(history, first, last, 60), Rules())


# ------------------------------------------------------------------------------------------- past moments


def test_a_past_moment_shows_what_waited_and_ran(history):
    now = int(history.submit[700]) + 1
    moment = Moments(history, NODES).at(now)
    starts = started(history)
    waiting = np.flatnonzero((history.submit <= now) & (starts > now))
    running = np.flatnonzero((starts <= now) & (starts + history.duration > now))
    assert [int(job.id) for job in moment.waiting] == waiting.tolist()
    shown = {int(job.id): job for job in moment.snapshot.jobs if job.runs}
    assert set(shown) == set(running.tolist())
    assert all(job.ran == now - starts[row] and job.end == -1 for row, job in shown.items())
    used = sum(len(node.used) for node in moment.snapshot.nodes)
    assert used == sum(job.gpus for job in shown.values()) <= 32


def changed(trace: Trace, now: int) -> Trace:
    """The same until an instant, and all else after it: no new jobs, other run times, other waits."""
    known = trace.select(trace.submit <= now)
    starts = started(known)
    ends = starts + known.duration
    return replace(
        known,
        recorded_wait=np.where(starts > now, known.recorded_wait + 7 * HOUR, known.recorded_wait),
        duration=np.where(ends > now, known.duration + 5 * HOUR, known.duration),
    )


def forecasts(trace: Trace, now: int) -> list[tuple[int, ...]]:
    """Answers about all waiting jobs, with what was learned before."""
    known = questions(trace, NODES, moments(trace, int(trace.submit[300]), now, 16), Rules())
    learned = Waits.learned(known, now)
    assert learned is not None
    moment = Moments(trace, NODES).at(now)
    return [
        each.starts
        for each in Outlook(moment.snapshot, Rules(), moment.run_times, 20, waits=learned).of(*moment.waiting)
    ]


def test_nothing_that_comes_later_is_used(history, monkeypatch):
    monkeypatch.setattr(waits, "FEWEST", 20)
    now = int(history.submit[900])
    other = changed(history, now)
    assert len(other) < len(history)
    assert (started(other) > now).any()
    before = forecasts(history, now)
    assert len(before) > 0
    assert forecasts(other, now) == before


def test_an_answer_that_is_not_known_yet_is_a_bound(asked, history):
    middle = int(history.submit[900])
    known = asked.waited(middle)
    open_ones = (asked.moment < middle) & (asked.start > middle)
    assert open_ones.any()
    assert (known[open_ones] == (middle - asked.moment[open_ones]) / 1000).all()
    over = asked.start <= middle
    assert (known[over] == (asked.start - asked.moment)[over] / 1000).all()


def test_an_array_counts_as_its_tasks(history):
    snapshot = Moments(history, NODES).at(int(history.submit[700])).snapshot
    pending = LiveJob("90", "90", "PENDING", user="ann", gpus=2, limit=HOUR, submit=snapshot.now, priority=5)
    tasks = [replace(pending, id=f"90_{number}") for number in range(1, 6)]
    last = replace(pending, id="99", handle="99", user="bob")
    one, many = (
        QueueState(snapshot, RunTimes(), [*ahead, last]).row(last) for ahead in ([replace(pending, tasks="1-5")], tasks)
    )
    assert np.array_equal(one, many, equal_nan=True)
    assert one[NAMES.index("ahead")] == 5
    assert one[NAMES.index("ahead_gpus")] == 10


# ------------------------------------------------------------------------------------------- what is learned


def test_what_no_simulation_knows_is_learned(history, asked):
    now = int(history.submit[1200])
    learned = Waits.learned(asked, now)
    assert learned is not None
    later = asked.where(asked.moment >= now)
    truth = (later.start - later.moment) / 1000
    both, alone = learned.seconds(later.rows, np.array([0.5, 0.9])), rolled(later.rows)[:, 0]
    assert len(truth) > 20
    assert np.median(np.abs(both[:, 0] - truth)) < 0.5 * np.median(np.abs(alone - truth))
    assert (both[:, 0] <= both[:, 1]).all()
    assert np.mean(truth <= both[:, 1]) > 0.75


def test_an_answer_names_its_method(history, asked):
    moment = Moments(history, NODES).at(int(history.submit[1400]))
    learned = Waits.learned(asked, moment.snapshot.now)
    assert learned is not None
    outlook = Outlook(moment.snapshot, Rules(), moment.run_times, 20)
    (alone,), (both,) = (each.of(moment.waiting[-1]) for each in (outlook, replace(outlook, waits=learned)))
    assert list(both.starts) == sorted(both.starts)
    assert alone.method == "simulation alone"
    assert f"{len(learned.waited):,} past waits" in both.method


def test_many_questions_about_a_few_jobs_say_little(asked):
    until = int(asked.start.max()) + 1
    many = Waits.learned(asked, until)
    few = Waits.learned(replace(asked, job=asked.job % 2), until)
    assert many is not None
    assert few is not None
    rows, half = asked.rows[:40], np.array([0.5])
    alone = np.log1p(rolled(rows)[:, 0])
    far, near = (np.abs(np.log1p(each.seconds(rows, half)[:, 0]) - alone).mean() for each in (many, few))
    assert near < far


def test_few_questions_teach_nothing(asked):
    assert Waits.learned(asked.where(slice(waits.FEWEST - 1)), 10**15) is None
    assert Waits.learned(asked, int(asked.moment.min())) is None


def test_a_job_that_waits_for_something_else_is_left_to_the_simulation(history, asked):
    moment = Moments(history, NODES).at(int(history.submit[1400]))
    job = replace(moment.waiting[0], reason="Dependency", dependency="afterok:1")
    learned = Waits.learned(asked, moment.snapshot.now)
    outlook = Outlook(moment.snapshot, Rules(), moment.run_times, 20)
    assert replace(outlook, waits=learned).of(job) == outlook.of(job)


def test_the_benchmark_compares_all_methods_on_the_same_questions(asked):
    truth = (asked.start - asked.moment) / 1000
    found = forecasting.Asked(asked, 2 * truth, np.arange(len(truth)) % 2 == 0)
    first = int(asked.moment[len(truth) // 2])
    said = forecasting.methods(found, first)
    text = "".join(forecasting.report(found, said, [("all", asked.moment >= first)]))
    assert all(f"| {name:26} |" in text for name in said)
    assert "combined" in said
    assert text.count("mean error less that of the combination") == 2
    exact = forecasting.Score.of(np.column_stack((truth, truth)), truth)
    assert (exact.within, exact.mean_min, exact.by90, exact.loss50) == (1, 0, 1, 0)
    assert forecasting.pinball(truth, truth + 10, 0.9) == pytest.approx(9)


# ------------------------------------------------------------------------------------------- the forest


def test_a_forest_knows_the_distribution_of_each_side():
    draw = np.random.default_rng(0)
    rows = np.column_stack([draw.random(2000), draw.random(2000)])
    targets = np.where(rows[:, 0] > 0.5, 10 + draw.random(2000), draw.random(2000))
    forest = Forest.grown(rows, targets, trees=20, smallest=10, tried=4)
    weights = forest.weights(np.array([[0.25, 0.5], [0.75, np.nan]]))
    assert np.allclose(weights.sum(axis=1), 1)
    low, high = (quantiles(targets, np.ones(2000, bool), each, np.array([0.1, 0.9])) for each in weights)
    assert np.allclose(low, (0.1, 0.9), atol=0.12)
    assert np.allclose(high, (10.1, 10.9), atol=0.12)
    again = Forest.grown(rows, targets, trees=20, smallest=10, tried=4)
    assert (again.leaves == forest.leaves).all()


def test_what_is_not_known_yet_counts_as_longer():
    values, weights, levels = np.array([1.0, 2.0, 3.0, 4.0]), np.full(4, 0.25), np.array([0.25, 0.5, 0.75, 1.0])
    known = np.array([True, False, True, True])
    assert quantiles(values, np.ones(4, bool), weights, levels).tolist() == [1, 2, 3, 4]
    assert quantiles(values, known, weights, levels).tolist() == [1, 3, 4, 4]  # 2 is 3 or 4 in truth
    assert quantiles(values, np.array([True, True, True, False]), weights, levels)[-1] == 4


def test_examples_that_are_all_alike_are_one_leaf():
    forest = Forest.grown(np.ones((50, 2)), np.arange(50.0), trees=3, smallest=5, tried=2)
    assert np.allclose(forest.weights(np.array([[1.0, 1.0]])), 1 / 50)


# ------------------------------------------------------------------------------------------- stored and shipped


def test_questions_are_stored_in_the_checked_format(asked, tmp_path):
    path = tmp_path / "waits.model"
    storing.save(asked, path)
    found = storing.load(path)
    assert isinstance(found, Questions)
    assert (np.nan_to_num(found.rows) == np.nan_to_num(asked.rows)).all()
    assert (found.start == asked.start).all()
    storing.save(replace(asked, job=asked.job[:-1]), path)
    with pytest.raises(ModelError, match="not complete"):
        storing.load(path)


def test_when_uses_a_history_and_names_the_method(history, tmp_path, monkeypatch):
    monkeypatch.setenv("SHUNTER_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(waits, "MOMENTS", 30)
    moment = Moments(history, NODES).at(int(history.submit[1400]))
    moment.snapshot.save(tmp_path / "now.json")
    write(history, tmp_path / "jobs.csv")
    question = ["slurm", "when", moment.waiting[-1].id, "--snapshot", str(tmp_path / "now.json"), "--json"]

    def answer(*more: str) -> dict[str, object]:
        done = CliRunner().invoke(app, [*question, *more])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    plain, first = answer(), answer("--history", str(tmp_path / "jobs.csv"))
    assert plain["method"] == "simulation alone"
    assert "corrected by how far it was off" in str(first["method"])
    monkeypatch.setattr(waits, "questions", None)  # the second time they come from the cache
    assert answer("--history", str(tmp_path / "jobs.csv")) == first


def test_a_history_without_waits_is_used_for_run_times_alone(history):
    none = replace(history, recorded_wait=np.full(len(history), -1))
    assert waits.of_history(none, NODES, Rules()) is None


def test_moments_are_of_both_kinds_and_in_order(history):
    found = moments(history, int(history.submit[100]), int(history.submit[-1]), 40)
    assert found == sorted(found)
    assert sum(each.row >= 0 for each in found) == 40
    assert 20 <= sum(each.row < 0 for each in found) <= 40
    assert all(isinstance(each, Ask) and each.now < history.submit[-1] for each in found)
