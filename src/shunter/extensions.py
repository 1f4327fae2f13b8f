"""What third parties add: found by a dotted path, or by the entry point of an installed package."""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any

from shunter.errors import InputError

NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+)(e[+-]?\d+)?")  # the only text with a dot that names no module
HERE = str(Path(__file__).parent)
PYTHON = str(Path(traceback.__file__).parent)  # the standard library


def offered(group: str) -> list[str]:
    """The names that installed packages offer in a group of entry points."""
    return sorted({point.name for point in _installed(group, tuple(sys.path))})


def entry(group: str, name: str, error: type[InputError] = InputError) -> Any:
    """What an installed package offers under a name; None: nothing."""
    for point in _installed(group, tuple(sys.path)).select(name=name):
        with _importing(f"'{name}' of the package {point.dist.name if point.dist else '?'}", point.module, error):
            return point.load()
    return None


@lru_cache(maxsize=32)
def _installed(group: str, _places: tuple[str, ...]) -> EntryPoints:
    """The entry points of a group; they are looked for once for each ``sys.path``, because that takes milliseconds."""
    return entry_points(group=group)


def by_path(path: str, what: str, error: type[InputError]) -> Any:
    """What a dotted path such as ``mylab.rules.tight`` names; None if its module has no such name."""
    module_name, _, name = path.rpartition(".")
    return getattr(module(module_name, f"{what} '{path}'", error), name, None)


def module(path: str, whose: str, error: type[InputError]) -> Any:
    """A module by its dotted path, from the current folder too."""
    if not all(part.isidentifier() for part in path.split(".")):
        raise error(f"{whose} is no dotted path; write it as package.module.name")
    if str(Path.cwd()) not in sys.path:  # only now: in a folder of others, any import could find a file of theirs
        sys.path.append(str(Path.cwd()))
    importlib.invalidate_caches()  # the file may be younger than what Python remembers of its folder
    with _importing(whose, path, error):
        return importlib.import_module(path)


def names_module(text: str) -> bool:
    """Whether a part of it has a dot and is no number: such a part could be the dotted path of any file."""
    parts = re.split(r"[:,;=/]", text)
    return any("." in part and not NUMBER.fullmatch(part.strip()) for part in parts)


@contextmanager
def _importing(whose: str, module: str, error: type[InputError]) -> Iterator[None]:
    """Whatever a module of others raises while it is imported, with its own file and line."""
    try:
        yield
    except SyntaxError as problem:
        raise error(f"{whose}: {problem.filename} line {problem.lineno}: {problem.msg}; correct it") from None
    except ModuleNotFoundError as problem:
        own = problem.name is not None and f"{module}.".startswith(f"{problem.name}.")
        remedy = (
            "is its folder the present one or on PYTHONPATH?" if own else f"install {problem.name}, or don't import it"
        )
        raise error(f"{whose}: can't import '{module}' ({problem}); {remedy}") from None
    except Exception as problem:
        where = place_of(problem, "")
        raise error(
            f"{whose}: importing '{module}' failed ({type(problem).__name__}: {problem}); correct it\n  {where}"
        ) from None


def place_of(problem: BaseException, own: str) -> str:
    """The last line of a file of others on the way to an error: of their ``own`` file, else the last at all."""
    frames = traceback.extract_tb(problem.__traceback__)
    theirs = [frame for frame in frames if frame.filename == own] or [
        frame
        for frame in frames
        if not frame.filename.startswith(("<frozen", HERE)) and not _is_pythons(frame.filename)
    ]
    frame = (theirs or frames)[-1]
    return f"at {frame.filename}:{frame.lineno}: {frame.line}"


def _is_pythons(file: str) -> bool:
    return file.startswith(PYTHON) and "site-packages" not in file
