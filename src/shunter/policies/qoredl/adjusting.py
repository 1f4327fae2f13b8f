"""Qore-DL's adjuster: which jobs get more or fewer instances, or other CPU for each, by case.

The four cases: (1) jobs are late and the cluster is not full: late jobs grow; (2) they are late and it is: late jobs
grow, and jobs with time to spare shrink; (3) none is late and it is nearly empty: jobs grow; (4) none is late and it
is crowded: jobs shrink. Who grows gains most time per resource, who shrinks loses least. A change is of the number of
instances (horizontal) or of the CPU of each (vertical, where a job gives a range). Memory stays as it is: what a job
asks for is taken to be its peak, below which the paper never goes, and more of it makes no job faster.
"""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.instances import cpu_of, cpu_speed, training, usual_servers
from shunter.policies.qoredl.memory import qoredl_of
from shunter.policies.qoredl.searching import best_option
from shunter.scheduling.resizing.known_jobs import cost_of, due_at, runs, work_left
from shunter.scheduling.resizing.memory import ResizingState
from shunter.world import World

LOW, MIDDLE, HIGH = 0.35, 0.55, 0.70  # theta
AT_ONCE = 2  # jobs adjusted in a round, of each kind
LATE, EARLY, ALL = range(3)
NONE = -1e300
LEVELS = 8  # of a change of CPU that are tried
GROWTH, LEAST_CUT, LARGEST_CUT = 0.36, 0.05, 0.5  # of the CPU of an instance: at most added, and given up, at once
MOST_CPU, LEAST_CPU = 2.01, 0.475  # over what the job asks for, within its own range


@kernel
def split_speed(world: World, state: ResizingState, job: int, workers: int, width: int) -> float:
    """The speed of a job of so many instances of which so many train."""
    unit = state.speeds.unit[state.kind[job]]
    if world.jobs[w.CURVE, job] < 0:
        return float(workers / unit)
    apart = int(width > state.config.node_gpus)
    return float(world.scaling[2 * world.jobs[w.CURVE, job] + apart, workers] / unit)


@kernel
def speed_at(world: World, state: ResizingState, job: int, width: int, cpu: int) -> float:
    """The speed of a running job with so many instances of so much CPU; as many servers as now, or as usual."""
    own = world.instances
    if own.shape[1] == 0:
        return float(state.speeds.best[state.kind[job], width])
    factor = cpu_speed(cpu, world.jobs[w.CPU, job]) if own[w.MAX_CPU, job] > 0 else 1.0
    if own[w.SERVERS, job] == 0:
        return float(factor * state.speeds.best[state.kind[job], width])
    servers = own[w.SERVERS_NOW, job]
    if width != world.jobs[w.WORKERS, job]:
        servers = usual_servers(world.jobs[w.GPUS, job], own[w.SERVERS, job], width)
    return factor * split_speed(world, state, job, training(width, servers), width)


@kernel
def time_at(world: World, state: ResizingState, job: int, width: int, cpu: int) -> float:
    """How long a job still takes with so many instances of so much CPU, ms."""
    return float(work_left(world, state, job) / max(speed_at(world, state, job, width, cpu), 1e-9))


@kernel
def lateness(world: World, state: ResizingState, job: int) -> float:
    """By how much a running job will miss its deadline, ms; below 0: time to spare, or it has none."""
    due = due_at(world, job)
    if due == w.NEVER:
        return -1.0
    left = time_at(world, state, job, world.jobs[w.WORKERS, job], cpu_of(world, job))
    return float(left - (due - world.clock[w.NOW]))


@kernel
def saved(world: World, state: ResizingState, job: int, width: int, cpu: int) -> float:
    """Time that a job saves by a change, ms; below 0: it loses."""
    now = time_at(world, state, job, world.jobs[w.WORKERS, job], cpu_of(world, job))
    return now - time_at(world, state, job, width, cpu)


@kernel
def sensitivity(world: World, state: ResizingState, job: int, width: int, cpu: int) -> float:
    """Time saved, or lost, per instance, or as much CPU as one has, that is added or given up."""
    now, more = cpu_of(world, job), float(abs(width - world.jobs[w.WORKERS, job]))
    if cpu != now:
        more = width * abs(cpu - now) / now
    return float(abs(saved(world, state, job, width, cpu)) / more)


@kernel
def cpu_end(world: World, job: int, grows: bool) -> int:
    """The most CPU, or the least, that an instance of a job may have; what it has, if the job gives no range."""
    own, now, asked = world.instances, cpu_of(world, job), world.jobs[w.CPU, job]
    if own.shape[1] == 0 or own[w.MAX_CPU, job] == 0:
        return now
    if grows:
        return int(max(min(own[w.MAX_CPU, job], int(MOST_CPU * asked)), now))
    return int(min(max(own[w.MIN_CPU, job], int(LEAST_CPU * asked)), now))


@kernel
def may_adjust(world: World, state: ResizingState, job: int, which: int) -> bool:
    """Whether a job runs, can be stopped, is as late or early as asked for, and has not been adjusted yet."""
    if not runs(world, job) or world.jobs[w.CHECKPOINTABLE, job] == 0:
        return False
    if state.wanted[job] != world.jobs[w.WORKERS, job] or state.cpu[job] != 0:
        return False
    if which == ALL:
        return True
    late = lateness(world, state, job)
    return late > 0 if which == LATE else late < 0


