"""What a job needs: the work that should be left, by what ended jobs needed, and the widths of the least GPU time."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.elastic.memory import BINS, PER_ONE, ElasticState, elastic_of
from shunter.scheduling.resizing.known_jobs import OVERRUN, expect, work_done
from shunter.scheduling.resizing.memory import ResizingState
from shunter.world import World

TRUST = 5.0  # ended jobs that the work declared counts for
ROUNDING = 1e-6
SLOWEST = 1e-9  # speed; a job may have too few GPUs to train at all


@kernel
def is_said(world: World, job: int) -> bool:
    """Whether somebody said how much work a job is."""
    return bool(world.jobs[w.DECLARED, job] > 0 or world.jobs[w.LIMIT, job] > 0)


@kernel
def learn_needs(world: World, state: ResizingState) -> None:
    """Count the jobs of each user that ended by the work that they needed, over what was said."""
    own = elastic_of(state.own)
    if not own.config.learns:
        return
    for at in range(world.clock[w.N_ENDED]):
        job = world.lists[w.L_ENDED, at]
        expect(world, state, job)  # where rows have changed since it came, it is not known any more
        if world.jobs[w.STATE, job] == w.DONE and is_said(world, job) and state.expected[job] > 0:
            ratio = world.progress[w.WORK, job] / state.expected[job]
            last = min(max(math.ceil(ratio * PER_ONE - ROUNDING), 1), BINS)
            for place in range(last):
                own.above[world.jobs[w.USER, job] + 1, place] += 1


@kernel
def left_at(world: World, state: ResizingState, job: int, chance: float) -> float:
    """Work left of a job, ms at speed 1, that should be enough with this chance, by what its user's jobs needed."""
    own, done, said = elastic_of(state.own), work_done(world, job), state.expected[job]
    low, high, seen = int(done / said * PER_ONE), BINS - 1, 1.0 if is_said(world, job) else 0.0
    trust, above = TRUST if done < said else 0.0, own.above[world.jobs[w.USER, job] + 1]
    if low > high or seen * above[low] + trust <= 0:
        return float(max(OVERRUN * done, 1.0))
    beyond = (1.0 - chance) * (seen * above[low] + trust) + ROUNDING
    while low < high:
        middle = (low + high) // 2
        if seen * above[middle + 1] + (trust if middle + 1 < PER_ONE else 0.0) <= beyond:
            high = middle
        else:
            low = middle + 1
    return float(max((low + 1) / PER_ONE * said - done, 1.0))


@kernel
def note_frugal(state: ResizingState, own: ElasticState, job: int) -> None:
    """Find the widths at which a job needs the least GPU time for its work."""
    if own.frugal[job] > 0:
        return
    speed = state.speeds.best[state.kind[job]]
    for width in range(state.least[job], state.most[job] + 1):
        need = width / max(speed[width], SLOWEST)
        if own.frugal[job] == 0 or need < own.cheapest[job] * (1.0 - ROUNDING):
            own.cheapest[job], own.frugal[job] = need, width
