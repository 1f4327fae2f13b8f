"""What third parties add: found by a dotted path, or by the entry point of an installed package."""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from shunter.errors import InputError


def offered(group: str) -> list[str]:
    """The names that installed packages offer in a group of entry points."""
    return sorted({point.name for point in entry_points(group=group)})


def entry(group: str, name: str) -> Any:
    """What an installed package offers under a name; None: nothing."""
    return next((point.load() for point in entry_points(group=group, name=name)), None)


def by_path(path: str, what: str, error: type[InputError]) -> Any:
    """What a dotted path such as ``mylab.rules.tight`` names; None if its module has no such name."""
    module_name, _, name = path.rpartition(".")
    if not all(part.isidentifier() for part in path.split(".")):
        raise error(f"{what} '{path}' is no dotted path; write it as package.module.name")
    if str(Path.cwd()) not in sys.path:  # only now: in a folder of others, any import could find a file of theirs
        sys.path.append(str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except SyntaxError as problem:
        raise error(f"{what} '{path}': {problem.filename} line {problem.lineno}: {problem.msg}; correct it") from None
    except (ImportError, TypeError, ValueError) as problem:
        remedy = "is its folder the present one or on PYTHONPATH?"
        raise error(f"{what} '{path}': can't import '{module_name}' ({problem}); {remedy}") from None
    return getattr(module, name, None)
