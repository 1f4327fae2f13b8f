"""What a job may say of itself in its comment: ``shunter: model=resnet50 iterations=9000 done=1200 iteration_s=0.41``.

``deadline=2026-11-20T09:00`` is the time by which its user wants it done: ISO 8601, local unless it names an offset.

Slurm knows neither what a job trains nor how far it is.  A job that wants to be scheduled by such things says them in
its comment (``sbatch --comment``), and a training script keeps it up to date:

    from shunter.slurm.comments import report
    report(done=step, iteration_s=seconds)        # calls scontrol at most once a minute
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import fields
from datetime import datetime

from shunter.live.hints import LATEST, MOST, NO_HINTS, JobHints

PREFIX = "shunter:"
PAIR = re.compile(r"\b(\w+)=([\w.+/:-]+)")  # from the beginning of a word: else a long one costs its length squared
SECONDS_BETWEEN = 60.0

_last: dict[str, float] = {}


def hints_in(comment: str) -> JobHints:
    """What stands behind ``shunter:`` in a comment."""
    _, mark, said = comment.partition(PREFIX)
    if not mark:
        return NO_HINTS
    values: dict[str, str | float] = {}
    kinds = {each.name: each.type for each in fields(JobHints)}
    for name, value in PAIR.findall(said):
        if name not in kinds:
            continue
        if kinds[name] == "str":
            values[name] = value
            continue
        try:
            number = _instant(value) if name == "deadline" else float(value)
        except (ValueError, OverflowError, OSError):
            continue
        if 0 <= number <= (LATEST if name == "deadline" else MOST):
            values[name] = number
    return JobHints(**values)  # type: ignore[arg-type]


def _instant(text: str) -> float:
    """Seconds since 1970 of an ISO time, or of such seconds themselves."""
    return datetime.fromisoformat(text).timestamp() if "-" in text else float(text)


def report(**now: float | str) -> bool:
    """Say from inside a job how far it is; called as often as you like. False: nothing was said."""
    from shunter.errors import LiveError
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
    except LiveError:
        return False  # a training must not stop because Slurm does not answer
    return True
