"""Finish-time fairness: rho, how long a job takes in the shared cluster over how long it should take."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.arrays import F1, F2, Arrays
from shunter.compiled import kernel
from shunter.scheduling.queue.queue import Queue
from shunter.world import World

# -- entries of `settings`: how it is defined ...
SHARED, GROWTH, OBJECTIVE = range(3)  # ideal=share; ms in which rho grows by its last value; VALUE or FAIRNESS
# ... and what it has to remember: the sum over jobs of the time (ms) that they were there, up to when, how many are
JOB_TIME, COUNTED_AT, PRESENT = range(3, 6)
SETTINGS_SIZE = 6
VALUE, FAIRNESS = range(2)

# -- columns of `known`: when a job was first seen (infinite: not yet), JOB_TIME then; its rho when it last stopped
# (infinite: never ran), and when that was; and how it is ranked, see `_auction`
MET_AT, MET_WITH, LAST_RHO, SINCE, RHO, DRAW, WORTH, LISTED = range(8)
KNOWN_COLUMNS = 8

LARGEST_RHO = 1e9  # what counts as infinite where a number is needed
LEAST_GAIN = 1e-5  # of a bid that brings nothing, so that GPUs are not left idle


class Fairness(Arrays):
    """What is known of how fairly jobs are treated."""

    settings: F1
    known: F2  # (jobs, KNOWN_COLUMNS) what is looked at together is side by side in memory
    speeds: F2  # (tiers, classes) what is left of a job's speed at a tier
    values: F2  # (tiers, classes) the logarithm of its GPUs times that


@kernel
def count_jobs(world: World, fair: Fairness) -> None:
    """Bring JOB_TIME up to now; between two instants neither comes nor goes anybody."""
    settings, now = fair.settings, world.clock[w.NOW]
    if settings[COUNTED_AT] < now:
        settings[JOB_TIME] += settings[PRESENT] * (now - settings[COUNTED_AT])
    settings[COUNTED_AT] = now
    settings[PRESENT] = world.clock[w.N_PENDING] + world.clock[w.N_RUNNING]


@kernel
def meet(world: World, queue: Queue, fair: Fairness, job: int) -> None:
    """A job wants GPUs, for the first time or again: remember what its rho is now."""
    known, now = fair.known[job], world.clock[w.NOW]
    if known[MET_AT] == math.inf:
        known[MET_AT], known[MET_WITH] = now, fair.settings[JOB_TIME]
    if world.jobs[w.STARTED, job] >= 0:
        known[LAST_RHO], known[SINCE] = rho_of_running(world, queue, fair, job), now


@kernel
def job_size(world: World, job: int) -> float:
    """GPUs of a job, which may be a share of one."""
    return float(world.jobs[w.GPUS, job] * world.jobs[w.SHARE, job] / 1000)


@kernel
def mean_jobs(world: World, fair: Fairness, job: int) -> float:
    """How many jobs were there on average, itself included, since this one came."""
    known, now = fair.known[job], world.clock[w.NOW]
    if known[MET_AT] >= now:
        return float(fair.settings[PRESENT])
    return float((fair.settings[JOB_TIME] - known[MET_WITH]) / (now - known[MET_AT]))


@kernel
def progress_of(world: World, job: int) -> tuple[float, float]:
    """A job's work so far and its speed so far; 1 before it has done anything."""
    work, executed = world.progress[w.WORK, job], world.jobs[w.EXECUTED, job]
    if world.jobs[w.STATE, job] == w.RUNNING:
        now = world.clock[w.NOW]
        work += max(now - world.jobs[w.SINCE, job], 0) * world.progress[w.RATE, job]
        executed += now - world.jobs[w.BEGUN, job]
    return float(work), float(work / executed if work > 0 and executed > 0 else 1.0)


@kernel
def rho_at(world: World, queue: Queue, fair: Fairness, job: int, work: float, speed: float) -> float:
    """The rho that a job will have in the end if it runs at this speed from now on."""
    total = max(float(queue.estimate[job]), work)
    shared = world.clock[w.NOW] - world.jobs[w.ELIGIBLE, job] + (total - work) / speed
    ideal = total
    if fair.settings[SHARED] == 1:
        ideal *= max(job_size(world, job) * mean_jobs(world, fair, job) / world.gpus.shape[1], 1.0)
    return float(shared / max(ideal, 1.0))


@kernel
def rho_of_running(world: World, queue: Queue, fair: Fairness, job: int) -> float:
    """The rho of a job that runs, or did until now: it should go on as fast as it went so far."""
    work, speed = progress_of(world, job)
    return rho_at(world, queue, fair, job, work, speed)


@kernel
def rho_of_waiting(world: World, fair: Fairness, job: int) -> float:
    """The rho of a job that waits: it grows from what it was when the job stopped."""
    waited = world.clock[w.NOW] - fair.known[job, SINCE]
    return float(fair.known[job, LAST_RHO] * (1.0 + waited / fair.settings[GROWTH]))


@kernel
def gain(world: World, queue: Queue, fair: Fairness, job: int, tier: int) -> float:
    """What it is worth to give a job its GPUs at a tier: the logarithm of what an auction multiplies."""
    cls = queue.class_of[job]
    if fair.settings[OBJECTIVE] == VALUE:
        return float(fair.values[tier, cls])
    work, _ = progress_of(world, job)
    after = rho_at(world, queue, fair, job, work, fair.speeds[tier, cls])
    return max(math.log(min(fair.known[job, RHO], LARGEST_RHO) / after), LEAST_GAIN)
