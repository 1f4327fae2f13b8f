"""How long jobs ran, as slurmdbd knows it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from shunter.live.run_times import EndedJob, RunTimes
from shunter.slurm.client import Client

DAYS = 30  # of accounting that are read
ENDS = "CD,F,TO,OOM,NF"


def run_times(client: Client) -> RunTimes:
    """Samples of what slurmdbd knows of the last days."""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - DAYS * 86_400))
    columns = "End,User,ElapsedRaw,TimelimitRaw,JobName"  # the name last: it may hold anything
    text = client.run(
        "sacct", "--allusers", "--allocations", "--noheader", "--parsable2", f"--starttime={since}", "--endtime=now",
        f"--state={ENDS}", f"--format={columns}",
    )  # fmt: skip
    return RunTimes.of(_ended(text), f"the last {DAYS} days of accounting")


def _ended(text: str) -> Iterable[EndedJob]:
    for line in sorted(text.splitlines()):  # by their ends
        _, user, ran, limit, name = (*line.split("|", 4), "", "", "", "")[:5]
        if ran.isdigit():
            yield EndedJob(user, name, 1000.0 * int(ran), 60_000.0 * int(limit) if limit.isdigit() else 0.0)
