"""What third parties add to results: measures of a run, and sections of a report.

A measure is a function that takes a ``Run`` and returns a number. A section is a function that takes the runs of a
report, in the order of its policies, and returns a ``Section``, or None if it has nothing to show. Both are named by a
dotted path (``mylab.measures.within_a_day``), by the entry point of an installed package (groups ``shunter.measures``
and ``shunter.sections``), or given as functions.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shunter import extensions
from shunter.errors import RunError, did_you_mean
from shunter.report.html.page import Section

if TYPE_CHECKING:
    from shunter.run_folder import Run

    Measuring: TypeAlias = Callable[[Run], float]
    Showing: TypeAlias = Callable[[Sequence[Run]], Section | None]

MEASURES, SECTIONS = "shunter.measures", "shunter.sections"  # groups of entry points


def measures(given: Sequence[str | Measuring]) -> dict[str, Measuring]:
    """Measures by the names under which they are shown."""
    return _named(given, "measure", MEASURES)


def sections(given: Sequence[str | Showing]) -> dict[str, Showing]:
    """Sections by their names."""
    return _named(given, "section", SECTIONS)


def measured(run: Run, by: Mapping[str, Measuring]) -> dict[str, float]:
    """The value of each measure; a mistake in one is an error with its own file and line."""
    found = {}
    for name, measure in by.items():
        value = _called(f"measure '{name}'", measure, run)
        number = _number(value)
        if not math.isfinite(number):
            raise RunError(f"measure '{name}' must return a finite number, got {_words(value)}")
        found[name] = number
    return found


def shown(runs: Sequence[Run], by: Mapping[str, Showing]) -> list[Section]:
    """The sections that have something to show."""
    found = []
    for name, show in by.items():
        section = _called(f"section '{name}'", show, runs)
        if section is not None and not isinstance(section, Section):
            raise RunError(f"section '{name}' must return a shunter.report.html.page.Section or None, got {section!r}")
        found += [section] if section is not None else []
    return found


def options(measures: Sequence[str | Measuring], sections: Sequence[str | Showing]) -> list[str]:
    """The options of ``compare`` that add the same."""
    added = [("--measure", _path(each)) for each in measures] + [("--section", _path(each)) for each in sections]
    return [word for option in dict.fromkeys(added) for word in option]


def _number(value: Any) -> float:
    """A value as a number; nan for what is none: texts, truth values, arrays, complex and huge numbers."""
    odd = isinstance(value, bool | np.bool_) or not hasattr(type(value), "__float__")
    if odd or np.ndim(value) or np.iscomplexobj(value):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _words(value: Any) -> str:
    try:
        return repr(value)[:80]
    except Exception:  # of a whole number with thousands of digits, or of a third party's class
        return f"a value of type {type(value).__name__}"


def _named(given: Sequence[Any], what: str, group: str) -> dict[str, Any]:
    """Functions by their last names; where two have the same by their whole paths, and by a number if need be."""
    unique = list(dict.fromkeys(given))  # the same one twice is shown once
    times = Counter(map(_name, unique))
    found: dict[str, Any] = {}
    for each in unique:
        name = _name(each) if times[_name(each)] == 1 else _path(each)
        number = next(at for at in count(1) if _numbered(name, at) not in found)
        found[_numbered(name, number)] = _function(each, what, group)
    return found


def _numbered(name: str, number: int) -> str:
    return f"{name} ({number})" if number > 1 else name


def _name(given: Any) -> str:
    return given.rpartition(".")[2] if isinstance(given, str) else str(given.__name__)


def _path(given: Any) -> str:
    return given if isinstance(given, str) else f"{given.__module__}.{given.__qualname__}"


def _function(given: Any, what: str, group: str) -> Any:
    found = given
    if isinstance(given, str) and "." in given:
        found = extensions.by_path(given, what, RunError)
    elif isinstance(given, str):
        found = extensions.entry(group, given, RunError)
    if found is None:
        known = extensions.offered(group)
        more = did_you_mean(given, known) if known else "give the dotted path of a function: mylab.measures.name"
        raise RunError(f"there is no {what} '{given}'; {more}")
    if not inspect.isroutine(found):
        raise RunError(f"{what} '{given}' must be a function, got {found!r}")
    return found


def _called(what: str, function: Callable[..., Any], argument: Any) -> Any:
    try:
        return function(argument)
    except Exception as problem:
        code = getattr(function, "__code__", None)
        where = extensions.place_of(problem, code.co_filename if code else "")
        raise RunError(f"{what} failed ({type(problem).__name__}: {problem}); correct it\n  {where}") from problem
