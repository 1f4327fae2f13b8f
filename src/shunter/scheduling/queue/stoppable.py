"""Which running jobs may be stopped for a waiting one, and the node on which that makes room first."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.placing import may_use, open_to
from shunter.scheduling.queue.queue import NO_KEY, Queue
from shunter.scheduling.queue.ranking import ahead
from shunter.world import World

NOWHERE, SEVERAL = -1, -2  # instead of the node that is looked for


@kernel
def ran_enough(world: World, queue: Queue, job: int) -> bool:
    """Whether a running job has worked long enough since it started or came back to be stopped again."""
    if len(queue.min_run) == 0:
        return True
    jobs, restart = world.jobs, 0
    if jobs[w.STARTED, job] < jobs[w.BEGUN, job]:
        restart = jobs[w.RESTART, job]
    return bool(jobs[w.BEGUN, job] + restart + queue.min_run[job] <= world.clock[w.NOW])


@kernel
def stops_left(world: World, queue: Queue, job: int) -> bool:
    """Whether a running job may be stopped at all, and was not stopped too often already."""
    most = queue.config.max_stops
    return bool(world.jobs[w.CHECKPOINTABLE, job] == 1 and (most == 0 or world.jobs[w.PREEMPTIONS, job] < most))


@kernel
def bar_of(queue: Queue, job: int) -> float:
    """The key that a running job must exceed to be stopped for ``job``."""
    return float(max(queue.exact[job], queue.exact[job] * queue.config.hysteresis))


@kernel
def tenant(world: World, gpu: int) -> int:
    """A job on a GPU that is in use."""
    slot = gpu * world.clock[w.SLOTS_PER_GPU]
    while world.slots[w.SLOT_JOB, slot] < 0:
        slot += 1
    return int(world.slots[w.SLOT_JOB, slot])


@kernel
def note_stoppable(world: World, queue: Queue, node: int) -> None:
    """Note which jobs on a node may be stopped, the last in the order first; on a shared GPU, whether all may be."""
    first, total, found, at_once = world.nodes[w.FIRST_GPU, node], world.nodes[w.TOTAL, node], 0, 0
    jobs, spared = queue.stoppable.latest[first : first + total], NO_KEY
    for gpu in range(first, first + total):
        other = tenant(world, gpu) if world.gpus[w.TENANTS, gpu] > 0 else -1
        if world.gpus[w.TENANTS, gpu] > 1:
            at_once, found = w.NEVER, 0
            break
        if other < 0 or world.jobs[w.STATE, other] == w.STOPPING:
            at_once += 1
        elif not stops_left(world, queue, other):
            continue
        elif not ran_enough(world, queue, other):
            spared = max(spared, queue.exact[other])
        else:
            at = found
            while at > 0 and jobs[at - 1] != other and ahead(queue, jobs[at - 1], other):
                jobs[at] = jobs[at - 1]
                at -= 1
            jobs[at] = other
            found += 1
    queue.stoppable.as_of[node], queue.stoppable.spared[node] = world.nodes[w.CHANGES, node], spared
    queue.stoppable.at_once[node], queue.stoppable.by_stops[node] = at_once, found
    note_prices(queue, node, first)


@kernel
def note_prices(queue: Queue, node: int, first: int) -> None:
    """Note which key has to stop for each number of GPUs of a node; ``first``: its first GPU."""
    stoppable = queue.stoppable
    begin, most = min(stoppable.at_once[node] + 1, len(stoppable.price)), len(stoppable.price)
    for gpus in range(begin):
        stoppable.price[gpus, node] = math.inf
    for gpus in range(begin + stoppable.by_stops[node], most):
        stoppable.price[gpus, node] = NO_KEY
    note_new_prices(queue, node, first)


@kernel
def note_new_prices(queue: Queue, node: int, first: int) -> None:
    """The same where the jobs that may be stopped are those of the last time, with other keys."""
    stoppable, begin = queue.stoppable, queue.stoppable.at_once[node] + 1
    for i in range(stoppable.by_stops[node]):
        stoppable.price[begin + i, node] = queue.exact[stoppable.latest[first + i]]
    stoppable.ranked[node] = queue.state.ranked_at


@kernel
def order_again(world: World, queue: Queue, node: int) -> None:
    """Keys are new, but the jobs on a node are those of the last time: put those that may be stopped in order."""
    first, begin, key = world.nodes[w.FIRST_GPU, node], queue.stoppable.at_once[node] + 1, math.inf
    jobs = queue.stoppable.latest[first : first + queue.stoppable.by_stops[node]]
    for i in range(len(jobs)):  # nearly always they are in order already
        before, key = key, queue.exact[jobs[i]]
        queue.stoppable.price[begin + i, node] = key
        if key >= before and jobs[i] != jobs[i - 1]:
            break
    else:
        queue.stoppable.ranked[node] = queue.state.ranked_at
        return
    for i in range(1, len(jobs)):
        job, at = jobs[i], i
        while at > 0 and jobs[at - 1] != job and ahead(queue, jobs[at - 1], job):
            jobs[at] = jobs[at - 1]
            at -= 1
        jobs[at] = job
    note_new_prices(queue, node, first)


@kernel
def note_exchange(world: World, queue: Queue, job: int, node: int) -> None:
    """Note the jobs of a node after all was done that was planned there: some were stopped, and ``job`` started."""
    stoppable, first, kept = queue.stoppable, world.nodes[w.FIRST_GPU, node], 0
    jobs, gpus = stoppable.latest[first : first + world.nodes[w.TOTAL, node]], world.jobs[w.GPUS, job]
    for i in range(stoppable.by_stops[node]):
        if world.jobs[w.STATE, jobs[i]] == w.RUNNING:
            jobs[kept] = jobs[i]
            kept += 1
    stoppable.at_once[node] += stoppable.by_stops[node] - kept - gpus
    if stops_left(world, queue, job):
        at, kept = kept, kept + gpus
        while at > 0 and ahead(queue, jobs[at - 1], job):
            at -= 1
            jobs[at + gpus] = jobs[at]
        jobs[at : at + gpus] = job
    stoppable.as_of[node], stoppable.by_stops[node] = world.nodes[w.CHANGES, node], kept
    note_prices(queue, node, first)


@kernel
def expect_exchange(queue: Queue, job: int, node: int, stopped: int) -> None:
    """A plan stops so many jobs and starts ``job``, all on one node: the next look needs to look at that alone."""
    look = queue.stoppable.look
    look.job, look.node = job, node
    look.releases += stopped
    look.running += 1 - stopped


@kernel
def is_as_expected(world: World, queue: Queue) -> bool:
    """Whether since the last look nothing happened but what was expected then, if anything."""
    look, clock = queue.stoppable.look, world.clock
    same = look.releases == clock[w.RELEASES] and look.running == clock[w.N_RUNNING]
    return bool(same and look.ranked_at == queue.state.ranked_at)


@kernel
def look_at_nodes(world: World, queue: Queue) -> None:
    """Find the jobs that may be stopped on each node where something changed since the last time."""
    stoppable, slow, timed = queue.stoppable, queue.config.slow_stops, len(queue.min_run) > 0
    look = stoppable.look
    if is_as_expected(world, queue) and not slow and not timed:
        if look.node >= 0:
            note_exchange(world, queue, look.job, look.node)
            look.node = -1
        return
    for node in range(world.nodes.shape[1]):
        ranked = stoppable.ranked[node] == queue.state.ranked_at
        if stoppable.as_of[node] != world.nodes[w.CHANGES, node] or slow or (timed and not ranked):
            note_stoppable(world, queue, node)
        elif not ranked:
            order_again(world, queue, node)
    look.ranked_at, look.node = queue.state.ranked_at, -1
    look.releases, look.running = world.clock[w.RELEASES], world.clock[w.N_RUNNING]


@kernel
def note_spared(world: World, queue: Queue, job: int) -> None:
    """Note whether a job that would be stopped for this one is left alone only because it has run too briefly."""
    bar = bar_of(queue, job)
    for node in range(world.nodes.shape[1]):
        if queue.stoppable.spared[node] > bar and world.nodes[w.NODE_STATE, node] == w.UP and may_use(world, job, node):
            queue.state.spared = True


@kernel
def is_open(world: World, job: int, node: int, everywhere: bool) -> bool:
    """Whether a node is up and open to a job; ``everywhere``: all are that are up."""
    return bool(world.nodes[w.NODE_STATE, node] == w.UP and (everywhere or may_use(world, job, node)))


@kernel
def first_with_room(world: World, queue: Queue, job: int) -> int:
    """The node that has room first if later jobs are stopped, the last in the order first; NOWHERE: none ever has.

    SEVERAL: one has room already, GPUs are shared, or some have room at once, since a job is on all, and need more.
    """
    best, last, enough, tied, at, equal = NOWHERE, -1, False, False, -1, False
    bar, everywhere, gpus = bar_of(queue, job), open_to(world, job), world.jobs[w.GPUS, job]
    prices, highest = queue.stoppable.price[gpus], bar
    look_at_nodes(world, queue)
    if len(queue.min_run) > 0:
        note_spared(world, queue, job)
    for node in range(len(prices)):
        if prices[node] >= highest and prices[node] > bar and is_open(world, job, node, everywhere):
            at, equal, highest = node, prices[node] == highest, prices[node]
    for node in range(0 if equal else max(at, 0), at + 1):
        if prices[node] != highest or not is_open(world, job, node, everywhere):
            continue
        more, first = gpus - queue.stoppable.at_once[node], world.nodes[w.FIRST_GPU, node]
        if more <= 0:
            return SEVERAL
        needed = queue.stoppable.latest[first + more - 1]
        alone = queue.stoppable.latest[first] == needed  # that job is enough there, whatever the other nodes need
        if needed == last:
            tied = True
            best, enough = (node, True) if alone else (best, enough)
        elif last < 0 or ahead(queue, last, needed):
            best, last, enough, tied = node, needed, alone, False
    return SEVERAL if tied and not enough else best


@kernel
def stop_on(world: World, queue: Queue, job: int, node: int) -> int:
    """Fill ``scratch.jobs`` with the fewest later jobs on a node, the last first, with GPUs enough there for ``job``.

    ``scratch.ends`` has how many each holds there; -1: it needs not go after all.  Returns how many jobs.
    """
    jobs, gpus, taken = queue.scratch.jobs, queue.scratch.ends, 0
    first, spare = world.nodes[w.FIRST_GPU, node], queue.stoppable.at_once[node] - world.jobs[w.GPUS, job]
    for at in range(first, first + queue.stoppable.by_stops[node]):
        if taken == 0 or jobs[taken - 1] != queue.stoppable.latest[at]:
            if spare >= 0:
                break
            jobs[taken], gpus[taken] = queue.stoppable.latest[at], 0
            taken += 1
        gpus[taken - 1] += 1
        spare += 1
    for i in range(taken - 1, -1, -1):
        if spare >= gpus[i]:
            spare -= gpus[i]
            jobs[i] = -1
    return taken


@kernel
def gpus_left(world: World, queue: Queue, job: int, node: int, taken: int) -> int:
    """Fill ``scratch.gpu_ids`` with GPUs for ``job`` on a node that those of ``scratch.jobs`` leave; returns how many.

    0: the placement rule is to choose, because other nodes get room too, or the GPUs are not free at once.
    """
    jobs, ids, found, wanted = queue.scratch.jobs, queue.scratch.gpu_ids, 0, world.jobs[w.GPUS, job]
    for i in range(taken):
        if jobs[i] >= 0 and world.jobs[w.WORKERS, jobs[i]] != queue.scratch.ends[i]:
            return 0
    first = world.nodes[w.FIRST_GPU, node]
    for gpu in range(first, first + world.nodes[w.TOTAL, node]):
        leaves = world.gpus[w.TENANTS, gpu] == 0
        for i in range(0 if leaves else taken):
            leaves = leaves or jobs[i] == tenant(world, gpu)
        if leaves and found < wanted:
            ids[found] = gpu
            found += 1
    return found if found == wanted else 0
