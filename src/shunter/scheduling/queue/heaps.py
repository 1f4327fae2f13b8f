"""The heaps of a queue: one per demand class, the first job of each on top."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.queue.queue import Queue
from shunter.world import World


@kernel
def precedes(queue: Queue, a: int, b: int) -> bool:
    """Whether job ``a`` comes before job ``b``."""
    if queue.key[a] != queue.key[b]:
        return bool(queue.key[a] < queue.key[b])
    return wins_tie(queue, a, b)


@kernel
def wins_tie(queue: Queue, a: int, b: int) -> bool:
    """Whether of two jobs with equal keys ``a`` comes first."""
    if len(queue.tie) > 0 and queue.tie[a] != queue.tie[b]:
        return bool(queue.tie[a] < queue.tie[b])
    return a < b


@kernel
def rise(queue: Queue, cls: int, at: int) -> None:
    """Move the job at a position of its class' heap up until its parent precedes it."""
    base, members = queue.first[cls], queue.members
    job = members[base + at]
    while at > 0 and precedes(queue, job, members[base + (at - 1) // 2]):
        members[base + at] = members[base + (at - 1) // 2]
        queue.at[members[base + at]] = at
        at = (at - 1) // 2
    members[base + at] = job
    queue.at[job] = at


@kernel
def sink(queue: Queue, cls: int, at: int) -> None:
    """Move the job at a position of its class' heap down until it precedes its children."""
    base, size, members = queue.first[cls], queue.size[cls], queue.members
    job = members[base + at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and precedes(queue, members[base + child + 1], members[base + child]):
            child += 1
        if not precedes(queue, members[base + child], job):
            break
        members[base + at] = members[base + child]
        queue.at[members[base + at]] = at
        at = child
    members[base + at] = job
    queue.at[job] = at


@kernel
def place_again(queue: Queue, cls: int, at: int) -> None:
    """Move the job at a position of its class' heap, which may be new there, to where it belongs."""
    job = queue.members[queue.first[cls] + at]
    rise(queue, cls, at)
    sink(queue, cls, queue.at[job])
    lower_floors(queue, cls, max(at, queue.at[job]))


@kernel
def lower_floors(queue: Queue, cls: int, at: int) -> None:
    """Note the lowest floors from a position of a heap up to its top; all that changed is on that way."""
    while at >= 0 and len(queue.lowest) > 0:
        note_lowest(queue, cls, at)
        at = (at - 1) // 2 if at > 0 else -1


@kernel
def note_lowest(queue: Queue, cls: int, at: int) -> None:
    """Note the lowest floor at and below a position of a heap, given those of its children."""
    base = queue.first[cls]
    lowest = queue.floor[queue.members[base + at]]
    for child in range(2 * at + 1, min(2 * at + 3, queue.size[cls])):
        lowest = min(lowest, queue.lowest[base + child])
    queue.lowest[base + at] = lowest


@kernel
def insert(queue: Queue, job: int) -> None:
    """Put a job into the heap of its class, or move it there if its key changed."""
    cls = queue.class_of[job]
    if queue.at[job] < 0:
        queue.members[queue.first[cls] + queue.size[cls]] = job
        queue.at[job] = queue.size[cls]
        queue.size[cls] += 1
    place_again(queue, cls, queue.at[job])


@kernel
def remove(queue: Queue, job: int) -> None:
    """Take a job out of its heap."""
    cls, at = queue.class_of[job], queue.at[job]
    queue.at[job] = -1
    queue.size[cls] -= 1
    size = queue.size[cls]
    if size > 0:
        lower_floors(queue, cls, (size - 1) // 2)  # where the last job was the child
    if at < size:
        last = queue.members[queue.first[cls] + size]
        queue.members[queue.first[cls] + at] = last
        queue.at[last] = at
        place_again(queue, cls, at)


@kernel
def top(world: World, queue: Queue, cls: int) -> int:
    """The first job of a class, -1 if it has none; jobs that wait no longer are dropped on the way."""
    while queue.size[cls] > 0:
        job = queue.members[queue.first[cls]]
        if world.jobs[w.STATE, job] == w.PENDING:
            return int(job)
        remove(queue, job)
    return -1


@kernel
def order_heaps(world: World, queue: Queue) -> None:
    """Order all heaps by keys that are new, without the jobs that wait no longer."""
    for cls in range(len(queue.size)):
        base, kept = queue.first[cls], 0
        for at in range(queue.size[cls]):
            job = queue.members[base + at]
            waits = world.jobs[w.STATE, job] == w.PENDING
            queue.members[base + kept] = job
            queue.at[job] = kept if waits else -1
            kept += int(waits)
        queue.size[cls] = kept
        for at in range(queue.size[cls] // 2 - 1, -1, -1):
            sink(queue, cls, at)
        for at in range(queue.size[cls] - 1 if len(queue.lowest) > 0 else -1, -1, -1):
            note_lowest(queue, cls, at)
