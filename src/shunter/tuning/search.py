"""Searches settings of a policy: one parameter after the other, each with the best values of those before."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from shunter import registry
from shunter.errors import PolicyError, did_you_mean
from shunter.params import build, declared, named
from shunter.variants import texts_of

Grid: TypeAlias = Mapping[str, Sequence[str]]  # of a parameter, the values to be tried
Evaluate: TypeAlias = Callable[[Sequence[str]], Sequence[float]]  # what policies give, smaller is better


def grid_of(policy: str, wanted: Sequence[str]) -> dict[str, list[str]]:
    """The values to try, of ``key=a/b/c`` texts."""
    name, _ = named(policy)
    cls = registry.policy_class(name)
    known = declared(cls)
    grid: dict[str, list[str]] = {}
    for text in wanted:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise PolicyError(f"--try {text}: must be KEY=VALUE/VALUE, such as profile_time=60/200")
        if key not in known:
            raise PolicyError(f"policy '{name}' has no parameter '{key}'; {did_you_mean(key, known)}")
        if key in grid:
            raise PolicyError(f"--try {text}: '{key}' was named before; name all its values at once, such as {key}=A/B")
        grid[key] = [value for value in re.split("[/,]", values) if value]
        for value in grid[key]:
            build(cls, name, {key: value})  # refused before anything is run
    return grid


def search(policy: str, grid: Grid, evaluate: Evaluate) -> str:
    """Try one parameter after the other and keep the best value of each; returns the best policy."""
    (best,) = texts_of(policy, [{}])
    evaluate([best])
    for key, values in grid.items():
        variants = list(dict.fromkeys([best, *texts_of(best, [{key: value} for value in values])]))
        found = evaluate(variants)
        best = min(zip(found, variants, strict=True), key=lambda each: each[0])[1]
    return best
