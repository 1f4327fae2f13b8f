"""Controllers on a real Slurm against a user who changes his jobs while they wait, or asks for what there is not."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from acting import acting, fill, shunter

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


@pytest.mark.parametrize("gpus", [300_000_000, 10**17])
def test_a_held_job_may_ask_for_any_number_of_gpus_and_harms_no_other(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int
) -> None:
    """Slurm checks the size of a job that is held only once it is to start, so such a job waits like all others."""
    long, middle, short = fill(lab, 60, 30, 10)
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    more = ("--cpus-per-gpu=60000", "--mem-per-gpu=900000T")
    odd = lab.submit("--hold", f"--gpus={gpus}", *more, "--nice=100", "--time=5", user="nobody")
    lab.run("scontrol", "release", str(odd), user="nobody")
    with acting(lab, tmp_path / "j.db", "edf") as made:
        lab.run("scontrol", "update", f"jobid={short}", "comment=shunter: deadline=2030-01-01T00:00")
        lab.run("scontrol", "update", f"jobid={middle}", "comment=shunter: deadline=2029-01-01T00:00")
        assert wait(lambda: [job for job in waiting(lab) if job != odd] == [middle, short, long], 180)
    assert made.ended is None
    assert made.problems == []
    assert shunter("why", short).exit_code == 0
    now = tmp_path / "now.json"
    assert shunter("snapshot", now).exit_code == 0
    assert shunter("why", short, "--snapshot", now).exit_code == 0
