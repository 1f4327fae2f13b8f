"""What a job may say of itself in its comment: ``shunter: model=resnet50 iterations=9000 done=1200 iteration_s=0.41``.

Slurm knows neither what a job trains nor how far it is.  A job that wants to be scheduled by such things says them in
its comment (``sbatch --comment``), and a training script keeps it up to date:

    from shunter.slurm.comments import report
    report(done=step, iteration_s=seconds)        # calls scontrol at most once a minute
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, fields

PREFIX = "shunter:"
PAIR = re.compile(r"(\w+)=([\w.+/-]+)")
SECONDS_BETWEEN = 60.0
MOST = 1e15
LONGEST_S = 1e9  # a job that says it takes longer says nothing: times of all jobs must add up to a number of 64 bits

_last: dict[str, float] = {}


@dataclass(frozen=True)
class Told:
    """What the comment of a job says; nothing that can't be read counts."""

    model: str = ""
    iterations: float = 0.0  # in all
    done: float = 0.0
    iteration_s: float = 0.0  # on the GPUs that were asked for
    run_s: float = 0.0  # how long it should run, said outright
    requeue: str = ""  # yes: it may be stopped and started again; what it did not save is lost
    sla: str = ""  # yes: leave it to Slurm alone

    @property
    def run_time_ms(self) -> int:
        """How long all of it takes, as declared; 0: not declared."""
        return _ms(self.run_s or self.iterations * self.iteration_s)

    @property
    def done_ms(self) -> int:
        """How much of that is done."""
        return _ms(self.done * self.iteration_s)


def _ms(seconds: float) -> int:
    return round(1000 * seconds) if seconds <= LONGEST_S else 0


NOTHING = Told()


def told_in(comment: str) -> Told:
    """What stands behind ``shunter:`` in a comment."""
    _, mark, said = comment.partition(PREFIX)
    if not mark:
        return NOTHING
    values: dict[str, str | float] = {}
    kinds = {each.name: each.type for each in fields(Told)}
    for name, value in PAIR.findall(said):
        if name not in kinds:
            continue
        if kinds[name] == "str":
            values[name] = value
            continue
        try:
            number = float(value)
        except ValueError:
            continue
        if 0 <= number <= MOST:
            values[name] = number
    return Told(**values)  # type: ignore[arg-type]


def report(**now: float | str) -> bool:
    """Say from inside a job how far it is; called as often as you like. False: nothing was said."""
    from shunter.errors import SlurmError
    from shunter.slurm.client import Client

    job = os.environ.get("SLURM_JOB_ID", "")
    if not job or time.monotonic() - _last.get(job, -SECONDS_BETWEEN) < SECONDS_BETWEEN:
        return False
    _last[job] = time.monotonic()
    client = Client()
    try:
        said = re.search(r"^\s*Comment=(.*)$", client.run("scontrol", "show", "job", job), re.MULTILINE)
        before, _, values = (said[1] if said else "").partition(PREFIX)
        pairs = dict(PAIR.findall(values)) | {
            name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in now.items()
        }
        comment = f"{before}{PREFIX} " + " ".join(f"{name}={value}" for name, value in pairs.items())
        client.run("scontrol", "update", f"jobid={job}", f"comment={comment}")
    except SlurmError:
        return False  # a training must not stop because Slurm does not answer
    return True
