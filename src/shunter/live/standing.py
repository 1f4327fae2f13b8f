"""The place of each waiting job in a policy's order, from one look at a cluster; nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shunter.drive import decide
from shunter.live.backend import LiveBackend, Rhythm
from shunter.live.nodes import Node, Rack
from shunter.live.snapshot import Snapshot
from shunter.live.switching import begun
from shunter.protocols import Policy


@dataclass(frozen=True)
class OneLook:
    """``Looks`` that show one moment."""

    moment: Snapshot

    def racks(self) -> Sequence[Rack]:
        """They don't matter for an order."""
        return []

    def nodes(self) -> Sequence[Node]:
        """The machines."""
        return self.moment.nodes

    def counters(self) -> str:
        """Nothing happens."""
        return ""

    def snapshot(self) -> Snapshot:
        """The moment."""
        return self.moment


def places(policy: Policy, moment: Snapshot) -> dict[str, int]:
    """The places by job, those that should start now first; an array has the place of its first task."""
    backend = LiveBackend(OneLook(moment), Rhythm(0.0, 0.0))
    memory = begun(policy, backend)
    view = backend.look()
    assert view is not None
    decide(backend, policy, view, memory)
    wanted = backend.wanted()
    whole = {job.id: job.whole for job in wanted.jobs}
    found = {name: place for place, name in enumerate(wanted.ranking, 1)}
    for name, place in list(found.items()):
        found.setdefault(whole.get(name, name), place)
    return found
