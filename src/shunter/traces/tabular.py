"""A user's table as a trace: what its columns mean, and what is assumed about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.traces import column_names
from shunter.traces.checks import REQUIRED
from shunter.traces.column_names import OPTION, Choice
from shunter.traces.table import NONE, SWITCHED, Table
from shunter.traces.times import day_or_month_first
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

SAME = 1e-6  # relative: two columns hold the same numbers
NAMED = ("job_id", *(name for name, about in Trace.columns().items() if not about.scale))  # columns of text
OUTCOMES = {"canceled": "cancelled", "succeeded": "completed", "success": "completed"}  # other words for ours
EPOCHS = {1e11: 0.001, 1e14: 1e-6, 1e17: 1e-9}  # numbers from here on, as times, are in this unit: no year is 5000


def trace_of(table: Table, given: Mapping[str, str], line: int = 1) -> Trace:
    """The trace in a table, whose columns mean what was ``given``, or what their names say."""
    return _Foreign(table, given, line).trace()


class _Foreign:
    """A table, and what each column of the trace is taken from."""

    def __init__(self, table: Table, given: Mapping[str, str], line: int) -> None:
        self.table, self.line = table, line
        self.fields = list(table.frame.columns)
        self.choices, self.ignored = column_names.found(self.fields, given, table.source.path)
        self.ignored += table.unread
        self.strict = all(field in self.fields for field in REQUIRED) and not given  # the documented table
        self.none = () if self.strict else NONE  # words for nothing
        for name in [name for name in self.choices if name in NAMED]:
            self.leave_nested(name)
        self.tell_ids_from_users()

    def trace(self) -> Trace:
        """All columns as numbers and names."""
        columns: dict[str, Any] = {}
        start, end = (self.time(name) if name in self.choices else None for name in ("start", "end"))
        columns["submit"] = self.submit(start)
        columns["duration"] = self.duration(start, end)
        columns["gpus"] = self.gpus()
        for name, about in Trace.columns().items():
            if name not in self.choices or name in columns:
                continue
            if name == "outcome" and not self.strict:
                columns[name] = self.table.outcome(self.only(name).field, OUTCOMES)
            elif not about.scale:
                columns[name] = self.table.text(self.only(name).field, self.none)
            elif (values := self.optional(name)) is not None:
                columns[name] = values
        if start is not None and "recorded_wait" not in columns and "submit" in self.choices:
            columns["recorded_wait"] = self.waited(columns["submit"], start)
        self.note_ignored()
        return self.table.trace(self.ids(), **columns)

    def leave_nested(self, name: str) -> None:
        """Lists and objects are no names: they are not read, but refused in a column that the user named."""
        for choice in list(self.choices[name]):
            nested = self.table.nested.get(choice.field)
            if nested is None:
                continue
            count = int(nested.sum())
            alone = count == self.table.frame[choice.field].count()
            if choice.given or (name == "job_id" and not alone):
                self.refuse_nested(choice.field, nested)
                continue
            self.table.clear(choice.field, nested)
            what = "list or object is" if count == 1 else "lists or objects are"
            self.table.remarks.append(f"{choice.field}: {count:,} {what} not read")
            if alone:
                self.choices[name].remove(choice)
        if not self.choices[name]:
            del self.choices[name]

    def tell_ids_from_users(self) -> None:
        """``uid`` is a user's number in one table and a job's id in another: a job's, if no two rows have the same."""
        found = next((choice for choice in self.choices.get("user", ()) if choice.field.lower() == "uid"), None)
        if found is None or found.given or "job_id" in self.choices:
            return
        texts = self.table.text(found.field)
        if len(texts) > 1 and not texts.null_count() and texts.n_unique() == len(texts):
            self.choices["job_id"] = [found]
            self.choices["user"].remove(found)
            if not self.choices["user"]:
                del self.choices["user"]
            self.table.remarks.append(f"'{found.field}' differs in every row: it is taken as the job's id")

    def refuse_nested(self, field: str, rows: NDArray[np.bool_]) -> None:
        """These rows of a column hold no name, but must."""
        texts = self.table.frame[field]
        remedy = f"write a plain value, or name another column with {OPTION}"
        self.table.problems.add(
            rows, f"{field} must be text or a number", lambda row: f"got {texts[row][:60]!r}; {remedy}"
        )

    def waited(self, submit: F64, start: F64) -> F64:
        """How long jobs waited; unknown where the start is before the submission."""
        early = start < submit
        if count := int((early & ~self.table.left_out).sum()):
            jobs = "job" if count == 1 else "jobs"
            self.table.remarks.append(f"{count:,} {jobs} started before submission: no wait is recorded there")
        return np.where(early, np.nan, start - submit)

    def ids(self) -> pl.Series:
        """The jobs' ids, or numbers where there are none."""
        import polars as pl

        if "job_id" in self.choices:
            return self.table.text(self.only("job_id").field)
        self.table.remarks.append("no column of ids: jobs are numbered")
        return pl.int_range(1, len(self.table) + 1, eager=True).cast(pl.String)

    def submit(self, start: F64 | None) -> F64:
        """When jobs came; where only their start is known, then."""
        if "submit" in self.choices:
            return self.time("submit")
        if start is None:
            raise column_names.lacking("submit", self.all_fields(), self.table.source.path, self.line)
        self.table.remarks.append("no column of submissions: jobs are submitted when they started")
        return start

    def duration(self, start: F64 | None, end: F64 | None) -> F64:
        """How long jobs ran, or from start to end."""
        if "duration" in self.choices:
            return self.agreed(
                "duration", lambda choice: self.table.span(choice.field, "duration", choice.factor, self.none)
            )
        if start is None or end is None:
            raise column_names.lacking("duration", self.all_fields(), self.table.source.path, self.line)
        import polars as pl

        begin, finish = self.only("start").field, self.only("end").field
        outcome = self.only("outcome").field if "outcome" in self.choices else ""
        none = pl.repeat(None, len(self.table), dtype=pl.String, eager=True)
        words = self.table.outcome(outcome, OUTCOMES) if outcome else none
        self.table.never_started(np.isnan(start), words)
        self.table.unfinished(np.isnan(end), finish)
        self.table.before(begin, start, finish, end)
        return end - start

    def gpus(self) -> F64:
        """How many GPUs jobs had; in a foreign table some have none, and are left out."""
        if "gpus" not in self.choices and all(name in self.choices for name in column_names.PER_NODE):
            return self.gpus_of_nodes()
        self.ignored += [choice.field for name in column_names.PER_NODE for choice in self.choices.get(name, ())]
        if "gpus" not in self.choices:
            raise column_names.lacking("gpus", self.all_fields(), self.table.source.path, self.line)
        if self.strict:
            return self.table.number("gpus", "gpus")
        return self.agreed("gpus", lambda choice: self.table.gpus(choice.field))

    def gpus_of_nodes(self) -> F64:
        """Nodes times GPUs per node."""
        nodes, each = (self.only(name).field for name in column_names.PER_NODE)
        self.table.remarks.append(f"GPUs are '{nodes}' times '{each}'")
        count = self.table.whole_number(nodes)
        return np.asarray(count * self.table.gpus(each))

    def all_fields(self) -> list[str]:
        """The names of the table's columns, those that were not read last."""
        return [*self.fields, *self.table.unread]

    def optional(self, name: str) -> F64 | None:
        """A column that a trace need not have; None where one that the user didn't name holds something else."""
        choice = self.only(name)
        if not (self.strict or choice.given or name in SWITCHED) and not self.table.any_number(
            choice.field, spans=name in column_names.TIMED
        ):
            self.ignored.append(choice.field)
            return None
        if name in column_names.TIMED and not self.strict:
            return self.table.span(choice.field, name, choice.factor, self.none)
        return self.table.number(choice.field, name, choice.factor or 1.0)

    def time(self, name: str) -> F64:
        """A column of times, in seconds."""
        return self.agreed(name, self._time)

    def _time(self, choice: Choice) -> F64:
        values = self.table.time(choice.field, self.none, self.order(choice), choice.factor or 1.0, self.called(choice))
        if choice.factor or self.strict:
            return values
        largest = np.nanmedian(np.abs(values)) if not np.isnan(values).all() else 0.0
        for least, factor in reversed(EPOCHS.items()):
            if largest >= least:
                self.table.remarks.append(f"{choice.field} is taken as {_unit(factor)} since 1970")
                return values * factor
        return values

    def order(self, choice: Choice) -> str:
        """How the dates of a column are written: as given, as they show, or as another column of the file shows."""
        if choice.order:
            return choice.order
        if own := day_or_month_first(self.table.text(choice.field, self.none)):
            return own
        others = [other for name in ("submit", "start", "end") for other in self.choices.get(name, ())]
        shown = (other.order or day_or_month_first(self.table.text(other.field, self.none)) for other in others)
        return next((order for order in shown if order), "")

    def called(self, choice: Choice) -> str:
        """The column of the trace that a field is taken for."""
        return next((name for name, choices in self.choices.items() if choice in choices), "submit")

    def only(self, name: str) -> Choice:
        """The column that is taken, where another choice changes little."""
        first, *others = self.choices[name]
        self.ignored += [choice.field for choice in others if choice.field not in self.ignored]
        return first

    def agreed(self, name: str, read: Any) -> F64:
        """The numbers of a column; several that may be meant must hold the same ones."""
        first, *others = self.choices[name]
        values: F64 = read(first)
        if first.field == name or not others:
            return self._with_rest(values, others)
        before = len(self.table.problems.described())
        for other in others:
            if len(self.table.problems.described()) > before or not _same(values, read(other)):
                fields = " and ".join(f"'{choice.field}'" for choice in self.choices[name])
                raise TraceError(
                    f"{self.table.source.path} line {self.line}: {fields} may both be the column '{name}', and they "
                    f"differ; say which with {OPTION} {name}={first.field}"
                )
        return self._with_rest(values, others)

    def _with_rest(self, values: F64, others: list[Choice]) -> F64:
        self.ignored += [choice.field for choice in others if choice.field not in self.ignored]
        return values

    def note_ignored(self) -> None:
        """Say which columns are not read, with the name that may have been meant."""
        if remark := column_names.unread(self.ignored):
            self.table.remarks.append(remark)


def _same(left: F64, right: F64) -> bool:
    return bool(np.allclose(left, right, rtol=SAME, equal_nan=True))


def _unit(factor: float) -> str:
    return {0.001: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}[factor]
