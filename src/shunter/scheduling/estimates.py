"""How long a waiting job should run: what its user said, what ended jobs took, or what a learned model says."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import kernel
from shunter.predictors import learned as model
from shunter.scheduling.backfill.bounds import note_run_time
from shunter.scheduling.queue.queue import BINS, S_DECLARED, S_LAST_TWO, S_LIMIT, SIZE_CLASSES, Completions, Queue
from shunter.world import F64, World

REMEMBERED = 1000  # jobs of a virtual cluster whose completion times are known at most
FIRST_GUESS = 3_600_000.0  # ms, when nothing has ended yet


@kernel
def size_class(gpus: int) -> int:
    """0: one GPU, 1: 2-4, 2: 5-8, 3: 9-16, 4: 17-32, 5: more."""
    if gpus <= 1:
        return 0
    if gpus <= 4:
        return 1
    if gpus <= 8:
        return 2
    if gpus <= 16:
        return 3
    return 4 if gpus <= 32 else 5


@kernel
def bin_of(gpu_seconds: float) -> int:
    """The bin of the histogram of ended jobs that this much GPU time falls into."""
    return min(int(4 * math.log2(max(gpu_seconds, 1.0))), BINS - 1)


@kernel
def count_in(ended: F64, gpu_seconds: float) -> None:
    """Add an ended job to the histogram, see ``BINS``."""
    at = bin_of(gpu_seconds)
    ended[at] += 1
    ended[BINS + at] += gpu_seconds
    ended[2 * BINS + at] = ended[BINS + at] / ended[at]
    for below in range(at + 1):
        ended[3 * BINS + below] += 1
    ended[4 * BINS] = max(ended[4 * BINS], at + 1)


@kernel
def took(world: World, job: int) -> float:
    """What an ended job would have taken at speed 1, as all estimates; what it took, if it was given up (ms)."""
    if world.jobs[w.STATE, job] == w.DONE:
        return float(world.progress[w.WORK, job])
    return float(world.jobs[w.EXECUTED, job])


@kernel
def note_completion(world: World, ended: Completions, job: int) -> None:
    """A job has ended; once many have, those so far count half."""
    vc = world.jobs[w.VC, job]
    ended.jobs[vc] += 1
    # a live cluster may say that a job could only start after it was cancelled
    ended.time[vc] += max(world.jobs[w.ENDED_AT, job] - world.jobs[w.ELIGIBLE, job], 0)
    if ended.jobs[vc] == REMEMBERED:
        ended.jobs[vc] //= 2
        ended.time[vc] //= 2


@kernel
def learn(world: World, queue: Queue, job: int) -> None:
    """A job has ended: what it took is known now."""
    time = took(world, job)
    note_run_time(queue.bounds, queue.estimate[job], time)
    if queue.config.passing > 0:
        note_completion(world, queue.completions, job)
    user = world.jobs[w.USER, job]
    if user >= 0:
        queue.users.last_but_one[user] = queue.users.last[user]
        queue.users.last[user] = time
        queue.users.ended[user] += 1
        queue.users.ended_sum[user] += time
    for column in (size_class(world.jobs[w.GPUS, job]), SIZE_CLASSES):
        queue.sizes.jobs[column] += 1
        queue.sizes.run_time[column] += time
    if queue.config.histogram_at > 0:
        queue.state.ended_jobs_seen += 1
        count_in(queue.params[queue.config.histogram_at :], world.jobs[w.ATTAINED, job] / 1000.0)


@kernel
def expect(world: World, queue: Queue, job: int) -> int:
    """The estimate of a job's run time: its limit, else the user's last two, the user, the size class, all (ms).

    Where the user's last two come first it is never more than the limit, and the limit before two have ended.
    """
    limit = world.jobs[w.LIMIT, job]
    if queue.config.source == S_DECLARED and world.jobs[w.DECLARED, job] > 0:
        return int(world.jobs[w.DECLARED, job])
    if queue.config.source <= S_LIMIT and limit > 0:
        return int(limit)
    user = world.jobs[w.USER, job]
    if user >= 0 and queue.users.ended[user] >= 2:
        guess = (queue.users.last[user] + queue.users.last_but_one[user]) / 2
        if queue.config.source == S_LAST_TWO and limit > 0:
            guess = min(guess, float(limit))
    elif queue.config.source == S_LAST_TWO and limit > 0:
        return int(limit)
    elif user >= 0 and queue.users.ended[user] == 1:
        guess = queue.users.ended_sum[user]
    else:
        column = size_class(world.jobs[w.GPUS, job])
        if queue.sizes.jobs[column] == 0:
            column = SIZE_CLASSES
        jobs = queue.sizes.jobs[column]
        guess = queue.sizes.run_time[column] / jobs if jobs > 0 else FIRST_GUESS
    return max(int(guess), 1)


@kernel
def learn_model(world: World, queue: Queue, job: int) -> None:
    """The same, and a learned model takes note of it."""
    learn(world, queue, job)
    model.learn(world.jobs, queue.learned, job, took(world, job), world.clock[w.NOW])


@kernel
def expect_by_model(world: World, queue: Queue, job: int) -> int:
    """The estimate of a learned model (ms)."""
    return max(int(model.estimate(world.jobs, queue.learned, job)), 1)
