"""Finish-time fairness: rho, how long a job takes in the shared cluster over how long it should take."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.arrays import F1, F2, I1, Arrays, Variables
from shunter.compiled import kernel
from shunter.model import Renumbering
from shunter.scheduling.queue.queue import Queue
from shunter.world import World

VALUE, FAIRNESS = range(2)  # objectives
LARGEST_RHO = 1e9  # what counts as infinite where a number is needed
UNKNOWN = {"met_at": math.inf, "last_rho": math.inf}  # before a job is met, or has run
LEAST_GAIN = 1e-5  # of a bid without a gain, so that GPUs are not left idle


class FairnessConfig(Arrays):
    """How rho is defined, and what auctions maximise."""

    shared: bool  # the ideal is a fair share of the cluster
    growth: float  # ms in which rho grows by its last value
    objective: int


class JobTime(Variables):
    """How many jobs were there."""

    total: float = 0.0  # the sum over jobs of the time (ms) that they were there ...
    counted_at: float = math.inf  # ... up to when ...
    present: int = 0  # ... and how many are


class JobFairness(Arrays):
    """What is known of each job; times in ms."""

    met_at: F1  # when it was first seen, infinite: not yet ...
    met_with: F1  # ... and the total job time then
    last_rho: F1  # its rho when it last stopped, infinite: never ran ...
    since: F1  # ... and when that was
    rho: F1  # at present
    draw: F1  # ranks equals
    worth: F1  # gain per GPU at the best tier
    listed: I1  # see `auction`


class Fairness(Arrays):
    """What is known of how fairly jobs are treated."""

    config: FairnessConfig
    job_time: JobTime
    known: JobFairness
    speeds: F2  # (tiers, classes) what is left of a job's speed at a tier
    values: F2  # (tiers, classes) the logarithm of its GPUs times that

    def renumbered(self, rows: Renumbering) -> Fairness:
        """What is known of each job, by the rows that the jobs have now."""
        known = {name: rows.of_jobs(getattr(self.known, name), UNKNOWN.get(name, 0)) for name in JobFairness.fields}
        return self.replace(known=JobFairness(**known))


@kernel
def count_jobs(world: World, fair: Fairness) -> None:
    """Bring the job time up to now; no job arrives or leaves between two instants."""
    time, now = fair.job_time, world.clock[w.NOW]
    if time.counted_at < now:
        time.total += time.present * (now - time.counted_at)
    time.counted_at = now
    time.present = world.clock[w.N_PENDING] + world.clock[w.N_RUNNING]


@kernel
def meet(world: World, queue: Queue, fair: Fairness, job: int) -> None:
    """A job wants GPUs, for the first time or again: remember what its rho is now."""
    known, now = fair.known, world.clock[w.NOW]
    if known.met_at[job] == math.inf:
        known.met_at[job], known.met_with[job] = now, fair.job_time.total
    if world.jobs[w.STARTED, job] >= 0:
        known.last_rho[job], known.since[job] = rho_of_running(world, queue, fair, job), now


@kernel
def job_size(world: World, job: int) -> float:
    """GPUs of a job, which may be a share of one."""
    return float(world.jobs[w.GPUS, job] * world.jobs[w.SHARE, job] / 1000)


@kernel
def mean_jobs(world: World, fair: Fairness, job: int) -> float:
    """How many jobs were there on average, itself included, since this one came."""
    known, now = fair.known, world.clock[w.NOW]
    if known.met_at[job] >= now:
        return float(fair.job_time.present)
    return float((fair.job_time.total - known.met_with[job]) / (now - known.met_at[job]))


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
    if fair.config.shared:
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
    waited = world.clock[w.NOW] - fair.known.since[job]
    return float(fair.known.last_rho[job] * (1.0 + waited / fair.config.growth))


@kernel
def gain(world: World, queue: Queue, fair: Fairness, job: int, tier: int) -> float:
    """What it is worth to give a job its GPUs at a tier: the logarithm of what an auction multiplies."""
    cls = queue.class_of[job]
    if fair.config.objective == VALUE:
        return float(fair.values[tier, cls])
    work, _ = progress_of(world, job)
    after = rho_at(world, queue, fair, job, work, fair.speeds[tier, cls])
    return max(math.log(min(fair.known.rho[job], LARGEST_RHO) / after), LEAST_GAIN)
