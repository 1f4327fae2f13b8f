"""Waiting job arrays: one record in the manager and one here, however many tasks they have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from shunter.errors import LiveError

SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
MOST = 10_000_000  # tasks of an array
Numbers = tuple[range, ...]


@lru_cache(maxsize=1024)
def numbers(text: str) -> Numbers:
    """``1-9:2,12`` as ranges, in their order."""
    found = []
    for piece in filter(None, text.split(",")):
        match = SPAN.fullmatch(piece)
        if match is None or int(match[3] or 1) < 1:
            raise LiveError(f"the tasks of an array should look like 1-9:2,12, got '{piece[:40]}'")
        span = range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1))
        if not span:
            raise LiveError(f"the tasks of an array go from a smaller number to a larger, got '{piece}'")
        found.append(span)
    if sum(map(len, found)) > MOST:
        raise LiveError(f"an array has at most {MOST:,} tasks, got '{text[:40]}'")
    return tuple(found)


def text_of(spans: Iterable[range]) -> str:
    """The same as text."""
    return ",".join(_text(span) for span in spans if len(span))


def _text(span: range) -> str:
    if len(span) == 1:
        return str(span[0])
    return f"{span[0]}-{span[-1]}" + (f":{span.step}" if span.step > 1 else "")


def count(spans: Numbers) -> int:
    """How many tasks there are."""
    return sum(map(len, spans))


def below(spans: Numbers, number: int) -> Numbers:
    """The tasks before one, by their numbers."""
    return tuple(span[: max(-(-(number - span.start) // span.step), 0)] for span in spans)


def above(spans: Numbers, number: int) -> Numbers:
    """The tasks behind one, by their numbers."""
    return tuple(span[max((number - span.start) // span.step + 1, 0) :] for span in spans)


def part(spans: Numbers, begin: int, end: int) -> Iterator[int]:
    """The tasks from the begin-th to the one before the end-th, counted from 0."""
    for span in spans:
        yield from span[max(begin, 0) : max(end, 0)]
        begin, end = begin - len(span), end - len(span)


def bundles(tasks: int, lanes: int, throttled: bool, most: int = 2**31) -> list[int]:
    """How many tasks run one after another in the place of one, where at most ``lanes`` run at a time; not too many.

    The first and the last ones stand alone, those between in bundles that become smaller, so that all end at about
    the same time as they would one by one (guided self-scheduling, Polychronopoulos and Kuck, 1987).  So ten thousand
    tasks are some hundred rows, and the last of them start when they should.  Lanes of a throttled array go on by
    themselves, each with its part (see ``lanes_after``): the shortest first, because the next task follows that.
    """
    lanes = max(lanes, 1)
    found = [1] * min(lanes, tasks)
    left = tasks - len(found)
    if throttled and left // lanes < most:
        return found + [size for lane in range(lanes) if (size := (left + lane) // lanes)]
    while left > 0:
        found.append(min(max(left // (2 * lanes), 1), most))
        left -= found[-1]
    return found


def lanes_after(rows: Sequence[str], running: Sequence[str], throttle: int) -> dict[str, str]:
    """Which row follows which, if an array limits its running tasks: each lane continues by itself."""
    chain = [*running, *rows]
    return {row: chain[at - throttle] for at, row in enumerate(chain) if at >= max(throttle, len(running))}
