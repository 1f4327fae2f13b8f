"""One decision of Qore-DL: what runs stays, or is adjusted when that is due; what waits is configured and queued."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.qoredl.adjusting import MIDDLE, adjust, split_speed
from shunter.policies.qoredl.memory import QoredlState, measure_usage, qoredl_of
from shunter.scheduling.placing import sort
from shunter.scheduling.resizing.heap import pop, push
from shunter.scheduling.resizing.known_jobs import begins_look, due_at, look_again, runs, take_in, work_left
from shunter.scheduling.resizing.memory import ResizingState
from shunter.scheduling.resizing.placing import add_changes, ask_for
from shunter.world import Decision, World

LONGEST = 10**12  # ms of slack; of a job without a deadline


@kernel
def most_workers(usage: float) -> int:
    """The most workers of a new job, by load."""
    if usage < 0.4:
        return 5
    return 4 if usage < 0.7 else 2


@kernel
def servers_of(workers: int, usage: float) -> int:
    """The parameter servers beside so many workers, by load: one for two, three or four of them."""
    each = 2
    if usage >= 0.4:
        each = 3 if usage < 0.7 else 4
    return (workers + each - 1) // each


@kernel
def configured(world: World, state: ResizingState, job: int, cap: int) -> int:
    """The fewest instances with which a job meets its deadline, within the cap; what it asks for without a deadline."""
    due = due_at(world, job)
    if due == w.NEVER:
        return int(world.jobs[w.GPUS, job])
    most = min(state.most[job], max(cap, state.least[job]))
    ahead, left = due - world.clock[w.NOW], work_left(world, state, job)
    if world.instances.shape[1] > 0 and world.instances[w.SERVERS, job] > 0:
        return with_servers(world, state, job, cap, left / max(ahead, 1))
    for width in range(state.least[job], most + 1):
        if left <= ahead * state.speeds.best[state.kind[job], width]:
            return int(width)
    return int(most)


@kernel
def with_servers(world: World, state: ResizingState, job: int, cap: int, speed: float) -> int:
    """The same of a job with servers: the fewest workers that reach a speed, and servers beside them by load."""
    width, usage = 0, qoredl_of(state.own).usage
    for workers in range(1, cap + 1):
        servers = servers_of(workers, usage)
        if width > 0 and workers + servers > state.most[job]:
            break
        if workers + servers >= state.least[job]:
            width, state.servers[job] = workers + servers, servers
            if split_speed(world, state, job, workers, width) >= speed:
                break
    if width == 0 or width > state.most[job]:
        width, state.servers[job] = state.least[job], 0  # no such split is in its range
    return int(width)


@kernel
def priority(world: World, own: QoredlState, job: int, width: int, total: int) -> float:
    """Larger first: slack over need in light load, slack times need in heavy load; late jobs come first."""
    slack = float(min(due_at(world, job) - world.clock[w.NOW], LONGEST))
    if not own.config.flip:
        return -slack
    need = width / max(total, 1)
    return -slack / need if own.usage <= MIDDLE else -slack * need


@kernel
def start_queue(world: World, state: ResizingState) -> None:
    """Start waiting jobs by priority, each with the width that its deadline asks for, or what is free."""
    own, draft, size, total = qoredl_of(state.own), state.draft, 0, 0
    cap = most_workers(own.usage)
    for node in range(world.nodes.shape[1]):
        total += world.nodes[w.TOTAL, node]
    for at in range(world.clock[w.N_PENDING]):
        job = world.lists[w.L_PENDING, at]
        if state.least[job] <= own.free:
            width = configured(world, state, job, cap)
            size = push(draft.value, draft.member, size, priority(world, own, job, width, total), job)
    while size > 0 and own.free > 0:
        job = draft.member[0]
        width = configured(world, state, job, cap)
        gpus = min(width, own.free)
        if gpus < width:
            state.servers[job] = 0  # as few as the rest needs
        size = pop(draft.value, draft.member, size)
        if gpus >= state.least[job]:
            state.wanted[job] = gpus
            own.free -= gpus
            ask_for(world, state, job)
        else:
            state.servers[job] = 0


@kernel
def any_could_start(world: World, state: ResizingState) -> bool:
    """Whether a job waits for which enough instances are free."""
    free = qoredl_of(state.own).free
    for at in range(world.clock[w.N_PENDING] if free > 0 else 0):
        if state.least[world.lists[w.L_PENDING, at]] <= free:
            return True
    return False


@kernel
def decide(world: World, state: ResizingState, parts: int, plan: Decision) -> None:
    """Adjust what runs when that is due, and start what waits."""
    own, now, count = qoredl_of(state.own), world.clock[w.NOW], 0
    take_in(world, state)
    if not begins_look(world, state):
        return
    look_again(world, state, plan)
    if own.due < 0:
        own.due = now + own.config.period
    own.free = 0
    for node in range(world.nodes.shape[1]):
        own.free += world.nodes[w.FREE, node]
    adjusts = own.config.adjusts and now >= own.due
    if not adjusts and not any_could_start(world, state):
        return
    measure_usage(world, own)
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        state.wanted[job] = world.jobs[w.WORKERS, job] if runs(world, job) else 0
    if adjusts:
        own.due = now + own.config.period
        adjust(world, state)
    start_queue(world, state)
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if state.wanted[job] > world.jobs[w.WORKERS, job]:
            state.changing[count] = job
            count += 1
    sort(state.changing[:count])
    for at in range(count):
        ask_for(world, state, state.changing[at])
    add_changes(world, state, plan)
