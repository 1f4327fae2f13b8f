"""Hypothesis strategies: small clusters and job lists, crowded and full of ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from shunter.testing.offers import LeaseJob
from shunter.testing.reference import RefJob, RefNode
from shunter.testing.tiers import Layout


def nodes(max_nodes: int = 4, max_gpus: int = 8, max_pools: int = 2) -> st.SearchStrategy[list[RefNode]]:
    """Nodes of even and uneven sizes, in one pool or several."""
    size = st.sampled_from([gpus for gpus in (1, 2, 3, 4, 8) if gpus <= max_gpus])
    node = st.builds(RefNode, gpus=size, pool=st.integers(0, max_pools - 1))
    equal = st.builds(lambda count, gpus: [RefNode(gpus)] * count, st.integers(1, max_nodes), size)
    return st.one_of(equal, st.lists(node, min_size=1, max_size=max_nodes))


@st.composite
def jobs(  # noqa: PLR0913 each argument bounds one column
    draw: st.DrawFn,
    on: Sequence[RefNode],
    *,
    max_jobs: int = 30,
    max_gpus: int = 12,
    min_duration: int = 0,
    max_duration: int = 20,
    max_submit: int = 15,
    exact: bool | None = None,
    dependencies: bool = True,
) -> list[RefJob]:
    """Jobs that each fit the empty pool, sorted by submission.

    ``exact``: estimates are the truth (True), drawn independently of it (False), or either (None).
    """
    room: dict[int, int] = {}
    for node in on:
        room[node.pool] = room.get(node.pool, 0) + node.gpus
    submits = sorted(draw(st.lists(st.integers(0, max_submit), min_size=1, max_size=max_jobs)))
    truthful = draw(st.booleans()) if exact is None else exact
    drawn = []
    for index, submit in enumerate(submits):
        pool = draw(st.sampled_from(sorted(room)))
        gpus = draw(st.integers(1, min(room[pool], max_gpus)))
        duration = draw(st.integers(min_duration, max_duration))
        estimate = duration if truthful else draw(st.integers(0, max_duration + 5))
        waits = dependencies and index > 0 and draw(st.integers(0, 7)) == 7
        after = draw(st.integers(0, index - 1)) if waits else -1
        drawn.append(RefJob(submit, duration, gpus, estimate, pool, after))
    return drawn


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    max_jobs: int = 30,
    min_duration: int = 0,
    max_submit: int = 15,
    exact: bool | None = None,
    dependencies: bool = True,
) -> tuple[list[RefJob], list[RefNode]]:
    """Draw a cluster and jobs for it: the first two arguments of ``reference.simulate``."""
    cluster = draw(nodes())
    span = {"min_duration": min_duration, "max_submit": max_submit}
    return draw(jobs(cluster, max_jobs=max_jobs, **span, exact=exact, dependencies=dependencies)), cluster


def layouts(max_racks: int = 3, max_nodes: int = 3, max_gpus: int = 4) -> st.SearchStrategy[Layout]:
    """Racks of equal nodes, some of them joined by twos below the whole cluster; racks may differ."""
    rack = st.tuples(st.integers(1, max_nodes), st.integers(1, max_gpus))
    return st.builds(_layout, st.lists(rack, min_size=1, max_size=max_racks), st.booleans())


def _layout(racks: list[tuple[int, int]], by_twos: bool) -> Layout:
    gpus = [size for count, size in racks for _ in range(count)]
    rack_of = [rack for rack, (count, _) in enumerate(racks) for _ in range(count)]
    levels = [rack_of, [rack // 2 for rack in rack_of]]
    return Layout(tuple(gpus), tuple(tuple(level) for level in levels[: 1 + by_twos]))


@st.composite
def lease_jobs(
    draw: st.DrawFn, on: Layout, kinds: Sequence[LeaseJob], *, tick: int, max_jobs: int = 20, max_ticks: int = 30
) -> list[LeaseJob]:
    """Jobs like these kinds, in size, length and time of submission drawn so that they crowd a cluster."""
    latest = draw(st.sampled_from([0, 4, max_ticks]))
    submits = sorted(draw(st.lists(st.integers(0, latest), min_size=1, max_size=max_jobs)))
    size = st.integers(1, min(sum(on.gpus), 12))
    drawn = [(submit, draw(st.integers(0, max_ticks)), draw(size), draw(st.sampled_from(kinds))) for submit in submits]
    return [replace(kind, submit=submit * tick, work=work * tick, gpus=gpus) for submit, work, gpus, kind in drawn]
