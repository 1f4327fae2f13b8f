"""What ``scontrol show`` prints, as dictionaries: records of ``Key=Value``, settings, and lengths of time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from shunter.errors import SlurmError
from shunter.slurm.tres import MOST, REMEMBERED

KEY = re.compile(r"(?:^|\s)([A-Za-z][\w/:()]*)=")
SETTING = re.compile(r"\s*([A-Za-z][\w()/]*)\s*=\s*(.*?)\s*$")
NOTHING = ("", "(null)", "None", "N/A", "n/a")
ENDLESS = ("UNLIMITED", "INFINITE", "NONE", "INVALID")
DAY_MS = 86_400_000
NO_TIME = ("N/A", "NONE", "Unknown", "(null)", "", "0")
SECONDS = re.compile(r"(?:(\d{1,9})-)?(\d{1,12})(?::(\d{1,12}))?(?::(\d{1,12}))?")


def records(text: str, first: str) -> list[dict[str, str]]:
    """The records of a listing, each of which begins with the key ``first``; on one line each (-o) or on several.

    Values may hold blanks.  A key that comes twice keeps its first value: later ones stand in free text.
    """
    found: list[dict[str, str]] = []
    for begin in re.split(rf"(?m)^(?={first}=)", text):
        if not begin.startswith(f"{first}="):
            continue
        keys = list(KEY.finditer(begin))
        ends = [key.start() for key in keys[1:]] + [len(begin)]
        record: dict[str, str] = {}
        for key, end in zip(keys, ends, strict=True):
            record.setdefault(key[1], begin[key.end() : end].strip())
        found.append(record)
    return found


def settings(text: str) -> dict[str, str]:
    """The settings of ``scontrol show config``, or of a ``slurm.conf``, by their names in small letters."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = SETTING.match(re.sub(r"(^|\s)#.*", "", line))
        if match:
            found.setdefault(match[1].lower(), "" if match[2] in NOTHING else match[2])
    return found


def seconds(text: str) -> float | None:
    """A length of time as Slurm writes it, ``7-00:00:00``, ``01:00:00``, ``1-0`` or minutes; None if it has no end."""
    if text.strip() in NOTHING or text.strip().upper() in ENDLESS:
        return None
    match = SECONDS.fullmatch(text.strip().removesuffix(" sec").removesuffix(" min"))
    if match is None:
        raise SlurmError(f"a time must look like 7-00:00:00, 01:30:00, or minutes, got '{text}'")
    days, parts = match[1], [int(part) for part in match.groups()[1:] if part is not None]
    if text.strip().endswith(" sec"):
        return float(parts[0])
    if days is not None:
        parts += [0] * (3 - len(parts))
        return int(days) * 86400.0 + parts[0] * 3600 + parts[1] * 60 + parts[2]
    if len(parts) == 1:
        return parts[0] * 60.0
    return sum(part * unit for part, unit in zip(reversed(parts), (1.0, 60.0, 3600.0), strict=False))


@lru_cache(maxsize=REMEMBERED)
def time_ms(text: str) -> int:
    """A time in UTC, or in seconds since 1970, as ms since 1970; -1 where there is none.

    No time is later than a snapshot may say, in the year 5138: a user may put a job off for longer.
    """
    if text in NO_TIME:
        return -1
    if text.isdigit():
        return min(1000 * int(text), MOST)
    try:
        return min(int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000), MOST)
    except ValueError:
        raise SlurmError(f"Slurm should write times as 2026-01-31T12:00:00, got '{text}'") from None


@lru_cache(maxsize=REMEMBERED)
def length_ms(text: str) -> int:
    """``[D-]HH:MM:SS`` or ``MM:SS`` in ms, as much as a snapshot may say; 0 for UNLIMITED, NOT_SET and the like."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", text)
    if found is None:
        return 0
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return min(days * DAY_MS + ((hours * 60 + minutes) * 60 + seconds) * 1000, MOST)
