"""A trace's data quality: small checks, each of which yields what it finds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from shunter.cluster import Cluster
from shunter.model import Trace
from shunter.report.quality import contents, fit, times
from shunter.report.quality.finding import Finding, Subject

__all__ = ["CHECKS", "Finding", "Subject", "validate"]

CHECKS: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    times.future,
    times.decades,
    times.holes,
    fit.never_fits,
    fit.overload,
    fit.oversubscribed,
    times.never_ran,
    times.wrong_unit,
    times.clamped,
    times.coarse,
    times.shifted_clock,
    contents.over_limit,
    contents.started_at_submission,
    contents.duplicates,
    times.at_once,
    fit.larger_than_a_node,
    contents.remarks,
    contents.missing,
)
_ORDER = ("error", "warning", "info")


def validate(trace: Trace, cluster: Cluster | None = None, now_ms: int | None = None) -> list[Finding]:
    """All that the checks find, errors first; ``now_ms`` is the present, ms since 1970."""
    subject = Subject(trace, cluster, round(time.time() * 1000) if now_ms is None else now_ms)
    found = [finding for check in CHECKS for finding in check(subject)]
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))
