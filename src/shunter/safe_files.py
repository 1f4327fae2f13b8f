"""Files that appear whole or not at all, bounds on what is read of others' files, and the folder with real data."""

from __future__ import annotations

import hashlib
import io
import os
import re
import resource
import secrets
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from shunter.errors import InputError
from shunter.parquet_pages import unpacked_bytes

if TYPE_CHECKING:
    import polars as pl

PIECE = 2**24
# -- how much of a file is read: a few kB may stand for more than there is memory
PARSED_SHARE = 1 / 40  # of the memory, for what becomes a table: reading text takes many times as much as it has
PARSED_LEAST = 2**28  # bytes that are always read
LOADED_SHARE = 1 / 8  # of the memory, for what is held as it is: arrays, event logs
LOADED_LEAST = 2**30


def data_folder(*needed: str) -> Path | None:
    """Where real traces and profiles are: what SHUNTER_DATA names, or shared/data beside the sources.

    None: it is not there, or one of the ``needed`` files is not in it.
    """
    folder = Path(os.environ.get("SHUNTER_DATA") or Path(__file__).parents[3] / "shared" / "data")
    return folder if folder.is_dir() and all((folder / file).is_file() for file in needed) else None


def digest_of(path: Path) -> str:
    """A hash of a file's content."""
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


class TooLargeError(ValueError):
    """A file holds more than this machine can take."""


class NotAFileError(ValueError):
    """A pipe or a device, which may never end."""


@cache
def memory_bytes() -> int:
    """The memory that this process may use: the machine's, or less where a control group or a limit says so."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    limits += [soft] if soft != resource.RLIM_INFINITY else []
    return min([*limits, *_group_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))])


def _group_limits(groups: Path, mounted: Path) -> Iterator[int]:
    """What the control groups of this process, and those above them, may use; either version of them."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = mounted / "memory" if controllers else mounted
        group = top / name.lstrip("/")
        for place in (group, *group.parents):
            if place.is_relative_to(top):
                with suppress(OSError, ValueError):  # "max": no limit
                    yield int((place / ("memory.limit_in_bytes" if controllers else "memory.max")).read_text())


def most_parsed() -> int:
    """Bytes of a file, unpacked, that become a table."""
    return max(int(PARSED_SHARE * memory_bytes()), PARSED_LEAST)


def most_loaded() -> int:
    """Bytes of a file that are held as they are."""
    return max(int(LOADED_SHARE * memory_bytes()), LOADED_LEAST)


def check_size(size: int, most: int) -> None:
    """Refuse what holds more bytes than are read."""
    if size > most:
        raise TooLargeError(f"it holds more than {most / 2**20:,.0f} MiB, the most that is read on this machine")


def check_parquet(path: Path, most: int) -> list[str]:
    """Refuse a Parquet file whose columns hold more bytes; a few of them may stand for many rows.

    Returns where its texts are, for ``read_dictionary``.
    """
    with opened(path) as file:
        return _parquet_checked(file, most)[0]


