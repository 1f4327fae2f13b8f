"""What third parties add to results: measures of a run, and sections of a report.

A measure is a function that takes a ``Run`` and returns a number. A section is a function that takes the runs of a
report, in the order of its policies, and returns a ``Section``, or None if it has nothing to show. Both are named by a
dotted path (``mylab.measures.within_a_day``), by the entry point of an installed package (groups ``shunter.measures``
and ``shunter.sections``), or given as functions.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

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
    return {_name(each): _function(each, "measure", MEASURES) for each in given}


def sections(given: Sequence[str | Showing]) -> dict[str, Showing]:
    """Sections by their names."""
    return {_name(each): _function(each, "section", SECTIONS) for each in given}


def measured(run: Run, by: Mapping[str, Measuring]) -> dict[str, float]:
    """The value of each measure; a mistake in one is an error with its own file and line."""
    found = {}
    for name, measure in by.items():
        value = _called(f"measure '{name}'", measure, run)
        if isinstance(value, bool) or not hasattr(type(value), "__float__") or not math.isfinite(value):
            raise RunError(f"measure '{name}' must return a finite number, got {value!r}")
        found[name] = float(value)
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


def _name(given: Any) -> str:
    return given.rpartition(".")[2] if isinstance(given, str) else str(given.__name__)


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
