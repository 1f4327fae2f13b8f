"""Reading and writing traces; one module per format, imported when it is needed."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from shunter import extensions
from shunter.errors import TraceError, did_you_mean
from shunter.model import Trace
from shunter.safe_files import NotAFileError, TooLargeError, standard_input
from shunter.traces import readers
from shunter.traces.readers import Reader, ReaderParts, declared
from shunter.traces.source import PACKED_ENDINGS, Source

__all__ = [
    "ON_BAD_ROW",
    "Reader",
    "check_on_bad_row",
    "formats",
    "of_frame",
    "place_of",
    "read",
    "reader",
    "with_columns",
    "write",
]

GROUP = "shunter.readers"  # entry points of third parties
GENERAL = "table"  # the format of any table
STANDARD_INPUT = "-"
TABLES = (GENERAL, "csv", "parquet")  # those whose columns may mean anything
ON_BAD_ROW = ("fail", "skip")
PLAIN = (
    "the simplest is a CSV whose first line is job_id,submit,duration,gpus (seconds), with a line per job; a table with"
    " other names is read with --columns submit=NAME,duration=NAME,gpus=NAME"
)


@cache
def _ours() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(readers.__path__) if not module.name.startswith("_")]


def _theirs() -> list[str]:
    return sorted(set(extensions.offered(GROUP)) - set(_ours()))


def formats() -> list[str]:
    """The names of all formats: ours and those that installed packages offer."""
    return [*_ours(), *_theirs()]


def reader(name: str) -> Reader:
    """The reader of a format; a name with a dot is the path of a third party's module."""
    if name in _ours():
        return declared(name, importlib.import_module(f"{readers.__name__}.{name}"))
    if "." in name:
        return declared(name, extensions.module(name, f"trace format '{name}'", TraceError))
    if name in _theirs():
        return declared(name, extensions.entry(GROUP, name, TraceError))
    raise TraceError(f"there is no trace format '{name}'; {did_you_mean(name, formats())}")


def check_on_bad_row(given: str) -> None:
    """Refuse anything but ``fail`` and ``skip``."""
    if given not in ON_BAD_ROW:
        raise TraceError(f"on_bad_row must be {' or '.join(ON_BAD_ROW)}, got '{given}'")


def read(
    path: str | os.PathLike[str],
    format: str | ReaderParts | None = None,  # noqa: A002
    on_bad_row: str = "fail",
    columns: Mapping[str, str] | None = None,
) -> Trace:
    r"""Read a trace from a file.

    Args:
        path: A file, compressed or not, a folder with one trace in it, or ``-``: standard input.
        format: The name of a format or a reader of your own; default: detected from the content, then from the ending.
        on_bad_row: ``"fail"``, or ``"skip"``: drop rows that can't be parsed and report them in ``Trace.remarks``.
        columns: For a table whose names are not usual: column of the trace -> column of the file, such as
            ``{"submit": "created", "duration": "took:min"}``.

    Examples:
        >>> import shunter, tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "jobs.csv"
        ...     size = path.write_text("job_id,submit,duration,gpus\na,0,60,1\nb,5,30.5,8\n")
        ...     print(shunter.read_trace(path).duration)
        [60000 30500]
    """
    check_on_bad_row(on_bad_row)
    if columns:
        if format is not None and not isinstance(format, str):
            raise TraceError("columns are for tables, and a reader of your own knows its own; leave one out")
        format = with_columns(format, ",".join(f"{ours}={theirs}" for ours, theirs in columns.items()))  # noqa: A001
    with _named(Path(path)) as file:
        return _read(Source(file, skip=on_bad_row == "skip"), format)


def of_frame(frame: Any, columns: Mapping[str, str] | None = None) -> Trace:
    """The trace in a frame of polars or pandas; its columns mean what their names say, or what ``columns`` does."""
    from shunter.traces import frames
    from shunter.traces.tabular import trace_of

    source = frames.source_of("frame")
    return trace_of(frames.table_of(source, frames.polars_frame(frame)), columns or {})


def with_columns(format: str | None, columns: str | None) -> str | None:  # noqa: A002
    """A format that also says what columns mean: ``table:submit=created,gpus=n``; so every record of a run has it."""
    if not columns:
        return format
    return f"{format or GENERAL}{',' if ':' in (format or '') else ':'}{columns}"


