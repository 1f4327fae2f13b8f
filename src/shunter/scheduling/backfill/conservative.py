"""Conservative backfilling on nodes: every waiting job holds a reservation, and no later job may delay it.

The future is a table of free GPUs per node and time.  While all goes as estimated it stays valid: a job that starts on
its reservation occupies just what the table says.  When something ends at another time than estimated, or nodes change,
the reservations of that pool are made again in the queue's order.
"""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.compiled import copy_into, kernel
from shunter.instances import cpu_of, mem_of
from shunter.scheduling.backfill.easy import expected_end
from shunter.scheduling.placing import add_start, draw_for, held, may_use
from shunter.scheduling.queue.heaps import insert, remove
from shunter.scheduling.queue.queue import Parts, Queue
from shunter.scheduling.queue.ranking import ahead, first_of, run_time
from shunter.world import Decision, World


@kernel
def copy_row(queue: Queue, to: int, row: int) -> None:
    """Copy one row of the table over another."""
    profile = queue.profile
    profile.times[to] = profile.times[row]
    copy_into(profile.gpus[to], profile.gpus[row])
    copy_into(profile.cpu[to], profile.cpu[row])
    copy_into(profile.mem[to], profile.mem[row])


@kernel
def split(queue: Queue, time: int) -> int:
    """The row that begins at ``time``; made from the one that holds then if there is none."""
    profile, rows = queue.profile, queue.state.profile_rows
    row = int(np.searchsorted(profile.times[:rows], time))
    if row < rows and profile.times[row] == time:
        return int(row)
    for i in range(rows, row, -1):
        copy_row(queue, i, i - 1)
    copy_row(queue, row, row - 1)
    profile.times[row] = time
    queue.state.profile_rows += 1
    return int(row)


@kernel
def forget_past(world: World, queue: Queue) -> None:
    """Drop the rows that are over; the first row is the present."""
    profile, now = queue.profile, world.clock[w.NOW]
    rows = queue.state.profile_rows
    over = 0
    while over + 1 < rows and profile.times[over + 1] <= now:
        over += 1
    for row in range(rows - over):
        copy_row(queue, row, row + over)
    queue.state.profile_rows = rows - over
    profile.times[0] = now


@kernel
def present(world: World, queue: Queue) -> None:
    """A fresh table: what is free now, and what running jobs will free."""
    profile, scratch = queue.profile, queue.scratch
    queue.state.reserved = 0
    queue.state.profile_rows = 1
    profile.times[0] = world.clock[w.NOW]
    copy_into(profile.gpus[0], world.nodes[w.FREE])
    copy_into(profile.cpu[0], world.nodes[w.CPU_FREE])
    copy_into(profile.mem[0], world.nodes[w.MEM_FREE])
    freed = scratch.used  # when each GPU's last tenant leaves
    freed[:] = 0
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if queue.upset[queue.pool_of[queue.class_of[job]]] == 1 or queue.due[job] <= world.clock[w.NOW]:
            queue.due[job] = expected_end(world, queue, job)
        end = queue.due[job]  # where nothing is upset, as the reservations that are kept have it
        for i in range(held(world, job, scratch.gpu_ids)):
            gpu = scratch.gpu_ids[i]
            freed[gpu] = max(freed[gpu], end)
            node = world.gpus[w.NODE, gpu]
            if world.clock[w.BOUNDED] == 1:
                row = split(queue, end)
                for later in range(row, queue.state.profile_rows):
                    profile.cpu[later, node] += cpu_of(world, job)
                    profile.mem[later, node] += mem_of(world, job)
    for gpu in range(len(freed)):
        node = world.gpus[w.NODE, gpu]
        if freed[gpu] > 0 and world.nodes[w.NODE_STATE, node] == w.UP:
            row = split(queue, freed[gpu])
            for later in range(row, queue.state.profile_rows):
                profile.gpus[later, node] += 1


