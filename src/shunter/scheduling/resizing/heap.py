"""A heap of jobs by a number, the largest first; of equal ones the job that was submitted first."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.world import F64, I64


@kernel
def before(value: F64, member: I64, one: int, other: int) -> bool:
    """Whether the job at one position comes before that at another."""
    if value[one] != value[other]:
        return bool(value[one] > value[other])
    return bool(member[one] < member[other])


@kernel
def swap(value: F64, member: I64, one: int, other: int) -> None:
    """Exchange two positions."""
    value[one], value[other] = value[other], value[one]
    member[one], member[other] = member[other], member[one]


@kernel
def push(value: F64, member: I64, size: int, number: float, job: int) -> int:
    """Add a job; returns the new size."""
    at = size
    value[at], member[at] = number, job
    while at > 0 and before(value, member, at, (at - 1) // 2):
        swap(value, member, at, (at - 1) // 2)
        at = (at - 1) // 2
    return size + 1


@kernel
def settle_top(value: F64, member: I64, size: int) -> None:
    """Put the first position where it belongs."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and before(value, member, child + 1, child):
            child += 1
        if not before(value, member, child, at):
            return
        swap(value, member, at, child)
        at = child


@kernel
def pop(value: F64, member: I64, size: int) -> int:
    """Move the first job to the last position; returns the new size."""
    swap(value, member, 0, size - 1)
    settle_top(value, member, size - 1)
    return size - 1
