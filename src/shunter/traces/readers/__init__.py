"""The contract of a reader, and one file per trace format, found by its name: no registration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.traces.source import Source

NAME = "READER"  # of the reader that a module declares


class ReaderParts(Protocol):
    """What every reader has; a module or an object of any class with these parts can be used as one."""

    @property
    def doc(self) -> str:
        """One line: what it reads."""
        ...

    def recognises(self, source: Source, /) -> bool:
        """Whether a file that begins like this one is of this format."""
        ...

    def read(self, source: Source, /) -> Trace:
        """The trace in the file."""
        ...


@dataclass(frozen=True)
class Reader:
    """What reads one format. The parts with a default are used only if they are declared here.

    Examples:
        >>> from shunter.traces import Reader
        >>> from shunter.traces.delimited import read_table
        >>> def recognises(source):
        ...     return source.has("when", "secs", "cards")
        >>> def read(source):
        ...     table = read_table(source, required=("job", "when", "secs", "cards"))
        ...     times = {"submit": table.time("when"), "duration": table.number("secs", "duration")}
        ...     return table.trace(table.text("job"), gpus=table.gpus("cards"), **times)
        >>> READER = Reader("the lab's own job log", recognises, read, endings=(".joblog",))
    """

    doc: str  # one line: what it reads
    recognises: Callable[[Source], bool]  # whether a file that begins like this one is of this format
    read: Callable[[Source], Trace]  # the trace in the file
    endings: tuple[str, ...] = ()  # of files that it reads where no reader recognises the content
    files: tuple[str, ...] = ()  # patterns of the name of the trace file in a folder

    def __post_init__(self) -> None:
        for part, (holds, kind) in _MUST_BE.items():
            if not holds(value := vars(self)[part]):
                raise TraceError(f"a reader's {part} must be {kind}, got {value!r}; correct it")


class _Kind(NamedTuple):
    holds: Callable[[Any], bool]
    words: str


def _are_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, str) and each for each in value)


_MUST_BE = {
    "doc": _Kind(lambda value: isinstance(value, str), "a line of text"),
    "recognises": _Kind(callable, "a function of a source"),
    "read": _Kind(callable, "a function of a source"),
    "endings": _Kind(_are_texts, "a tuple of texts such as ('.log',)"),
    "files": _Kind(_are_texts, "a tuple of patterns such as ('jobs*.log',)"),
}
_REQUIRED = ("doc", "recognises", "read")


def declared(name: str, found: Any) -> Reader:
    """What was found under a name, as a reader.

    It is a ``Reader``, a module that declares one as ``READER``, or a module or object with the three required parts.
    """
    if isinstance(found, ModuleType):
        found = vars(found).get(NAME, found)
    if isinstance(found, Reader):
        return found
    missing = [part for part in _REQUIRED if not hasattr(found, part)]
    if missing:
        raise TraceError(
            f"trace format '{name}': a reader needs doc, recognises and read; {found!r} lacks {', '.join(missing)}"
        )
    try:
        return Reader(found.doc, found.recognises, found.read)
    except TraceError as error:
        raise TraceError(f"trace format '{name}': {error}") from None
