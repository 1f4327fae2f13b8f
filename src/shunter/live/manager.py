"""The seam: all that a controller, its guard and its watchdog need of a resource manager.

``slurm/manager.py`` is the adapter to Slurm, ``testing/memory_manager.py`` one that keeps its jobs in memory.  Another
resource manager is one more folder with a class of these methods; ``testing.manager_conformance`` tests it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from shunter.errors import LiveError

if TYPE_CHECKING:
    from shunter.live.journal import Journal
    from shunter.live.levers import Order
    from shunter.live.nodes import Node, Rack
    from shunter.live.snapshot import LiveJob, Snapshot

Command = tuple[str, ...]


class UnreachableError(LiveError):
    """The resource manager did not answer: whether it did what it was asked is not known."""


class DeclinedError(LiveError):
    """It answered, and would not."""


class GoneError(DeclinedError):
    """It would not because the job has ended."""


class ForbiddenError(DeclinedError):
    """It would not because this account may not do that."""


class Looks(Protocol):
    """Polls of a cluster."""

    def racks(self) -> Sequence[Rack]:
        """Which nodes stand together; none where the network is flat."""
        ...

    def nodes(self) -> Sequence[Node]:
        """The machines with GPUs."""
        ...

    def counters(self) -> str:
        """Something cheap that changes whenever a job comes, starts or ends; "": not known."""
        ...

    def snapshot(self) -> Snapshot:
        """Jobs and nodes as they are now, with the dialect in which they are written."""
        ...


class Presence(Protocol):
    """Shows other controllers of the same cluster that this one acts."""

    def rival(self) -> str:
        """Why this controller gives way to another; "": it need not. Others can see this one before it looks."""
        ...

    def remove(self) -> None:
        """Take the sign away: this controller no longer acts."""
        ...


class ResourceManager(Looks, Protocol):
    """A resource manager: it is polled, and it changes jobs.

    Every method may raise ``UnreachableError``; those that change a job may raise ``DeclinedError`` or a class of it.
    """

    name: str  # as people call it
    most_nice: int  # the largest nice, up or down
    most_priority: int
    watchdog: str  # the module that runs a watchdog as a process of its own; "": there is none

    @property
    def calls(self) -> Mapping[str, int]:
        """How often each of its commands was called."""
        ...

    @property
    def unread(self) -> Mapping[str, str]:
        """Jobs and nodes of the last snapshot that could not be read, and why."""
        ...

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which another process reaches the same cluster."""
        ...

    # -- smaller questions

    def waits(self, job: str) -> bool:
        """Whether a job still waits."""
        ...

    def held(self, target: str) -> bool:
        """Whether its user or an administrator holds a record by now: giving back its priority would undo that."""
        ...

    def set_by_hand(self) -> Mapping[str, int]:
        """Waiting jobs, by number, whose priority was set outright."""
        ...

    def boot_time(self) -> float:
        """When it was started, in seconds since 1970: it may have forgotten what was done before."""
        ...

    def own_policy(self) -> str:
        """The policy that is nearest to what it does by itself."""
        ...

    # -- changes

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """All calls inside must be over by then."""
        ...

    def carry_out(self, order: Order) -> None:
        """Change a job, together with its mark if the order names a journal: a job never has one without the other."""
        ...

    def commands(self, order: Order) -> tuple[Command, ...]:
        """The exact commands that carry it out, to be shown."""
        ...

    def annotated(self, order: Order) -> str:
        """The job's annotation after the order: a mark comes, or goes; what else is in it stays."""
        ...

    def shows(self, lever: str, value: str, job: LiveJob) -> bool:
        """Whether a job has this value of a lever."""
        ...

    def half_share(self, job: LiveJob) -> str:
        """The value of lever ``shard`` that halves the part of a GPU that a job asks for; "": it can't be halved."""
        ...

    def sized(self, job: LiveJob, gpus: int) -> str:
        """The value of lever ``resize`` with which a job asks for so many GPUs; "": its request can't be changed."""
        ...

    # -- the way back

    def targets(self, jobs: Sequence[LiveJob]) -> list[str]:
        """How all of these records, which are alike, are addressed together: by one name, or by several."""
        ...

    def give_back(self, job: LiveJob, own: Mapping[str, str], target: str = "", without: Collection[str] = ()) -> None:
        """Give a job its own values back, by lever, and remove their marks and those of the levers ``without``."""
        ...

    def unmark(self, job: LiveJob, levers: Collection[str], target: str = "") -> None:
        """Remove the marks of levers whose values others have changed since."""
        ...

    # -- other controllers

    def presence(self, journal: Journal, interval_s: float) -> Presence:
        """Shows that a controller with this journal acts."""
        ...