@kernel
def drop_started(world: World, queue: Queue) -> None:
    """Forget the reservations of jobs that wait no longer; the table keeps what they occupy."""
    profile, kept = queue.profile, 0
    for i in range(queue.state.reserved):
        if world.jobs[w.STATE, profile.job[i]] == w.PENDING:
            profile.job[kept] = profile.job[i]
            profile.start[kept] = profile.start[i]
            copy_into(profile.counts[kept], profile.counts[i])
            kept += 1
    queue.state.reserved = kept


@kernel
def upset_pools(world: World, queue: Queue) -> bool:
    """Mark the pools in which something went other than planned, and say whether there are any."""
    queue.upset[:] = 1 if queue.state.profile_rows == 0 else 0
    upset_by_jobs(world, queue)
    if queue.state.profile_rows > 0:
        upset_by_nodes(world, queue)
    any_upset = False
    for pool in range(len(queue.upset)):
        any_upset = any_upset or queue.upset[pool] == 1
    return any_upset


@kernel
def upset_by_jobs(world: World, queue: Queue) -> None:
    """Mark the pools of jobs that are overdue, ended at another time than planned, or missed their start."""
    profile, now = queue.profile, world.clock[w.NOW]
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if queue.due[job] <= now:
            queue.upset[queue.pool_of[queue.class_of[job]]] = 1
    for at in range(world.clock[w.N_ENDED]):
        job = world.lists[w.L_ENDED, at]
        if queue.due[job] != now:
            queue.upset[queue.pool_of[queue.class_of[job]]] = 1
    for i in range(queue.state.reserved):
        if profile.start[i] < now:
            queue.upset[queue.pool_of[queue.class_of[profile.job[i]]]] = 1


@kernel
def upset_by_nodes(world: World, queue: Queue) -> None:
    """Mark the pools that use a node on which other GPUs are free than planned."""
    profile, now = queue.profile, world.clock[w.NOW]
    for node in range(world.nodes.shape[1]):
        due = 0
        for i in range(queue.state.reserved):
            if profile.start[i] == now:
                due += profile.counts[i, node]
        if profile.gpus[0, node] + due != world.nodes[w.FREE, node]:
            upset_users_of(world, queue, node)


@kernel
def upset_users_of(world: World, queue: Queue, node: int) -> None:
    """Mark the pools whose jobs may use a node."""
    for cls in range(len(queue.sample)):
        if may_use(world, queue.sample[cls], node):
            queue.upset[queue.pool_of[cls]] = 1


@kernel
def rebuild_profile(world: World, queue: Queue) -> None:
    """Make a fresh table; reservations of pools that aren't upset are kept, the other jobs go back to the queue."""
    profile, count = queue.profile, queue.state.reserved
    present(world, queue)
    for i in range(count):
        job = profile.job[i]
        if queue.upset[queue.pool_of[queue.class_of[job]]] == 1:
            insert(queue, job)
            continue
        kept = queue.state.reserved
        profile.job[kept], profile.start[kept] = job, profile.start[i]
        copy_into(profile.counts[kept], profile.counts[i])
        queue.state.reserved += 1
        occupy(world, queue, kept)


@kernel
def length_of(world: World, queue: Queue, job: int) -> int:
    """How long a job should take on the slowest node that it may use."""
    slowest = 1e300
    for node in range(world.nodes.shape[1]):
        if may_use(world, job, node):
            slowest = min(slowest, world.nodes[w.SPEED, node] * 1e-6)
    return run_time(world, queue, job, slowest)


@kernel
def reserve(world: World, queue: Queue, parts: Parts, job: int) -> None:
    """Reserve the first hole in which a job fits for as long as it should take.

    Where there is none (its nodes are down) it is noted as never, and tried again when something changes in its pool.
    """
    scratch, profile = queue.scratch, queue.profile
    nodes, gpus, length = world.nodes.shape[1], world.jobs[w.GPUS, job], length_of(world, queue, job)
    for node in range(nodes):
        scratch.total[node] = world.nodes[w.TOTAL, node] if may_use(world, job, node) else 0
    usable, total, order = scratch.usable[:nodes], scratch.total[:nodes], world.nodes[w.RANK]
    index = queue.state.reserved
    queue.state.reserved += 1
    profile.job[index], profile.start[index] = job, w.NEVER
    profile.counts[index] = 0
    for row in range(queue.state.profile_rows):
        room = 0
        for node in range(nodes):
            usable[node] = 0
            if total[node] > 0:
                usable[node] = least_free(world, queue, job, node, row, profile.times[row] + length)
            room += usable[node]
        if room < gpus:
            continue
        used = parts.place(usable, total, order, gpus, draw_for(world, job), scratch.nodes, scratch.counts)
        if used > 0:
            profile.start[index] = profile.times[row]
            for i in range(used):
                profile.counts[index, scratch.nodes[i]] = scratch.counts[i]
            occupy(world, queue, index)
            return


