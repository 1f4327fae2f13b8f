"""``elastic`` on a real Slurm against a user who changes his jobs while they wait."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from acting import acting, fill

from shunter.errors import SlurmError
from shunter.live.daemons import wait
from shunter.slurm.lab import Lab

pytestmark = pytest.mark.xdist_group("slurm")
ABSURD = (
    "shunter: deadline=nan run_s=inf iterations=1e15 iteration_s=1e15 done=1e15",
    "shunter: deadline=9999-12-31T23:59:59 run_s=999999999",
    "shunter: deadline=1970-01-01T00:00:01 resize=1-4096 requeue=yes",
    "shunter: deadline=2026-W47 run_s=1_0:00:00",
    f"shunter:{'a' * 1000}",
    "shunter:\n run_s=5\nJobId=1 Priority=9 \x01\x1b[31m",
    os.fsdecode(b"shunter: run_s=\xff\xfe deadline=\xd9\xa3"),
)


def waiting(lab: Lab) -> list[int]:
    """The jobs that wait, in Slurm's order; held ones left out."""
    rows = (line.split() for line in lab.run("squeue", "-h", "-t", "PD", "-O", "jobid:12,prioritylong:12").splitlines())
    jobs = [(-int(priority), int(job)) for job, priority in rows if priority != "0"]
    return [job for _, job in sorted(jobs)]


def test_the_queue_follows_what_jobs_say_now_whatever_else_a_user_does_to_his(lab: Lab, tmp_path: Path) -> None:
    long, middle, short = fill(lab, 60, 30, 10)
    with acting(lab, tmp_path / "j.db", "elastic") as made:
        assert wait(lambda: waiting(lab) == [short, middle, long], 180)
        lab.run("scontrol", "update", f"jobid={long}", "comment=shunter: run_s=5")
        assert wait(lambda: waiting(lab) == [long, short, middle], 180)
        hostile = [lab.submit("--gpus=2", "--time=50", user="nobody", script="sleep 600") for _ in ABSURD]
        for job, comment in zip(hostile, ABSURD, strict=True):
            lab.run("scontrol", "update", f"jobid={job}", f"comment={comment}", user="nobody")
        for change in ("timelimit=1", "tresperjob=gres:gpu:22", "partition=share", "numnodes=2", "starttime=now+1"):
            with suppress(SlurmError):  # Slurm does not take all of them
                lab.run("scontrol", "update", f"jobid={hostile[0]}", change, user="nobody")
            made.wait_rounds(2)
        lab.run("scontrol", "hold", str(hostile[1]), user="nobody")
        made.wait_rounds(2)
        lab.run("scontrol", "release", str(hostile[1]), user="nobody")
        made.wait_rounds(3)
        assert [job for job in waiting(lab) if job not in hostile] == [long, short, middle]
    assert made.ended is None
    assert made.problems == []
