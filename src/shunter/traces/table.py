"""Tables of text: from lines or records to columns, with every mistake reported by its line.

A reader asks a ``Table`` for its fields as numbers, times and names in the units of the documented CSV, says which rows
are no jobs for us, and has the trace made of them; what is wrong is collected on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shunter.errors import TraceError
from shunter.model import Column, Trace
from shunter.texts import counted
from shunter.traces import number_texts
from shunter.traces.checks import (
    REMEDIES,
    REQUIRED,
    Problems,
    check_ids,
    check_range,
    number_is_wrong,
    requirement,
    rows_of_after,
)
from shunter.traces.source import Source
from shunter.traces.times import Times
from shunter.world import F64, I64

if TYPE_CHECKING:
    import polars as pl

ANY = Column("any number that may be multiplied", scale=1000, low=-1e15, high=1e15)
NONE = ("None", "Unknown", "N/A", "NA", "nan", "NaN", "null", r"\N")  # ways to write that there is nothing
_SINGULAR = {
    "jobs": "job",
    "tasks": "task",
    "pods": "pod",
    "lines": "line",
    "steps": "step",
    "were": "was",
    "they": "it",
}
NO_NUMBER = "write a number"
NO_SPAN = "write seconds, or HH:MM:SS (two parts may be hours and minutes, or minutes and seconds)"
SWITCHED = ("checkpointable", "saves_on_stop")  # columns of yes and no
LONGEST_MEDIAN_S = 1e7  # 116 days: if half of the jobs run longer, the unit is wrong


def of_records(source: Source, records: Sequence[Any], fields: Sequence[str]) -> Table:
    """The table of records, such as a JSON list of objects; what is no object is a row without fields."""
    import polars as pl

    objects = [record if isinstance(record, dict) else {} for record in records]
    columns = {field: [_written(record.get(field)) for record in objects] for field in fields}
    frame = pl.DataFrame(columns, schema=dict.fromkeys(fields, pl.String))
    table = Table(source, frame, np.arange(1, len(records) + 1), "job")
    for field in fields:
        nested = np.array([isinstance(record.get(field), dict | list) for record in objects], np.bool_)
        if nested.any():
            table.nested[field] = nested
    odd = np.array([not isinstance(record, dict) for record in records], np.bool_)
    table.problems.add(odd, "a job must be an object", lambda row: f"got {str(records[row])[:60]!r}; correct it")
    return table


def _written(value: Any) -> str | None:
    """A value as text that can be encoded."""
    return None if value is None else str(value).encode(errors="replace").decode()


class Table:
    """The fields of a file as text, one row per job, and what is wrong with them."""

    def __init__(self, source: Source, frame: pl.DataFrame, lines: I64, place: str = "line") -> None:
        self.source, self.frame = source, frame
        self.problems = Problems(source.path, lines, place)
        self.remarks: list[str] = []
        self.left_out = np.zeros(len(frame), np.bool_)
        self.nested: dict[str, NDArray[np.bool_]] = {}  # field -> where it holds a list or an object, if anywhere
        self.unread: list[str] = []  # fields of the file that were not even loaded, because they mean nothing to us
        self._times = Times(self.problems)

    def __len__(self) -> int:
        return len(self.frame)

    def has(self, field: str) -> bool:
        """Whether there is such a field."""
        return field in self.frame.columns

    def text(self, field: str, none: Sequence[str] = ()) -> pl.Series:
        """A field without blanks around it; null where it is empty, not there, or one of ``none``."""
        import polars as pl

        if not self.has(field):
            return pl.repeat(None, len(self), dtype=pl.String, eager=True)
        bare = pl.col(field).str.strip_chars()
        nothing = bare.is_in(["", *none]) if none else bare == ""
        return self.frame.select(pl.when(~nothing).then(bare).alias(field))[field]

    def clear(self, field: str, rows: NDArray[np.bool_]) -> None:
        """Nothing stands in these rows of a field."""
        import polars as pl

        kept = pl.when(pl.Series(~rows)).then(pl.col(field))
        self.frame = self.frame.with_columns(kept.alias(field))

    def number(
        self, field: str, column: str = "", factor: float = 1.0, unit: str = "", none: Sequence[str] = ()
    ) -> F64:
        """A field as numbers, NaN where it is empty or wrong.

        With ``column`` they must be in that column's range, and stand there if it is required; ``factor`` turns the
        field's ``unit`` into the column's.
        """
        texts = self.text(field, none)
        texts = number_texts.switches(texts) if column in SWITCHED else texts
        return self._checked(field, texts, self.numbers(texts) * factor, column, factor, unit)

    def span(self, field: str, column: str, factor: float = 0.0, none: Sequence[str] = NONE) -> F64:
        """A field of spans of time as seconds: numbers, 01:30:00, 1-02:03:04, 2 days 03:04:05, 1h30m or PT1H30M.

        ``factor`` turns numbers without a unit into seconds; 0: they are seconds.
        """
        texts = self.text(field, none)
        values = self.numbers(texts) * (factor or 1.0)
        if np.isnan(values[texts.is_not_null().to_numpy()]).any():
            values = np.where(np.isnan(values), number_texts.spans(texts), values)
        return self._checked(field, texts, values, column, factor or 1.0, no_number=NO_SPAN)

    def any_number(self, field: str, spans: bool = False) -> bool:
        """Whether a field holds any number, or with ``spans`` any span of time, at all."""
        texts = self.text(field, NONE)
        found = np.isfinite(self.numbers(texts)).any() or (spans and np.isfinite(number_texts.spans(texts)).any())
        return bool(found) or texts.null_count() == len(texts)

    def numbers(self, texts: pl.Series) -> F64:
        """Texts as numbers, NaN where they are none; a comma in them is noted."""
        found, remark = number_texts.numbers(texts, self.source.separator)
        if remark and remark not in self.remarks:
            self.remarks.append(remark)
        return found.to_numpy().astype(np.float64)

    def _checked(
        self,
        field: str,
        texts: pl.Series,
        values: F64,
        column: str,
        factor: float = 1.0,
        unit: str = "",
        no_number: str = NO_NUMBER,
    ) -> F64:
        """Numbers that must be in their column's range, and stand there if it is required; NaN where they aren't."""
        empty = texts.is_null().to_numpy()
        about = Trace.columns()[column] if column else ANY
        wrong = number_is_wrong(column, about, values) & ~(empty & (column not in REQUIRED))
        remedy = REMEDIES.get(column, "correct it, or leave it empty")

        def describe(row: int) -> str:
            if empty[row]:
                return "got an empty field; fill it in"
            return (
                f"got {texts[row][:60]!r}; {no_number if np.isnan(values[row]) and not _is_nan(texts[row]) else remedy}"
            )

        must = requirement(field, column, about, factor, unit) if column else f"{field} must be a number"
        self.problems.add(wrong, must, describe)
        return np.where(wrong | empty, np.nan, values)

    def time(
        self, field: str, none: Sequence[str] = NONE, order: str = "", factor: float = 1.0, column: str = "submit"
    ) -> F64:
        """A field of times as seconds since 1970 UTC, or since whenever its numbers count from; NaN where empty.

        ``order``: dmy or mdy, where dates like 01/02/2026 don't say themselves which is the day; ``factor`` turns
        numbers, but not dates, into seconds; ``column`` is what the field is taken for, for messages.
        """
        texts = self.text(field, none)
        return self._times.seconds(field, texts, self.numbers(texts) * factor, order, column)

    def outcome(self, field: str, called: dict[str, str] | None = None) -> pl.Series:
        """How the jobs ended: the first word in small letters, or what ``called`` says instead."""
        words = self.text(field).str.extract(r"^(\w+)").str.to_lowercase()
        return words.replace(called) if called else words

    def gpus(self, field: str) -> F64:
        """A field of GPUs; jobs that asked for none are left out."""
        import polars as pl

        none = self.text(field).cast(pl.Float64, strict=False) == 0
        self.leave_out(none.fill_null(False).to_numpy(), "jobs that asked for no GPU")
        return self.number(field, "gpus")

    def whole_number(self, field: str) -> F64:
        """A field of counts, at least 1."""
        texts = self.text(field)
        values = self.numbers(texts)
        wrong = ~((values >= 1) & (values == np.floor(values)))
        must = f"{field} must be a whole number from 1 on"
        self.problems.add(wrong, must, lambda row: f"got {texts[row]!r}; correct it")
        return np.where(wrong, np.nan, values)

    def leave_out(self, rows: NDArray[np.bool_], what: str) -> None:
        """These rows are no jobs that could be simulated, and no mistakes either."""
        count = int((rows & ~self.left_out).sum())
        if count:
            self.remarks.append(f"left out {count:,} {_one(what) if count == 1 else what}")
        self.left_out |= rows

    def never_started(self, rows: NDArray[np.bool_], outcome: pl.Series) -> None:
        """Of these rows, which have no start, those that were cancelled are no jobs for us."""
        cancelled = (outcome == "cancelled").fill_null(False).to_numpy()
        self.leave_out(rows & cancelled, "jobs that were cancelled before they started")

    def unfinished(self, rows: NDArray[np.bool_], field: str) -> None:
        """These jobs have no end yet, so it is unknown how long they run: a mistake of the file."""
        remedy = "leave out jobs that have not ended, or pass --on-bad-row skip"
        self.problems.add(rows, f"{field} must be known", lambda row: f"but this job has not ended; {remedy}")

    def before(self, first: str, begin: F64, second: str, end: F64) -> None:
        """No job may end before it began."""
        self.problems.add(
            end < begin,
            f"{second} must not be before {first}",
            lambda row: f"got {begin[row] - end[row]:g} s before it; correct one of them",
        )

    def known(self, after: pl.Series, ids: pl.Series) -> pl.Series:
        """Ids of other jobs, without those of jobs that are not here."""
        import polars as pl

        here = ids.filter(~self.left_out).unique()
        found = after.is_in(here.implode())
        lost = int((after.is_not_null() & ~found).sum())
        if lost:
            self.remarks.append(f"{counted(lost, 'job', 'wait')} for a job that is not among these, so for none")
        return pl.DataFrame({"after": after, "found": found}).select(pl.when("found").then("after"))["after"]

    def numbered(self, ids: pl.Series) -> pl.Series:
        """Ids of which each stands once: those that come again get a number."""
        import polars as pl

        frame = pl.DataFrame({"id": ids}).with_columns(nth=pl.int_range(pl.len()).over("id") + 1)
        if again := int((frame["nth"] > 1).sum()):
            self.remarks.append(f"{counted(again, 'row', 'have')} the id of another and got a number (#2 ...)")
        named = pl.when(pl.col("nth") > 1).then(pl.format("{}#{}", "id", "nth")).otherwise("id")
        return frame.select(named.alias("id"))["id"]

    def trace(self, job_id: pl.Series, **columns: Any) -> Trace:
        """The trace: numbers in the units of the documented CSV, NaN where there is none, and texts for names."""
        given: dict[str, Any] = {}
        for name, about in Trace.columns().items():
            if name in columns and about.scale:
                given[name] = self._stored(name, about, columns[name])
        check_range(self.problems, given)
        check_ids(self.problems, job_id, ~self.left_out)
        if "after" in columns:
            given["after"] = rows_of_after(self.problems, columns["after"], job_id)
        self.problems.forget(self.left_out)
        if not self.source.skip:
            self.problems.raise_if_any()
        keep = ~self.left_out & ~self.problems.bad()
        if not keep.any():
            raise TraceError(f"{self.source.path}: there is no job in it that could be simulated{self._why_none()}")
        _check_units(self.source, given["duration"][keep] / 1000)
        for name, about in Trace.columns().items():
            if name in columns and not about.scale and name != "after":
                given[name], given[Trace.names_of(name)] = _codes(columns[name].filter(keep))
        self.source.rows = (job_id, self.problems)
        return self._made(job_id, given, keep)

    def _made(self, job_id: pl.Series, given: dict[str, Any], keep: NDArray[np.bool_]) -> Trace:
        """The trace of the rows to keep; names are of those rows already."""
        place = np.full(len(keep) + 1, -1, np.int64)
        place[:-1][keep] = np.arange(int(keep.sum()))
        for name, about in Trace.columns().items():
            if name in given and (about.scale or name == "after"):
                given[name] = given[name][keep]
        if "after" in given:
            given["after"] = place[given["after"]]  # -1 reads the last entry, which is -1
        unordered = bool((np.diff(given["submit"]) < 0).any())
        order = "rows are not in order of submission: jobs were put in that order" if unordered else ""
        remarks = [*self._times.remarks(), *self.remarks, order, self.problems.remark()]
        given["remarks"] = tuple(filter(None, remarks))
        return Trace.of(self.source.name, job_id.filter(keep).to_list(), **given)

    def _stored(self, name: str, about: Column, values: F64) -> I64:
        """A column of numbers in internal units; what was reported as wrong before is not reported again."""
        absent = np.isnan(values)
        wrong = np.where(absent, name in REQUIRED, number_is_wrong(name, about, values)) & ~self.problems.bad()
        remedy = REMEDIES.get(name, "correct it")

        def describe(row: int) -> str:
            return "but is not known; fill it in" if absent[row] else f"got {values[row]:g}; {remedy}"

        self.problems.add(wrong, requirement(name, name, about), describe)
        fine = ~(absent | number_is_wrong(name, about, values))
        return np.where(absent, about.default, np.rint(np.where(fine, values, 0) * about.scale).astype(np.int64))

    def _why_none(self) -> str:
        remarks = "; ".join(filter(None, [*self.remarks, self.problems.remark()]))
        return f": {remarks}" if remarks else "; add a line per job"


def _check_units(source: Source, durations: F64) -> None:
    if np.median(durations) > LONGEST_MEDIAN_S:
        raise TraceError(
            f"{source.path}: durations must be in seconds, but half of the jobs would run longer than"
            f" {np.median(durations) / 86400:,.0f} days; divide them by 1000 if they are milliseconds"
        )


def _codes(texts: pl.Series) -> tuple[I64, tuple[str, ...]]:
    """A column of names as codes in order of first appearance, -1 for none, and the names."""
    encoded = texts.to_arrow().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, tuple(encoded.dictionary.to_pylist())


def _is_nan(text: str) -> bool:
    return text.lower().lstrip("+-") == "nan"


def _one(what: str) -> str:
    """``jobs that were cancelled before they started``, of one job."""
    return " ".join(_SINGULAR.get(word, word) for word in what.split())
