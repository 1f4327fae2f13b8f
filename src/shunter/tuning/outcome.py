"""What came of tuning: every setting that was tried, and what is left of the best one's gain on other jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from shunter import registry
from shunter.model import Trace
from shunter.sweeps.work import POINTS
from shunter.tuning.effects import Effect, effects
from shunter.tuning.evaluating import MISSED
from shunter.tuning.judging import Judgement


@dataclass(frozen=True, eq=False)
class Tried:
    """One setting: its numbers on the jobs that the search saw, and on others if it was judged there."""

    policy: str
    values: dict[str, float]  # of each objective, in seconds or as a share; smaller is better
    numbers: dict[str, float]  # by columns such as jct_s.mean
    front: bool  # no other is as good in all objectives and better in one
    unseen: dict[str, float] | None = None  # the numbers on jobs that the search did not see
    tied: bool = False  # no difference from the best is shown, by the first objective
    abandoned: str = ""  # why it has no numbers

    def as_dict(self, objective: str) -> dict[str, Any]:
        """For scripts."""
        return {
            "policy": self.policy, "value_s": self.values[objective], "values_s": self.values,
            **_nested(self.numbers), "front": self.front, "tied": self.tied, "abandoned": self.abandoned,
            "unseen": None if self.unseen is None else _nested(self.unseen), "oracle": self.oracle,
        }  # fmt: skip

    @property
    def oracle(self) -> bool:
        """Whether it knows the truth, which no site does."""
        return bool(registry.policy(self.policy).needs)


@dataclass(frozen=True)
class OpenJobs:
    """Jobs that settings were chosen on and that had not ended when the later jobs begin, even if none waited.

    The search knows their run times, and a site would not have known them then.
    """

    jobs: int = 0
    gpu_time: float = 0.0  # their share

    @classmethod
    def at(cls, trace: Trace, instant: int) -> OpenJobs:
        """Those of a trace."""
        ended = trace.submit + np.maximum(trace.recorded_wait, 0) + trace.duration
        took, late = trace.duration.astype(np.float64) * trace.gpus, ended > instant
        return cls(int(late.sum()), float(took[late].sum() / took.sum()))


@dataclass(frozen=True, eq=False)
class Tuning:
    """What a search found: all settings that were tried, the best first, and what is left of their gain on others.

    Examples:
        >>> import shunter
        >>> found = shunter.tune(
        ...     "synthetic:jobs=120,gpus=8,load=1.2", "1x8", "sjf", tries={"blocking": ["strict", "skip"]}, workers=1
        ... )
        >>> found.best.policy in ("sjf", "sjf:blocking=skip")
        True
        >>> [verdict.objective for verdict in found.verdicts]
        ['jct']
    """

    objectives: tuple[str, ...]  # the first one decides which is the best
    given: str  # the policy that the best is compared with
    tried: tuple[Tried, ...]  # the best first
    verdicts: tuple[Judgement, ...]  # per objective
    where: str  # the jobs that it was judged on, in words; "": none
    jobs: tuple[int, int]  # that the search saw, and that it was judged on
    repeats: int
    seed: int
    ran: int  # runs that were not there from before
    search: str = "grid"  # how settings were found
    policies: tuple[str, ...] = ()  # that were tried, where a search chose among several ...
    choosable: int = 0  # ... of this many
    against: bool = False  # whether the best is compared with another policy than the one that was searched
    users: bool = True  # whether jobs name their users
    open_jobs: OpenJobs = OpenJobs()
    budget: int = 0  # settings that were to be drawn; 0: a grid was gone through
    strict: int = 0  # policies that were not tried with backfilling, because the budget was too small ...
    enough: int = 0  # ... and one that is not

    @property
    def best(self) -> Tried:
        """The best by the first objective on the jobs that the search saw."""
        return self.tried[0]

    @property
    def front(self) -> list[Tried]:
        """The settings that no other one beats in all objectives."""
        return [each for each in self.tried if each.front]

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        first = self.objectives[0]
        judged = {"on": self.where, "jobs": self.jobs[1], "open": asdict(self.open_jobs)} if self.where else None
        return {
            "objective": first, "objectives": list(self.objectives), "given": self.given,
            "best": self.best.as_dict(first), "front": [each.policy for each in self.front],
            "tried": [each.as_dict(first) for each in self.tried],
            "verdicts": [each.as_dict() for each in self.verdicts], "validation": judged,
            "effects": [each.as_dict() for each in self.effects], "search": self.search,
            "policies": list(self.policies), "choosable": self.choosable, "against": self.against,
            "jobs": self.jobs[0], "repeats": self.repeats, "seed": self.seed, "ran": self.ran,
            "budget": self.budget, "strict": self.strict, "enough": self.enough,
        }  # fmt: skip

    @property
    def effects(self) -> list[Effect]:
        """What the best buys and costs against the policy as given, on unseen jobs where it was judged there."""
        given = next(each for each in self.tried if each.policy == self.given)
        one, other = (each.unseen if self.where else each.numbers for each in (given, self.best))
        return effects(one or given.numbers, other or self.best.numbers, self.users)

    def __repr__(self) -> str:
        return f"Tuning(best={self.best.policy!r}, tried={len(self.tried)})"


def _nested(numbers: Mapping[str, float]) -> dict[str, Any]:
    """``jct_s.mean`` and so on as in a summary; the share of deadlines missed where there are any."""
    found: dict[str, Any] = {MISSED: numbers[MISSED]} if np.isfinite(numbers[MISSED]) else {}
    for path, value in numbers.items():
        name, _, point = path.partition(".")
        if point in POINTS:
            found.setdefault(name, {})[point] = value
    return found
