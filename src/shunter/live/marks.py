"""Marks: what a job had before our first change and what it has from us, kept in the job itself.

How a resource manager keeps them is its adapter's: Slurm has them in the AdminComment, see ``slurm/marks.py``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """One lever on one job: the journal that changed it, the value before its first change, and the present one."""

    journal: str  # its identity, 8 hex digits
    lever: str
    before: str
    value: str  # nodes of a pin are separated by commas
