"""Finding GPUs for a job, in the world as it is or on paper."""

from __future__ import annotations

from typing import Any

from shunter import world as w
from shunter.compiled import copy_into, kernel
from shunter.draws import mixed
from shunter.instances import cpu_of, mem_of
from shunter.scheduling.queue.heaps import precedes
from shunter.scheduling.queue.queue import Paper, Parts, Queue, Scratch
from shunter.world import I64, Decision, World


@kernel
def as_it_is(world: World) -> Paper:
    """What is free now; a window, not a copy."""
    nodes, gpus = world.nodes, world.gpus
    return Paper(nodes[w.FREE], nodes[w.CPU_FREE], nodes[w.MEM_FREE], gpus[w.TENANTS], gpus[w.USED])


@kernel
def on_paper(scratch: Scratch) -> Paper:
    """The state that is being calculated with."""
    return Paper(scratch.free, scratch.cpu, scratch.mem, scratch.tenants, scratch.used)


@kernel
def copy_paper(paper: Paper, other: Paper) -> None:
    """Write on a paper what is on the other."""
    copy_into(paper.free, other.free)
    copy_into(paper.cpu, other.cpu)
    copy_into(paper.mem, other.mem)
    copy_into(paper.tenants, other.tenants)
    copy_into(paper.used, other.used)


@kernel
def copy_to_paper(world: World, paper: Paper) -> None:
    """Begin a calculation from what is free now."""
    copy_paper(paper, as_it_is(world))


@kernel
def put_on_paper(world: World, paper: Paper, job: int, gpu_ids: I64, sign: int) -> None:
    """Add (+1) or take off (-1) a job on these GPUs."""
    cpu, mem = cpu_of(world, job), mem_of(world, job)
    for i in range(len(gpu_ids)):
        gpu = gpu_ids[i]
        node = world.gpus[w.NODE, gpu]
        idle_before = paper.tenants[gpu] == 0
        paper.tenants[gpu] += sign
        paper.used[gpu] += sign * world.jobs[w.SHARE, job]
        paper.cpu[node] -= sign * cpu
        paper.mem[node] -= sign * mem
        if world.nodes[w.NODE_STATE, node] == w.UP:
            if idle_before:
                paper.free[node] -= 1
            elif paper.tenants[gpu] == 0:
                paper.free[node] += 1


@kernel
def held(world: World, job: int, gpu_ids: I64) -> int:
    """Fill in the GPUs that a job holds (ascending); returns how many."""
    slot, at = world.jobs[w.HEAD, job], world.jobs[w.WORKERS, job]
    while slot >= 0:
        at -= 1
        gpu_ids[at] = world.slots[w.SLOT_GPU, slot]
        slot = world.slots[w.SLOT_NEXT, slot]
    return int(world.jobs[w.WORKERS, job])


@kernel
def may_use(world: World, job: int, node: int) -> bool:
    """Whether a node is of the job's virtual cluster and GPU type, and there for as long as the job may run."""
    jobs, nodes = world.jobs, world.nodes
    vc, kind, own = jobs[w.VC, job], jobs[w.TYPE, job], nodes[w.NODE_VC, node]
    if world.clock[w.DRAINS] == 1 and nodes[w.OUTAGE, node] != w.NEVER:
        limit = jobs[w.LIMIT, job]
        if limit == 0 or world.clock[w.NOW] + limit > nodes[w.OUTAGE, node]:
            return False
    return bool((vc < 0 or own in (w.OPEN, vc)) and (kind < 0 or world.admits[kind, node] == 1))


@kernel
def in_the_way(world: World, job: int, other: int) -> bool:
    """Whether a running job holds a GPU on a node that ``job`` may use."""
    slot = world.jobs[w.HEAD, other]
    while slot >= 0:
        if may_use(world, job, world.gpus[w.NODE, world.slots[w.SLOT_GPU, slot]]):
            return True
        slot = world.slots[w.SLOT_NEXT, slot]
    return False


