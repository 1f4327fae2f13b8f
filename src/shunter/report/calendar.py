"""Time zones, and what hour and day a submission fell on."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.world import I64

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_STEP_MS = 1_800_000  # offsets change only on the half hour
LAST_DATE_MS = 4_102_444_800_000  # 2100: later times are no dates but mistakes
_FIXED = re.compile(r"([+-])([01]\d|2[0-3]):?([0-5]\d)")


def zone_of(text: str) -> tzinfo:
    """The time zone that people write: ``UTC``, ``Europe/Berlin``, ``+08:00``."""
    if text.upper() in ("UTC", "Z"):
        return UTC
    if fixed := _FIXED.fullmatch(text):
        offset = timedelta(hours=int(fixed[2]), minutes=int(fixed[3]))
        return timezone(-offset if fixed[1] == "-" else offset)
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise TraceError(
            f"there is no time zone '{text}'; give UTC, a name such as Europe/Berlin, or an offset such as +08:00"
        ) from None


def local_ms(trace: Trace, zone: tzinfo) -> I64:
    """Submissions on the clock of ``zone``, in ms since 1970 there; without dates, the trace's own clock."""
    if not trace.dated:
        return trace.submit
    step, member = np.unique(trace.submit // _STEP_MS, return_inverse=True)
    times = np.clip(step * _STEP_MS, 0, LAST_DATE_MS) // 1000
    offsets = [datetime.fromtimestamp(t, UTC).astimezone(zone).utcoffset() or timedelta() for t in times.tolist()]
    shift = np.array([offset // timedelta(milliseconds=1) for offset in offsets], np.int64)
    return trace.submit + shift[member]


def weekday(local: I64) -> I64:
    """Weekday of local times with dates, Monday 0."""
    return (local // DAY_MS + 3) % 7  # 1 January 1970 was a Thursday


def text_of(ms: int, zone: tzinfo, dated: bool) -> str:
    """A moment for people: date and time, or the seconds on the trace's own clock."""
    if not dated or ms > LAST_DATE_MS:
        return f"{ms / 1000:,.0f} s"
    return f"{datetime.fromtimestamp(ms // 1000, zone):%Y-%m-%d %H:%M:%S}"
