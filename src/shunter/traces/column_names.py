"""Maps the columns of a user's table to those of a trace: by usual names in any case, with units, or as given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from shunter.errors import TraceError, did_you_mean
from shunter.model import Trace
from shunter.traces.checks import SHOWN

# Names without case, blanks and signs. Two that fit the same column are compared, and asked about if they differ.
NAMES: dict[str, str] = {
    "job_id": "jobid id job jobnumber jobuuid uuid taskid",
    "submit": "submit submittime submittedat submitted submitat submission submissiontime submissiondate submitdate "
    "arrival arrivaltime arrivedat created createdat creationtime creationdate createtime queuedat enqueuedat "
    "timestamp",
    "start": "start starttime startedat started startdate begin begintime began",
    "end": "end endtime endedat ended enddate finish finished finishtime finishedat completedat completiontime stop "
    "stoptime",
    "duration": "duration runtime elapsed elapsedtime elapsedraw runduration jobduration jobruntime",
    "gpus": "gpus gpu numgpus numgpu ngpus ngpu nrgpus gpunum gpusnum gpucount gpuscount numberofgpus gpusrequested "
    "requestedgpus gpurequest gpusrequest gpureq reqgpus reqgpu gpusallocated allocatedgpus allocgpus gpualloc "
    "totalgpus gpunumber",
    "nodes": "nodes numnodes nnodes nodecount nodenum numberofnodes",
    "gpus_per_node": "gpuspernode gpupernode gpusnode ngpuspernode numgpuspernode",
    "user": "user username userid uid owner submitter userhash createdby submittedby requestedby",
    "vc": "vc partition virtualcluster queuename",
    "gpu_type": "gputype gpumodel gpukind acceleratortype",
    "model": "model modelname workload",
    "limit": "limit timelimit requestedtime reqtime requestedwalltime walltimereq walltimelimit timelimitraw",
    "cpus": "cpus cpu numcpus numcpu ncpus cpunum cpucount cores ncores numcores reqcpus alloccpus",
    "mem_gib": "mem memory ram reqmem memoryrequest",
    "after": "after",
    "account": "account accountname project projectid group groupname",
    "job_name": "jobname name title",
    "recorded_wait": "recordedwait wait waittime waitingtime queuetime pendingtime queuewait",
    "outcome": "outcome state status jobstate jobstatus finalstate exitstate phase",
}
PER_NODE = ("nodes", "gpus_per_node")  # together they say how many GPUs
INDEX = ("", "index", "unnamed0", "level0", "rownumber", "rownum")  # what programs number rows with
SECONDS = {
    1.0: "s sec secs second seconds",
    0.001: "ms msec msecs millis millisecond milliseconds",
    1e-6: "us usec micros microseconds",
    1e-9: "ns nanos nanoseconds",
    60.0: "min mins minute minutes",
    3600.0: "h hr hrs hour hours",
    86400.0: "d day days",
}
GIBIBYTES = {1.0: "gib gi g", 1e9 / 2**30: "gb", 1 / 1024: "mib mi m", 1e6 / 2**30: "mb", 2.0**-30: "b bytes"}
TIMED = (
    "submit",
    "start",
    "end",
    "duration",
    "limit",
    "recorded_wait",
    "deadline",
    "fail_after",
    "checkpoint",
    "stop_cost",
    "start_cost",
    "declared",
)
ORDERS = ("dmy", "mdy")  # how dates like 01/02/2026 are meant
OPTION = "--columns"
NEAR = 0.75  # how alike a name must be to one of ours to be taken for a misspelling: 'nodes' and 'model' are 0.6


class Choice(NamedTuple):
    """A column of the table that is taken for one of the trace."""

    field: str
    factor: float = 0.0  # turns its unit into the trace's; 0: the name says no unit
    order: str = ""  # of day and month, where that was given
    given: bool = False  # the user named it: what can't be read is a mistake


def units_of(column: str) -> dict[str, float]:
    """The units in which a column may be, by name; none for what is counted or named."""
    table = SECONDS if column in TIMED else GIBIBYTES if column == "mem_gib" else {}
    return {name: factor for factor, names in table.items() for name in names.split()}


def columns() -> list[str]:
    """What a table's columns may be taken for."""
    return ["job_id", *Trace.columns(), "start", "end", *PER_NODE]


def meaning(field: str) -> tuple[str, Choice] | None:
    """The column that a name stands for, and its unit; None: it is none that is usual."""
    bare = re.sub(r"[^a-z0-9]", "", field.lower())
    for column in columns():
        for name in (*NAMES.get(column, "").split(), column.replace("_", "")):
            unit = bare.removeprefix(name) if bare.startswith(name) else None
            if unit == "" and not (column == "mem_gib" and field.lower() != "mem_gib"):  # of what unit?
                return column, Choice(field)
            if unit and unit in units_of(column):
                return column, Choice(field, units_of(column)[unit])
    return None


def is_index(field: str) -> bool:
    """Whether a column only numbers the rows."""
    return re.sub(r"[^a-z0-9]", "", field.lower()) in INDEX


