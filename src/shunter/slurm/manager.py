"""Slurm as a resource manager: the adapter through which a controller polls it and changes its jobs.

``Watcher`` reads; this adds what changes jobs.  All calls go through one ``Client``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager

from shunter.live.journal import Journal
from shunter.live.levers import Order
from shunter.live.manager import Command, Presence
from shunter.live.snapshot import LiveJob
from shunter.slurm import levers
from shunter.slurm.watcher import Watcher


class SlurmManager(Watcher):
    """A ``ResourceManager``: see ``live/manager.py`` for what each method must do."""

    name = "Slurm"
    most_nice = levers.MOST_NICE
    most_priority = levers.MOST_PRIORITY
    watchdog = "shunter.slurm.watchdog"

    @property
    def calls(self) -> Mapping[str, int]:
        """How often each of Slurm's commands was called."""
        return self.client.calls

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's commands reach this cluster."""
        return self.client.environment

    def held(self, target: str) -> bool:
        """Whether a record is held by now."""
        return levers.held_now(self.client, target)

    def own_policy(self) -> str:
        """The policy that is nearest to Slurm's configuration."""
        from shunter.slurm.scontrol_output import settings
        from shunter.slurm.site import of_config

        return of_config(settings(self.client.run("scontrol", "show", "config"))).policy

    # -- changes

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """All calls inside must be over by then."""
        return self.client.within(seconds)

    def carry_out(self, order: Order) -> None:
        """Change a job, and its mark with it."""
        self._run(levers.commands(order))

    def commands(self, order: Order) -> tuple[Command, ...]:
        """The exact commands that carry it out."""
        return levers.commands(order)

    def annotated(self, order: Order) -> str:
        """The AdminComment that goes with an order."""
        return levers.annotated(order)

    def shows(self, lever: str, value: str, job: LiveJob) -> bool:
        """Whether a job has this value of a lever."""
        return levers.shows(lever, value, job)

    def half_share(self, job: LiveJob) -> str:
        """Half the shards that a job asks for."""
        return levers.half_share(job)

    def sized(self, job: LiveJob, gpus: int) -> str:
        """What a job would ask for with so many GPUs."""
        return levers.sized(job, gpus)

    # -- the way back

    def targets(self, jobs: Sequence[LiveJob]) -> list[str]:
        """How scontrol addresses all of these records."""
        return levers.targets(jobs)

    def give_back(self, job: LiveJob, own: Mapping[str, str], target: str = "", without: Collection[str] = ()) -> None:
        """Give a job its own values back."""
        self._run(levers.undoing(job, own, target, without))

    def unmark(self, job: LiveJob, levers_changed: Collection[str], target: str = "") -> None:
        """Remove marks of values that others have changed."""
        self._run(levers.unmarking(job, levers_changed, target))

    def presence(self, journal: Journal, interval_s: float) -> Presence:
        """A reservation without nodes that shows that a controller acts."""
        from shunter.slurm.presence import SlurmPresence as Sign

        return Sign(self.client, journal, interval_s)

    def _run(self, commands: tuple[Command, ...]) -> None:
        for program, *arguments in commands:
            self.client.run(program, *arguments)
