"""The event queue: an indexed binary heap with at most one event per source (job, node, timer).

Order is total: (time, kind, sequence).  A source's event can be moved or taken out in place, so the queue never holds
stale entries however often speeds change.
"""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.sim.state import HEAP_SIZE, ORDER, PRIORITY, SEQUENCE, TIME, WHERE
from shunter.world import I64

# kinds, in the order in which events of one instant happen (arrivals and faults come from sorted lists)
K_FINISH, K_FAILURE, K_REPAIR, K_ARRIVAL, K_TIMER = range(5)
KIND_SHIFT = 48  # a priority is kind << 48 | sequence


@kernel
def before(heap: I64, a: int, b: int) -> bool:
    """Whether source ``a``'s event comes before ``b``'s."""
    if heap[TIME, a] != heap[TIME, b]:
        return bool(heap[TIME, a] < heap[TIME, b])
    return bool(heap[PRIORITY, a] < heap[PRIORITY, b])


@kernel
def sift_up(heap: I64, at: int) -> None:
    """Move the entry at a position towards the top until its parent comes before it."""
    source = heap[ORDER, at]
    while at > 0:
        parent = (at - 1) // 2
        if not before(heap, source, heap[ORDER, parent]):
            break
        heap[ORDER, at] = heap[ORDER, parent]
        heap[WHERE, heap[ORDER, at]] = at
        at = parent
    heap[ORDER, at] = source
    heap[WHERE, source] = at


@kernel
def sift_down(heap: I64, at: int, size: int) -> None:
    """Move the entry at a position towards the bottom until it comes before its children."""
    source = heap[ORDER, at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and before(heap, heap[ORDER, child + 1], heap[ORDER, child]):
            child += 1
        if not before(heap, heap[ORDER, child], source):
            break
        heap[ORDER, at] = heap[ORDER, child]
        heap[WHERE, heap[ORDER, at]] = at
        at = child
    heap[ORDER, at] = source
    heap[WHERE, source] = at


@kernel
def schedule(heap: I64, counts: I64, source: int, time: int, kind: int) -> None:
    """Set a source's event, whether or not it has one."""
    counts[SEQUENCE] += 1
    heap[TIME, source] = time
    heap[PRIORITY, source] = (kind << KIND_SHIFT) | counts[SEQUENCE]
    at = heap[WHERE, source]
    if at < 0:
        at = counts[HEAP_SIZE]
        counts[HEAP_SIZE] += 1
        heap[ORDER, at] = source
        heap[WHERE, source] = at
    sift_up(heap, at)
    sift_down(heap, heap[WHERE, source], counts[HEAP_SIZE])


@kernel
def cancel(heap: I64, counts: I64, source: int) -> None:
    """Take a source's event out, if it has one."""
    at = heap[WHERE, source]
    if at < 0:
        return
    heap[WHERE, source] = -1
    counts[HEAP_SIZE] -= 1
    size = counts[HEAP_SIZE]
    if at == size:
        return
    moved = heap[ORDER, size]
    heap[ORDER, at] = moved
    heap[WHERE, moved] = at
    sift_up(heap, at)
    sift_down(heap, heap[WHERE, moved], size)


@kernel
def pass_on(heap: I64, source: int, other: int) -> None:
    """Leave the place of a source's event to another that has none; the next thing done is to ``schedule`` it."""
    at = heap[WHERE, source]
    heap[ORDER, at] = other
    heap[WHERE, other] = at
    heap[WHERE, source] = -1


@kernel
def next_time(heap: I64, counts: I64) -> int:
    """Time of the first event, ``NEVER`` if there is none."""
    if counts[HEAP_SIZE] == 0:
        return w.NEVER
    return int(heap[TIME, heap[ORDER, 0]])
