"""What Lucid's memory is made of, and the arrays that it begins with."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter import world as w
from shunter.capabilities import Compiled
from shunter.cluster import Cluster
from shunter.model import View
from shunter.policies.lucid import memory as s
from shunter.predictors.learned import Learned, unlearned
from shunter.predictors.lessons import Lessons
from shunter.predictors.throughput import AHEAD, ROLLED, SubmissionCounts
from shunter.predictors.throughput import WIDTH as ROW
from shunter.predictors.trees import no_trees
from shunter.sharing.score import Leaf, ScoreTree, Split
from shunter.world import I64, Decision, World

ROWS = {"gpu_util": w.GPU_USE, "mem_util": w.MEMORY_USE, "mem_mib": w.GPU_MEMORY}  # of `use`, by feature of a tree
LARGEST_PART = 4  # at most one node in this many is set apart from the beginning


@dataclass(eq=False)
class LucidMemory:
    """What Lucid remembers: its compiled form, made when the first view is there, and what it learns from."""

    cluster: Cluster
    lessons: Lessons | None = None
    due: int = w.NEVER  # when its model is fitted again
    form: Compiled | None = None
    plan: Decision | None = None
    generation: int = 0  # of the views that the form, or else what was seen, is for
    seen: Learned | None = None  # what another configuration had seen

    def __deepcopy__(self, memo: dict[int, Any]) -> LucidMemory:
        """An independent memory; the compiled functions, which never change, are shared."""
        form, plan = copy.deepcopy(self.form, memo), copy.deepcopy(self.plan, memo)
        return LucidMemory(self.cluster, self.lessons, self.due, form, plan, self.generation, self.seen)

    @property
    def learned(self) -> Learned | None:
        """The model with what has been seen; None if there is none."""
        return self.seen if self.form is None else self.state.learned

    @property
    def state(self) -> s.LucidState:
        """Its arrays, once the first view is there."""
        assert self.form is not None
        state: s.LucidState = self.form.memory
        return state


def state_of(view: View, config: s.LucidConfig, tree: ScoreTree, base: int) -> s.LucidState:
    """A state for the jobs of this view, all of them still to come, with the profiler's first nodes."""
    world = view.world
    n, m, g = world.jobs.shape[1], world.nodes.shape[1], world.gpus.shape[1]
    vc = world.jobs[w.VC] + 1
    vcs = int(max(vc.max(initial=0), world.nodes[w.NODE_VC].max(initial=-1) + 1)) + 1
    counts = np.bincount(vc, minlength=vcs)
    kinds = (int(world.nodes[w.TOTAL].max(initial=0)) + 1) * s.SCORES
    demands = world.jobs[[w.GPUS, w.TYPE, w.CPU, w.MEM, w.SHARE]]
    classes, class_of = np.unique(demands, axis=1, return_inverse=True)
    home, nodes = first_nodes(world, base)

    def none(size: int) -> I64:
        return np.full(size, -1, np.int64)

    def room(*size: int) -> I64:
        return np.zeros(size, np.int64)

    scratch = s.LucidScratch(room(m), room(m), room(g), room(g), room(g), room(n), room(g), room(g))
    return s.LucidState(
        config=config,
        base=len(nodes),
        profiler_nodes=len(nodes),
        odds=np.zeros(s.LEVELS),
        truth=np.zeros(0) if view.truth is None else np.asarray(view.truth, np.float64),
        stage=room(n),
        priority=np.zeros(n),
        run_time=np.zeros(n),
        expected=room(n),
        profiled=room(n),
        ended_there=room(n),
        score=none(n),
        partner=none(n),
        members=room(n),
        first=np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64),
        size=room(vcs),
        dirty=room(vcs),
        oldest=none(vcs * kinds),
        newest=none(vcs * kinds),
        before=none(n),
        after=none(n),
        group=none(n),
        to_profile=room(n),
        being_profiled=room(world.slots.shape[1]),
        nodes=np.concatenate((nodes, none(m - len(nodes)))),
        home=home,
        leaving=room(m),
        kept=room(vcs, m),
        kept_for=none(vcs),
        kept_until=room(vcs),
        class_of=class_of.reshape(-1),
        no_room=room(2, classes.shape[1]),
        no_partner=room(2, classes.shape[1] * s.SCORES),
        fresh=room(n + 1),
        joined=s.Joined(*[room(2 * n + 1024) for _ in s.Joined.fields]),
        recent=s.Recent(np.full(s.RING, -s.RING), np.zeros(s.RING), np.zeros(s.RING)),
        tree=flat(tree),
        scratch=scratch,
        learned=unlearned(),
        arrivals=nothing_to_come(),
    )


def first_nodes(world: World, base: int) -> tuple[I64, I64]:
    """The home of each node, and the nodes set apart: one from each of the largest virtual clusters in turn."""
    vcs = world.nodes[w.NODE_VC]
    left = {int(vc): np.flatnonzero(vcs == vc).tolist() for vc in np.unique(vcs)}
    home, nodes = np.full(len(vcs), s.NOT_APART, np.int64), []
    for _ in range(min(base, len(vcs) // LARGEST_PART)):
        vc = max(left, key=lambda vc: (len(left[vc]), -vc))
        nodes.append(left[vc].pop())
        home[nodes[-1]] = vc
    return home, np.array(nodes, np.int64)


def flat(tree: ScoreTree) -> s.SharingTree:
    """A tree of sharing scores as arrays."""
    rows: list[tuple[int, int, int, int, float]] = []

    def add(node: Split | Leaf) -> int:
        at = len(rows)
        rows.append((-1, 0, 0, node.score if isinstance(node, Leaf) else 0, 0.0))
        if isinstance(node, Split):
            rows[at] = (ROWS[node.feature], add(node.below), add(node.above), 0, node.bound)
        return at

    add(tree.root)
    return s.SharingTree(*zip(*rows, strict=True))


def nothing_to_come() -> SubmissionCounts:
    """What is in the place of a forecast where there is none."""
    return SubmissionCounts(
        np.zeros((2, 0)), np.zeros(1), no_trees(), no_trees(), np.zeros(ROW), np.zeros(ROLLED), np.zeros((2, AHEAD))
    )
