"""Words that depend on numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def span_of(values: Mapping[str, float], write: Callable[[float], str]) -> str:
    """``12.0 m (las) to 4.00 h (fifo)``: the least and the most, or the one number that all have."""
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    if write(values[low]) == write(values[high]):
        return write(values[low])
    return f"{write(values[low])} ({low}) to {write(values[high])} ({high})"
