"""Training: repeatable, resumable, and better where there is something to learn."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from shunter.errors import ModelError
from shunter.learning.agents import Agent, agent_for
from shunter.learning.engine import ground_for, new_record
from shunter.learning.evolution import Evolution
from shunter.learning.judging import judged
from shunter.learning.outcomes import compared, runs_in, scores
from shunter.learning.training import Task, Trainer, apart, parts_of, spaced
from shunter.policies.scored.models import Input
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
    return Task(ground, agent, rounds=2, episodes=4, rows=1000, **more)


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


@pytest.mark.xdist_group("torch")
def test_the_same_seed_gives_the_same_weights_on_a_gpu(ground):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    one, two = (trained(small(ground, "rltune", seed=1, device="cuda")) for _ in range(2))
    np.testing.assert_array_equal(one.best, two.best)


@pytest.mark.xdist_group("torch")
def test_an_inspector_begins_without_interfering_and_with_some_chance_to_try_it(ground):
    pytest.importorskip("torch")
    trainer = Trainer(small(ground, "inspector", base="saf:backfill=easy"))
    assert trainer.start == 0
    firsts, seeds = trainer.windows(0, 8)
    trainer.players.use(trainer.form.arrays())
    waits, _, _ = trainer.players.play(firsts, seeds, 0, 0.0)
    assert (waits != trainer.players.base_waits(firsts)).any()


@pytest.mark.parametrize("agent", ["search", "rltune"])
def test_a_training_goes_on_where_it_was(agent, ground, tmp_path):
    if agent != "search":
        pytest.importorskip("torch")
    task = small(ground, agent)
    whole = trained(task)
    trained(task, 1).save(tmp_path / "c")
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


def test_judged_windows_have_no_job_in_common(ground):
    """400 jobs: the last fifth has 80, which is two windows of 32 and not the 24 that were asked for."""
    assert apart(parts_of(ground)[2], 24, 32).tolist() == [320, 368]
    assert apart(np.arange(0, 101), 3, 10).tolist() == [0, 50, 100]
    for jobs, length, count in ((97, 7, 24), (2041, 256, 24), (50, 9, 5), (9, 9, 24)):
        firsts = apart(np.arange(jobs - length + 1), count, length)
        assert len(firsts) == min(count, jobs // length)
        assert (np.diff(firsts) >= length).all()


def test_two_windows_are_too_few_to_tell(ground):
    found = judged(trained(small(ground, "search"), 1).model(), ground)
    assert (found["windows"], found["windows_asked"]) == (2, 24)
    assert found["verdict"].startswith("Can't tell: 2 windows only. An interval needs 5 windows of 32 jobs, so a trace")
    assert "of 800 jobs or more" in found["verdict"]
    assert not any(cell["shown"] for row in found["rows"] for cell in row["objectives"].values())


def test_windows_in_which_no_job_waits_teach_and_show_nothing(ground):
    idle = ground_for(set_up("synthetic:jobs=1000,gpus=16,load=0.5", "512x8"), "oracle", 32)
    with pytest.raises(ModelError, match=r"nothing to learn; use windows of more jobs \(--jobs, now 32\)"):
        Trainer(small(idle, "search"))
    found = judged(trained(small(ground, "search"), 1).model(), idle)
    assert found["verdict"].startswith("Can't tell: the mean wait is 0 in all windows")


def test_an_interval_without_a_width_shows_nothing():
    """All of the wait is in one window: every draw that has it has the same change."""
    found = compared(np.array([0.0, 0, 0, 294, 0, 0]), np.array([0.0, 0, 0, 100, 0, 0]))
    assert (found.share, found.low, found.high) == pytest.approx((1.94, 1.94, 1.94))
    assert found.flat
    assert not found.shown
    several = compared(np.array([10.0, 12, 11, 13, 12]), np.array([5.0, 5, 5, 5, 5]))
    assert several.shown


def test_a_model_says_which_jobs_it_meets_again(ground):
    model = trained(small(ground, "search"), 1).model()
    submit = ground.trace.submit
    assert model.training.submitted == (submit[0], submit[319])
    assert judged(model, ground, 6)["remarks"] == []
    part = dataclasses.replace(ground, trace=ground.trace.select(np.arange(200)), estimates=ground.estimates[:200])
    assert judged(model, part, 6)["remarks"][0].startswith(
        "the model learned from, or was chosen by, 32 of these 32 jobs"
    )
    renamed = dataclasses.replace(part, trace=dataclasses.replace(part.trace, name="other"))
    assert "may have learned from 32 of these 32 jobs" in judged(model, renamed, 6)["remarks"][0]
    later = dataclasses.replace(part, trace=dataclasses.replace(part.trace, submit=part.trace.submit + submit[-1]))
    assert judged(model, later, 6)["remarks"] == []
    elsewhere = dataclasses.replace(ground, cluster=dataclasses.replace(ground.cluster, name="4x8"))
    assert judged(model, elsewhere, 6)["remarks"] == ["the model was trained on cluster 2x8, and this is 4x8"]


def test_the_filter_leaves_windows_in_its_range_for_the_first_half(ground):
    task = Task(ground, "search", rounds=4, filter="2..60")
    trainer = Trainer(task)
    slowdown = {}
    for first in parts_of(ground)[0]:
        waits = trainer.players.base_waits(np.array([first]), "sjf:backfill=easy")
        slowdown[first] = scores("bsld", waits, runs_in(ground.run_times, np.array([first]), ground.length))[0]
    kept = [first for first, value in slowdown.items() if 2 < value < 60]
    assert 0 < len(kept) < len(slowdown)
    assert set(trainer.windows(0, 20_000)[0]) == set(kept)
    assert set(trainer.windows(1, 20_000)[0]) == set(kept)
    assert not set(trainer.windows(2, 400)[0]) <= set(kept)
    with pytest.raises(ModelError, match=r"must be LOW\.\.HIGH"):
        Task(ground, filter="10-150")
    with pytest.raises(ModelError, match=r"leaves 0 of \d+ windows"):
        Trainer(Task(ground, "search", filter="1e8..1e9")).round()


def test_a_model_is_judged_beside_saf_with_the_same_jobs_in_view(ground):
    found = judged(trained(small(ground, "search", visible=2), 1).model(), ground, 6)
    rows = {row["policy"]: row["objectives"]["wait"]["share"] for row in found["rows"]}
    assert set(rows) == {"model", "saf:backfill=easy", "scored:model=saf,visible=2"}
    assert rows["scored:model=saf,visible=2"] > 0


def test_too_few_jobs_are_refused(ground):
    with pytest.raises(ModelError, match="400 jobs are too few for windows of 64"):
        Task(dataclasses.replace(ground, length=64))


def test_a_device_that_is_not_there_is_refused(ground):
    torch = pytest.importorskip("torch")
    with pytest.raises(ModelError, match="--device must be cpu or cuda, got 'tpu'"):
        Trainer(Task(ground, "rltune", device="tpu"))
    with pytest.raises(ModelError, match="--device cuda: --agent search has no network to train"):
        Task(ground, "search", device="cuda")
    if not torch.cuda.is_available():
        with pytest.raises(ModelError, match="finds no GPU here"):
            Trainer(Task(ground, "rltune", device="cuda"))


def test_cma_es_finds_the_least_of_a_skewed_bowl():
    """Axes differ a thousandfold in width; plain steps of one size would not get there."""
    widths, goal = np.geomspace(1, 1000, 6), np.arange(6.0)
    evolution, draws = Evolution(np.zeros(6), 1.0), np.random.default_rng(0)
    for _ in range(300):
        points = evolution.ask(draws)
        evolution.tell(points, (widths * (points - goal) ** 2).sum(1))
    np.testing.assert_allclose(evolution.mean, goal, atol=1e-3)


def test_every_window_is_learned_from_however_long_its_queue_is():
    """Where decisions have more rows than are recorded, each window gets its share, in the first round too."""
    pytest.importorskip("torch")
    ground = ground_for(set_up("synthetic:jobs=700,gpus=8,load=1.6", "1x8"), "oracle", 64)
    trainer = Trainer(Task(ground, "rltune", rounds=2, episodes=12, rows=2000))
    recorded, play = [], trainer.players.play

    def watched(firsts, seeds, rows, share):
        found = play(firsts, seeds, rows, share)
        recorded.append((rows, found[1]))
        return found

    trainer.players.play = watched
    while not trainer.over:
        trainer.round()
    learned_from = [records for rows, records in recorded if rows > 0]
    assert len(learned_from) == 2
    for records in learned_from:
        windows = np.concatenate([record.episode[: record.decisions] for record in records])
        assert set(windows) == set(range(12))
        assert sum(record.offered for record in records) > 2 * sum(record.rows for record in records)
        assert 1000 < sum(record.rows for record in records) < 4000


TOY = Agent("toy", "", (Input(feature="wait"), Input(feature="estimate")))


def toy_episodes(model, draws, greedy=False):
    """Episodes of three decisions among two to five jobs: records, and the share of right choices of each episode."""
    record, right = new_record(2000, 400, 2), np.zeros(100)
    layers = [(np.array(layer.weights), np.array(layer.bias)) for layer in model.model.layers]
    for at in range(300):
        rows = draws.uniform(0, 1, (draws.integers(2, 6), 2))
        keys = np.array([score_of(row, layers) for row in rows])
        odds = np.exp(keys.min() - keys)
        odds /= odds.sum()
        chosen = int(keys.argmin() if greedy else draws.choice(len(rows), p=odds))
        begin = record.rows
        record.seen[begin : begin + len(rows)] = rows
        record.begin[at], record.begin[at + 1], record.chosen[at] = begin, begin + len(rows), chosen
        record.log_probability[at], record.episode[at] = np.log(odds[chosen]), at // 3
        record.rows, record.decisions = begin + len(rows), at + 1
        right[at // 3] += (chosen == rows[:, 1].argmin()) / 3
    return record, right


def score_of(row, layers):
    """A network in plain NumPy."""
    for at, (weights, bias) in enumerate(layers):
        row = row @ weights + bias
        row = np.maximum(row, 0) if at < len(layers) - 1 else row
    return row[0]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_ppo_finds_the_best_choices_of_a_problem_whose_best_choices_are_known(device):
    """The job with the least second input is the right one; an episode is worth its share of right choices."""
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    from shunter.learning.ppo import Learner, batch_of

    learner, draws = Learner(TOY, seed=0, device=device), np.random.default_rng(1)
    before = toy_episodes(learner.model, draws)[1].mean()
    for _ in range(20):
        record, right = toy_episodes(learner.model, draws)
        learner.learn(batch_of([record], right))
    assert before < 0.5
    assert toy_episodes(learner.model, draws, greedy=True)[1].mean() > 0.95


@pytest.mark.parametrize("agent", ["rltune", pytest.param("rlscheduler", marks=pytest.mark.slow)])
def test_ppo_learns_an_order_that_is_about_as_good_as_the_one_by_area(agent):
    """Networks with random weights wait far longer than saf; after some epochs, not much longer."""
    pytest.importorskip("torch")
    ground = ground_for(set_up("synthetic:jobs=1500,gpus=8,load=1.6", "1x8"), "oracle", 64)
    trainer = Trainer(Task(ground, agent, rounds=16, episodes=40, rows=20_000, seed=3))
    before = trainer.change(trainer.best)
    while not trainer.over:
        trainer.round()
    after = [row["change"] for row in trainer.curve]
    rewards = [row["reward"] for row in trainer.curve]
    assert before > 0.3
    assert min(after) < before / 3
    assert np.mean(rewards[-5:]) > np.mean(rewards[:5])


def test_judging_is_on_the_last_fifth_beside_the_reference(ground):
    model = trained(small(ground, "search"), 1).model()
    found = judged(model, ground, 6, others=("fifo:backfill=easy",))
    assert found["estimate"] == "oracle"
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


def test_the_start_is_a_candidate_so_what_is_kept_is_never_worse(ground):
    trainer = Trainer(small(ground, "search"))
    began = trainer.best.copy()
    assert trainer.start == 0  # the search begins as the reference
    trainer.change = lambda numbers: 0.5  # whatever it learns is worse
    while not trainer.over:
        trainer.round()
    np.testing.assert_array_equal(trainer.best, began)
    assert trainer.model().scores == {"change_on_checked_windows": 0, "change_at_the_start": 0}
