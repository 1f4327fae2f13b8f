"""Compiled episodes equal the simulator's runs, one after another, with whatever choices."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shunter
from shunter import world as w
from shunter.errors import ModelError, PolicyError
from shunter.learning import episodes as e
from shunter.learning.agents import AGENTS, agent_for, flat, with_numbers
from shunter.learning.engine import EpisodeEngine, LearnedOrder, ground_for, new_record
from shunter.learning.outcomes import compared, gain, scores
from shunter.model import GPU, Trace
from shunter.policies.scored.evaluating import score
from shunter.policies.scored.models import LinearForm, ScoreModel, save
from shunter.seeding import rng
from shunter.setup import set_up
from shunter.sim.engine import Simulator

LENGTH = 40
FIRSTS = np.array([0, 7, 55, 30, 0])


def two_pools(jobs=200):
    """Jobs of two virtual clusters that come faster than they can run."""
    draw = rng(0, "two pools")
    duration = draw.integers(1, 600, jobs) * 1000
    return Trace.of(
        "two pools",
        [f"j{i}" for i in range(jobs)],
        submit=np.sort(draw.integers(0, 60 * jobs, jobs)) * 1000,
        duration=duration,
        gpus=draw.choice([1, 1, 2, 4, 8], jobs) * GPU,
        vc=draw.integers(0, 2, jobs),
        vcs=("a", "b"),
        limit=np.where(draw.random(jobs) < 0.5, duration * 2, 0),
        user=draw.integers(0, 5, jobs),
        users=tuple("uvwxy"),
    )


@pytest.fixture(scope="module")
def ground():
    """One pool, with estimates that are the truth."""
    return ground_for(set_up("synthetic:jobs=160,gpus=16,load=1.5", "2x8"), "oracle", LENGTH)


@pytest.fixture(scope="module")
def pools():
    """Two pools, with estimates by limits and history."""
    cluster = shunter.Cluster("c", (shunter.cluster.NodeGroup(1, 8, vc="a"), shunter.cluster.NodeGroup(2, 4, vc="b")))
    return ground_for(set_up(two_pools(), cluster), "oracle", LENGTH)


def simulated(ground, first, policy):
    """How long jobs of a window wait in the simulator."""
    window = ground.trace.select(np.arange(first, first + LENGTH))
    simulator = Simulator(window, ground.cluster)
    simulator.run(shunter.policy(policy))
    jobs = simulator.world.jobs
    return (jobs[w.STARTED] - jobs[w.SUBMIT]) / 1000


@pytest.mark.parametrize("policy", ["saf:backfill=easy", "wfp3:backfill=easy", "fifo"])
@pytest.mark.parametrize("on", ["ground", "pools"])
def test_windows_are_as_simulated_however_often_arrays_are_used_again(on, policy, request):
    ground = request.getfixturevalue(on)
    waits = EpisodeEngine(ground, shunter.policy(policy)).waits(FIRSTS)
    for at, first in enumerate(FIRSTS):
        text = f"{policy}{',' if ':' in policy else ':'}estimate=oracle"
        np.testing.assert_array_equal(waits[at], simulated(ground, first, text))
    assert waits.max() > 0


@pytest.mark.parametrize("on", ["ground", "pools"])
def test_the_best_choices_are_those_of_the_policy_scored(on, request, tmp_path):
    """The policy, its compiled episodes, and choices one by one give the same schedule."""
    ground = request.getfixturevalue(on)
    model = agent_for("rltune", ground).untrained(rng(1, "m"))
    save(model, tmp_path / "m.json")
    engine = EpisodeEngine(ground, LearnedOrder(given=model))
    waits = engine.waits(FIRSTS)
    for at, first in enumerate(FIRSTS):
        policy = f"scored:model={tmp_path / 'm.json'},estimate=oracle"
        np.testing.assert_array_equal(waits[at], simulated(ground, first, policy))
    if on == "ground":
        chosen, decisions = engine.play(FIRSTS, FIRSTS, new_record(1, 1, 8, 0.0), greedy=True)
        np.testing.assert_array_equal(chosen, waits)
        assert decisions.min() > 0


def test_records_are_what_was_seen_and_chosen(ground):
    model = agent_for("rltune", ground).untrained(rng(2, "m"))
    engine, record = EpisodeEngine(ground, LearnedOrder(given=model)), new_record(20_000, 2000, 8)
    _, decisions = engine.play(FIRSTS, np.arange(5), record)
    assert record.decisions == decisions.sum()
    assert (np.bincount(record.episode[: record.decisions], minlength=5) == decisions).all()
    layers = [(np.array(layer.weights), np.array(layer.bias)) for layer in model.model.layers]
    for at in range(0, record.decisions, 17):
        rows = record.seen[record.begin[at] : record.begin[at + 1]]
        assert len(rows) > 1
        for number, (weights, bias) in enumerate(layers):
            rows = rows @ weights + bias
            rows = np.maximum(rows, 0) if number < len(layers) - 1 else rows
        odds = np.exp(-rows[:, 0])
        assert record.log_probability[at] == pytest.approx(math.log(odds[record.chosen[at]] / odds.sum()), abs=1e-9)


def test_draws_depend_on_the_seed_of_an_episode_alone(ground):
    model = agent_for("rltune", ground).untrained(rng(2, "m"))
    engine = EpisodeEngine(ground, LearnedOrder(given=model))
    none = new_record(1, 1, 8, 0.0)
    one, _ = engine.play(FIRSTS, np.array([5, 6, 7, 8, 9]), none)
    other, _ = engine.play(FIRSTS[::-1], np.array([9, 8, 7, 6, 5]), none)
    np.testing.assert_array_equal(one, other[::-1])
    assert (one[0] != one[4]).any()  # the same window with another seed


def test_choices_are_drawn_by_their_probability(ground):
    """Of 4,000 draws at the first decision of a window, each job gets its share."""
    engine = EpisodeEngine(ground, LearnedOrder(given=agent_for("rltune", ground).untrained(rng(3, "m"))))
    episode = engine.episode
    e.begin(episode, 0)
    while e.to_decision(episode, engine.tools, engine.plan) and episode.course.visible < 4:
        e.act(episode, engine.tools, engine.plan, 0)
    count = episode.course.visible
    keys = episode.queue.key[episode.shown[:count]]
    odds = np.exp(keys.min() - keys)
    episode.draws[:] = 11, 0
    drawn = np.bincount([e.pick(episode, episode.draws, False)[0] for _ in range(4000)], minlength=count) / 4000
    np.testing.assert_allclose(drawn, odds / odds.sum(), atol=0.04)


def test_an_inspector_lets_the_first_job_wait(ground):
    """One that always says so waits longer than its base; one that never does is its base."""
    agent = agent_for("inspector", ground)
    form = agent.untrained(rng(0, "m"))
    base = shunter.policy("sjf:backfill=easy")
    expected = EpisodeEngine(ground, base).waits(FIRSTS)
    for bias, same in ((-9.0, True), (9.0, False)):
        numbers = np.zeros(len(flat(form)))
        numbers[-1] = bias
        engine = EpisodeEngine(ground, base, watched=with_numbers(form, numbers), mode=e.INSPECT)
        waits, decisions = engine.play(FIRSTS, FIRSTS, new_record(1, 1, 7, 0.0), greedy=True)
        assert decisions.min() > 0
        assert (waits == expected).all() if same else waits.mean() > expected.mean()
    job = shunter.scheduling.queue.keys.made_up()[3]
    assert score(job, with_numbers(form, numbers).arrays()) == 9.0


@pytest.mark.parametrize("on", ["ground", "pools"])
@pytest.mark.parametrize("base", ["sjf:backfill=easy", "wfp3:backfill=easy", "sjf"])
def test_an_inspector_is_the_same_policy_in_episodes_and_in_the_simulator(on, base, request, tmp_path):
    """Whole windows, compiled and through plans, with a model that lets some jobs wait and others not."""
    ground = request.getfixturevalue(on)
    inputs = list(agent_for("inspector", ground).inputs)  # wait, run, size, free, fits, skipped, growth
    linear = LinearForm(bias=-0.3, weights=[0.0, 1.0, 0.0, 0.2, 0.0, -9.0, 0.5])
    model = ScoreModel(name="long jobs wait", inputs=inputs, model=linear, asks="skip")
    save(model, tmp_path / "m.json")
    engine = EpisodeEngine(ground, shunter.policy(base), watched=model, mode=e.INSPECT)
    waits, _ = engine.play(FIRSTS, FIRSTS, new_record(1, 1, 7, 0.0), greedy=True)
    inner = f"{base}{';' if ':' in base else ':'}estimate=oracle"
    policy = f"inspected:policy={inner},model={tmp_path / 'm.json'}"
    for at, first in enumerate(FIRSTS):
        np.testing.assert_array_equal(waits[at], simulated(ground, first, policy))
        if at == 1:
            window = ground.trace.select(np.arange(first, first + LENGTH))
            plain = Simulator(window, ground.cluster)
            plain.run(shunter.policy(policy), compiled=False)
            jobs = plain.world.jobs
            np.testing.assert_array_equal(waits[at], (jobs[w.STARTED] - jobs[w.SUBMIT]) / 1000)
    assert (waits != EpisodeEngine(ground, shunter.policy(base)).waits(FIRSTS)).any()


def test_jobs_in_view_are_the_same_in_episodes_and_in_the_simulator(ground, tmp_path):
    model = agent_for("rltune", ground).untrained(rng(1, "m"))
    save(model, tmp_path / "m.json")
    engine = EpisodeEngine(ground, LearnedOrder(given=model, visible=3))
    waits = engine.waits(FIRSTS)
    chosen, _ = engine.play(FIRSTS, FIRSTS, new_record(1, 1, 8, 0.0), greedy=True)
    np.testing.assert_array_equal(chosen, waits)
    for at, first in enumerate(FIRSTS):
        policy = f"scored:model={tmp_path / 'm.json'},visible=3,estimate=oracle"
        np.testing.assert_array_equal(waits[at], simulated(ground, first, policy))
    assert (waits != EpisodeEngine(ground, LearnedOrder(given=model)).waits(FIRSTS)).any()
    record = new_record(20_000, 2000, 8)
    engine.play(FIRSTS, np.arange(5), record)
    sizes = np.diff(record.begin[: record.decisions + 1])
    assert sizes.max() == 3


@pytest.mark.parametrize("name", AGENTS)
def test_the_numbers_of_an_agent_go_out_and_in(name, ground):
    agent = agent_for(name, ground)
    form, numbers = agent.untrained(rng(0, "m")), np.arange(agent.numbers) / 100
    np.testing.assert_array_equal(flat(with_numbers(form, numbers)), numbers)


def test_estimates_are_those_of_a_run_of_the_whole_trace():
    setup = set_up(two_pools(), shunter.Cluster("c", (shunter.cluster.NodeGroup(2, 8),)))
    found = ground_for(setup, "history", LENGTH).estimates
    memory = Simulator(setup.trace, setup.cluster).run(shunter.policy("saf:backfill=easy,estimate=history"))
    np.testing.assert_array_equal(found, memory.form.memory.estimate)
    assert len(np.unique(found)) > 10


def test_what_can_not_be_played_is_refused(ground):
    with pytest.raises(PolicyError, match="stop no job"):
        EpisodeEngine(ground, shunter.policy("las"))
    with pytest.raises(ModelError, match="did you mean 'rltune'"):
        agent_for("rltun", ground)
    with pytest.raises(ModelError, match="a window has 999 jobs, but the trace has 160"):
        ground_for(set_up("synthetic:jobs=160,gpus=16", "2x8"), "oracle", 999)


def test_objectives_are_their_formulas():
    waits, runs = np.array([[0.0, 30.0], [10.0, 10.0]]), np.array([[5.0, 10.0], [20.0, 1.0]])
    np.testing.assert_allclose(scores("wait", waits, runs), [15, 10])
    np.testing.assert_allclose(scores("jct", waits, runs), [22.5, 20.5])
    np.testing.assert_allclose(scores("bsld", waits, runs), [(1 + 4) / 2, (1.5 + 1.1) / 2])
    np.testing.assert_allclose(scores("p99", waits, runs), np.percentile(waits, 99, axis=1))
    np.testing.assert_allclose(gain(np.array([10.0, 0.2]), np.array([5.0, 0.1])), [0.5, 0.1])


def test_intervals_are_of_pairs():
    """Windows differ a hundredfold; a model that is about 5 % better in each is seen to be."""
    base = np.geomspace(1, 100, 12)
    found = compared(base * (0.95 + np.tile([0.01, -0.01], 6)), base)
    assert found.share == pytest.approx(-0.05, abs=0.01)
    assert found.shown
    assert not compared(base + np.tile([1.0, -1.0], 6), base).shown
    assert math.isnan(compared(base[:3], base[:3]).low)
