"""The heaps of a queue: one per demand class, the first job of each on top.

Jobs that come in their order, as they do where those that wait longest are first, just line up: a heap in which each
job precedes the next loses its first one by beginning one place later.
"""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.queue.queue import Queue
from shunter.world import World

# How far forward a job may go among those that are lined up: past a tie, as of jobs that came at one instant, by 1
FURTHEST, PAST_OTHERS = 1024, 64


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
        queue.at[members[base + at]] = base + at
        at = (at - 1) // 2
    members[base + at] = job
    queue.at[job] = base + at


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
        queue.at[members[base + at]] = base + at
        at = child
    members[base + at] = job
    queue.at[job] = base + at


@kernel
def place_again(queue: Queue, cls: int, at: int) -> None:
    """Move the job at a position of its class' heap, which may be new there, to where it belongs."""
    base = queue.first[cls]
    job = queue.members[base + at]
    rise(queue, cls, at)
    sink(queue, cls, queue.at[job] - base)
    lower_floors(queue, cls, max(at, queue.at[job] - base))


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
def make_room(queue: Queue, cls: int) -> None:
    """Move a heap back to where its places begin, if there is none left behind it."""
    base, members = queue.begins[cls], queue.members
    if queue.first[cls] + queue.size[cls] == queue.begins[cls + 1]:
        for at in range(queue.size[cls]):
            members[base + at] = members[queue.first[cls] + at]
            queue.at[members[base + at]] = base + at
        queue.first[cls] = base


@kernel
def join(queue: Queue, cls: int, job: int) -> None:
    """Put a job behind the last ones of its class that it does not precede; they are no longer in line if it can't."""
    first, members, left = queue.first[cls], queue.members, FURTHEST
    at = first + queue.size[cls]
    queue.size[cls] += 1
    while at > first and left > 0 and precedes(queue, job, members[at - 1]):
        left -= 1 if queue.key[members[at - 1]] == queue.key[job] else PAST_OTHERS
        members[at] = members[at - 1]
        queue.at[members[at]] = at
        at -= 1
    members[at] = job
    queue.at[job] = at
    if left <= 0:
        queue.in_line[cls] = 0
        rise(queue, cls, at - first)


@kernel
def insert(queue: Queue, job: int) -> None:
    """Put a job into the heap of its class, or move it there if its key changed."""
    cls = queue.class_of[job]
    if queue.at[job] >= 0 and queue.in_line[cls] == 1:
        remove(queue, job)
    if queue.at[job] < 0:
        make_room(queue, cls)
        if queue.size[cls] == 0:
            queue.in_line[cls] = int(len(queue.lowest) == 0)
        if queue.in_line[cls] == 1:
            join(queue, cls, job)
            return
        queue.at[job] = queue.first[cls] + queue.size[cls]
        queue.members[queue.at[job]] = job
        queue.size[cls] += 1
    place_again(queue, cls, queue.at[job] - queue.first[cls])


@kernel
def remove(queue: Queue, job: int) -> None:
    """Take a job out of its heap."""
    cls = queue.class_of[job]
    base, at = queue.first[cls], queue.at[job] - queue.first[cls]
    queue.at[job] = -1
    queue.size[cls] -= 1
    size = queue.size[cls]
    if at == 0 and queue.in_line[cls] == 1:
        queue.first[cls] += 1
        return
    if size > 0:
        lower_floors(queue, cls, (size - 1) // 2)  # where the last job was the child
    if at < size:
        queue.in_line[cls] = 0
        last = queue.members[base + size]
        queue.members[base + at] = last
        queue.at[last] = base + at
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
            queue.at[job] = base + kept if waits else -1
            kept += int(waits)
        queue.size[cls], queue.in_line[cls] = kept, 0
        for at in range(queue.size[cls] // 2 - 1, -1, -1):
            sink(queue, cls, at)
        for at in range(queue.size[cls] - 1 if len(queue.lowest) > 0 else -1, -1, -1):
            note_lowest(queue, cls, at)
