"""Reading and writing traces; one module per format, imported when it is needed."""

from __future__ import annotations

import importlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

from shunter.errors import TraceError, did_you_mean
from shunter.model import Trace

__all__ = ["FORMATS", "Format", "read", "write"]

HEAD = 65536  # bytes of a file that are looked at to find out what it is


@dataclass(frozen=True)
class Format:
    """How a kind of trace file is recognised, and the module whose ``read(path)`` reads it."""

    module: str
    doc: str
    endings: tuple[str, ...]
    magic: bytes = b""  # the file begins with this
    header: frozenset[str] = frozenset()  # or its first line holds these columns


# In this order: the first whose content fits wins, then the first whose ending fits.
FORMATS = {
    "parquet": Format("parquet", "shunter's own, exact and fast", (".parquet",), magic=b"PAR1"),
    "csv": Format(
        "csv_table",
        "a table with the columns job_id, submit, duration, gpus",
        (".csv", ".csv.gz"),
        header=frozenset(("job_id", "submit", "duration", "gpus")),
    ),
}


def read(path: str | os.PathLike[str], format: str | None = None) -> Trace:  # noqa: A002
    """Read a trace; its format is found from the content, then from the ending, unless ``format`` says it."""
    file = Path(path)
    head = _head(file)
    if format is None:
        format = _recognise(file, head)  # noqa: A001
    elif format not in FORMATS:
        raise TraceError(f"there is no trace format '{format}'; {did_you_mean(format, FORMATS)}")
    trace: Trace = importlib.import_module(f"{__name__}.{FORMATS[format].module}").read(file)
    return trace


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace in the format of the name's ending; the file appears whole or not at all."""
    from shunter.traces import writing

    writing.write(trace, Path(path))


def _head(file: Path) -> bytes:
    """The beginning of the file, unpacked."""
    try:
        with file.open("rb") as stream:
            head = stream.read(HEAD)
    except FileNotFoundError:
        raise TraceError(f"{file}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise TraceError(f"{file}: is a folder; name a trace file in it") from None
    except (OSError, ValueError) as error:
        raise TraceError(f"{file}: cannot be read ({error}); check the path and its permissions") from None
    if not head:
        raise TraceError(f"{file}: the file is empty; {_known()}")
    if head.startswith(b"\x1f\x8b"):
        try:
            return zlib.decompressobj(wbits=31).decompress(head, HEAD)
        except zlib.error:
            return head  # a damaged file; its reader says so
    return head


def _recognise(file: Path, head: bytes) -> str:
    first_line = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].decode(errors="replace")
    columns = {name.strip().strip('"') for name in first_line.split(",")}
    for name, known in FORMATS.items():
        if (known.magic and head.startswith(known.magic)) or (known.header and known.header <= columns):
            return name
    for name, known in FORMATS.items():
        if file.name.lower().endswith(known.endings):
            return name
    raise TraceError(f"{file}: neither its content nor its ending is that of a known trace format; {_known()}")


def _known() -> str:
    return "known: " + "; ".join(f"{name} ({', '.join(f.endings)}): {f.doc}" for name, f in FORMATS.items())