@kernel
def within_limits(world: World, paper: Paper, job: int, node: int) -> int:
    """How many of a node's free GPUs the job can use, given the CPU and memory that it wants beside each."""
    usable = paper.free[node]
    if world.clock[w.BOUNDED] == 1:
        if world.jobs[w.CPU, job] > 0:
            usable = min(usable, paper.cpu[node] // world.jobs[w.CPU, job])
        if world.jobs[w.MEM, job] > 0:
            usable = min(usable, paper.mem[node] // world.jobs[w.MEM, job])
    return int(max(usable, 0))


@kernel
def draw_for(world: World, job: int) -> int:
    """A random number that depends on seed, job and how often it was stopped, and on nothing else (splitmix64)."""
    drawn = 0
    for value in (world.clock[w.SEED], world.jobs[w.NUMBER, job], world.jobs[w.PREEMPTIONS, job]):
        drawn = mixed(drawn, value)
    return int(drawn & 0x7FFFFFFFFFFFFFFF)


@kernel
def choose_nodes(world: World, queue: Queue, place: Any, paper: Paper, job: int) -> int:
    """Let the placer choose nodes for a job of whole GPUs; returns how many, 0 if it does not fit."""
    return choose_with(world, queue, place, paper, job, draw_for(world, job))


@kernel
def choose_ahead(world: World, queue: Queue, place: Any, paper: Paper, job: int) -> int:
    """The same for a rule that is given how many GPUs the next waiting job wants."""
    return choose_with(world, queue, place, paper, job, gpus_of_next(world, queue, job))


@kernel
def gpus_of_next(world: World, queue: Queue, job: int) -> int:
    """How many GPUs the first job wants that waits for the same pool besides this one, by the queue's keys; 0: none."""
    best = -1
    for cls in range(len(queue.size)):
        if queue.pool_of[cls] != queue.pool_of[queue.class_of[job]]:
            continue
        members = queue.members[queue.first[cls] : queue.first[cls] + queue.size[cls]]
        for at in range(len(members)):
            if at > 0 and waits_besides(world, members[(at - 1) // 2], job):
                continue  # its parent precedes it
            if waits_besides(world, members[at], job) and (best < 0 or precedes(queue, members[at], best)):
                best = members[at]
    return int(world.jobs[w.GPUS, best]) if best >= 0 else 0


@kernel
def waits_besides(world: World, other: int, job: int) -> bool:
    """Whether another job than this one waits."""
    return bool(other != job and world.jobs[w.STATE, other] == w.PENDING)


@kernel
def choose_with(world: World, queue: Queue, place: Any, paper: Paper, job: int, draw: int) -> int:
    """Let the placer choose nodes, with this number for it; returns how many, 0 if the job does not fit."""
    scratch, nodes = queue.scratch, world.nodes.shape[1]
    gpus, order = world.jobs[w.GPUS, job], world.nodes[w.RANK]
    if anywhere(world, job) and world.jobs[w.SPAN, job] == 0:
        return int(place(paper.free, world.nodes[w.TOTAL], order, gpus, draw, scratch.nodes, scratch.counts))
    room = 0
    for node in range(nodes):
        mine = may_use(world, job, node)
        scratch.total[node] = world.nodes[w.TOTAL, node] if mine else 0
        scratch.usable[node] = within_limits(world, paper, job, node) if mine else 0
        room += scratch.usable[node]
    if room < gpus:
        return 0
    usable, total = scratch.usable[:nodes], scratch.total[:nodes]
    span = world.jobs[w.SPAN, job]
    if span != 0:
        return spread_over(usable, gpus, span, order, scratch.nodes, scratch.counts)
    return int(place(usable, total, order, gpus, draw, scratch.nodes, scratch.counts))


@kernel
def open_to(world: World, job: int) -> bool:
    """Whether a job may use every node."""
    return bool(world.jobs[w.VC, job] < 0 and world.jobs[w.TYPE, job] < 0 and world.clock[w.DRAINS] == 0)


@kernel
def anywhere(world: World, job: int) -> bool:
    """Whether all nodes are open to a job, with whatever CPUs and memory they have left."""
    return open_to(world, job) and bool(world.clock[w.BOUNDED] == 0)


@kernel
def spread_over(usable: I64, gpus: int, span: int, order: I64, nodes: I64, counts: I64) -> int:
    """The first nodes that have room for an equal part each; on any nodes, those with most room; 0: it does not fit."""
    used, need = 0, gpus
    if span == w.ANY_NODES:
        while need > 0:
            best = 0
            for node in range(1, len(usable)):
                if usable[node] > usable[best] and usable[best] < need:
                    best = node
            nodes[used], counts[used] = best, min(need, usable[best])
            need -= counts[used]
            usable[best] = 0
            used += 1
        return used
    each = gpus // span
    for at in range(len(order)):
        if used < span and usable[order[at]] >= each:
            nodes[used], counts[used] = order[at], each
            used += 1
    return used if used == span else 0


@kernel
def needs_one_node(world: World, queue: Queue, job: int) -> bool:
    """Whether a job can start on one node only: such a one has room for it, or nothing has."""
    takes, cls = queue.tiers.takes, queue.class_of[job]
    if world.jobs[w.SHARE, job] < 1000:
        return False
    if len(takes) > 0:
        for tier in range(1, len(takes)):
            if takes[tier, cls] == 1:
                return False
        return bool(takes[0, cls] == 1)
    if not queue.config.together or world.jobs[w.SPAN, job] not in (0, 1):
        return False
    for node in range(world.nodes.shape[1]):
        if world.nodes[w.TOTAL, node] >= world.jobs[w.GPUS, job] and may_use(world, job, node):
            return True
    return False


@kernel
def any_has_room(world: World, paper: Paper, job: int, gpu_ids: I64) -> bool:
    """Whether a node of one of these GPUs has room for a whole job."""
    for i in range(len(gpu_ids)):
        node = world.gpus[w.NODE, gpu_ids[i]]
        if within_limits(world, paper, job, node) >= world.jobs[w.GPUS, job] and may_use(world, job, node):
            return True
    return False


@kernel
def share_fits(world: World, paper: Paper, job: int, gpu: int) -> bool:
    """Whether a job that wants a share of a GPU may be put on this one."""
    node = world.gpus[w.NODE, gpu]
    if paper.used[gpu] + world.jobs[w.SHARE, job] > 1000 or paper.tenants[gpu] >= world.clock[w.SLOTS_PER_GPU]:
        return False
    if not may_use(world, job, node) or world.nodes[w.NODE_STATE, node] != w.UP:
        return False
    return bool(paper.cpu[node] >= world.jobs[w.CPU, job] and paper.mem[node] >= world.jobs[w.MEM, job])


@kernel
def choose_share(world: World, queue: Queue, parts: Parts, paper: Paper, job: int) -> int:
    """Let the placer choose one GPU for a job that wants a share of one: GPUs take the place of nodes."""
    scratch, gpus = queue.scratch, world.gpus.shape[1]
    share, found = world.jobs[w.SHARE, job], False
    for gpu in range(gpus):
        fits = share_fits(world, paper, job, gpu)
        scratch.usable[gpu] = 1000 - paper.used[gpu] if fits else 0
        scratch.total[gpu] = 1000
        found = found or fits
    if not found:
        return 0
    usable, total = scratch.usable[:gpus], scratch.total[:gpus]
    return int(parts.place(usable, total, scratch.identity, share, draw_for(world, job), scratch.nodes, scratch.counts))


@kernel
def sort(values: I64) -> None:
    """Sort in place, by insertion: the values come in ascending runs, one per node."""
    for i in range(1, len(values)):
        value, at = values[i], i
        while at > 0 and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


@kernel
def find_gpus(world: World, queue: Queue, parts: Parts, paper: Paper, job: int) -> int:
    """Fill ``scratch.gpu_ids`` (ascending) with GPUs for a job; returns how many, 0 if it does not fit."""
    scratch = queue.scratch
    if world.jobs[w.SHARE, job] < 1000:
        if choose_share(world, queue, parts, paper, job) == 0:
            return 0
        scratch.gpu_ids[0] = scratch.nodes[0]
        return 1
    return collect(world, scratch, paper, parts.choose(world, queue, parts.place, paper, job))


@kernel
def collect(world: World, scratch: Scratch, paper: Paper, used: int) -> int:
    """Fill ``scratch.gpu_ids`` (ascending) with free GPUs of the first ``used`` chosen nodes; returns how many."""
    found = 0
    for i in range(used):
        gpu, wanted = world.nodes[w.FIRST_GPU, scratch.nodes[i]], scratch.counts[i]
        while wanted > 0:
            if paper.tenants[gpu] == 0:
                scratch.gpu_ids[found] = gpu
                found += 1
                wanted -= 1
            gpu += 1
    if used > 1:
        sort(scratch.gpu_ids[:found])
    return found


@kernel
def add_start(plan: Decision, job: int, gpu_ids: I64, until: int) -> None:
    """Append a Start to a plan; ``until``: when its lease ends, or NEVER."""
    add_placed(plan, w.A_START, job, gpu_ids, until)


@kernel
def add_shared_start(plan: Decision, job: int, gpu_ids: I64, until: int) -> None:
    """Append a Start on GPUs that others are on to a plan."""
    add_placed(plan, w.A_START, job, gpu_ids, until)
    plan.actions[plan.counts[0] - 1, w.SIZE] += w.SHARED


@kernel
def add_placed(plan: Decision, kind: int, job: int, gpu_ids: I64, arg: int) -> None:
    """Append an action that puts a job on GPUs to a plan."""
    row, used = plan.counts[0], plan.counts[1]
    plan.actions[row, w.KIND] = kind
    plan.actions[row, w.TARGET] = job
    plan.actions[row, w.SIZE] = len(gpu_ids)
    plan.actions[row, w.ARG] = arg
    plan.actions[row, w.EACH_CPU] = 0
    plan.actions[row, w.EACH_MEM] = 0
    plan.actions[row, w.SERVING] = 0
    copy_into(plan.gpu_ids[used : used + len(gpu_ids)], gpu_ids)
    plan.counts[0] += 1
    plan.counts[1] += len(gpu_ids)


@kernel
def add_other(plan: Decision, kind: int, target: int, arg: int) -> None:
    """Append an action without GPUs to a plan."""
    row = plan.counts[0]
    plan.actions[row, w.KIND] = kind
    plan.actions[row, w.TARGET] = target
    plan.actions[row, w.SIZE] = 0
    plan.actions[row, w.ARG] = arg
    plan.counts[0] += 1