@kernel
def least_free(world: World, queue: Queue, job: int, node: int, row: int, end: int) -> int:
    """How many GPUs of a node a job can have from a row on until ``end``."""
    profile = queue.profile
    cpu, mem = world.jobs[w.CPU, job], world.jobs[w.MEM, job]
    least = profile.gpus[row, node]
    for i in range(row, queue.state.profile_rows):
        if profile.times[i] >= end or least <= 0:
            break
        least = min(least, profile.gpus[i, node])
        if world.clock[w.BOUNDED] == 1:
            if cpu > 0:
                least = min(least, profile.cpu[i, node] // cpu)
            if mem > 0:
                least = min(least, profile.mem[i, node] // mem)
    return int(max(least, 0))


@kernel
def occupy(world: World, queue: Queue, index: int) -> None:
    """Take what a reservation needs out of the table."""
    profile, job = queue.profile, queue.profile.job[index]
    if profile.start[index] == w.NEVER:
        return
    first = split(queue, profile.start[index])
    last = split(queue, profile.start[index] + length_of(world, queue, job))
    for node in range(world.nodes.shape[1]):
        count = profile.counts[index, node]
        if count > 0:
            for row in range(first, last):
                profile.gpus[row, node] -= count
                profile.cpu[row, node] -= count * world.jobs[w.CPU, job]
                profile.mem[row, node] -= count * world.jobs[w.MEM, job]


@kernel
def next_unreserved(world: World, queue: Queue, parts: Parts) -> int:
    """The first waiting job, in the order, that has no reservation; -1 if there is none."""
    best = -1
    for cls in range(len(queue.size)):
        best = first_of(world, queue, parts, cls, best, -1, w.NEVER, 1.0)
    return best


@kernel
def start_reserved(world: World, queue: Queue, plan: Decision) -> bool:
    """Start the first job, in the order, whose reserved time has come; false if there is none."""
    profile, best = queue.profile, -1
    for i in range(queue.state.reserved):
        if profile.start[i] == world.clock[w.NOW] and (best < 0 or ahead(queue, profile.job[i], profile.job[best])):
            best = i
    if best < 0:
        return False
    found = 0
    for node in range(world.nodes.shape[1]):
        gpu, wanted = world.nodes[w.FIRST_GPU, node], profile.counts[best, node]
        while wanted > 0:
            if world.gpus[w.TENANTS, gpu] == 0:
                queue.scratch.gpu_ids[found] = gpu
                found += 1
                wanted -= 1
            gpu += 1
    queue.due[profile.job[best]] = world.clock[w.NOW] + length_of(world, queue, profile.job[best])
    add_start(plan, profile.job[best], queue.scratch.gpu_ids[:found], w.NEVER)
    return True


@kernel
def backfill(world: World, queue: Queue, parts: Parts, pool: int, plan: Decision) -> bool:
    """Give every job its reservation, up to the depth, and start one whose time has come; all pools at once."""
    config, state = queue.config, queue.state
    drop_started(world, queue)
    if state.profile_rows > 0:
        forget_past(world, queue)
    if upset_pools(world, queue):
        rebuild_profile(world, queue)
    while state.reserved < config.depth:
        job = next_unreserved(world, queue, parts)
        if job < 0:
            break
        remove(queue, job)
        reserve(world, queue, parts, job)
    return start_reserved(world, queue, plan)
