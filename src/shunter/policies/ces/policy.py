"""Cluster energy saving: idle nodes sleep.  Hu et al., SC 2021 (Helios)."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter import extras
from shunter import world as w
from shunter.capabilities import FollowsDemand, Wraps
from shunter.cluster import Cluster
from shunter.energy import control
from shunter.energy.control import FIRST, Awake, Demand, SleepSettings
from shunter.energy.forecast import PEAK, WHAT, enough, fit
from shunter.energy.series import NodeSeries
from shunter.errors import PolicyError
from shunter.model import Action, Plan, Power, Reason, Timer, View
from shunter.params import param
from shunter.policies.ces.sleeping import CesMemory, beside, concerned, sleepers, usable_by, wanted
from shunter.protocols import Memory, Policy

SETTLED_S = 7 * 86_400  # of an empty cluster


@dataclass(frozen=True)
class Ces(Wraps, FollowsDemand):
    """Lets idle nodes sleep while demand falls, and wakes them for jobs that wait; another policy schedules."""

    policy: Any = param("fifo", "the policy that schedules, with ; in place of , between its settings", policy=True)
    forecast: str = param(
        "lightgbm",
        "what demand is expected: learned from the demand seen so far, once that is a week (lightgbm), what it is now, "
        "so that only its past counts (last), or none: the most nodes in use lately stay awake (peak)",
        choices=("lightgbm", "peak", "last"),
    )
    past: int = param(3, "steps before the present that demand must have fallen against", low=1, high=1000)
    ahead: int = param(18, "steps for which the forecast must be lower still", low=1, high=1000)
    fell: float = param(0.5, "nodes by which demand must have fallen", low=0, high=1e6)
    falls: float = param(1.0, "nodes by which the forecast must be below the present", low=-1e6, high=1e6)
    least: int = param(2, "fewest nodes that are put to sleep at a time", low=1, high=1_000_000)
    buffer: int = param(5, "nodes that stay awake, or are woken, beyond those that are needed", low=0, high=1_000_000)
    keep: int = param(12, "steps after a wake-up in which nothing is put to sleep", low=0, high=10_000)
    step: float = param(600.0, "seconds of a step", low=1, high=86_400, scale="log")
    patience: float = param(
        1800.0, "seconds after which a waiting job gets every sleeping node that it may use awake", low=0, high=1e7
    )
    refit: float = param(7.0, "days after which the forecast is learned again", low=0.1, high=1000)
    window: int = param(12, "steps of whose maximum forecast=peak keeps nodes awake", low=1, high=100_000)

    def __post_init__(self) -> None:
        if isinstance(self.policy, Ces):
            raise PolicyError("policy 'ces': the policy that schedules must not be ces itself; name another")

    # -- what the policy that schedules says

    @property
    def inner(self) -> Policy:
        """The policy that schedules."""
        if isinstance(self.policy, str):
            raise PolicyError(
                f"policy 'ces': '{self.policy}' is the text of a policy; pass the object, or make both of text: "
                f"shunter.policy('ces:policy={self.policy}')"
            )
        inner: Policy = self.policy
        return inner

    @property
    def needs(self) -> frozenset[str]:
        """What the policy that schedules needs."""
        return self.inner.needs

    def inner_memory(self, memory: CesMemory) -> Memory:
        """The memory of the policy that schedules."""
        return memory.inner

    def start_around(self, cluster: Cluster, inner: Memory) -> CesMemory:
        """A fresh memory around one of the policy that schedules."""
        if self.forecast == "lightgbm" and not extras.is_there("lightgbm"):
            raise PolicyError(f"{WHAT} needs lightgbm; {extras.remedy('lightgbm')}, or set forecast=last")
        return CesMemory(cluster, inner)

    # -- deciding

    @property
    def settings(self) -> SleepSettings:
        """The thresholds of the rule."""
        return SleepSettings(**{key.name: getattr(self, key.name) for key in dataclasses.fields(SleepSettings)})

    def start(self, cluster: Cluster, previous: Any = None) -> CesMemory:
        """A fresh memory, or one that knows the demand that another configuration saw."""
        before = previous if isinstance(previous, CesMemory) else None
        fresh = self.start_around(cluster, self.inner.start(cluster, before.inner if before else previous))
        if before is None:
            return fresh
        return dataclasses.replace(
            fresh, time=[*before.time], used=[*before.used], at=before.at, peak=before.peak, hold=before.hold
        )

    def remember(self, memory: CesMemory, before: NodeSeries) -> None:
        """Let it know the demand before its time, in steps of its own length."""
        memory.time[:], memory.used[:] = before.time.tolist(), before.used.tolist()

    def decide(self, view: View, memory: CesMemory) -> Plan:
        """The inner policy's plan first; when it has nothing more to do, which nodes sleep and wake."""
        plan = self.inner.decide(view, memory.inner)
        if any(not isinstance(action, Timer) for action in plan.actions):
            return plan
        over = self._observe(view, memory)
        actions, reasons = self._wake(view, memory)
        if over and not actions:
            actions = self._sleep(view, memory)
        actions += self._tick(view, memory)
        if not actions and not reasons:
            return plan
        return Plan((*plan.actions, *actions), (*plan.reasons, *reasons))

    def _observe(self, view: View, memory: CesMemory) -> bool:
        """Note how many nodes are in use; true if a step has just ended."""
        used = int(np.count_nonzero(_awake(view) & (view.nodes.free < view.nodes.total)))
        length = round(1000 * self.step)
        at = view.now // length
        if memory.at < 0:
            memory.at = at
        over = at > memory.at
        memory.at = max(memory.at, at - self._settled)  # before that, nothing was in use
        while memory.at < at:
            memory.time.append(memory.at * length)
            memory.used.append(memory.peak)
            memory.idle = 0 if memory.peak else memory.idle + 1
            memory.at, memory.peak = memory.at + 1, used
        memory.peak = max(memory.peak, used)
        return over

    @property
    def _settled(self) -> int:
        """Steps without any demand after which nothing more falls asleep: then it sleeps until a job comes."""
        return math.ceil(SETTLED_S / self.step) + self.window + self.keep + self.past

    def _wake(self, view: View, memory: CesMemory) -> tuple[list[Action], list[Reason]]:
        """Wake the nodes that waiting jobs need, and some more; report the jobs that wait for them."""
        state = view.nodes.state
        away = (state == w.ASLEEP) | (state == w.WAKING)
        if not away.any() or not view.world.clock[w.N_PENDING]:
            return [], self._reasons(view, memory, {})
        found = wanted(view, concerned(view, view.pending, away), round(1000 * self.patience))
        woken = found.wake
        if woken:
            used = int(np.count_nonzero(view.nodes.free[_awake(view)] < view.nodes.total[_awake(view)]))
            awake = int(np.count_nonzero((state == w.UP) | (state == w.WAKING)))
            wanted_awake = max([used, *memory.used[-self.window :]]) if self.forecast == PEAK else used
            woken = [*woken, *beside(view, woken, wanted_awake + self.buffer - awake)]
            memory.hold = memory.at + self.keep
            latency = round(1000 * memory.cluster.overheads.wake)
            memory.due.update(dict.fromkeys(woken, view.now + latency))
        return [Power(node, on=True) for node in woken], self._reasons(view, memory, found.waits_for)

    def _reasons(self, view: View, memory: CesMemory, waits_for: dict[int, tuple[int, ...]]) -> list[Reason]:
        """Say of jobs when the nodes that they wait for will be awake, and when that is over; only what is new."""
        if not view.reasons_wanted:
            return []
        due = {job: max(memory.due.get(node, view.now) for node in nodes) for job, nodes in waits_for.items()}
        new = [Reason(job, "asleep", (time,)) for job, time in due.items() if memory.announced.get(job) != time]
        gone = memory.announced.keys() - due.keys()
        over = [Reason(job, "none") for job in sorted(gone) if view.jobs.state[job] == w.PENDING]
        memory.announced = due
        return [*new, *over]

    def _sleep(self, view: View, memory: CesMemory) -> list[Action]:
        """At the end of a step: let idle nodes sleep that no waiting job may use, as far as the rule goes."""
        steps = len(memory.used)
        if steps <= FIRST:
            return []
        awake = int(np.count_nonzero((view.nodes.state == w.UP) | (view.nodes.state == w.WAKING)))
        total = int(np.count_nonzero(view.nodes.state != w.DOWN))
        if self.forecast == PEAK:
            target = control.followed(awake, memory.used[-1], max(memory.used[-self.window :]), total, self.settings)
        else:
            near, far = self._expected(memory)
            before = memory.used[max(steps - 1 - self.past, 0) : steps - 1]
            demand = Demand(memory.at, memory.used[-1], float(np.mean(before)), near, far, total)
            target = control.controlled(Awake(awake, memory.hold), demand, self.settings).nodes
        idle = _awake(view) & (view.nodes.free == view.nodes.total) & ~usable_by(view, view.pending)
        return [Power(node, on=False) for node in sleepers(view, idle, awake - target)]

    def _expected(self, memory: CesMemory) -> tuple[float, float]:
        """The forecast means for the next steps and twice as many."""
        steps = len(memory.used)
        if self.forecast == "last" or not enough(steps, self.ahead):
            return math.nan, math.nan
        time, used = np.array(memory.time, np.int64), np.array(memory.used, np.int64)
        if memory.forecaster is None or steps - memory.fitted >= self.refit * 86_400 / self.step:
            memory.forecaster, memory.fitted = fit(time, used, self.ahead), steps
        return memory.forecaster.now(time, used)

    def _tick(self, view: View, memory: CesMemory) -> list[Action]:
        """Ask to be asked at the end of the step, unless nothing can change any more."""
        length = round(1000 * self.step)
        at = (view.now // length + 1) * length
        clock = view.world.clock
        stuck = clock[w.N_PENDING] > 0 and clock[w.N_RUNNING] == 0
        if stuck:
            away = (view.nodes.state == w.ASLEEP) | (view.nodes.state == w.WAKING)
            stuck = not (usable_by(view, view.pending) & away).any()
        quiet = memory.idle >= self._settled and not (clock[w.N_PENDING] or clock[w.N_RUNNING])
        if memory.tick == at or stuck or quiet:
            return []
        memory.tick = at
        return [Timer(at)]


def _awake(view: View) -> Any:
    return view.nodes.state == w.UP
