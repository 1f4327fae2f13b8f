"""Times as people and schedulers write them, as seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shunter.errors import TraceError
from shunter.traces.checks import Problems
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

LAYOUTS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y/%m/%d %H:%M:%S")
ZONE = r"^(.*:\d\d(?:\.\d+)?) ?(Z|[+-]\d\d(?::?\d\d)?)$"
MUST = "must be a time: seconds, or YYYY-MM-DD HH:MM:SS with or without a zone"


class Times:
    """The times of one file: all of its dates must have a zone, or none."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._first: dict[str, tuple[int, str, str]] = {}  # kind -> row, field and text of the first such date

    def seconds(self, field: str, texts: pl.Series) -> F64:
        """Seconds since 1970 UTC of dates, or numbers as they are; NaN where there is nothing."""
        import polars as pl

        numbers = texts.cast(pl.Float64, strict=False)
        if not (texts.is_not_null() & numbers.is_null()).any():
            return self._checked(field, texts, numbers.to_numpy())
        return self._checked(field, texts, self._dates(field, texts.str.replace("T", " ", literal=True)))

    def _dates(self, field: str, texts: pl.Series) -> F64:
        import polars as pl

        zoned = texts.str.contains(ZONE).fill_null(False)
        bare = texts
        offset: F64 = np.zeros(len(texts))
        if zoned.any():
            parts = texts.str.extract_groups(ZONE)
            bare = pl.select(pl.when(zoned).then(parts.struct.field("1")).otherwise(texts)).to_series()
            offset = _offset(parts.struct.field("2"))
        found = bare.str.to_datetime(LAYOUTS[0], strict=False, time_unit="ms")
        for layout in LAYOUTS[1:]:
            lost = found.is_null() & bare.is_not_null()
            if not lost.any():
                break
            found = found.fill_null(bare.str.to_datetime(layout, strict=False, time_unit="ms"))
        self._note(field, texts, {"with a zone": zoned & found.is_not_null(), "without": ~zoned & found.is_not_null()})
        return found.cast(pl.Int64).cast(pl.Float64).to_numpy() / 1000 - offset

    def _note(self, field: str, texts: pl.Series, kinds: dict[str, pl.Series]) -> None:
        """Remember the first date of each kind; both in one file can't be compared."""
        for kind, rows in kinds.items():
            if kind not in self._first and rows.any():
                row = int(rows.arg_max() or 0)
                self._first[kind] = (row, field, texts[row])
        if len(self._first) == 2:
            told = " and ".join(
                f"{kind} on {self._problems.line(row)} ({field} '{text}')"
                for kind, (row, field, text) in sorted(self._first.items(), key=lambda item: item[1][0])
            )
            raise TraceError(
                f"{self._problems.path}: all times must have a zone, or none, but there are times {told};"
                " write them alike"
            )

    def _checked(self, field: str, texts: pl.Series, values: F64) -> F64:
        wrong = texts.is_not_null().to_numpy() & ~np.isfinite(values)
        self._problems.add(wrong, f"{field} {MUST}", lambda row: f"got {texts[row][:60]!r}; correct it")
        return np.where(wrong, np.nan, values)

    def remarks(self) -> list[str]:
        """What was taken for granted."""
        return ["times carry no zone: hours are as written"] if "without" in self._first else []


def _offset(zones: pl.Series) -> F64:
    """Seconds east of Greenwich."""
    import polars as pl

    digits = zones.str.replace_all(r"[^0-9]", "").str.pad_end(4, "0")
    hours, minutes = (digits.str.slice(at, 2).cast(pl.Float64, strict=False).fill_null(0).to_numpy() for at in (0, 2))
    sign = np.where(zones.str.starts_with("-").fill_null(False).to_numpy(), -1, 1)
    seconds: F64 = sign * (hours * 3600 + minutes * 60)
    return seconds
