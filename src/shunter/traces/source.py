"""A file that is to become a trace: how it begins, and all of it as text, unpacked."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.errors import TraceError
from shunter.safe_files import NotAFileError, TooLargeError, opened, unpacked
from shunter.texts import unrepeated

if TYPE_CHECKING:
    import polars as pl

    from shunter.traces.checks import Problems

HEAD = 65536  # bytes of a file that are looked at to find out what it is
BOM = b"\xef\xbb\xbf"
WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # how UTF-16 begins, as some programs save tables
PACKED_ENDINGS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
SEPARATORS = (",", "|", ";", "\t", "\x1f")  # the last: for names that may hold any of the others
CHECK = "check the path and its permissions"
TOO_LARGE = "unpack it, and name the unpacked file or a part of it"


def _zstandard(path: Path) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(path), compression="zstd")


# first bytes of a packed file -> what it is called, and how it is opened
PACKED: dict[bytes, tuple[str, Callable[[Path], Any]]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstandard),
}


class Source:
    """A file and what is asked of its reader; readers recognise it by its beginning and turn all of it into a trace."""

    def __init__(self, path: Path, format: str = "", skip: bool = False) -> None:  # noqa: A002
        self.path, self.format = path, format  # the format's name, for messages
        self.given: dict[str, str] = {}  # what the user said about columns: that of the trace -> that of the file
        self.skip = skip  # bad rows are left out instead of refused
        self.rows: tuple[pl.Series, Problems] | None = None  # the jobs' ids and what knows their lines, once read

    @property
    def name(self) -> str:
        """What a trace from this file is called: the file's name without its endings."""
        name = self.path.name
        for ending in PACKED_ENDINGS:
            name = name.removesuffix(ending)
        return name.rpartition(".")[0] or name

    @cached_property
    def head(self) -> bytes:
        """The beginning of the file, unpacked."""
        data = self._unpacked(HEAD)
        if not data:
            raise TraceError(f"{self.path}: the file is empty; it must hold a job per line or record")
        return data[512:] if _is_tar(data) else _narrow(data, "ignore").removeprefix(BOM)

    @cached_property
    def first_lines(self) -> list[str]:
        """The first lines that hold something, whole and without blanks around them."""
        whole = self.head if len(self.head) < HEAD // 2 else self.head.rpartition(b"\n")[0]
        lines = (line.strip() for line in whole.decode(errors="replace").splitlines())
        return [line for line in lines if line]

    @cached_property
    def separator(self) -> str:
        """What separates the fields of the first line, as far as it shows."""
        first = self.first_lines[0] if self.first_lines else ""
        return max(SEPARATORS, key=first.count)

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names in the first line, if it is a header."""
        return frozenset(self.header)

    @cached_property
    def header(self) -> list[str]:
        """The same, in order."""
        first = self.first_lines[0] if self.first_lines else ""
        return [name.strip().strip('"').strip() for name in first.split(self.separator)]

    def has(self, *names: str) -> bool:
        """Whether all of these stand in the first line."""
        return self.columns.issuperset(names)

    def text(self) -> bytes:
        """The whole file, unpacked, with plain line ends, known to be UTF-8."""
        data = self._member(self._unpacked())
        try:
            data = _narrow(data).removeprefix(BOM)
        except UnicodeDecodeError as error:
            raise TraceError(f"{self.path}: begins as UTF-16, but is none ({error}); save the file as UTF-8") from None
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        if not data.strip():
            raise TraceError(f"{self.path}: the file is empty; it must hold a job per line or record")
        if not data.isascii():
            self._check_encoding(data)
        if b"\0" in data:
            line = data.count(b"\n", 0, data.index(b"\0")) + 1
            raise TraceError(f"{self.path} line {line}: a zero byte is no text; is this a text file?")
        return data

    def parsed(self, hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
        """What a JSON file holds; ``hook`` makes an object of its keys and values."""
        try:
            return json.loads(self.text(), object_pairs_hook=hook)
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{self.path}: is no JSON ({error}); name another format, or correct it") from None

    def json(self) -> list[Any]:
        """The list of records in a JSON file."""
        found = self.parsed(unrepeated)
        if not isinstance(found, list) or not found:
            raise TraceError(f"{self.path}: must be a JSON list of jobs, got {str(found)[:60]!r}; correct it")
        return found

    def beside(self, pattern: str) -> Path | None:
        """A file in the same folder whose name fits this pattern."""
        return next(iter(sorted(self.path.parent.glob(pattern))), None)

    def lacks(self, line: int, missing: Iterable[str]) -> TraceError:
        """The error for a file whose columns are not those of its format."""
        return TraceError(
            f"{self.path} line {line}: is no '{self.format}' trace: the first line must name the columns, but these are"
            f" missing: {', '.join(missing)}; name another format, or leave --format out to detect it"
        )

    def _check_encoding(self, data: bytes) -> None:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise TraceError(
                f"{self.path} line {line}: text must be UTF-8, got the byte {data[error.start]:#04x}; save the file as"
                f" UTF-8, or convert one from Windows: iconv -f WINDOWS-1252 -t UTF-8 {self.path.name} > new.csv"
            ) from None

    def _unpacked(self, size: int = -1) -> bytes:
        """The first ``size`` bytes, or all."""
        kind = ""
        try:
            with opened(self.path) as plain:
                start = plain.read(8)
                found = next((packed for magic, packed in PACKED.items() if start.startswith(magic)), None)
                if not found:
                    return self._plain(start + plain.read(size))
            kind, unpack = found
            with unpack(self.path) as stream:
                return bytes(stream.read(size)) if size >= 0 else unpacked(stream.read)
        except TooLargeError as error:
            raise TraceError(f"{self.path}: {error}; {TOO_LARGE}") from None
        except NotAFileError as error:
            raise TraceError(f"{self.path}: {error}") from None
        except FileNotFoundError:
            raise TraceError(f"{self.path}: there is no such file; check the path") from None
        except IsADirectoryError:
            raise TraceError(f"{self.path}: is a folder; name a trace file in it") from None
        except (EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
            if kind:
                raise TraceError(
                    f"{self.path}: the {kind} data is damaged or cut off ({error}); fetch or pack the file again"
                ) from None
            raise TraceError(f"{self.path}: cannot be read ({error}); {CHECK}") from None

    def _plain(self, data: bytes) -> bytes:
        """What is not packed, if it was not meant to be."""
        kind = PACKED_ENDINGS.get(self.path.suffix)
        if kind and not (data.startswith(WIDE) or _is_text(data[:HEAD]) or _is_tar(data) or data.startswith(b"PAR1")):
            raise TraceError(
                f"{self.path}: ends in {self.path.suffix}, but is no {kind} file; fetch or pack it again, or rename it"
            )
        return data

    def _member(self, data: bytes) -> bytes:
        """The one file in a tar archive; what is no archive is taken as it is."""
        if not _is_tar(data):
            return data
        try:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                names = [member.name for member in archive.getmembers() if member.isfile()]
                if len(names) == 1:
                    file = archive.extractfile(names[0])
                    return unpacked(file.read) if file else b""
        except TooLargeError as error:
            raise TraceError(f"{self.path}: {error}; {TOO_LARGE}") from None
        except (tarfile.TarError, OSError, ValueError, EOFError) as error:
            raise TraceError(f"{self.path}: the tar archive is damaged ({error}); fetch it again") from None
        listed = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
        raise TraceError(
            f"{self.path}: is an archive of {len(names)} files ({listed}); unpack it and name the file with the jobs"
        )


def _narrow(data: bytes, errors: str = "strict") -> bytes:
    """UTF-16 as UTF-8; anything else as it is."""
    return data.decode("utf-16", errors).encode() if data.startswith(WIDE) else data


def _is_text(head: bytes) -> bool:
    """Whether a file that begins so may be UTF-8; a character may be cut at the end."""
    try:
        return "\0" not in codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False


def _is_tar(data: bytes) -> bool:
    return data[257:262] == b"ustar"
