"""Files that appear whole or not at all, and the folder with real data."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shunter.errors import InputError

PIECE = 2**24
MEMORY_SHARE = 0.5  # of the machine's, that a packed file may take


def data_folder(*needed: str) -> Path | None:
    """Where real traces and profiles are: what SHUNTER_DATA names, or shared/data beside the sources.

    None: it is not there, or one of the ``needed`` files is not in it.
    """
    folder = Path(os.environ.get("SHUNTER_DATA") or Path(__file__).parents[3] / "shared" / "data")
    return folder if folder.is_dir() and all((folder / file).is_file() for file in needed) else None


class TooLargeError(ValueError):
    """A packed file holds more than this machine can take."""


def unpacked(read: Callable[[int], bytes]) -> bytes:
    """All that a packed file holds; a few kB may stand for more than there is memory."""
    most = int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    found = io.BytesIO()
    try:
        while part := read(PIECE):
            found.write(part)
            if found.tell() > most:
                raise TooLargeError(f"it unpacks to more than {most / 2**30:,.1f} GiB, half of this machine's memory")
        return found.getvalue()
    except MemoryError:
        raise TooLargeError("it unpacks to more than there is memory") from None


@contextmanager
def whole(path: Path, error: type[InputError]) -> Iterator[Path]:
    """A name to write to; what was written gets its real name at the end, and is gone if anything failed.

    Nobody can guess the name: in a folder of many, somebody could have put a link there to a file of ours.
    """
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        yield made
        made.replace(path)
    except OSError as problem:
        why = os.strerror(problem.errno) if problem.errno else problem
        raise error(f"{path}: can't be written: {why}; choose another place") from None
    finally:
        made.unlink(missing_ok=True)
