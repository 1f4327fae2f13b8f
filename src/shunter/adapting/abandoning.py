"""After how many decisions a simulated run is abandoned: settings that stop and start jobs all the time never end."""

from __future__ import annotations

PER_JOB = 100
AHEAD, WHOLE = 5_000, 20_000  # as many more in a look ahead, and on a whole trace


def most_decisions(jobs: int, more: int = WHOLE) -> int:
    """How many a run of these jobs may take."""
    return PER_JOB * jobs + more