def place_of(job_id: str, path: str | os.PathLike[str], format: str | None = None) -> str:  # noqa: A002
    """Where a job stands in a file that was read before, such as ``line 7``; "" where the format has no lines."""
    with _named(Path(path)) as file:
        source = Source(file, skip=True)
        _read(source, format)
    if source.rows is None:
        return ""
    ids, problems = source.rows
    row = ids.index_of(job_id)
    return "" if row is None else problems.line(row)


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace in the format of the name's ending; the file appears whole or not at all.

    Examples:
        >>> import shunter, tempfile
        >>> jobs = shunter.Trace.of("one", ["a"], submit=[0], duration=[60_000], gpus=[1000])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     shunter.write_trace(jobs, f"{folder}/jobs.parquet")
        ...     print(shunter.read_trace(f"{folder}/jobs.parquet").digest == jobs.digest)
        True
    """
    from shunter.traces import writing

    writing.write(trace, Path(path))


def _read(source: Source, format: str | ReaderParts | None) -> Trace:  # noqa: A002
    if format is None:
        return _recognised(source)
    if isinstance(format, str):
        source.format, source.given = _settings(format)
        chosen = reader(source.format)
    else:
        source.format = format.__name__ if isinstance(format, ModuleType | type) else type(format).__name__
        chosen = declared(source.format, format)
    source.head  # noqa: B018  every format reports a missing or empty file alike
    return _made_by(chosen, source)


def _settings(format: str) -> tuple[str, dict[str, str]]:  # noqa: A002
    """A format's name, and what it says about columns."""
    name, _, columns = format.partition(":")
    given: dict[str, str] = {}
    for part in filter(None, columns.split(",")):
        column, equals, field = part.partition("=")
        if not equals or not column.strip() or not field.strip() or column.strip() in given:
            raise TraceError(f"columns are written submit=created,gpus=n, each once, got '{part}'")
        given[column.strip()] = field.strip()
    if given and name not in TABLES:
        raise TraceError(f"the columns of format '{name}' are known; say what columns mean only for other tables")
    return name, given


def _made_by(chosen: Reader, source: Source) -> Trace:
    """The trace that a reader makes of a file."""
    with _blamed(source, source.format):
        trace = chosen.read(source)
        if not isinstance(trace, Trace):
            raise TypeError(f"read must return a shunter.Trace, got {type(trace).__name__}")
        return trace


@contextmanager
def _blamed(source: Source, name: str) -> Iterator[None]:
    """A mistake in a third party's reader is reported as such."""
    try:
        yield
    except TraceError:
        raise
    except Exception as error:
        if name in _ours():
            raise
        what = f"{type(error).__name__}: {error}"
        raise TraceError(f"{source.path}: reader '{name}' failed ({what}); fix the reader or the file") from error


def _recognises(name: str, source: Source) -> bool:
    with _blamed(source, name):
        return reader(name).recognises(source)


def _recognised(source: Source) -> Trace:
    """Read a file by what it looks like: our formats first, then those of others, any table, then by its ending."""
    special = [name for name in _ours() if name != GENERAL]
    for names in (special, _theirs(), [GENERAL]):
        fitting = [name for name in names if _recognises(name, source)]
        if len(fitting) > 1:
            raise TraceError(f"{source.path}: may be {' or '.join(fitting)}; say which with --format")
        if fitting:
            source.format = fitting[0]
            return _made_by(reader(fitting[0]), source)
    file = source.path.name.lower()
    for packed in PACKED_ENDINGS:
        file = file.removesuffix(packed)
    for name in formats():
        if file.endswith((chosen := reader(name)).endings):
            source.format = name
            try:
                return _made_by(chosen, source)
            except TraceError as error:
                raise TraceError(f"{error}\n  it was taken for '{name}' because of its ending; {_known()}") from None
    bare = source.first_lines[0].count("|") >= 4 if source.first_lines else False
    hint = "if this is sacct's, its first line is missing: export it without -n; " if bare else ""
    raise TraceError(
        f"{source.path}: neither its content nor its ending is that of a known trace format; {hint}{_known()}"
    )


@contextmanager
def _named(path: Path) -> Iterator[Path]:
    """The file to read; errors name standard input, not the file in which it is kept."""
    if str(path) != STANDARD_INPUT:
        yield _file(path)
        return
    try:
        kept = standard_input()
    except (NotAFileError, TooLargeError) as problem:
        raise TraceError(f"standard input: {problem}") from None
    try:
        yield kept
    except TraceError as error:
        error.args = (str(error).replace(str(kept), "standard input"),)
        raise


def _file(path: Path) -> Path:
    """The path itself, or in a folder the file that is called as its format calls it."""
    if not path.is_dir():
        return path
    patterns = [pattern for name in formats() for pattern in reader(name).files]
    found = sorted({file for pattern in patterns for file in path.glob(pattern)})
    if len(found) == 1:
        return found[0]
    if not found and (path / "experiment.toml").is_file():
        raise TraceError(f"{path}: is the folder of a run; its jobs are in {path / 'jobs.parquet'}")
    names = ", ".join(file.name for file in found) or f"none of {', '.join(patterns)} is in it"
    raise TraceError(f"{path}: is a folder; name the trace file in it ({names})")


def _known() -> str:
    """The formats, in a sentence."""
    return f"{PLAIN}; --format takes {', '.join(formats())}"
