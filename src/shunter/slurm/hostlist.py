"""Slurm's shorthand for many names: ``n[1-3,7],gpu[01-02]x[a,b]``."""

from __future__ import annotations

import itertools
import re

from shunter.errors import SlurmError

PART = re.compile(r"\[([^\[\]]*)\]")
SHOWN = 60  # characters of a list in a message
MOST = 100_000  # names in one list; more is a mistake, or an attack


def expand(text: str) -> list[str]:
    """Every name in a hostlist, in its order; none for ``(null)``, ``None assigned`` and nothing."""
    if text.strip() in ("", "(null)", "None", "None assigned", "n/a", "N/A"):
        return []
    found: list[str] = []
    for item in _split(text):
        found += _names(item)
        if len(found) > MOST:
            raise SlurmError(f"hostlist '{text[:SHOWN]}' has too many names; more than {MOST:,} are not read")
    return found


def _split(text: str) -> list[str]:
    """The items between commas that are not inside brackets."""
    items, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            raise SlurmError(f"hostlist '{text}': brackets must be closed and not nested")
        if character == "," and depth == 0:
            items.append(text[begin:at])
            begin = at + 1
    if depth:
        raise SlurmError(f"hostlist '{text}': a bracket is not closed")
    return [item.strip() for item in [*items, text[begin:]] if item.strip()]


def _names(item: str) -> list[str]:
    parts = PART.split(item)  # plain text at even places, the inside of brackets at odd ones
    choices = [_numbers(part, item) if at % 2 else [part] for at, part in enumerate(parts)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MOST:
        raise SlurmError(f"hostlist '{item}' has {count:,} names; more than {MOST:,} are not read")
    return ["".join(name) for name in itertools.product(*choices)]


def _numbers(inside: str, item: str) -> list[str]:
    """``1-3,07`` written out; numbers keep their leading zeros."""
    found: list[str] = []
    for piece in inside.split(","):
        low, dash, high = piece.partition("-")
        if not dash:
            found.append(low)
            continue
        if not (low.isdigit() and high.isdigit()) or int(low) > int(high) or int(high) - int(low) >= MOST:
            raise SlurmError(f"hostlist '{item}': a range goes from a number to a larger one, got '{piece}'")
        found += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
        if len(found) > MOST:
            raise SlurmError(f"hostlist '{item[:SHOWN]}' has too many names; more than {MOST:,} are not read")
    return found
