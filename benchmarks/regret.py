"""What each part of a search saves and costs: ``python -m benchmarks.regret [DATA] [POLICY]``.

A two-week window of ``reproduce autosched`` is played with the policy as given.  At several hours settings are searched
on a generated hour, 40 evaluations each, in every way and with two seeds.  What is found is judged on the hour as it
is.  Regret: by how much the objective is worse than the best that any search found there.  Before that, of 40 settings
drawn at random: CPU ms of an evaluation with jobs as they are and merged, and the rank correlation of their values,
also in the same new simulation without merging.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.adapting_cost import adapting
from shunter import registry
from shunter.adapting.aggregating import aggregated
from shunter.adapting.causal import correlations
from shunter.adapting.rejecting import TriedSettings
from shunter.adapting.searching import HORIZON, LookAhead, SettingSpace, search_on
from shunter.adapting.study import AUTOSCHED, Adapting
from shunter.generating.known_jobs import HOUR
from shunter.protocols import Memory
from shunter.seeding import rng
from shunter.sim.engine import Simulator

HOURS, SEEDS, DRAWN = tuple(range(48, 145, 24)), 2, 40
WAYS: dict[str, dict[str, Any]] = {
    "random": {},
    "random, 10 evaluations": {"budget": 10},
    "halving": {"method": "halving"},
    "bluefin": {"method": "bluefin"},
    "bluefin-one": {"method": "bluefin-one"},
    "tpe": {"method": "tpe"},
    "cmaes": {"method": "cmaes"},
    "random, jobs merged": {"aggregate": True},
    "random, causal model": {"causal": "layers"},
    "bluefin, causal model": {"method": "bluefin", "causal": "layers"},
}


class Instant(NamedTuple):
    """An hour at which settings are searched."""

    now: int
    outlook: Simulator
    memory: Memory


def instants(work: Adapting) -> list[Instant]:
    """The hours; the run goes on from one to the next."""
    simulator, memory, found = work.simulator(), work.memory(work.given), []
    policy, source, begin = registry.policy(work.given), work.source(AUTOSCHED), int(work.simulator().trace.submit[0])
    for hour in HOURS:
        memory = simulator.run(policy, until=begin + hour * HOUR, memory=memory)
        at = begin + hour * HOUR
        found.append(Instant(at, source.outlook(simulator, at), copy.deepcopy(memory)))  # the run goes on with its own
    return found


def judge(at: Instant, objective: str) -> Callable[[str], float]:
    """What a setting gives on the hour as it is."""
    ahead = LookAhead(at.outlook, at.memory, at.now, objective)
    return lambda text: ahead.begun(text).value_at(at.now + HORIZON)


def searched(at: Instant, space: SettingSpace, given: str, seed: int, tried: TriedSettings) -> tuple[str, int, float]:
    """The setting found, evaluations, and CPU seconds."""
    begun = time.process_time()
    found = search_on(at.outlook, at.now, at.memory, space, [given], seed, tried if space.causal else None)
    return found.policy, found.evaluations, time.process_time() - begun


def ways(work: Adapting, hours: list[Instant]) -> None:
    """A row per way of searching."""
    values: dict[str, list[float]] = {}
    costs: dict[str, list[tuple[int, float]]] = {}
    for name, more in WAYS.items():
        space = dataclasses.replace(work.space, **more)
        for seed in range(SEEDS):
            tried = TriedSettings(method=space.causal or "layers")
            for at in hours:
                policy, evaluations, took = searched(at, space, work.given, seed, tried)
                values.setdefault(name, []).append(judge(at, space.objective)(policy))
                costs.setdefault(name, []).append((evaluations, took))
    table = np.array(list(values.values()))
    best = np.tile(table.reshape(len(WAYS), SEEDS, -1).min(axis=(0, 1)), SEEDS)
    print(f"{'search':28}{'evaluations':>12}{'CPU s':>8}{'regret %':>10}{'worst %':>9}")  # noqa: T201
    for name, found in zip(WAYS, table, strict=True):
        regret = 100 * (found / np.maximum(best, 1e-9) - 1)
        evaluations, took = np.mean(costs[name], axis=0)
        print(f"{name:28}{evaluations:12.1f}{took:8.2f}{regret.mean():10.2f}{regret.max():9.1f}")  # noqa: T201


def merging(work: Adapting, hours: list[Instant]) -> None:
    """What merged jobs cost and save, a row per hour."""
    space, draws = work.space.spaces[0], rng(0, "drawn")
    texts = list(dict.fromkeys(text for _ in range(DRAWN) if (text := space.text(space.drawn(draws)))))
    print(f"{'hour':>6}{'jobs':>7}{'merged':>8}{'ms':>8}{'ms merged':>11}{'rank':>7}{'unmerged':>10}")  # noqa: T201
    for hour, at in zip(HOURS, hours, strict=True):
        merged, weights = aggregated(at.outlook, at.now)
        aheads = (
            LookAhead(at.outlook, at.memory, at.now, work.space.objective),
            LookAhead(merged, None, at.now, work.space.objective, weights),
            LookAhead(aggregated(at.outlook, at.now, merge=False)[0], None, at.now, work.space.objective),
        )
        found, took = [], []
        for ahead in aheads:
            begun = time.process_time()
            found.append([ahead.begun(text).value_at(at.now + HORIZON) for text in texts])
            took.append(1000 * (time.process_time() - begun) / len(texts))
        both = np.array(found).T
        rank = correlations(both[np.isfinite(both).all(axis=1)])[0]
        row = (
            f"{hour:6}{int(weights.sum()):7}{len(weights):8}{took[0]:8.1f}{took[1]:11.1f}{rank[1]:7.2f}{rank[2]:10.2f}"
        )
        print(row, flush=True)  # noqa: T201


def main(data: str = "venus", policy: str = "tiresias") -> None:
    """Print both tables."""
    work = adapting(data, policy)
    hours = instants(work)
    print(f"{data}, {policy}, {len(HOURS)} hours, {SEEDS} seeds, {work.space.budget} evaluations")  # noqa: T201
    merging(work, hours)
    ways(work, hours)


if __name__ == "__main__":
    main(*sys.argv[1:3])
