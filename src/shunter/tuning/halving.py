"""Successive halving: many settings for a short time, the better half of them for longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shunter.seeding import rng
from shunter.tuning.spaces import PolicySpace

HALVING = "halving"
RUNGS = 4  # an eighth, a quarter, half and all of the time
BEGUN = 2  # settings that are begun, in times of the budget
DRAWS = 50  # in times of the budget, after which no more settings are looked for that are new

ValuesAt = Callable[[Sequence[str], float], Sequence[float]]  # of policies after a part of the time; smaller is better


def drawn_settings(spaces: Sequence[PolicySpace], first: Sequence[str], budget: int, seed: int) -> list[str]:
    """``first`` and settings drawn at random, twice as many as the budget."""
    draws, texts = rng(seed, "halving"), dict.fromkeys(first)
    for at in range(DRAWS * budget):
        if len(texts) >= BEGUN * budget:
            break
        space = spaces[at % len(spaces)]
        texts |= dict.fromkeys([text] if (text := space.text(space.drawn(draws))) else [])
    return list(texts)


def halved(texts: Sequence[str], kept: Sequence[str], values_at: ValuesAt) -> dict[str, float]:
    """The values of those that were run to the end; ``kept`` go on in any case."""
    going = list(texts)
    values: dict[str, float] = {}
    for rung in reversed(range(RUNGS)):
        values = dict(zip(going, values_at(going, 1 / 2**rung), strict=True))
        better = set(sorted(values, key=values.__getitem__)[: len(values) // 2])
        going = [text for text in going if text in better or text in kept]
    return values
