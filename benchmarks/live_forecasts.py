"""Forecasts beside ``squeue --start`` on a real Slurm: ``python -m benchmarks.live_forecasts [SECONDS] [SEED]``.

Users with habits submit short jobs to a lab.  Every few seconds the queue is recorded, with Slurm's own estimates, and
what happened is compared afterwards.  A forecast at an instant knows only jobs that had ended by then.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.forecasting import CHANCES, rolled
from shunter.live.forecast import SAMPLES, Outlook
from shunter.live.run_times import EndedJob, RecentJobs
from shunter.live.snapshot import Snapshot
from shunter.live.wait_causes import Kind
from shunter.live.waits import Questions, Waits, described
from shunter.seeding import rng
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab
from shunter.slurm.reasons import meaning
from shunter.slurm.watcher import Watcher
from shunter.world import F64

SECONDS = 300
EVERY_S = 3.0
NEAR_S = 10.0
USERS = ("root", "nobody", "daemon")
KINDS = 4  # of each user
LOAD = 1.05
GPUS = 22


@dataclass(frozen=True)
class Habit:
    """Jobs that are alike."""

    user: str
    name: str
    gpus: int
    usual_s: float
    limit_min: int


def kinds(seed: int) -> list[Habit]:
    """What each user submits; limits are some times what is usual, as on most sites."""
    draw = rng(seed, "kinds of jobs")
    usual = draw.uniform(np.log(4), np.log(40), (len(USERS), KINDS))
    gpus, minutes = draw.choice((1, 1, 2, 4), usual.shape), draw.choice((1, 2, 5, 10), usual.shape)
    return [
        Habit(user, f"kind{at}", int(gpus[row, at]), float(np.exp(usual[row, at])), int(minutes[row, at]))
        for row, user in enumerate(USERS)
        for at in range(KINDS)
    ]


def submit(lab: Lab, seconds: float, seed: int) -> int:
    """A stream of jobs for this long, at a load just above what the nodes can do; returns how many."""
    draw, known = rng(seed, "stream of jobs"), kinds(seed)
    gap = float(np.mean([kind.gpus * kind.usual_s for kind in known])) * np.exp(0.08) / (GPUS * LOAD)
    begun, due, count = time.monotonic(), 0.0, 0
    while due < seconds:
        time.sleep(max(due - (time.monotonic() - begun), 0))
        kind = known[int(draw.integers(len(known)))]
        ran = min(kind.usual_s * float(np.exp(draw.normal(0, 0.4))), 60.0 * kind.limit_min)
        options = f"--gpus={kind.gpus} --nodes=1 --time={kind.limit_min} --mem=50 --job-name={kind.name}"
        lab.submit(*options.split(), script=f"sleep {ran:.1f}", user=kind.user)
        due += float(draw.exponential(gap))
        count += 1
    return count


def record(lab: Lab, seconds: float, seed: int = 0) -> list[Snapshot]:
    """The queue every few seconds, until all jobs have started."""
    watcher, found = Watcher(Client(lab.conf)), list[Snapshot]()
    stream = threading.Thread(target=submit, args=(lab, seconds, seed))
    stream.start()
    while stream.is_alive() or any(job.state == "PENDING" for job in found[-1].jobs):
        found.append(watcher.snapshot())
        waiting = sum(job.state == "PENDING" for job in found[-1].jobs)
        sys.stderr.write(f"\r{(found[-1].now - found[0].now) / 1000:4.0f} s, {waiting:3} jobs wait ")
        stream.join(EVERY_S) if stream.is_alive() else time.sleep(EVERY_S)
    sys.stderr.write("\n")
    return found


def started_at(recorded: Sequence[Snapshot]) -> dict[str, int]:
    """When each job started (ms)."""
    return {job.id: job.start for each in recorded for job in each.jobs if job.state != "PENDING" and job.start > 0}


def ask(recorded: Sequence[Snapshot]) -> tuple[Questions, F64]:
    """Roll-forwards of what waited at every moment, and Slurm's estimates (s from then; NaN: it had none)."""
    truth, seen, known = started_at(recorded), RecentJobs(), set[str]()
    rows, estimates, asked = [], list[float](), list[tuple[int, int, int]]()
    for each in recorded:
        for job in each.jobs:
            if job.over and job.start > 0 and job.id not in known:
                known.add(job.id)
                seen.add(EndedJob(job.user, job.name, float(job.end - job.start), float(job.limit)))
        outlook = Outlook(each, run_times=seen.run_times("the lab"), samples=SAMPLES)
        jobs = [
            job for job in each.jobs if job.state == "PENDING" and job.id in truth and meaning(job).kind is Kind.TURN
        ]
        answered = [found for found in outlook.rolled(*jobs) if not found.because] if jobs else []
        if answered:
            jobs = [found.job for found in answered]
            rows.append(described(outlook, answered))
            asked += [(each.now, int(job.id), truth[job.id]) for job in jobs]
            estimates += [(job.start - each.now) / 1000 if job.start > 0 else np.nan for job in jobs]
    now, number, start = np.array(asked, np.int64).T
    return Questions(np.concatenate(rows), now, number, start), np.array(estimates)


def answers(questions: Questions) -> F64:
    """P50 and P90 of the combination at every moment, from what was known then."""
    found = []
    for now in np.unique(questions.moment).tolist():
        rows = questions.rows[questions.moment == now]
        learned = Waits.learned(questions, now)
        found.append(rolled(rows) if learned is None else learned.seconds(rows, CHANCES))
    return np.concatenate(found)


def line(name: str, said: F64, truth: F64) -> str:
    """A row of the table."""
    error = np.abs(said[:, 0] - truth)
    return (
        f"| {name:14} | {len(truth):,} | {np.mean(error <= NEAR_S):4.0%} | {np.median(error):5.1f} |"
        f" {error.mean():5.1f} | {np.mean(truth <= said[:, 0]):4.0%} | {np.mean(truth <= said[:, 1]):4.0%} |"
    )


def report(questions: Questions, estimates: F64) -> str:
    """All methods, where Slurm had an estimate and where it had none."""
    truth = (questions.start - questions.moment) / 1000
    said = {
        "squeue --start": np.column_stack((estimates, estimates)),
        "roll-forward": rolled(questions.rows),
        "combined": answers(questions),
    }
    lines = [f"| method | questions | within {NEAR_S:.0f} s | median error, s | mean error, s | by P50 | by P90 |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    has = np.isfinite(estimates)
    for title, some in (("Slurm has an estimate", has), ("Slurm has none", ~has)):
        lines.append(f"{title}: {len(np.unique(questions.moment[some]))} moments")
        lines += [line(name, each[some], truth[some]) for name, each in said.items() if np.isfinite(each[some]).all()]
    return "\n".join(lines) + "\n"


def main(seconds: float = SECONDS, seed: int = 1) -> None:
    """Record a lab, and compare; seed 0 was used to choose settings."""
    with tempfile.TemporaryDirectory(prefix="lab", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with Lab(Path(folder)) as lab:
            recorded = record(lab, seconds, seed)
    sys.stdout.write(report(*ask(recorded)))


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:3]))
