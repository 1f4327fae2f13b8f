"""Small worlds for the tests: traces in milliseconds, clusters in one line, and a policy that follows a script."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.model import GPU, NOTHING, Plan, Start, Timer, Trace
from shunter.sim import Scenario, Simulator

KINDS = {
    getattr(w, name): name
    for name in ["ARRIVE", "START", "FINISH", "FAIL", "PREEMPT", "STOP", "MOVE", "NODE_DOWN", "NODE_UP"]
}
KINDS |= {getattr(w, name): name for name in ["SLEEP", "WAKE", "REASSIGN", "EQUIP", "ROLES"]}
NAMES = ("user", "vc", "gpu_type", "model", "loss_curve")


class RandomActions:
    """A policy that acts at random, once at each instant; a subclass draws the actions."""

    needs: frozenset = frozenset()

    def __init__(self, seed):
        self.seed = seed

    def start(self, cluster, previous=None):
        return {"draws": np.random.default_rng(self.seed), "at": -1}

    def decide(self, view, memory):
        if memory["at"] == view.now:
            return NOTHING
        memory["at"] = view.now
        free = [gpu for node in range(len(view.nodes.free)) for gpu in view.free_gpus(node).tolist()]
        return Plan(self.actions(view, memory["draws"], free))


def jobs(*rows, **shared):
    """A trace of jobs (submit, duration, gpus, further columns as a dict); names become codes."""
    columns = {"submit": [row[0] for row in rows], "duration": [row[1] for row in rows]}
    columns["gpus"] = [round((row[2] if len(row) > 2 else 1) * GPU) for row in rows]
    more = [shared | (row[3] if len(row) > 3 else {}) for row in rows]
    names = {}
    for key in {key for given in more for key in given}:
        default = Trace.columns()[key].default
        values = [given.get(key, default) for given in more]
        if key in NAMES:
            known = tuple(dict.fromkeys(value for value in values if value != default))
            names[key + "s"] = known
            values = [-1 if value == default else known.index(value) for value in values]
        columns[key] = np.array(values, np.int64)
    return Trace.of("t", [f"j{i}" for i in range(len(rows))], **columns, **names)


def cluster(*groups, checkpoint=0.0, restart=0.0, wake=0.0, **about):
    """Nodes as numbers (GPUs of a node) or ready groups; costs in seconds, for every size or by steps."""
    steps = [cost if isinstance(cost, tuple) else ((10_000, cost),) for cost in (checkpoint, restart)]
    nodes = tuple(group if isinstance(group, NodeGroup) else NodeGroup(1, group) for group in groups)
    return Cluster("c", nodes, overheads=Overheads(steps[0], steps[1], wake), **about)


@dataclass
class Script:
    """Does at given times what it was told: {time: [plan, plan ...]}; a plan is a list of actions.

    ``greedy`` starts waiting jobs on the first free GPUs besides, in submit order.
    """

    plans: dict = field(default_factory=dict)
    greedy: bool = False
    needs: frozenset = frozenset()
    seen: list = field(default_factory=list)
    look: object = None  # called with every view; what it returns is kept in `seen`

    def start(self, cluster, previous=None):
        return previous if previous is not None else {"next": {}}

    def decide(self, view, memory):
        if self.look:
            self.seen.append(self.look(view))
        plans, turn = self.plans.get(view.now, []), memory["next"].get(view.now, 0)
        if turn < len(plans):
            memory["next"][view.now] = turn + 1
            return Plan(plans[turn])
        return first_fit(view) if self.greedy else NOTHING


def first_fit(view):
    """Start the first waiting job that fits on the first free GPUs, wherever they are."""
    for job in view.pending.tolist():
        free = np.concatenate([view.free_gpus(node) for node in range(len(view.nodes.free))])
        if len(free) >= view.jobs.gpus[job]:
            return Plan([Start(job, free[: view.jobs.gpus[job]].tolist())])
    return NOTHING


class Refusals:
    """An observer that keeps what was refused, as (time, reason)."""

    def __init__(self):
        self.list = []

    def decided(self, view, plan, refusals):
        self.list += [(view.now, refusal.why) for refusal in refusals]


def play(trace, machines, plans=None, *, greedy=False, scenario=None, until=None, look=None):
    """Run a script to its end: the simulator, with ``refused`` and ``seen`` beside it."""
    simulator = Simulator(trace, machines, scenario=scenario or Scenario())
    times = sorted(time for time in plans or {} if time > simulator.now)
    simulator.apply(Plan([Timer(time) for time in times]))  # so that the script is asked then, whatever happens
    policy, watcher = Script(plans or {}, greedy, look=look), Refusals()
    simulator.run(policy, observers=[watcher], until=until)
    simulator.refused, simulator.seen = watcher.list, policy.seen
    return simulator


def story(simulator, job=None):
    """The log in words: (time, kind, job) or, for one job, (time, kind)."""
    rows = [(int(t), KINDS[int(kind)], int(j)) for t, kind, j, _, _ in simulator.events]
    return rows if job is None else [(time, kind) for time, kind, j in rows if j == job]


def ends(simulator):
    """When each job ended, ms; -1: it has not."""
    return simulator.world.jobs[w.ENDED_AT].tolist()


def column(simulator, name):
    """A column of the jobs."""
    return simulator.world.jobs[name].tolist()