@kernel
def place_in_line(world: World, state: ResizingState, job: int, grows: bool) -> float:
    """The most time per resource that a step gains, or the least that it loses, below 0; NONE: there is no step."""
    width, now, found = world.jobs[w.WORKERS, job], cpu_of(world, job), NONE
    sign = 1 if grows else -1
    if (width < state.most[job]) if grows else (width > state.least[job]):
        found = sign * sensitivity(world, state, job, width + sign, now)
    end = cpu_end(world, job, grows)
    if end != now:
        step = now + sign * max(now // width, 1)
        step = min(step, end) if grows else max(step, end)
        found = max(found, sign * sensitivity(world, state, job, width, step))
    return float(found)


@kernel
def next_in_line(
    world: World, state: ResizingState, which: int, grows: bool, after: float, last: int
) -> tuple[int, float]:
    """The job that comes first of those after another in this order; -1: there is none."""
    best, most = -1, NONE
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if not may_adjust(world, state, job, which):
            continue
        place = place_in_line(world, state, job, grows)
        if place == NONE or (last >= 0 and (place > after or (place == after and job <= last))):
            continue
        if best < 0 or place > most or (place == most and job < best):
            best, most = job, place
    return best, most


@kernel
def list_option(world: World, state: ResizingState, job: int, grows: bool, width: int, cpu: int) -> None:
    """Add an option, with how good it is: time saved less its cost, or how little is lost if it is still in time."""
    own, cost = qoredl_of(state.own), cost_of(world, job)
    if grows:
        worth = saved(world, state, job, width, cpu) - float(cost)
    elif lateness(world, state, job) - saved(world, state, job, width, cpu) + cost < 0:
        worth = 1.0 / max(sensitivity(world, state, job, width, cpu), 1e-9)
    else:
        return
    own.option[own.options], own.each[own.options], own.worth[own.options] = width, cpu, worth
    own.options += 1


@kernel
def cpu_room(world: World, job: int) -> int:
    """How much more CPU each instance of a job could have where it is."""
    per_gpu, slot, room = world.clock[w.SLOTS_PER_GPU], world.jobs[w.HEAD, job], 2**40
    while slot >= 0:
        node, beside = world.gpus[w.NODE, slot // per_gpu], 0
        while slot >= 0 and world.gpus[w.NODE, slot // per_gpu] == node:
            beside += 1
            slot = world.slots[w.SLOT_NEXT, slot]
        room = min(room, max(world.nodes[w.CPU_FREE, node], 0) // beside)
    return int(room)


@kernel
def list_options(world: World, state: ResizingState, job: int, grows: bool) -> None:
    """What a job could have instead: other numbers of instances, then other CPU for each."""
    own, width, now = qoredl_of(state.own), world.jobs[w.WORKERS, job], cpu_of(world, job)
    own.options = 0
    first, last = state.least[job], width - 1
    if grows:
        first, last = width + 1, min(state.most[job], width + own.free)
    for other in range(first, last + 1):
        list_option(world, state, job, grows, other, now)
    own.horizontal = own.options
    end, before = cpu_end(world, job, grows), now
    if end == now:
        return
    for level in range(1, LEVELS + 1):
        if grows:
            cpu = min(now + int(GROWTH * now * level / LEVELS), end, now + cpu_room(world, job))
        else:
            cut = LEAST_CUT + (LARGEST_CUT - LEAST_CUT) * (level - 1) / (LEVELS - 1)
            cpu = max(now - int(cut * now), end)
        if cpu != before:
            list_option(world, state, job, grows, width, cpu)
        before = cpu


@kernel
def adjust_some(world: World, state: ResizingState, which: int, grows: bool) -> None:
    """The first in line, each as is best for it; none is shrunk beyond its deadline."""
    own, job, place = qoredl_of(state.own), -1, NONE
    for _ in range(AT_ONCE):
        job, place = next_in_line(world, state, which, grows, place, job)
        if job < 0:
            return
        list_options(world, state, job, grows)
        if own.options > 0:
            best = best_option(world, own)
            own.free -= own.option[best] - world.jobs[w.WORKERS, job]
            state.wanted[job] = own.option[best]
            if own.each[best] != cpu_of(world, job):
                state.cpu[job] = own.each[best]
                state.reequipped += 1


@kernel
def adjust(world: World, state: ResizingState) -> None:
    """Change a few running jobs, by case."""
    own, late = qoredl_of(state.own), False
    own.draws = 0
    for at in range(world.clock[w.N_RUNNING]):
        late = late or may_adjust(world, state, world.lists[w.L_RUNNING, at], LATE)
    if late:
        if own.usage > MIDDLE:
            adjust_some(world, state, EARLY, False)
        adjust_some(world, state, LATE, True)
    elif own.usage <= LOW:
        adjust_some(world, state, ALL, True)
    elif own.usage > HIGH:
        adjust_some(world, state, ALL, False)
