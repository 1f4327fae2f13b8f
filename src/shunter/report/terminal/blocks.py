"""Small charts for a terminal, drawn with block characters."""

from __future__ import annotations

from collections.abc import Sequence

_ACROSS = " ▏▎▍▌▋▊▉█"
_UP = " ▁▂▃▄▅▆▇█"


def bar(fraction: float, width: int) -> str:
    """A bar to the right, to the eighth of a character; never quite empty for what is above 0."""
    eighths = min(max(round(fraction * width * 8), 1 if fraction > 0 else 0), width * 8)
    return (_ACROSS[8] * (eighths // 8) + _ACROSS[eighths % 8].strip()).ljust(width)


def columns(values: Sequence[float], height: int, width: int, gap: int = 0) -> list[str]:
    """Columns that stand on the last line, the tallest as high as there are lines; each so wide, so far apart."""
    most = max(values, default=0) or 1
    eighths = [max(round(value / most * height * 8), 1 if value > 0 else 0) for value in values]
    return [
        "".join(_UP[min(max(tall - 8 * line, 0), 8)] * width + " " * gap for tall in eighths).rstrip()
        for line in reversed(range(height))
    ]


def binned(values: Sequence[float], most: int) -> tuple[list[float], int]:
    """The means of equally long runs of values, at most this many; and how long a run is."""
    each = -(-len(values) // most) if values else 1
    runs = [values[i : i + each] for i in range(0, len(values), each)]
    return [sum(run) / len(run) for run in runs], each
