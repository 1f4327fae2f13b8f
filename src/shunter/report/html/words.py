"""Words that depend on a number."""

from __future__ import annotations


def counted(count: int | str, noun: str) -> str:
    """``1 GPU``, ``2-4 GPUs``, ``1,200 nodes``."""
    text = count if isinstance(count, str) else f"{count:,}"
    return f"{text} {noun}" + ("" if text == "1" else "s")
