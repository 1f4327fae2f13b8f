"""A policy with other settings: every combination of values, as texts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from shunter import registry
from shunter.errors import PolicyError, RunError, did_you_mean
from shunter.params import declared, named


def combinations(values: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Every combination of values of parameters."""
    return [dict(zip(values, some, strict=True)) for some in itertools.product(*values.values())]


def texts_of(policy: str, settings: Iterable[Mapping[str, str]]) -> list[str]:
    """The texts of a policy with each of these settings; equal policies once, whatever way they were written."""
    name, given = named(policy)
    asked = [",".join(f"{key}={value}" for key, value in {**given, **some}.items()) for some in settings]
    return list(dict.fromkeys(registry.text(registry.policy(f"{name}:{each}")) for each in asked))


def check_varying(policy: str, keys: Iterable[str]) -> None:
    """Refuse parameters that a policy does not have, or that its text sets already."""
    name, given = named(policy)
    known = declared(registry.policy_class(name))
    for key in keys:
        if key not in known:
            raise PolicyError(f"policy '{name}' has no parameter '{key}'; {did_you_mean(key, known)}")
        if key in given:
            raise RunError(f"policy '{policy}' sets '{key}', which also varies; leave one out")


def with_grid(policies: Sequence[str], grid: Mapping[str, Sequence[str]]) -> list[str]:
    """Policies with every combination of values, each for the policies that have its parameter.

    Examples:
        >>> with_grid(["fifo", "saf"], {"backfill": ["none", "easy"]})
        ['fifo', 'fifo:backfill=easy', 'saf', 'saf:backfill=easy']
    """
    known = {policy: declared(registry.policy_class(named(policy)[0])) for policy in policies}
    for key in grid:
        if not any(key in parameters for parameters in known.values()):
            every = sorted({name for parameters in known.values() for name in parameters})
            raise RunError(f"no policy has the parameter '{key}' of the grid; {did_you_mean(key, every)}")
    found = []
    for policy in policies:
        own = {key: list(values) for key, values in grid.items() if key in known[policy]}
        check_varying(policy, own)
        found += texts_of(policy, combinations(own)) if own else [policy]
    return list(dict.fromkeys(found))
