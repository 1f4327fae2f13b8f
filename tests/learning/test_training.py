"""Training: repeatable, resumable, and better where there is something to learn."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from shunter.errors import ModelError
from shunter.learning.agents import agent_for
from shunter.learning.engine import ground_for
from shunter.learning.evolution import Evolution
from shunter.learning.judging import judged
from shunter.learning.training import Task, Trainer, parts_of, spaced
from shunter.setup import set_up


@pytest.fixture(scope="module")
def ground():
    return ground_for(set_up("synthetic:jobs=400,gpus=16,load=1.5", "2x8"), "oracle", 32)


def trained(task, rounds=None):
    trainer = Trainer(task)
    while not trainer.over and (rounds is None or len(trainer.curve) < rounds):
        trainer.round()
    return trainer


def small(ground, agent, **more):
    return Task(ground, agent, rounds=3, episodes=8, rows=2000, **more)


AGENTS = [
    "search",
    *(pytest.param(name, marks=pytest.mark.xdist_group("torch")) for name in ("rltune", "rlscheduler", "inspector")),
]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_same_seed_gives_the_same_weights_on_one_thread_or_two(agent, ground):
    if agent != "search":
        pytest.importorskip("torch")
    one, two = (trained(small(ground, agent, seed=1, threads=threads)) for threads in (1, 2))
    np.testing.assert_array_equal(one.best, two.best)
    assert [row["change"] for row in one.curve] == [row["change"] for row in two.curve]
    other = trained(small(ground, agent, seed=2))
    assert (other.best != one.best).any()


@pytest.mark.parametrize("agent", ["search", "rltune"])
def test_a_training_goes_on_where_it_was(agent, ground, tmp_path):
    if agent != "search":
        pytest.importorskip("torch")
    task = small(ground, agent)
    whole = trained(task)
    trained(task, 2).save(tmp_path / "c")
    again = Trainer(dataclasses.replace(task, threads=2))
    again.restore(tmp_path / "c")
    while not again.over:
        again.round()
    np.testing.assert_array_equal(again.best, whole.best)
    assert len(again.curve) == len(whole.curve)


def test_a_checkpoint_of_something_else_is_refused(ground, tmp_path):
    trained(small(ground, "search"), 1).save(tmp_path / "c")
    with pytest.raises(ModelError, match="is of another training: objective, seed differ"):
        Trainer(small(ground, "search", objective="bsld", seed=4)).restore(tmp_path / "c")
    content = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match="is no checkpoint"):
        Trainer(small(ground, "search")).restore(tmp_path / "c")
    with pytest.raises(ModelError, match="there is no such checkpoint"):
        Trainer(small(ground, "search")).restore(tmp_path / "nothing")


def test_no_job_is_in_two_parts(ground):
    jobs = [np.unique(part[:, None] + np.arange(ground.length)) for part in parts_of(ground)]
    assert all(len(np.intersect1d(a, b)) == 0 for a, b in ((jobs[0], jobs[1]), (jobs[1], jobs[2]), (jobs[0], jobs[2])))
    assert spaced(np.arange(100), 5).tolist() == [0, 25, 50, 74, 99]


def test_too_few_jobs_are_refused(ground):
    with pytest.raises(ModelError, match="400 jobs are too few for windows of 64"):
        Task(dataclasses.replace(ground, length=64))


def test_cma_es_finds_the_least_of_a_skewed_bowl():
    """Axes differ a thousandfold in width; plain steps of one size would not get there."""
    widths, goal = np.geomspace(1, 1000, 6), np.arange(6.0)
    evolution, draws = Evolution(np.zeros(6), 1.0), np.random.default_rng(0)
    for _ in range(300):
        points = evolution.ask(draws)
        evolution.tell(points, (widths * (points - goal) ** 2).sum(1))
    np.testing.assert_allclose(evolution.mean, goal, atol=1e-3)


def test_ppo_learns_to_pick_the_shorter_job():
    """A network with random weights gets close to the order by area within a few epochs."""
    pytest.importorskip("torch")
    ground = ground_for(set_up("synthetic:jobs=700,gpus=8,load=1.6", "1x8"), "oracle", 64)
    # this agent sees run times, as rltune does not
    task = Task(ground, "rlscheduler", rounds=12, episodes=40, rows=20_000, seed=3)
    trainer = Trainer(task)
    before = trainer.change(trainer.best)
    while not trainer.over:
        trainer.round()
    after = min(row["change"] for row in trainer.curve)
    assert before > 0.1
    assert after < before / 2


def test_judging_is_on_the_last_fifth_beside_the_reference(ground):
    model = trained(small(ground, "search"), 1).model()
    found = judged(model, ground, 6, others=("fifo:backfill=easy",))
    assert min(found["first_jobs"]) >= 0.8 * len(ground.trace)
    rows = {row["policy"]: row["objectives"] for row in found["rows"]}
    assert set(rows) == {"model", "saf:backfill=easy", "fifo:backfill=easy"}
    assert rows["saf:backfill=easy"]["wait"]["share"] == 0
    assert rows["fifo:backfill=easy"]["wait"]["share"] > 0
    assert found["same_trace"]
    assert found["verdict"]
    json.dumps(found)
    neutral = agent_for("search", ground).untrained(np.random.default_rng(0))
    assert judged(neutral, ground, 6)["rows"][0]["objectives"]["wait"]["share"] == 0
    with pytest.raises(ModelError, match="--windows must be at least 5"):
        judged(model, ground, 2)
