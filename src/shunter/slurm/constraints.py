"""Feature constraints (``sbatch -C``), read as Slurm 22.05 reads them: from left to right, ``&`` and ``|`` alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache

NAME = r"[^\s&|()\[\]*!,<>]+"
GROUP = rf"\({NAME}(?:[&|]{NAME})*\)"
PLAIN = re.compile(rf"(?:{NAME}|{GROUP})(?:[&|](?:{NAME}|{GROUP}))*")
MATCHING = re.compile(rf"\[{NAME}(?:\|{NAME})*\]")
Test = Callable[[Collection[str]], bool]


@lru_cache(maxsize=1024)
def parse(text: str) -> Test | None:
    """Whether a node with such features fulfils the constraint; None: it has parts that are not modelled.

    ``[a|b]`` (the same feature on all nodes) is read as ``a|b``: see ``same_everywhere``.
    """
    inner = text[1:-1] if MATCHING.fullmatch(text) else text
    return _chain(inner) if PLAIN.fullmatch(inner) else None


def same_everywhere(text: str) -> bool:
    """Whether all nodes of a job must have the same one of several features."""
    return text.startswith("[")


def _chain(text: str) -> Test:
    """Items joined by & and |, of which none binds closer."""
    items = re.findall(rf"([&|]?)({NAME}|{GROUP})", text)
    tests = [(joint, _chain(item[1:-1]) if item.startswith("(") else _has(item)) for joint, item in items]

    def fulfilled(features: Collection[str]) -> bool:
        found = tests[0][1](features)
        for joint, test in tests[1:]:
            found = found and test(features) if joint == "&" else found or test(features)
        return found

    return fulfilled


def _has(name: str) -> Test:
    return lambda features: name in features
