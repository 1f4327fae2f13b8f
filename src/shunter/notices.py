"""Messages of the library while it works, for any listener; imports nothing heavy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Called with the name of a kernel before it is compiled, and with "" when the outermost one is done.
compiling: ContextVar[Callable[[str], None]] = ContextVar("compiling", default=lambda _: None)
# Called with what does not work as it should although the work goes on.
problem: ContextVar[Callable[[str], None]] = ContextVar("problem", default=warnings.warn)


@contextmanager
def silently() -> Iterator[None]:
    """Compile something small in here without a notice."""
    before = compiling.set(lambda _: None)
    try:
        yield
    finally:
        compiling.reset(before)
