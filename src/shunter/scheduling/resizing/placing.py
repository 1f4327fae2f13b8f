"""From widths to a plan: which GPUs each job gets whose width changes."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import copy_into, kernel
from shunter.instances import cpu_of, mem_of
from shunter.scheduling.placing import add_other, add_placed, add_start, held, may_use, sort
from shunter.scheduling.resizing.known_jobs import stays
from shunter.scheduling.resizing.memory import Draft, ResizingState
from shunter.world import Decision, World

SQUEEZE, SQUEEZES = 0.85, 3  # a step down in the CPU of an instance that finds no room, and how many there are
LEAST_CPU = 0.515  # of the CPU asked for: where the steps end; all three as in the code of Qore-DL's authors
WORTH = 0.5  # of one GPU's speed, that each GPU of another machine must add where a policy is careful


@kernel
def ask_for(world: World, state: ResizingState, job: int) -> None:
    """Put a job into the order in which GPUs are placed, if it wants more than it has."""
    if state.wanted[job] > world.jobs[w.WORKERS, job]:
        state.order[state.ordered] = job
        state.ordered += 1


@kernel
def add_changes(world: World, state: ResizingState, plan: Decision) -> None:
    """Append the actions that give jobs the widths wanted (0: none) as far as there is room, first in order first.

    A job that shrinks keeps some of its GPUs; one that grows keeps what it has if it finds nothing better.
    """
    fewer = find_fewer(world, state)
    if fewer > 0 and state.config.careful:
        spare_needless(world, state, plan, fewer)
        fewer = find_fewer(world, state)
    if fewer + state.ordered + state.reequipped > 0:
        draft_changes(world, state, plan, fewer, add=True)
    for at in range(state.ordered):
        forget(state, state.order[at])
    for at in range(world.clock[w.N_RUNNING]):
        forget(state, world.lists[w.L_RUNNING, at])
    state.ordered = 0
    state.reequipped = 0


@kernel
def forget(state: ResizingState, job: int) -> None:
    """The plan for a job is made."""
    state.wanted[job] = 0
    state.cpu[job] = 0
    state.servers[job] = 0


@kernel
def reequip_some(world: World, state: ResizingState, plan: Decision) -> None:
    """Change the CPU of running jobs that keep their GPUs, in submit order: first those that give up some."""
    count = 0
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if state.cpu[job] > 0 and state.wanted[job] == world.jobs[w.WORKERS, job]:
            state.changing[count] = job
            count += 1
    sort(state.changing[:count])
    for grows in (False, True):
        for at in range(count):
            if (state.cpu[state.changing[at]] > cpu_of(world, state.changing[at])) == grows:
                reequip(world, state, plan, state.changing[at])


@kernel
def reequip(world: World, state: ResizingState, plan: Decision, job: int) -> None:
    """Give each instance of a job other CPU where it is, if its nodes have it."""
    draft, count, more = state.draft, held(world, job, state.draft.held), state.cpu[job] - cpu_of(world, job)
    fits = True
    for at in range(count):
        node = world.gpus[w.NODE, draft.held[at]]
        draft.cpu[node] -= more
        fits = fits and draft.cpu[node] >= 0
    if fits:
        add_placed(plan, w.A_RESIZE, job, draft.held[:count], 0)
        plan.actions[plan.counts[0] - 1, w.EACH_CPU] = state.cpu[job]
        return
    for at in range(count):
        draft.cpu[world.gpus[w.NODE, draft.held[at]]] += more


@kernel
def find_fewer(world: World, state: ResizingState) -> int:
    """Note the running jobs that give up GPUs, in submit order; returns how many."""
    count = 0
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        may_stop = world.jobs[w.STATE, job] == w.RUNNING and world.jobs[w.CHECKPOINTABLE, job] == 1
        if may_stop and state.wanted[job] < world.jobs[w.WORKERS, job]:
            state.changing[count] = job
            count += 1
    sort(state.changing[:count])
    return count


@kernel
def draft_changes(world: World, state: ResizingState, plan: Decision, fewer: int, add: bool) -> None:
    """Make all changes in the draft, and add them to the plan if wanted."""
    begin_draft(world, state.draft)
    for at in range(fewer):
        job = state.changing[at]
        if state.wanted[job] == 0:
            stop(world, state.draft, plan, job, add)
        else:
            shrink(world, state, plan, job, add)
    if add and state.reequipped > 0:
        reequip_some(world, state, plan)
    for at in range(state.ordered):
        enlarge(world, state, plan, state.order[at], add)


@kernel
def spare_needless(world: World, state: ResizingState, plan: Decision, fewer: int) -> None:
    """Jobs keep their GPUs if nobody would take any of those that they should give up."""
    draft = state.draft
    draft_changes(world, state, plan, fewer, add=False)
    for at in range(fewer):
        job, left = state.changing[at], 0
        for place in range(held(world, job, draft.held)):
            if draft.tenants[draft.held[place]] == 0:
                left += 1
        if left == world.jobs[w.WORKERS, job] - state.wanted[job]:
            state.wanted[job] = world.jobs[w.WORKERS, job]


@kernel
def begin_draft(world: World, draft: Draft) -> None:
    """What is free now, on nodes that are up."""
    copy_into(draft.tenants, world.gpus[w.TENANTS])
    copy_into(draft.free, world.nodes[w.FREE])
    copy_into(draft.cpu, world.nodes[w.CPU_FREE])
    copy_into(draft.mem, world.nodes[w.MEM_FREE])


@kernel
def shift(world: World, draft: Draft, job: int, gpu: int, sign: int, cpu: int) -> None:
    """A job leaves a GPU (+1) or takes it (-1), with so much CPU."""
    node = world.gpus[w.NODE, gpu]
    draft.tenants[gpu] -= sign
    draft.cpu[node] += sign * cpu
    draft.mem[node] += sign * mem_of(world, job)
    if world.nodes[w.NODE_STATE, node] == w.UP:
        if sign > 0 and draft.tenants[gpu] == 0:
            draft.free[node] += 1
        elif sign < 0 and draft.tenants[gpu] == 1:
            draft.free[node] -= 1


@kernel
def stop(world: World, draft: Draft, plan: Decision, job: int, add: bool) -> None:
    """Stop a job; it holds its GPUs while it is being saved."""
    if add:
        add_other(plan, w.A_PREEMPT, job, 1)
    if world.jobs[w.STOP_COST, job] == 0:
        for at in range(held(world, job, draft.held)):
            shift(world, draft, job, draft.held[at], +1, cpu_of(world, job))


@kernel
def shrink(world: World, state: ResizingState, plan: Decision, job: int, add: bool) -> None:
    """A job keeps GPUs on the nodes on which it has most."""
    draft, count, found = state.draft, held(world, job, state.draft.held), 0
    count_own(world, draft, count, 1)
    while found < state.wanted[job]:
        best = -1
        for at in range(count):
            node = world.gpus[w.NODE, draft.held[at]]
            if draft.own[node] > 0 and (best < 0 or draft.own[node] > draft.own[best]):
                best = node
        for at in range(count):
            if world.gpus[w.NODE, draft.held[at]] == best:
                if found < state.wanted[job]:
                    draft.chosen[found] = draft.held[at]
                    found += 1
                else:
                    shift(world, draft, job, draft.held[at], +1, cpu_of(world, job))
        draft.own[best] = 0
    for at in range(count):
        node = world.gpus[w.NODE, draft.held[at]]
        if draft.own[node] > 0:
            shift(world, draft, job, draft.held[at], +1, cpu_of(world, job))
    count_own(world, draft, count, 0)
    sort(draft.chosen[:found])
    if add:
        add_placed(plan, w.A_RESIZE, job, draft.chosen[:found], 0)


@kernel
def count_own(world: World, draft: Draft, count: int, each: int) -> None:
    """Count the GPUs that a job holds on each of its nodes, or forget them (0)."""
    for at in range(count):
        node = world.gpus[w.NODE, draft.held[at]]
        draft.own[node] = (draft.own[node] + 1) * each


@kernel
def enlarge(world: World, state: ResizingState, plan: Decision, job: int, add: bool) -> None:
    """Start a job, or give it more GPUs, as many of those that it should have as there is room for."""
    draft, now, wanted = state.draft, world.jobs[w.WORKERS, job], state.wanted[job]
    if wanted <= now or stays(world, job):
        return
    count, cpu = held(world, job, draft.held) if now > 0 else 0, cpu_of(world, job)
    for at in range(count):
        shift(world, draft, job, draft.held[at], +1, cpu)
    count_own(world, draft, count, 1)
    found = choose(world, state, job, wanted, cpu)
    count_own(world, draft, count, 0)
    if now == 0 and found < state.least[job] and state.config.squeezes and world.instances.shape[1] > 0:
        cpu = squeezed(world, state, job, wanted)
        found = choose(world, state, job, wanted, cpu)
    if found < state.least[job] or found <= now:
        for at in range(count):
            shift(world, draft, job, draft.held[at], -1, cpu)
        return
    for at in range(found):
        shift(world, draft, job, draft.chosen[at], -1, cpu)
    sort(draft.chosen[:found])
    if not add:
        return
    if now > 0:
        add_placed(plan, w.A_RESIZE, job, draft.chosen[:found], 0)
    else:
        add_start(plan, job, draft.chosen[:found], w.NEVER)
    row = plan.counts[0] - 1
    plan.actions[row, w.EACH_CPU] = cpu if cpu != cpu_of(world, job) else 0
    plan.actions[row, w.SERVING] = state.servers[job] if found == wanted else 0


@kernel
def squeezed(world: World, state: ResizingState, job: int, width: int) -> int:
    """So little CPU for each instance that a job finds room, in a few steps down; the last of them if it finds none."""
    cpu, asked = cpu_of(world, job), world.jobs[w.CPU, job]
    if world.instances[w.MAX_CPU, job] == 0:
        return cpu
    lowest = max(world.instances[w.MIN_CPU, job], int(LEAST_CPU * asked))
    for _ in range(SQUEEZES):
        cpu = max(int(SQUEEZE * cpu), lowest)
        if choose(world, state, job, width, cpu) >= state.least[job]:
            break
    return int(cpu)


@kernel
def measure_room(world: World, draft: Draft, job: int, cpu: int) -> int:
    """How many GPUs of each node a job could have with so much CPU for each; returns how many of all."""
    total, mem = 0, mem_of(world, job)
    for node in range(len(draft.free)):
        most = draft.free[node]
        if most > 0 and not may_use(world, job, node):
            most = 0
        if most > 0 and cpu > 0:
            most = min(most, max(draft.cpu[node], 0) // cpu)
        if most > 0 and mem > 0:
            most = min(most, max(draft.mem[node], 0) // mem)
        draft.room[node] = most
        total += most
    return total


@kernel
def choose(world: World, state: ResizingState, job: int, width: int, cpu: int) -> int:
    """The best GPUs for a job: all on one node if that is as fast, or on the fewest nodes; returns how many."""
    draft, speeds, kind = state.draft, state.speeds, state.kind[job]
    total = measure_room(world, draft, job, cpu)
    if total == 0:
        return 0
    if state.config.lightest:
        return gather(world, state, width)
    fits = -1
    for node in range(len(draft.room)):
        if draft.room[node] >= width and (fits < 0 or closer(draft, node, fits)):
            fits = node
    if fits >= 0:
        return take_from(world, draft, fits, width, 0)
    largest = next_node(world, state)
    inside, across = draft.room[largest], min(width, total)
    gain = (speeds.apart[kind, across] - speeds.together[kind, inside]) * speeds.unit[kind]
    if inside >= state.least[job] and gain <= (WORTH * (across - inside) if state.config.careful else 0.0):
        return take_from(world, draft, largest, inside, 0)
    return gather(world, state, across)


@kernel
def closer(draft: Draft, node: int, other: int) -> bool:
    """Whether a job is better off on one node than on another: its own first, then the one that it fills best."""
    if (draft.own[node] > 0) != (draft.own[other] > 0):
        return bool(draft.own[node] > 0)
    return bool(draft.room[node] < draft.room[other])


@kernel
def next_node(world: World, state: ResizingState) -> int:
    """The node to take GPUs from next, -1: none: the least used, or the one with most room, its own first."""
    draft, best = state.draft, -1
    for node in range(len(draft.room)):
        if draft.room[node] > 0 and (best < 0 or comes_before(world, state, node, best)):
            best = node
    return best


@kernel
def comes_before(world: World, state: ResizingState, node: int, other: int) -> bool:
    """Whether GPUs are taken from one node before another, which has a lower number."""
    draft = state.draft
    if state.config.lightest:
        return used_share(world, draft, node) < used_share(world, draft, other)
    if draft.room[node] != draft.room[other]:
        return bool(draft.room[node] > draft.room[other])
    return bool(draft.own[node] > 0 and draft.own[other] == 0)


@kernel
def used_share(world: World, draft: Draft, node: int) -> float:
    """The share of a node's GPUs that are in use."""
    return float(1.0 - draft.free[node] / world.nodes[w.TOTAL, node])


@kernel
def gather(world: World, state: ResizingState, width: int) -> int:
    """GPUs of several nodes in their order; returns how many."""
    draft, found = state.draft, 0
    while found < width:
        node = next_node(world, state)
        if node < 0:
            return found
        found = take_from(world, draft, node, min(draft.room[node], width - found), found)
        draft.room[node] = 0
    return found


@kernel
def take_from(world: World, draft: Draft, node: int, count: int, found: int) -> int:
    """Add the first free GPUs of a node to those chosen; returns how many these are then."""
    gpu = world.nodes[w.FIRST_GPU, node]
    while count > 0:
        if draft.tenants[gpu] == 0:
            draft.chosen[found] = gpu
            found += 1
            count -= 1
        gpu += 1
    return found