def _parquet_checked(file: BinaryIO, most: int) -> tuple[list[str], Any]:
    """Where its texts are, and its footer; what that says is only believed if it is too much."""
    import pyarrow.parquet as pq

    footer = pq.read_metadata(file)
    leaves = [footer.schema.column(at) for at in range(footer.num_columns)]
    widths = [max(leaf.length, 8) if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else 8 for leaf in leaves]
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    values = sum(  # of lists too; a dictionary may spell out each
        group.column(at).num_values * width for group in groups for at, width in enumerate(widths)
    )
    check_size(max(values, sum(group.total_byte_size for group in groups)), most)
    check_size(unpacked_bytes(file, footer, most), most)
    texts = [leaf for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    for leaf in texts:  # of decimals each value would be spelled out, however long and however often it is repeated
        if "DECIMAL" in (leaf.converted_type, leaf.logical_type.type):
            raise OSError(f"column '{leaf.path}' has decimal numbers as bytes, which are not read; write numbers")
    return [leaf.path for leaf in texts], footer


def parquet_frame(path: Path, most: int, wanted: Sequence[str] = ()) -> pl.DataFrame:
    """The table in anyone's Parquet file, or those of the wanted columns that it has; else an OSError or ValueError.

    Other errors of the libraries become one.  It is read by pyarrow: on a damaged file, polars may end the process.
    """
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with opened(path) as file:
            texts, footer = _parquet_checked(file, most)
            options = {"metadata": footer, "read_dictionary": texts, "page_checksum_verification": True}
            with pq.ParquetFile(file, **options) as found:  # by the footer that was checked
                there = set(found.schema_arrow.names)
                table = found.read(columns=[name for name in wanted if name in there] or None)
        table = with_texts(table, most)
        table.validate(full=True)
        return pl.DataFrame(table)
    except (*_UNSOUND, pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(str(error).partition("\n")[0]) from None


def with_texts(table: Any, most: int) -> Any:
    """An arrow table with a text in every row, if that is not too much: one long text may stand in many rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = 0  # of all columns
    for at, field in enumerate(table.schema):
        lists = pa.types.is_list(field.type) or pa.types.is_large_list(field.type)
        if not pa.types.is_dictionary(field.type.value_type if lists else field.type):
            continue
        column = table.column(at)
        parts = [chunk.flatten() if lists else chunk for chunk in column.chunks]
        sizes = [pc.sum(pc.binary_length(part.dictionary).take(part.indices)).as_py() for part in parts]
        total += sum(size or 0 for size in sizes)
        check_size(total, most)
        kind = pa.large_list(pa.large_string()) if lists else pa.large_string()
        table = table.set_column(at, field.name, column.cast(kind))
    return table


_UNSOUND = (NotImplementedError, LookupError, TypeError, OverflowError, MemoryError)  # by pyarrow


def unpacked(read: Callable[[int], bytes]) -> bytes:
    """All that a packed or growing file holds, if that is not too much."""
    most, found = most_parsed(), io.BytesIO()
    try:
        while part := read(PIECE):
            found.write(part)
            check_size(found.tell(), most)
        return found.getvalue()
    except MemoryError:
        raise TooLargeError("it unpacks to more than there is memory") from None


def standard_input() -> Path:
    """Standard input as a private file, which is gone when the process ends; it is read only once."""
    stream = sys.stdin
    if stream is None or stream.isatty():
        raise NotAFileError("is the terminal; pipe something into it, or name a file")
    if stream not in _spooled:
        folder = Path(tempfile.mkdtemp(prefix="shunter-"))
        weakref.finalize(stream, shutil.rmtree, folder, ignore_errors=True)
        with (folder / "standard-input").open("xb") as file:
            while part := stream.buffer.read(PIECE):
                file.write(part)
                check_size(file.tell(), most_loaded())
        _spooled[stream] = folder / "standard-input"
    return _spooled[stream]


_spooled: weakref.WeakKeyDictionary[Any, Path] = weakref.WeakKeyDictionary()


def check_output(path: Path, error: type[InputError]) -> None:
    """Refuse ``-`` as something to write: standard output has the result, as a table or as JSON."""
    if str(path) == "-":
        raise error("-: standard output has the result itself, so nothing else is written there; give a name")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file of at most ``most_loaded`` bytes; opening a pipe must not wait for a writer."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise NotAFileError("is a pipe or a device; save it as a file first")
        check_size(found.st_size, most_loaded())
        yield file


def text_of(path: Path, error: type[InputError], missing: str = "check the path", errors: str = "strict") -> str:
    """The text of a file that the user named; ``missing`` is the remedy if it is not there."""
    try:
        with opened(path) as file:
            check_size(os.fstat(file.fileno()).st_size, most_parsed())
            return unpacked(file.read).decode(errors=errors)  # it may grow meanwhile
    except FileNotFoundError:
        raise error(f"{path}: there is no such file; {missing}") from None
    except IsADirectoryError:
        raise error(f"{path}: is a folder; name a file in it") from None
    except UnicodeDecodeError as problem:
        raise error(f"{path}: text must be UTF-8 ({problem}); save the file as UTF-8") from None
    except NotAFileError as problem:
        raise error(f"{path}: {problem}") from None
    except TooLargeError as problem:
        raise error(f"{path}: {problem}; name a part of it") from None
    except (OSError, ValueError) as problem:
        raise error(f"{path}: cannot be read ({problem}); check the path and its permissions") from None


def parquet_bytes(frame: pl.DataFrame) -> bytes:
    """The file of a table, made in memory: on a full disk, polars reports a damaged file or a lost connection."""
    made = io.BytesIO()
    frame.write_parquet(made)
    return made.getvalue()


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Write a table; a full disk is an OSError."""
    path.write_bytes(parquet_bytes(frame))


@contextmanager
def disk_errors() -> Iterator[None]:
    """Errors of the disk that polars reports in words alone, when it writes texts, become OSErrors with a number."""
    try:
        yield
    except Exception as problem:
        number = re.search(r"\(os error (\d+)\)", str(problem))
        if number is None or not (isinstance(problem, OSError) or type(problem).__module__.startswith("polars")):
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from None


@contextmanager
def whole(path: Path, error: type[InputError]) -> Iterator[Path]:
    """A name to write to; what was written gets its real name at the end, and is gone if anything failed.

    No one can guess the name: in a shared folder, someone could have put a link there to a file of ours.
    """
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with disk_errors():
            yield made
        made.replace(path)
    except OSError as problem:
        why = os.strerror(problem.errno) if problem.errno else problem
        raise error(f"{path}: can't be written: {why}; choose another place") from None
    finally:
        made.unlink(missing_ok=True)
