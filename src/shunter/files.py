"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shunter.errors import InputError


@contextmanager
def whole(path: Path, error: type[InputError]) -> Iterator[Path]:
    """A name to write to; what was written gets its real name at the end, and is gone if anything failed."""
    made = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield made
        made.replace(path)
    except OSError as problem:
        why = os.strerror(problem.errno) if problem.errno else problem
        raise error(f"{path}: can't be written: {why}; choose another place") from None
    finally:
        made.unlink(missing_ok=True)
