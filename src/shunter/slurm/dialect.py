"""How Slurm writes requests and reasons: the dialect by which a snapshot of Slurm is read.

Each method imports what it needs when it is called: the watchdog takes snapshots too, and must load next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shunter.live.nodes import Node
    from shunter.live.requests import Request
    from shunter.live.snapshot import LiveJob
    from shunter.live.wait_causes import Meaning


class SlurmDialect:
    """Slurm's syntax of requests, and its reasons."""

    name = "Slurm"

    def request(self, job: LiveJob, nodes: Sequence[Node]) -> Request:
        """What a job asks for, of these nodes."""
        from shunter.slurm.requests import read

        return read(job, nodes)

    def meaning(self, job: LiveJob) -> Meaning:
        """What the reason of a waiting job means."""
        from shunter.slurm.reasons import meaning

        return meaning(job)

    def parents(self, job: LiveJob) -> list[str]:
        """The jobs that must end before this one."""
        from shunter.slurm.reasons import parents

        return parents(job)

    def licences(self, job: LiveJob) -> Mapping[str, int]:
        """The licences that a job asks for, by name."""
        from shunter.slurm.surroundings import requested_licences

        return requested_licences(job.licenses)


SLURM = SlurmDialect()
