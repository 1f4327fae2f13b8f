"""Other controllers of the same cluster, wherever they run: the marks on waiting jobs show who changed them."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.live.snapshot import Snapshot

SHOWN = 3  # jobs in a message


@dataclass(frozen=True)
class Rivals:
    """What waiting jobs say of journals."""

    jobs: dict[str, list[str]]  # by journal, without our own: the jobs with changes of its
    ours: bool  # whether there are some with changes of our own

    def __str__(self) -> str:
        return "; ".join(
            f"another controller (journal {journal}) has changed {len(jobs)} waiting job{'' if len(jobs) == 1 else 's'}"
            f" ({', '.join(jobs[:SHOWN])}{', ...' if len(jobs) > SHOWN else ''})"
            for journal, jobs in sorted(self.jobs.items())
        )

    def yields(self, own: str) -> bool:
        """Whether it is for us to give way.

        Two that started at the same moment have both changed jobs before either saw a mark of the other: the one whose
        journal has the lowest id waits until the others have given way.  In every other case one that sees marks
        came later, or has nothing to lose.
        """
        return bool(self.jobs) and not (self.ours and own < min(self.jobs))


def rivals(snapshot: Snapshot, own: str) -> Rivals:
    """Whose changes waiting jobs have; one that was queued again may have them of a controller that is long gone."""
    found: dict[str, dict[str, None]] = {}
    for job in snapshot.jobs:
        if job.state == "PENDING" and job.marks and not job.restarts:
            for mark in job.marks:
                found.setdefault(mark.journal, {})[job.handle] = None
    ours = own in found
    return Rivals({journal: list(jobs) for journal, jobs in found.items() if journal != own}, ours)
