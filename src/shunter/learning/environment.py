"""A Gymnasium environment around the same engine, for agents of other libraries.

An episode is a window of jobs. Where there is a choice, the agent is asked for a job (``pick``), for the keys of all
jobs in view (``score``), or whether the first job of a base policy is to wait (``inspect``).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from shunter import extras
from shunter.errors import ModelError
from shunter.learning import episodes as e
from shunter.learning.agents import agent_for
from shunter.learning.engine import EpisodeEngine, LearnedOrder, LearningGround
from shunter.learning.outcomes import check_objective, gain, runs_in, scores
from shunter.learning.training import REFERENCE, order
from shunter.policies.scored.models import LinearForm, ScoreModel
from shunter.world import F64

gymnasium: Any = extras.load("gymnasium", "the environment")

VISIBLE = 128  # jobs in view, as in RLScheduler
DRAWS = 100  # of windows, until one has a decision
MOST = 1e6  # of an observation or a key, either side of 0
Asked = Literal["pick", "score", "inspect"]


class SchedulingEnv(gymnasium.Env):  # type: ignore[misc]
    """Schedules a window of jobs, one decision at a time; the reward comes with the last one.

    Args:
        ground: The jobs, their estimates and the cluster; see ``ground_for``.
        asked: What the agent is asked for: ``pick``, ``score`` or ``inspect``.
        agent: Whose features are observed: the name of one of shunter's own agents.
        objective: What the reward is about: wait, bsld, jct or p99.
        base: The policy that the reward is relative to, and that ``inspect`` is about.
        visible: Jobs in view; those submitted first.
        windows: First jobs that a window may have. Default: all.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self,
        ground: LearningGround,
        asked: Asked = "pick",
        agent: str = "",
        objective: str = "wait",
        base: str = REFERENCE,
        visible: int = VISIBLE,
        windows: Any = None,
    ) -> None:
        if asked not in ("pick", "score", "inspect"):
            raise ModelError(f"asked must be pick, score or inspect, got '{asked}'")
        self._ground, self._asked, self._objective = ground, asked, check_objective(objective)
        inspects = asked == "inspect"
        inputs = agent_for(agent or ("inspector" if inspects else "rltune"), ground).inputs
        watched = ScoreModel(name="watched", inputs=list(inputs), model=LinearForm(weights=[0.0] * len(inputs)))
        inner, mode = order(base), e.INSPECT if inspects else e.PICK
        own = inner if inspects else LearnedOrder(backfill=inner.backfill, visible=visible)
        visible = 1 if inspects else visible
        self._engine = EpisodeEngine(ground, own, watched=watched, visible=visible, mode=mode)
        self._base = EpisodeEngine(ground, inner)
        self._windows = np.arange(ground.windows) if windows is None else np.asarray(windows)
        self._rows, self._first, self._goes_on = np.zeros((visible, len(inputs))), 0, False
        shape = (len(inputs),) if inspects else (visible, len(inputs))
        self.observation_space = gymnasium.spaces.Box(-MOST, MOST, shape, np.float32)
        if asked == "score":
            self.action_space = gymnasium.spaces.Box(-MOST, MOST, (visible,), np.float64)
        else:
            self.action_space = gymnasium.spaces.Discrete(2 if inspects else visible)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin with a window, drawn or named by ``options={"first": N}``, its first job."""
        super().reset(seed=seed)
        named = (options or {}).get("first")
        for _ in range(DRAWS):
            self._begin(int(self.np_random.choice(self._windows) if named is None else named))
            if self._goes_on or named is not None:
                break
        return self._observed(), self._info()

    def _begin(self, first: int) -> None:
        """Begin with a window, up to its first decision, if it has any."""
        if not 0 <= first < self._ground.windows:
            raise ModelError(f"a window may begin with job 0 to {self._ground.windows - 1}, got {first}")
        self._first = first
        e.begin(self._engine.episode, first)
        self._pass_time()

    def _pass_time(self) -> None:
        """Go on to the next decision, if there is one."""
        self._goes_on = bool(e.to_decision(self._engine.episode, self._engine.tools, self._engine.plan))
        if not self._goes_on:
            self._engine.episode.course.visible = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do what the agent chose, up to its next decision; a job that is not there counts as the first."""
        if self._goes_on:
            self._act(action)
            self._pass_time()
        if self._goes_on:
            return self._observed(), 0.0, False, False, self._info()
        return self._observed(), self._reward(), True, False, {**self._info(), "waits": self.waits()}

    def _act(self, action: Any) -> None:
        engine = self._engine
        if self._asked == "score":
            keys = np.clip(np.nan_to_num(np.asarray(action, np.float64)), -MOST, MOST)
            e.act_by_keys(engine.episode, engine.tools, engine.plan, keys)
            return
        choice = int(action)
        known = choice if self._asked == "inspect" or choice < engine.episode.course.visible else 0
        e.act(engine.episode, engine.tools, engine.plan, known)

    def waits(self) -> F64:
        """How long each job of the window has waited, once the episode is over (s)."""
        found = np.zeros(self._ground.length)
        e.read_waits(self._engine.episode, found)
        return found

    def action_masks(self) -> Any:
        """Which actions there are at this decision; for ``sb3_contrib.MaskablePPO``."""
        if self._asked == "inspect":
            return np.ones(2, np.bool_)
        return np.arange(len(self._rows)) < max(self._engine.episode.course.visible, 1)

    def _observed(self) -> Any:
        self._rows[:] = 0.0
        e.observe(self._engine.episode, self._rows, 0)
        rows = np.clip(self._rows, -MOST, MOST).astype(np.float32)
        return rows[0] if self._asked == "inspect" else rows

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.action_masks(), "first": self._first}

    def _reward(self) -> float:
        firsts = np.array([self._first])
        runs = runs_in(self._ground.run_times, firsts, self._ground.length)
        found = scores(self._objective, self.waits()[None], runs)
        base = scores(self._objective, self._base.waits(firsts), runs)
        return float(gain(base, found)[0])


def vectorised(count: int, ground: LearningGround, **more: Any) -> Any:
    """Several environments on the same jobs as one; the arguments are those of ``SchedulingEnv``."""
    return gymnasium.vector.SyncVectorEnv([lambda: SchedulingEnv(ground, **more) for _ in range(count)])
