"""Times as people and schedulers write them, as seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shunter.errors import TraceError
from shunter.traces.checks import Problems
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

LAYOUTS = (
    *("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d"),
    *("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%Y-%m-%d %I:%M:%S %p", "%Y-%m-%d %I:%M %p"),
)
DAY_AND_MONTH = r"^([0-9]{1,2})([./-])([0-9]{1,2})[./-]([0-9]{4})(?:,? (.*))?$"  # in whichever order
WEEKDAY = r"^(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? +)?"
NAMED_MONTHS = (
    WEEKDAY + r"(?P<day>[0-9]{1,2})[ .-]+(?P<month>[A-Za-z]{3,9})[ .,-]+(?P<year>[0-9]{4})(?:,? +(?P<clock>.*))?$",
    WEEKDAY + r"(?P<month>[A-Za-z]{3,9})\.? +(?P<day>[0-9]{1,2}),? +(?P<year>[0-9]{4})(?:,? +(?P<clock>.*))?$",
    WEEKDAY + r"(?P<month>[A-Za-z]{3,9}) +(?P<day>[0-9]{1,2})"
    r" +(?P<clock>[0-9]{2}:[0-9]{2}[:0-9]*(?: GMT| UTC)?) +(?P<year>[0-9]{4})$",
)
MONTHS = {"janfebmaraprmayjunjulaugsepoctnovdec"[3 * at : 3 * at + 3]: f"{at + 1:02}" for at in range(12)}
ZONE = r"^(.*:[0-9]{2}(?:\.[0-9]+)?) ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"
MUST = "must be a time: seconds, or YYYY-MM-DD HH:MM:SS with or without a zone"


class Times:
    """The times of one file: all of its dates must have a zone, or none."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._first: dict[str, tuple[int, str, str]] = {}  # kind -> row, field and text of the first such date

    def seconds(self, field: str, texts: pl.Series, numbers: F64, order: str = "", column: str = "submit") -> F64:
        """Seconds since 1970 UTC of dates, or ``numbers`` as they are; NaN where there is nothing."""
        if (
            2 * int(np.isfinite(numbers).sum()) >= texts.count()
        ):  # one that is neither must not make the others bad dates
            return self._checked(field, texts, numbers)
        numbered = months_as_numbers(texts)
        return self._checked(field, texts, self._dates(field, self._year_first(field, numbered, order, column)))

    def _year_first(self, field: str, texts: pl.Series, order: str, column: str) -> pl.Series:
        """Dates like 31/12/2026 with the year in front; which is the day must show in one of them, or be given."""
        import polars as pl

        parts = texts.str.extract_groups(DAY_AND_MONTH).struct.unnest()
        first, _, second, year, clock = (parts.to_series(at) for at in range(5))
        if not first.count():
            return texts
        order = order or day_or_month_first(texts) or self._undecided(field, texts, first, column)
        day, month = (first, second) if order == "dmy" else (second, first)
        made = pl.DataFrame(
            {"y": year, "m": month.str.zfill(2), "d": day.str.zfill(2), "t": clock.fill_null("00:00:00")}
        )
        dates = made.select(dates=pl.format("{}-{}-{} {}", "y", "m", "d", "t"))["dates"]
        return dates.zip_with(first.is_not_null(), texts)

    def _undecided(self, field: str, texts: pl.Series, first: pl.Series, column: str) -> str:
        row = int(first.is_not_null().arg_max() or 0)
        raise TraceError(
            f"{self._problems.path} {self._problems.line(row)}: {field} must show which is the day, but '{texts[row]}'"
            f" and all others may be read both ways; write YYYY-MM-DD, or give --columns {column}={field}:dmy (or :mdy)"
        )

    def _dates(self, field: str, texts: pl.Series) -> F64:
        """Dates as seconds: most are written plainly, which is quick; the rest are looked at closely."""
        import polars as pl

        layout = LAYOUTS[0].replace(" ", "T") if "T" in texts.drop_nulls()[0] else LAYOUTS[0]
        found = texts.str.to_datetime(layout, strict=False, time_unit="ms")
        seconds: F64 = found.cast(pl.Int64).cast(pl.Float64).to_numpy(writable=True) / 1000
        rest = np.flatnonzero((found.is_null() & texts.is_not_null()).to_numpy())
        zoned = np.zeros(len(texts), np.bool_)
        if len(rest):
            seconds[rest], zoned[rest] = _closely(texts[rest])
        known = ~np.isnan(seconds)
        self._note(field, texts, {"with a zone": zoned & known, "without": ~zoned & known})
        return seconds

    def _note(self, field: str, texts: pl.Series, kinds: dict[str, NDArray[np.bool_]]) -> None:
        """Remember the first date of each kind; both in one file can't be compared."""
        for kind, rows in kinds.items():
            if kind not in self._first and rows.any():
                row = int(rows.argmax())
                self._first[kind] = (row, field, texts[row])
        if len(self._first) == 2:
            mixed = " and ".join(
                f"{kind} on {self._problems.line(row)} ({field} '{text}')"
                for kind, (row, field, text) in sorted(self._first.items(), key=lambda item: item[1][0])
            )
            raise TraceError(
                f"{self._problems.path}: all times must have a zone, or none, but there are times {mixed};"
                " write all in one way"
            )

    def _checked(self, field: str, texts: pl.Series, values: F64) -> F64:
        wrong = texts.is_not_null().to_numpy() & ~np.isfinite(values)
        self._problems.add(wrong, f"{field} {MUST}", lambda row: f"got {texts[row][:60]!r}; correct it")
        return np.where(wrong, np.nan, values)

    def remarks(self) -> list[str]:
        """What was assumed."""
        return ["times carry no zone: hours are as written"] if "without" in self._first else []