def found(fields: Iterable[str], given: Mapping[str, str], path: object) -> tuple[dict[str, list[Choice]], list[str]]:
    """What each column of the trace may be, best first, and which fields are nothing that is known.

    A documented name goes before a usual one, and what was ``given`` before both.
    """
    fields = list(fields)
    said = _given_columns(fields, given, path)
    chosen = {column: [choice] for column, choice in said.items()}
    taken = {choice.field for choice in said.values()}
    ignored = []
    for field in fields:
        known = meaning(field)
        if field in taken or is_index(field):
            continue
        if known is None or known[0] in said:
            ignored.append(field)
        elif field == known[0]:
            chosen.setdefault(known[0], []).insert(0, known[1])
        else:
            chosen.setdefault(known[0], []).append(known[1])
    return chosen, ignored


def wanted(fields: Iterable[str], given: Mapping[str, str], path: object) -> list[str]:
    """The fields to read of a table that has more: those that were ``given``, and those with usual names."""
    fields = list(fields)
    taken = {choice.field for choice in _given_columns(fields, given, path).values()}
    return [field for field in fields if field in taken or meaning(field)]


def without(fields: Iterable[str], read: Iterable[str]) -> list[str]:
    """The fields that are not read, without those that only number rows."""
    read = set(read)
    return [field for field in fields if field not in read and not is_index(field)]


def _given_columns(fields: list[str], given: Mapping[str, str], path: object) -> dict[str, Choice]:
    """What the user said about each column of the trace, which may have any of its usual names."""
    said: dict[str, Choice] = {}
    for name, text in given.items():
        column = _column(name, text)
        if column in said:
            raise TraceError(f"{OPTION} {name}={text}: the column '{column}' is given twice; leave one out")
        said[column] = _given(column, text, fields, path)
    return said


def _column(name: str, text: str) -> str:
    """The column of a trace that a name stands for."""
    known = (name, Choice(name)) if name in columns() else meaning(name)
    if known is None or known[1].factor:
        raise TraceError(f"{OPTION} {name}={text}: a trace has no column '{name}'; {did_you_mean(name, columns())}")
    return known[0]


def _given(column: str, text: str, fields: list[str], path: object) -> Choice:
    """The choice in a text like ``submit_time``, ``run time (h)`` or ``run time:min``."""
    name, colon, how = text.rpartition(":")
    units = units_of(column)
    if text not in fields and colon and how in (*units, *ORDERS):
        choice = Choice(name, units.get(how, 0.0), how if how in ORDERS else "", given=True)
    else:
        choice = Choice(text, _own_factor(column, text), given=True)
    if choice.field not in fields and name in fields:
        raise TraceError(f"{path}: {OPTION} {column}={text}: '{how}' is no unit; {did_you_mean(how, units)}")
    if choice.field not in fields:
        raise TraceError(
            f"{path}: {OPTION} names a column '{choice.field}', which the table lacks; "
            f"{_near(choice.field, fields)}{listed(fields)}"
        )
    return choice


def _own_factor(column: str, field: str) -> float:
    """What turns the unit in a field's name into the column's: that of a usual name, or the last word; 0: it has none.

    A single word is no unit.
    """
    known = meaning(field)
    if known and known[0] == column:
        return known[1].factor
    words = re.findall(r"[a-z0-9]+", field.lower())
    return units_of(column).get(words[-1], 0.0) if len(words) > 1 else 0.0


def _near(name: str, known: Iterable[str]) -> str:
    """A question about the name that may have been meant, with a blank after it; "" if none is near."""
    return did_you_mean(name, known).partition("known:")[0]


def listed(fields: list[str]) -> str:
    """The columns of a table, in words."""
    shown = ", ".join(f"'{field[:40]}'" for field in fields[:20])
    return f"it has {shown}" + (f" and {len(fields) - 20} more" if len(fields) > 20 else "")


def lacking(column: str, fields: list[str], path: object, line: int) -> TraceError:
    """The error for a table in which no column can be taken for one that every trace has; ``line`` 0: it has none."""
    what = {"submit": "when jobs were submitted", "duration": "how long they ran", "gpus": "how many GPUs they had"}
    start = ", or start and end" if column == "duration" else ""
    place, named = (f" line {line}", "the first line must name the columns, and ") if line else ("", "")
    return TraceError(
        f"{path}{place}: no column says {what[column]} ({column}{start}); {named}{listed(fields)}; "
        f"say which with {OPTION} {column}=NAME"
    )


def unread(fields: list[str]) -> str:
    """A remark about columns that are not read, with names that may have been meant; "" if there are none."""
    shown = []
    for field in fields[:SHOWN]:
        near = [] if meaning(field) else get_close_matches(field.lower(), columns(), n=1, cutoff=NEAR)
        shown.append(f"'{field[:40]}'" + (f" (did you mean '{near[0]}'?)" if near else ""))
    more = f" and {len(fields) - SHOWN:,} more" if len(fields) > SHOWN else ""
    return f"columns that are not read: {', '.join(shown)}{more}" if fields else ""
