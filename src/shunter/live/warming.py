"""Compile all that a live round needs before the first poll of the manager: on a small synthetic cluster.

A round that compiles for a minute between its look and its changes would act on what is no longer so.
"""

from __future__ import annotations

import time
from dataclasses import replace

from shunter.drive import decide
from shunter.live.backend import LiveBackend, Rhythm
from shunter.live.forecast import Outlook
from shunter.live.guard import GuardWindow
from shunter.live.nodes import Node, Rack
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.protocols import Policy

HOUR_MS = 3_600_000


def small_cluster() -> tuple[Snapshot, Snapshot]:
    """Two moments of a small cluster: a job runs and two wait; then it has ended, another runs, and a fourth waits."""
    now = round(time.time() * 1000)
    nodes = tuple(Node(name, "idle", ("main",), gpus=4, cpus=16, mem_mib=64_000) for name in ("a", "b"))
    wide = LiveJob("1", "1", "PENDING", partition="main", user="u", submit=now, eligible=now, limit=HOUR_MS, gpus=8)
    first, second = (replace(wide, id=name, handle=name, gpus=4, cpus=4) for name in ("2", "3"))
    first, runs = (replace(job, state="RUNNING", start=now, ran=1, nodes=("a",)) for job in (first, second))
    used = replace(nodes[0], used=(0, 1, 2, 3))
    before = Snapshot(now, (wide, first, second), (used, nodes[1]))
    ended = replace(first, state="COMPLETED", start=now, end=now + 1000, nodes=("a",))
    fourth = replace(second, id="4", handle="4")
    after = Snapshot(now + 2000, (wide, ended, runs, fourth), (used, nodes[1]))
    return before, after


class Still:
    """``Looks`` that show the two moments, one after the other."""

    def __init__(self) -> None:
        self._moments = list(small_cluster())

    def racks(self) -> list[Rack]:
        """There are none."""
        return []

    def nodes(self) -> tuple[Node, ...]:
        """The machines."""
        return self._moments[0].nodes

    def counters(self) -> str:
        """Always another answer, so that every round begins at once."""
        return str(len(self._moments))

    def snapshot(self) -> Snapshot:
        """The next moment."""
        return self._moments.pop(0)


def rounds(policy: Policy) -> None:
    """Compile what a controller with this policy needs for a round."""
    backend = LiveBackend(Still(), rhythm=Rhythm(0.0, 0.0))
    memory = policy.start(backend.cluster)
    for _ in range(2):
        view = backend.look()
        assert view is not None
        decide(backend, policy, view, memory)


def shadow(base: Policy) -> None:
    """Compile what a guard needs for a comparison."""
    before, after = small_cluster()
    window = GuardWindow(before)
    window.note(after)
    window.shadow(base)


def forecasts() -> None:
    """Compile what ``why``, ``when`` and ``what-if`` need."""
    present = small_cluster()[0]
    outlook = Outlook(present, samples=2)
    outlook.of(present.jobs[0])
