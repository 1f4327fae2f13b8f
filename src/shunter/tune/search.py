"""Finds the best settings of a policy: tries them in simulations of the past, one parameter at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from shunter import registry
from shunter.comparison import compare_setup
from shunter.errors import PolicyError, did_you_mean
from shunter.params import build, declared, named
from shunter.processes import Progress
from shunter.protocols import Describes
from shunter.setup import Setup
from shunter.simulation import NamedPolicy, resolve

Grid: TypeAlias = Mapping[str, Sequence[str]]  # of a parameter, the values to be tried

OBJECTIVES: dict[str, Callable[[dict[str, Any]], float]] = {
    "jct": lambda summary: float(summary["jct_s"]["mean"]),
    "wait": lambda summary: float(summary["wait_s"]["mean"]),
    "tail": lambda summary: float(summary["wait_s"]["p99"]),
}


@dataclass(frozen=True, eq=False)
class Tried:
    """What one set of settings gave."""

    policy: str
    value: float  # of the objective, smaller is better
    summary: dict[str, Any]


def grid_of(policy: str, wanted: Sequence[str]) -> dict[str, list[str]]:
    """The values to try: ``key=a/b/c`` texts, or those that the policy itself declares as worth trying."""
    name, _ = named(policy)
    cls = registry.policy_class(name)
    known = declared(cls)
    if not wanted:
        tuned = cls.tuned if issubclass(cls, Describes) else {}
        found: dict[str, list[str]] = {key: list(values) for key, values in tuned.items()}
        if not found:
            raise PolicyError(f"policy '{name}' declares no values to try; give --try KEY=VALUE/VALUE")
        return found
    grid: dict[str, list[str]] = {}
    for text in wanted:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise PolicyError(f"--try {text}: must be KEY=VALUE/VALUE, such as profile_time=60/200")
        if key not in known:
            raise PolicyError(f"policy '{name}' has no parameter '{key}'; {did_you_mean(key, known)}")
        grid[key] = [value for value in values.split("/") if value]
        for value in grid[key]:
            build(cls, name, {key: value})  # refused before anything is run
    return grid


def tune(
    setup: Setup, policy: str, grid: Grid, objective: str = "jct", seed: int = 0, progress: Progress | None = None
) -> list[Tried]:
    """Try one parameter after the other and keep the best value of each; all that was tried, the best first."""
    name, settings = named(policy)
    tried: dict[str, Tried] = {}
    done, total = 0, 1 + sum(len(values) for values in grid.values())

    def on_progress(ended: int, jobs: int) -> None:
        if progress and jobs:
            progress(done * len(setup.trace) + ended, total * len(setup.trace))

    for key, values in ({"": [""]} | dict(grid)).items():
        variants = [_variant(name, settings | ({key: value} if key else {})) for value in values]
        new = {each.text: each for each in variants if each.text not in tried}
        if new:
            rows = compare_setup(setup, list(new.values()), seed, progress=on_progress).policies
            tried |= {t: Tried(t, OBJECTIVES[objective](row), row) for t, row in zip(new, rows, strict=True)}
        done += len(values)
        best = min(variants, key=lambda each: tried[each.text].value)
        settings = named(best.text)[1]
    return sorted(tried.values(), key=lambda each: each.value)


def _variant(name: str, settings: Mapping[str, Any]) -> NamedPolicy:
    """A policy with these settings; its text leaves out those that are its defaults."""
    return resolve(registry.policy(f"{name}:{','.join(f'{key}={value}' for key, value in settings.items())}"))
