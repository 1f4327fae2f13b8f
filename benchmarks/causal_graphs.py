"""How well graphs are learned: ``python -m benchmarks.causal_graphs``.

Systems of six settings, four things in between and an objective are drawn, whose graphs are known: with straight or
bent effects, with or without a hidden cause of two things in between.  Printed are, for our tests of independence and
for FCI by causal-learn, the share of edges that are right, the share of true edges that are found, the share of
directions within the middle layer that are right, and ms of CPU time.
"""

from __future__ import annotations

import time

import numpy as np

from shunter.adapting.causal import OBJECTIVE, CausalGraph, CausalSamples
from shunter.adapting.rejecting import GRAPHS

SETTINGS, BETWEEN = tuple("abcdef"), ("delay", "load", "stops", "lost")
RUNS, SEEDS = (60, 200, 400), 20


def system(seed: int, runs: int, bent: bool, hidden: bool) -> tuple[CausalSamples, set[frozenset[str]], set[str]]:
    """Samples, the true edges, and the true directions in the middle layer as texts."""
    draws = np.random.default_rng(seed)
    inputs, middle = draws.random((runs, len(SETTINGS))), np.zeros((runs, len(BETWEEN)))
    edges: set[frozenset[str]] = set()
    arrows: set[str] = set()
    for at, name in enumerate(BETWEEN):
        causes = np.flatnonzero(draws.random(len(SETTINGS)) < 0.4)
        for cause in causes if len(causes) else [int(draws.integers(len(SETTINGS)))]:
            effect = inputs[:, cause] ** (3 if bent else 1)
            middle[:, at] += draws.choice([-1, 1]) * draws.uniform(1, 2.5) * effect
            edges.add(frozenset((SETTINGS[cause], name)))
        for before in range(at):
            if draws.random() < 0.3:
                middle[:, at] += draws.choice([-1, 1]) * draws.uniform(0.5, 1) * middle[:, before]
                edges.add(frozenset((BETWEEN[before], name)))
                arrows.add(f"{BETWEEN[before]} -> {name}")
        middle[:, at] += 0.35 * draws.standard_normal(runs)
    if hidden:
        middle[:, :2] += 0.6 * draws.standard_normal(runs)[:, None]
        edges.add(frozenset(BETWEEN[:2]))
    objective = 0.3 * draws.standard_normal(runs)
    for at, name in enumerate(BETWEEN):
        if at == 0 or draws.random() < 0.6:
            objective += draws.choice([-1, 1]) * draws.uniform(0.6, 1.5) * middle[:, at]
            edges.add(frozenset((name, OBJECTIVE)))
    return CausalSamples(SETTINGS, BETWEEN, inputs, middle, objective), edges, arrows


def edges_of(graph: CausalGraph) -> set[frozenset[str]]:
    """Without directions."""
    causes = {frozenset((name, OBJECTIVE)) for name in graph.causes}
    return {frozenset(edge) for edge in graph.effects} | set(graph.links) | causes


def measured(method: str, runs: int, bent: bool, hidden: bool) -> tuple[float, float, float, float]:
    """Means over the seeds."""
    right, found, ways, took = [], [], [], []
    for seed in range(SEEDS):
        samples, true, arrows = system(seed, runs, bent, hidden)
        begun = time.process_time()
        graph = GRAPHS[method](samples)
        took.append(time.process_time() - begun)
        edges = edges_of(graph)
        right.append(len(edges & true) / max(len(edges), 1))
        found.append(len(edges & true) / len(true))
        ways += [f"{a} -> {b}" in arrows for a, b in graph.arrows]
    return (
        float(np.mean(right)),
        float(np.mean(found)),
        float(np.mean(ways)) if ways else np.nan,
        1000 * float(np.mean(took)),
    )


def main() -> None:
    """Print a row per kind of system and number of runs."""
    print(f"{'effects':10}{'hidden':8}{'runs':>6}  {'graph':8}{'right':>7}{'found':>7}{'ways':>7}{'ms':>8}")  # noqa: T201
    for bent, hidden in ((False, False), (True, False), (False, True)):
        for runs in RUNS:
            for method in GRAPHS:
                right, found, ways, took = measured(method, runs, bent, hidden)
                row = f"{'bent' if bent else 'straight':10}{'yes' if hidden else 'no':8}{runs:6}  {method:8}"
                print(f"{row}{right:7.2f}{found:7.2f}{ways:7.2f}{took:8.1f}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
