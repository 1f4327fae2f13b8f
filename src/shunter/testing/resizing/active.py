"""What a plain policy that resizes jobs knows of those that wait or run: arrays, one entry per job, in submit order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.instances import training_by_width
from shunter.model import View
from shunter.world import F64, I64

USUAL_MS = 3_600_000.0  # the work of a job of which nothing is known
OVERRUN = 0.1  # share of the work done that is expected to be left where a job has outrun its estimate


@dataclass(frozen=True, eq=False)
class ActiveJobs:
    """The jobs that wait or run at one instant."""

    now: int
    rows: I64  # (jobs,) of the view
    runs: NDArray[np.bool_]
    width: I64  # GPUs now; 0: it waits
    least: I64
    most: I64
    asked: I64
    due: I64  # ms; NEVER: it has no deadline
    left: F64  # work that is expected to be left, ms at speed 1
    cost: I64  # ms that a change of GPUs takes
    stays: NDArray[np.bool_]  # it runs and can't be stopped
    speed: F64  # (2, jobs, GPUs + 1) by width: on one machine, across machines; 1: as the trace has it
    unit: F64  # (jobs,) speed in units of one GPU of the same model, at speed 1

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def laxity(self) -> F64:
        """Time to the deadline beyond what the work left takes on the GPUs asked for, ms."""
        return self.due - self.now - self.left

    def best(self, at: int, node_gpus: int) -> F64:
        """Speeds by width: on one machine while that has the GPUs, then across."""
        widths = np.arange(self.speed.shape[2])
        speeds: F64 = np.where(widths <= node_gpus, self.speed[0, at], self.speed[1, at])
        return speeds

    def time_left(self, at: int, width: int) -> float:
        """How long a job still runs on this many GPUs of one machine, ms."""
        return float(self.left[at] / self.speed[0, at, width])


def active_jobs(view: View, expected: Mapping[int, float]) -> ActiveJobs:
    """The jobs that wait or run; ``expected`` is the work of each job in all (ms at speed 1)."""
    rows = np.sort(np.concatenate((view.pending, view.running)))
    jobs = view.jobs
    runs = jobs.state[rows] == w.RUNNING
    ranged, asked = jobs.max_gpus[rows] > 0, jobs.gpus[rows]
    least, most = np.where(ranged, jobs.min_gpus[rows], asked), np.where(ranged, jobs.max_gpus[rows], asked)
    done = view.work(rows)
    whole = np.array([expected[job] for job in rows.tolist()])
    left = np.maximum(whole - done, np.maximum(OVERRUN * done, 1.0))
    stays = runs & (jobs.checkpointable[rows] == 0)
    due = np.where(jobs.deadline[rows] > 0, jobs.submit[rows] + jobs.deadline[rows], w.NEVER)
    speed, unit = _speeds(view, rows, int(most.max(initial=1)))
    width, cost = np.where(runs, jobs.workers[rows], 0), jobs.stop_cost[rows] + jobs.start_cost[rows]
    held = np.where(stays, width, least), np.where(stays, width, most)
    return ActiveJobs(view.now, rows, runs, width, *held, asked, due, left, cost, stays, speed, unit)


def _speeds(view: View, rows: I64, most: int) -> tuple[F64, F64]:
    """Speeds by width, and what speed 1 is in units of one GPU."""
    speed, unit = np.zeros((2, len(rows), most + 1)), np.zeros(len(rows))
    for at, job in enumerate(rows.tolist()):
        curve, asked, servers = (int(x[job]) for x in (view.world.jobs[w.CURVE], view.jobs.gpus, view.jobs.servers))
        work = training_by_width(asked, servers, max(most, asked))
        for way in range(2):
            table = work.astype(float) if curve < 0 else view.world.scaling[2 * curve + way, work]
            unit[at] = unit[at] if way else table[asked]
            speed[way, at] = table[: most + 1] / unit[at]
    return speed, unit


def expected_work(view: View, job: int, seen: F64) -> float:
    """The work of a job in all: as its user declared, or limited, else the mean of those ``seen`` to end."""
    if view.truth is not None:
        return float(view.truth[job])
    usual = float(seen[0] / seen[1]) if seen[1] > 0 else USUAL_MS
    return float(view.jobs.declared[job] or view.jobs.limit[job] or usual)
