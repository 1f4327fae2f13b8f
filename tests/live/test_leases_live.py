"""Slurm has no leases: policies that lease GPUs plan with jobs that keep theirs until they end."""

from __future__ import annotations

import numpy as np
import pytest

from shunter import drive as loop
from shunter.cluster import Cluster, NodeGroup
from shunter.live.backend import LiveBackend, Rhythm
from shunter.live.nodes import Rack
from shunter.live.snapshot import Snapshot
from shunter.model import GPU, Trace
from shunter.registry import policy
from shunter.sim.engine import Simulator
from shunter.testing.live import snapshot_of

MINUTE = 60_000


class Still:
    """Slurm at one instant."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def nodes(self):
        return self._snapshot.nodes

    def racks(self) -> list[Rack]:
        return []

    def counters(self) -> str:
        return "the same"


@pytest.fixture
def busy() -> Still:
    """Two of three GPUs are in use for 30 minutes; jobs of 3, 1 and 1 GPUs wait to run for 60, 60 and 10."""
    limit = np.array([30, 60, 60, 10]) * MINUTE
    given = {"submit": [0, 1, 2, 3], "duration": limit, "limit": limit, "gpus": np.array([2, 3, 1, 1]) * GPU}
    simulator = Simulator(Trace.of("t", list("abcd"), **given), Cluster("little", (NodeGroup(1, 3),)))
    simulator.run(policy("fifo"), until=10)
    return Still(snapshot_of(simulator))


@pytest.mark.parametrize(
    ("name", "started"),
    [
        ("dally:timers=none,lease=600,backfill=easy", {"3"}),
        ("tiresias:lease=600,backfill=easy", {"3"}),
        ("tiresias:backfill=easy", {"3"}),
        ("dally:timers=none,lease=600", {"2"}),
    ],
)
def test_the_end_of_a_lease_is_not_counted_on(busy: Still, name: str, started: set[str]) -> None:
    """A lease of ten minutes would end before the first has room; on Slurm the second stays for an hour."""
    backend, chosen = LiveBackend(busy, rhythm=Rhythm(0.01, 0.01)), policy(name)
    loop.decide(backend, chosen, backend.look(), chosen.start(backend.cluster))
    assert set(backend.wanted().starts) == started
    assert not backend.wanted().preempts