def day_or_month_first(texts: pl.Series) -> str:
    """Whether dates are written dmy or mdy, by one like 31/12/2026 or with dots; "" if none shows it."""
    import polars as pl

    parts = texts.str.extract_groups(DAY_AND_MONTH).struct.unnest()
    first, sign, second = (parts.to_series(at) for at in range(3))
    if (first.cast(pl.Int64) > 12).any() or (sign == ".").any():
        return "dmy"
    return "mdy" if (second.cast(pl.Int64) > 12).any() else ""


def months_as_numbers(texts: pl.Series) -> pl.Series:
    """Dates like ``1 Oct 2026 08:18``, ``Oct 1, 2026`` and ``Thu Oct 1 08:18:00 2026`` as ``2026-10-01 08:18``."""
    import polars as pl

    if not texts.str.contains("[A-Za-z]{3}").any():
        return texts
    for pattern in NAMED_MONTHS:
        parts = texts.str.extract_groups(pattern).struct
        month = parts.field("month").str.to_lowercase().str.slice(0, 3).replace_strict(MONTHS, default=None)
        clock = parts.field("clock").fill_null("00:00:00").str.replace(" (?:GMT|UTC)$", "Z")
        made = pl.DataFrame({"y": parts.field("year"), "m": month, "d": parts.field("day").str.zfill(2), "t": clock})
        dates = made.select(dates=pl.format("{}-{}-{} {}", "y", "m", "d", "t"))["dates"]
        texts = dates.zip_with(month.is_not_null(), texts)
    return texts


def _closely(texts: pl.Series) -> tuple[F64, NDArray[np.bool_]]:
    """Dates in any of the layouts as seconds, and which of them have a zone."""
    import polars as pl

    texts = texts.str.replace("T", " ", literal=True)
    parts = texts.str.extract_groups(ZONE)
    bare, zone = parts.struct.field("1"), parts.struct.field("2")
    zoned = zone.is_not_null()
    bare = bare.zip_with(zoned, texts)
    found = bare.str.to_datetime(LAYOUTS[0], strict=False, time_unit="ms")
    for layout in LAYOUTS[1:]:
        if found.has_nulls():
            found = found.fill_null(bare.str.to_datetime(layout, strict=False, time_unit="ms"))
    seconds: F64 = found.cast(pl.Int64).cast(pl.Float64).to_numpy() / 1000
    return seconds - _offset(zone), zoned.to_numpy()


def _offset(zones: pl.Series) -> F64:
    """Seconds east of Greenwich."""
    import polars as pl

    digits = zones.str.replace_all(r"[^0-9]", "").str.pad_end(4, "0")
    hours, minutes = (digits.str.slice(at, 2).cast(pl.Float64, strict=False).fill_null(0).to_numpy() for at in (0, 2))
    sign = np.where(zones.str.starts_with("-").fill_null(False).to_numpy(), -1, 1)
    seconds: F64 = sign * (hours * 3600 + minutes * 60)
    return seconds
