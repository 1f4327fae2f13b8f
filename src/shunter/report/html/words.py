"""Words that depend on a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def counted(count: int | str, noun: str) -> str:
    """``1 GPU``, ``2-4 GPUs``, ``1,200 nodes``."""
    text = count if isinstance(count, str) else f"{count:,}"
    return f"{text} {noun}" + ("" if text == "1" else "s")


def span_of(values: Mapping[str, float], write: Callable[[float], str]) -> str:
    """``12.0 m (las) to 4.00 h (fifo)``: the least and the most, or the one number that all have."""
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    if write(values[low]) == write(values[high]):
        return write(values[low])
    return f"{write(values[low])} ({low}) to {write(values[high])} ({high})"
