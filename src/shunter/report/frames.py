"""Summaries and policies as tables: for pandas, and for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from shunter import extras
from shunter.report.intervals import OF_JOBS
from shunter.report.terminal.tables import duration, number, share

OF_FINISHED = (*OF_JOBS, "rho", "communication_s")  # what is over finished jobs alone


def pandas() -> Any:
    """The module, or an error that says how to install it."""
    return extras.load("pandas", "to_pandas()")


def flat(summary: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers and texts of a summary under names such as ``jct_s.mean``; lists and what is not known are left out.

    Times of no jobs are NaN.
    """
    empty = not summary.get("finished", summary.get("jobs", 1))
    for key, value in summary.items():
        if isinstance(value, dict):
            known = dict.fromkeys(value, math.nan) if empty and key in OF_FINISHED else value
            yield from flat(known, f"{prefix}{key}.")
        elif value is not None and not isinstance(value, list):
            yield prefix + key, value


def html_of(rows: Sequence[dict[str, Any]], text: str) -> str:
    """Policies as a small table for a notebook, under a sentence."""
    heads = ("policy", "mean JCT", "p99 JCT", "mean wait", "mean bsld", "GPUs in use", "preemptions")
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(row))}</tr>" for row in rows)
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f"<p>{escape(text)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    times = (row["jct_s"]["mean"], row["jct_s"]["p99"], row["wait_s"]["mean"])
    rest = (number(row["bsld"]["mean"]), share(row["utilization"]), f"{row['preemptions']:,.0f}")
    return (str(row["policy"]), *map(duration, times), *rest)
