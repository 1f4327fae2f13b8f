"""What is known of jobs that wait or run: the work that should be left, the GPUs that they may have, when to look."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.placing import add_other
from shunter.scheduling.resizing.memory import ResizingState
from shunter.world import Decision, World

USUAL_MS = 3_600_000.0  # the work of a job of which nothing is known
OVERRUN = 0.1  # share of the work done that is expected to be left where a job has outrun its estimate
MOST_TURNS = 8  # looks at one instant


@kernel
def take_in(world: World, state: ResizingState) -> None:
    """Learn from jobs that have ended, and estimate the work of those that came."""
    for at in range(world.clock[w.N_ENDED]):
        job = world.lists[w.L_ENDED, at]
        if world.jobs[w.STATE, job] == w.DONE:
            state.ended_work += world.progress[w.WORK, job]
            state.ended_jobs += 1
    for at in range(world.clock[w.N_ARRIVED]):
        expect(world, state, world.lists[w.L_ARRIVED, at])
    if not state.synced:
        for at in range(world.clock[w.N_PENDING]):
            expect(world, state, world.lists[w.L_PENDING, at])
        for at in range(world.clock[w.N_RUNNING]):
            expect(world, state, world.lists[w.L_RUNNING, at])
        state.synced = True


@kernel
def expect(world: World, state: ResizingState, job: int) -> None:
    """The work of a job in all: the truth, as declared, or limited, else the mean of jobs that had ended when it came.

    It stays what it was when the job came.
    """
    if state.expected[job] >= 0:
        return
    work = USUAL_MS
    if len(state.truth) > 0:
        work = state.truth[job]
    elif world.jobs[w.DECLARED, job] > 0:
        work = float(world.jobs[w.DECLARED, job])
    elif world.jobs[w.LIMIT, job] > 0:
        work = float(world.jobs[w.LIMIT, job])
    elif state.ended_jobs > 0:
        work = state.ended_work / state.ended_jobs
    state.expected[job] = work


@kernel
def work_done(world: World, job: int) -> float:
    """Work that a job has done so far, ms at speed 1."""
    work = float(world.progress[w.WORK, job])
    if world.jobs[w.STATE, job] == w.RUNNING:
        work += max(world.clock[w.NOW] - world.jobs[w.SINCE, job], 0) * world.progress[w.RATE, job]
    return work


@kernel
def work_left(world: World, state: ResizingState, job: int) -> float:
    """Work that is expected to be left, ms at speed 1."""
    done = work_done(world, job)
    return float(max(state.expected[job] - done, OVERRUN * done, 1.0))


@kernel
def runs(world: World, job: int) -> bool:
    """Whether a job runs and is not being stopped."""
    return bool(world.jobs[w.STATE, job] == w.RUNNING)


@kernel
def stays(world: World, job: int) -> bool:
    """Whether a job runs and keeps its GPUs until it ends."""
    return bool(world.jobs[w.STATE, job] == w.RUNNING and world.jobs[w.CHECKPOINTABLE, job] == 0)


@kernel
def due_at(world: World, job: int) -> int:
    """When a job is wanted by, NEVER: it has no deadline."""
    deadline = world.jobs[w.DEADLINE, job]
    return int(world.jobs[w.SUBMIT, job] + deadline) if deadline > 0 else w.NEVER


@kernel
def cost_of(world: World, job: int) -> int:
    """What a change of GPUs takes, ms."""
    return int(world.jobs[w.STOP_COST, job] + world.jobs[w.RESTART, job])


@kernel
def anything_new(world: World) -> bool:
    """Whether a job has ended, or came for the first time, since the last decision."""
    if world.clock[w.N_ENDED] > 0:
        return True
    for at in range(world.clock[w.N_ARRIVED]):  # noqa: SIM110 a loop, for numba
        if world.jobs[w.STARTED, world.lists[w.L_ARRIVED, at]] < 0:
            return True
    return False


@kernel
def begins_look(world: World, state: ResizingState) -> bool:
    """Whether to look at the jobs: once at an instant, and again where something new happens at it."""
    now = world.clock[w.NOW]
    fresh = state.at != now
    state.turns = 0 if fresh else state.turns + 1
    if not fresh and (state.turns >= MOST_TURNS or not anything_new(world)):
        return False
    state.at = now
    return bool(world.clock[w.N_PENDING] + world.clock[w.N_RUNNING] > 0)


@kernel
def look_again(world: World, state: ResizingState, plan: Decision) -> None:
    """Set the timer for the next look."""
    at = (world.clock[w.NOW] // state.config.step + 1) * state.config.step
    if state.wake != at:
        state.wake = at
        add_other(plan, w.A_TIMER, 0, at)
