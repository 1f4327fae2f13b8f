"""Times by which something is wanted, as people write them: ``Fri 09:00``, ``tomorrow 18:00``, ``2026-11-20T09:00``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from shunter.errors import LiveError

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
CLOCK = r"(\d{1,2}):(\d{2})"
NAMED = re.compile(rf"(?:([a-z]{{3,9}})\s+)?{CLOCK}", re.IGNORECASE)
AHEAD = re.compile(r"\+(\d{1,4})\s*([hd])", re.IGNORECASE)
LONGEST = 64  # characters
FARTHEST = timedelta(days=366)
HOW = "write a weekday or a date with a time: 'Fri 09:00', 'tomorrow 18:00', '2026-11-20T09:00' or '+36h'"


def due_at(text: str, now: int) -> int:
    """An instant (ms since 1970) after ``now``; times without an offset are local, a weekday is the next one."""
    present = datetime.fromtimestamp(now / 1000).astimezone()
    shown = text.strip()[:LONGEST]
    if len(text.strip()) > LONGEST:
        raise LiveError(f"--by: '{shown}...' is not a time; {HOW}")
    found = _ahead(shown, present) or _named(shown, present) or _dated(shown)
    if found <= present:
        raise LiveError(f"--by '{shown}' is {found:%Y-%m-%d %H:%M}, which is past; name a later time")
    if found - present > FARTHEST:
        raise LiveError(f"--by '{shown}' is {found:%Y-%m-%d %H:%M}, more than a year ahead; name an earlier time")
    return round(1000 * found.timestamp())


def _ahead(text: str, present: datetime) -> datetime | None:
    found = AHEAD.fullmatch(text)
    if found is None:
        return None
    return present + (timedelta(hours=int(found[1])) if found[2].lower() == "h" else timedelta(days=int(found[1])))


def _named(text: str, present: datetime) -> datetime | None:
    """A time of day, of the next such weekday, of today or of tomorrow."""
    if text.lower() in (*DAYS, *(day[:3] for day in DAYS), "today", "tomorrow"):
        raise LiveError(f"--by '{text}' needs a time of day, such as '{text} 09:00'")
    found = NAMED.fullmatch(text)
    if found is None:
        return None
    hour, minute = int(found[2]), int(found[3])
    if hour > 23 or minute > 59:
        raise LiveError(f"--by '{text}': {found[2]}:{found[3]} is not a time of day; write 00:00 to 23:59")
    day = (found[1] or "").lower()
    dates = [present.replace(tzinfo=None) + timedelta(days=ahead) for ahead in range(8)]
    times = [date.replace(hour=hour, minute=minute, second=0, microsecond=0).astimezone() for date in dates]
    if day in ("today", "tomorrow"):
        return times[day == "tomorrow"]
    if day and not (names := [name for name in DAYS if name.startswith(day)]):
        raise LiveError(f"--by '{text}': '{found[1]}' is no day; {HOW}")
    later = [each for each in times if each > present]
    return next(each for each in later if not day or DAYS[each.weekday()] in names)


def _dated(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        if not re.search(r"\d{1,2}:\d{2}", text):
            raise LiveError(f"--by '{text}' needs a time of day, such as '{text}T09:00'")
        return found.astimezone()
    except (ValueError, OverflowError, OSError):
        raise LiveError(f"--by: '{text}' is not a time; {HOW}") from None
