"""The environment for other libraries: Gymnasium's checks, and the same episodes as compiled ones."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env

import shunter
from shunter.errors import ModelError
from shunter.learning.agents import agent_for
from shunter.learning.engine import EpisodeEngine, LearnedOrder, ground_for, new_record
from shunter.learning.environment import SchedulingEnv, vectorised
from shunter.seeding import rng
from shunter.setup import set_up


@pytest.fixture(scope="module")
def ground():
    return ground_for(set_up("synthetic:jobs=160,gpus=16,load=1.5", "2x8"), "oracle", 40)


@pytest.mark.parametrize("asked", ["pick", "score", "inspect"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_finds_nothing_wrong(asked, ground):
    check_env(SchedulingEnv(ground, asked, visible=16), skip_render_check=True)


def key_of(rows, model):
    """The network in plain NumPy."""
    for at, layer in enumerate(model.model.layers):
        rows = rows @ np.array(layer.weights) + np.array(layer.bias)
        rows = np.maximum(rows, 0) if at < len(model.model.layers) - 1 else rows
    return rows[:, 0]


def played(env, first, choose):
    """Step by step through a window: what was said at the end, the reward, and how many steps it took."""
    seen, info = env.reset(options={"first": first})
    steps, over, reward = 0, False, 0.0
    while not over:
        seen, reward, over, _, info = env.step(choose(seen, int(info["action_mask"].sum())))
        steps += 1
    return info, reward, steps


@pytest.mark.parametrize("first", [0, 25])
def test_keys_from_python_give_the_compiled_episode(first, ground):
    """A network in NumPy, asked for the keys of all jobs, gives the schedule of the same network in the kernel."""
    model = agent_for("rltune", ground).untrained(rng(1, "m"))
    engine = EpisodeEngine(ground, LearnedOrder(given=model))
    expected, decisions = engine.play(np.array([first]), np.array([0]), new_record(1, 1, 8, 0.0), greedy=True)

    def choose(seen, count):
        return np.append(key_of(seen[:count].astype(np.float64), model), np.zeros(40 - count))

    info, reward, steps = played(SchedulingEnv(ground, "score", visible=40), first, choose)
    np.testing.assert_array_equal(info["waits"], expected[0])
    assert steps == decisions[0]
    assert -1 <= reward <= 1


@pytest.mark.parametrize("first", [0, 25])
def test_picks_from_python_give_the_schedule_of_the_order_that_they_follow(first, ground):
    area = [given.feature for given in agent_for("search", ground).inputs].index("area")
    info, reward, _ = played(
        SchedulingEnv(ground, agent="search", visible=40), first, lambda seen, count: int(seen[:count, area].argmin())
    )
    expected = EpisodeEngine(ground, shunter.policy("saf:backfill=easy")).waits(np.array([first]))
    np.testing.assert_array_equal(info["waits"], expected[0])
    assert reward == 0


def test_an_inspector_that_never_lets_wait_gets_nothing(ground):
    env = SchedulingEnv(ground, "inspect", base="sjf:backfill=easy")
    env.reset(seed=3)
    over, rewards = False, []
    while not over:
        _, reward, over, _, _ = env.step(0)
        rewards.append(reward)
    assert set(rewards) == {0.0}


def test_masks_show_the_jobs_that_are_there(ground):
    env = SchedulingEnv(ground, visible=16)
    seen, info = env.reset(seed=1)
    masks = env.action_masks()
    assert (masks == info["action_mask"]).all()
    assert 1 < masks.sum() <= 16
    assert not seen[~masks].any()
    assert seen[masks].any(1).all()


def test_several_at_once(ground):
    env = vectorised(3, ground, visible=16)
    seen, info = env.reset(seed=5)
    assert seen.shape == (3, 16, 8)
    for _ in range(50):
        seen, rewards, ended, _, info = env.step(np.zeros(3, np.int64))
        if ended.any():
            break
    assert rewards.shape == (3,)
    assert info["action_mask"].shape == (3, 16)


def test_what_is_wrong_is_said(ground):
    with pytest.raises(ModelError, match="asked must be pick, score or inspect"):
        SchedulingEnv(ground, "guess")
    with pytest.raises(ModelError, match="a window may begin with job 0 to 120, got 500"):
        SchedulingEnv(ground).reset(options={"first": 500})
