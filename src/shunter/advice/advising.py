"""From a history to advice: the present replayed, other policies on the last days, and the three best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter import runs, scenes
from shunter import world as w
from shunter.advice.candidates import Candidate, candidates
from shunter.advice.effects import change, effects
from shunter.advice.validity import validity
from shunter.cluster import Cluster
from shunter.comparison import compare_scene
from shunter.errors import RunError, did_you_mean
from shunter.folders import Run
from shunter.model import Trace
from shunter.processes import Progress
from shunter.slurm.site import Site
from shunter.world import F64, I64

DAY_MS = 86_400_000
GOALS = {
    "wait": "mean wait",
    "users": "mean wait of users, each counting alike",
    "tail": "P99 wait",
    "slowdown": "mean bounded slowdown",
}
TAIL = 1.5  # who makes the P99 wait so many times as long comes after all others
BEST = 3
LEAST = 0.02  # of what is wanted, that must be gained to be better


@dataclass(frozen=True)
class Question:
    """What is to be advised on."""

    base: str  # the policy that stands for what is done now
    site: Site  # its settings, as far as Slurm has them
    days: float = 30
    warmup: float = 7  # days before these that are simulated and not counted, so that the cluster is not empty
    goal: str = "wait"
    preemption: bool = False
    more: tuple[str, ...] = ()  # policies that the user adds
    seed: int = 0
    workers: int | None = None


@dataclass(frozen=True, eq=False)
class Window:
    """Some days of the history: what is simulated, and which of its jobs count."""

    scene: scenes.Scene
    begin: int  # ms; jobs submitted from then on count

    @property
    def rows(self) -> I64:
        """The jobs that count."""
        return np.flatnonzero(self.scene.trace.submit >= self.begin)

    @property
    def counted(self) -> Trace:
        """The same as a trace."""
        return self.scene.trace.select(self.rows)


def check(question: Question) -> None:
    """Refuse what can't be asked, before anything is read."""
    if question.goal not in GOALS:
        raise RunError(f"there is no goal '{question.goal}'; {did_you_mean(question.goal, GOALS)}")
    if not question.days > 0 or not question.warmup >= 0:
        raise RunError(f"--days must be > 0 and --warmup >= 0, got {question.days:g} and {question.warmup:g}")


def options(question: Question) -> list[Candidate]:
    """What is compared."""
    return candidates(question.base, question.site, question.preemption, question.more)


def window(trace: Trace, cluster: Cluster, question: Question, until: int | None = None) -> Window | None:
    """The last days of a history, or those before ``until``; None where there are no jobs to speak of."""
    first, last = int(trace.submit[0]), int(trace.submit[-1]) + 1 if until is None else until
    begin = last - round(question.days * DAY_MS)
    if begin < first and until is not None:
        return None
    warm = max(first, min(begin, last) - round(question.warmup * DAY_MS))
    begin = max(begin, first + round(0.1 * (last - first)))  # of a short history the first tenth does not count
    policies = [question.base, *(one.policy for one in options(question))]
    since = f"+{(warm - first) / DAY_MS:.9f}d" if warm > first else ""
    ends = f"+{(last - first) / DAY_MS:.9f}d" if until is not None else ""
    found = Window(scenes.scene(trace, cluster, policies, since=since, until=ends), begin)
    return found if len(found.rows) > 1 else None


# ------------------------------------------------------------------------------------------- the present


def replayed(scene: scenes.Scene, question: Question, progress: Progress | None = None) -> tuple[dict[str, Any], I64]:
    """How far the waits of the present policy are from the recorded ones, over the whole history; and those waits."""
    total = len(scene.trace)
    told = None if progress is None else lambda done: progress(done, total)
    result = runs.run(scene, question.base, question.seed, progress=told)
    waits: I64 = np.where(result.table[w.STATE] == w.DONE, result.table[w.WAITED], -1)
    return validity(result.trace, waits, scene.cluster, question.seed), waits


# ------------------------------------------------------------------------------------------- the others


def compared(found: Window, question: Question, progress: Progress | None = None) -> list[dict[str, Any]]:
    """The present policy, then every other beside it, the best first."""
    chosen = options(question)
    waits = _waits(found, [question.base, *(one.policy for one in chosen)], question, progress)
    trace, before = found.counted, waits[0]
    rows: list[dict[str, Any]] = []
    for candidate, after in zip(chosen, waits[1:], strict=True):
        told = effects(trace, before, after, question.seed)
        row = {"policy": candidate.policy, "title": candidate.title, "by_slurm": candidate.by_slurm, **told}
        rows.append(row | {"changes": dict(candidate.changes)})
    base = effects(trace, before, before, question.seed)
    present = {"policy": question.base, "title": "what is done now", "by_slurm": True, **base, "changes": {}}
    return [present, *sorted(rows, key=lambda row: order(row, present, question.goal))]


def _waits(found: Window, policies: Sequence[str], question: Question, progress: Progress | None) -> list[F64]:
    """The waits (s) of the jobs that count, per policy; a job that did not finish waits for what it has by then."""
    kept: list[Run] = []
    compare_scene(found.scene, policies, question.seed, workers=question.workers, progress=progress, keep=kept.extend)
    return [run.jobs["wait"].to_numpy()[found.rows] for run in kept]


def order(row: dict[str, Any], present: dict[str, Any], goal: str) -> tuple[bool, float]:
    """What rows are sorted by: those with a much longer tail last, then what is wanted."""
    return bool(row["wait_s"]["p99"] > TAIL * present["wait_s"]["p99"] + 60), _wanted(row, goal)


def _wanted(row: dict[str, Any], goal: str) -> float:
    """What is to be small."""
    waits = row["wait_s"]
    values = {"wait": waits["mean"], "users": row["user_wait_s"], "tail": waits["p99"], "slowdown": row["slowdown"]}
    return float(values[goal])


def _better(row: dict[str, Any], present: dict[str, Any], goal: str) -> bool:
    """Whether it gains something, beyond what chance gives to the mean wait, and not at the cost of a long tail."""
    by_chance = goal == "wait" and not row["difference"]["high_s"] < 0
    gains = _wanted(row, goal) < (1 - LEAST) * _wanted(present, goal)
    return gains and not by_chance and not order(row, present, goal)[0]


def best(rows: Sequence[dict[str, Any]], goal: str) -> list[dict[str, Any]]:
    """The three best that are better than the present; one of them Slurm's own, if any of those is."""
    present, others = rows[0], rows[1:]
    good = [row for row in others if _better(row, present, goal)]
    own = [row for row in good if row["by_slurm"]]
    chosen = good[:BEST]
    if own and own[0] not in chosen:
        chosen = [*chosen[: BEST - 1], own[0]]
    return chosen


def held_before(
    trace: Trace, cluster: Cluster, question: Question, begin: int, chosen: Sequence[str], progress: Progress | None
) -> dict[str, Any] | None:
    """The same policies on the days before those they were chosen on; None where the history is too short."""
    found = window(trace, cluster, question, begin)
    if found is None or not chosen:
        return None
    waits, trace = _waits(found, [question.base, *chosen], question, progress), found.counted
    rows = [effects(trace, waits[0], after, question.seed) for after in waits]
    present, goal = rows[0], question.goal
    return {
        "jobs": len(found.rows),
        "present_wait_s": present["wait_s"],
        "policies": {
            policy: {
                "wait_s": row["wait_s"],
                "mean_change": row["mean_change"],
                "goal_change": change(_wanted(present, goal), _wanted(row, goal)),
            }
            for policy, row in zip(chosen, rows[1:], strict=True)
        },
    }
