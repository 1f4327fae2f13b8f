"""Qore-DL's adjuster: which jobs get more or fewer instances, by case.

The four cases: (1) jobs are late and the cluster is not full: late jobs grow; (2) they are late and it is: late jobs
grow, and jobs with time to spare shrink; (3) none is late and it is nearly empty: jobs grow; (4) none is late and it
is crowded: jobs shrink. Who grows gains most time per resource, who shrinks loses least. Only the number of instances
is changed: CPU and memory per instance stay as they are.
"""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.qoredl.memory import qoredl_of
from shunter.policies.qoredl.searching import best_option
from shunter.scheduling.resizing.known_jobs import cost_of, due_at, runs, work_left
from shunter.scheduling.resizing.memory import ResizingState
from shunter.world import World

LOW, MIDDLE, HIGH = 0.35, 0.55, 0.70  # theta
AT_ONCE = 2  # jobs adjusted in a round, of each kind
LATE, EARLY, ALL = range(3)
NONE = -1e300


@kernel
def time_at(world: World, state: ResizingState, job: int, width: int) -> float:
    """How long a job still takes at a width, ms."""
    return float(work_left(world, state, job) / max(state.speeds.best[state.kind[job], width], 1e-9))


@kernel
def lateness(world: World, state: ResizingState, job: int) -> float:
    """By how much a running job will miss its deadline, ms; below 0: time to spare, or it has none."""
    due = due_at(world, job)
    if due == w.NEVER:
        return -1.0
    return float(time_at(world, state, job, world.jobs[w.WORKERS, job]) - (due - world.clock[w.NOW]))


@kernel
def saved(world: World, state: ResizingState, job: int, width: int) -> float:
    """Time that a job saves by a change of width, ms; below 0: it loses."""
    return time_at(world, state, job, world.jobs[w.WORKERS, job]) - time_at(world, state, job, width)


@kernel
def sensitivity(world: World, state: ResizingState, job: int, width: int) -> float:
    """Time saved, or lost, per instance that is added or given up."""
    return float(abs(saved(world, state, job, width)) / abs(width - world.jobs[w.WORKERS, job]))


@kernel
def may_adjust(world: World, state: ResizingState, job: int, which: int) -> bool:
    """Whether a job runs, can be stopped, is as late or early as asked for, and has not been adjusted yet."""
    if not runs(world, job) or world.jobs[w.CHECKPOINTABLE, job] == 0:
        return False
    if state.wanted[job] != world.jobs[w.WORKERS, job]:
        return False
    if which == ALL:
        return True
    late = lateness(world, state, job)
    return late > 0 if which == LATE else late < 0


@kernel
def next_to_grow(world: World, state: ResizingState, which: int, after: float, last: int) -> tuple[int, float]:
    """The job that gains most per instance of those that come after another in this order; -1: there is none."""
    best, most = -1, NONE
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if not may_adjust(world, state, job, which) or world.jobs[w.WORKERS, job] >= state.most[job]:
            continue
        gain = sensitivity(world, state, job, world.jobs[w.WORKERS, job] + 1)
        if last >= 0 and (gain > after or (gain == after and job <= last)):
            continue
        if best < 0 or gain > most or (gain == most and job < best):
            best, most = job, gain
    return best, most


@kernel
def grow(world: World, state: ResizingState, which: int) -> None:
    """The jobs that gain most per instance, each as wide as is best for it."""
    own, job, gain = qoredl_of(state.own), -1, NONE
    for _ in range(AT_ONCE):
        job, gain = next_to_grow(world, state, which, gain, job)
        if job < 0:
            return
        width = world.jobs[w.WORKERS, job]
        count = max(min(state.most[job], width + own.free) - width, 0)
        for at in range(count):
            own.option[at] = width + 1 + at
            own.worth[at] = saved(world, state, job, width + 1 + at) - float(cost_of(world, job))
        if count > 0:
            state.wanted[job] = best_option(world, own, count)
            own.free -= state.wanted[job] - width


@kernel
def next_to_shrink(world: World, state: ResizingState, which: int, after: float, last: int) -> tuple[int, float]:
    """The job that loses least per instance of those that come after another in this order; -1: there is none."""
    best, least = -1, NONE
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if not may_adjust(world, state, job, which) or world.jobs[w.WORKERS, job] <= state.least[job]:
            continue
        loss = sensitivity(world, state, job, world.jobs[w.WORKERS, job] - 1)
        if last >= 0 and (loss < after or (loss == after and job <= last)):
            continue
        if best < 0 or loss < least or (loss == least and job < best):
            best, least = job, loss
    return best, least


@kernel
def shrink(world: World, state: ResizingState, which: int) -> None:
    """The jobs that lose least per instance; none is shrunk beyond its deadline."""
    own, job, loss = qoredl_of(state.own), -1, NONE
    for _ in range(AT_ONCE):
        job, loss = next_to_shrink(world, state, which, loss, job)
        if job < 0:
            return
        width, count, late = world.jobs[w.WORKERS, job], 0, lateness(world, state, job)
        for option in range(state.least[job], width):
            if late - saved(world, state, job, option) + cost_of(world, job) < 0:
                own.option[count] = option
                own.worth[count] = 1.0 / max(sensitivity(world, state, job, option), 1e-9)
                count += 1
        if count > 0:
            state.wanted[job] = best_option(world, own, count)
            own.free += width - state.wanted[job]


@kernel
def adjust(world: World, state: ResizingState) -> None:
    """Change the widths of a few running jobs, by case."""
    own, late = qoredl_of(state.own), False
    own.draws = 0
    for at in range(world.clock[w.N_RUNNING]):
        late = late or may_adjust(world, state, world.lists[w.L_RUNNING, at], LATE)
    if late:
        if own.usage > MIDDLE:
            shrink(world, state, EARLY)
        grow(world, state, LATE)
    elif own.usage <= LOW:
        grow(world, state, ALL)
    elif own.usage > HIGH:
        shrink(world, state, ALL)
