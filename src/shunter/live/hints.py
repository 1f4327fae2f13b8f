"""What a job declares beyond its request: the model that it trains, how far it is, whether it may be stopped."""

from __future__ import annotations

import re
from dataclasses import dataclass

RANGE = re.compile(r"([0-9]{1,5})-([0-9]{1,5})", re.ASCII)
MOST_GPUS = 4096  # of a range; one beyond is a slip of the pen, or no honest one
MOST = 1e15  # of any number that a job declares
LATEST = 253_402_300_799.0  # of a deadline, seconds since 1970: the end of the year 9999
LONGEST_S = 1e9  # a job that says it takes longer says nothing: times of all jobs must add up to a number of 64 bits


@dataclass(frozen=True)
class JobHints:
    """What the comment of a job says; nothing that can't be read counts."""

    model: str = ""
    iterations: float = 0.0  # in all
    done: float = 0.0
    iteration_s: float = 0.0  # on the GPUs that were asked for
    run_s: float = 0.0  # how long it should run, said outright
    requeue: str = ""  # yes: it may be stopped and started again; what it did not save is lost
    resize: str = ""  # 2-8: it may be given 2 to 8 GPUs, never more than it asked for; it must also agree to requeue
    deadline: float = 0.0  # by when its user wants it done, seconds since 1970; 0: not declared
    sla: str = ""  # yes: leave it to the manager alone

    @property
    def widths(self) -> tuple[int, int]:
        """The fewest and the most GPUs that it agrees to; (0, 0): it does not agree, or not to a range that can be."""
        said = RANGE.fullmatch(self.resize)
        low, high = (int(said[1]), int(said[2])) if said else (0, 0)
        return (low, high) if 1 <= low <= high <= MOST_GPUS else (0, 0)

    @property
    def run_time_ms(self) -> int:
        """How long all of it takes, as declared; 0: not declared."""
        return _ms(self.run_s or self.iterations * self.iteration_s)

    @property
    def done_ms(self) -> int:
        """How much of that is done."""
        return _ms(self.done * self.iteration_s)


def _ms(seconds: float) -> int:
    return round(1000 * seconds) if 0 <= seconds <= LONGEST_S else 0


NO_HINTS = JobHints()
