"""Numba's errors about a third party's function, in two lines: what is wrong, and where in their file."""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable
from typing import Any

from shunter.errors import PolicyError, did_you_mean

ATTRIBUTE = re.compile(r"Unknown attribute '(\w+)' of type (\w+)\(")
PLACE = re.compile(r"(?:at|from) (\S+\.py|<[^>]*>) \((\d+)\)")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # of terminals, which numba writes where colorama is installed
NOISE = ("Failed in nopython mode", "During:", "File ", "NumbaRuntimeError: Failed")  # how lines begin that say nothing
HIDDEN = frozenset({"duration", "runtime", "run_time", "length", "end"})  # what policies must not know


def explained(function: Callable[..., Any], signature: Any, error: Exception) -> PolicyError:
    """The error for a function that numba can't compile."""
    name, code = function.__qualname__.rpartition("<locals>.")[2], function.__code__
    wanted, taken = len(signature.args), code.co_argcount
    if wanted != taken:
        static = "; write @staticmethod above it, without self" if taken == wanted + 1 else ""
        what = f"must take {wanted} arguments, but takes {taken} {inspect.signature(function)}{static}"
        return PolicyError(f"{name} {what}\n  {place(code.co_filename, code.co_firstlineno)}")
    text = COLOURS.sub("", str(error))
    found = getattr(error, "loc", None)
    at = (found.filename, found.line) if found is not None else (code.co_filename, code.co_firstlineno)
    if places := PLACE.findall(text):
        at = (places[0][0], int(places[0][1]))
    return PolicyError(f"{name}: {_what(text, signature)}\n  {place(*at)}")


def body(function: Any) -> str:
    """Where the first line of a function stands that does something."""
    code = function.__code__
    lines = [line for _, _, line in code.co_lines() if line and line > code.co_firstlineno]
    return place(code.co_filename, min(lines, default=code.co_firstlineno))


def place(file: str, line: int) -> str:
    """Where something stands, with the line itself."""
    return f"at {file}:{line}: {linecache.getline(file, line).strip()}"


def _what(text: str, signature: Any) -> str:
    """What is wrong, in a line."""
    if unknown := ATTRIBUTE.search(text):
        return _unknown(unknown[1], unknown[2], signature)
    if "NRT required" in text or "No definition for lowering" in text:
        return (
            "makes a list, an array or a text, or changes its arguments, which compiled code can't; use plain numbers"
        )
    if "No conversion from" in text and "return_value" in text:
        kind = text.partition("No conversion from ")[2].partition(" to ")[0]
        return f"must return {signature.return_type} on every path, but returns {kind}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(NOISE)]
    return f"can't be compiled: {(said or lines or ['numba gives no reason'])[0]}; use numbers, math and numpy only"


def _unknown(field: str, kind: str, signature: Any) -> str:
    """An attribute that one of the arguments has not."""
    fields = next(
        (getattr(arg, "fields", ()) for arg in signature.args if str(getattr(arg, "name", "")).startswith(f"{kind}(")),
        (),
    )
    if field in HIDDEN:
        return f"the run time is hidden from policies: {kind.lower()}.{field} is not there; read job.estimate instead"
    return f"{kind.lower()} has no field '{field}'; {did_you_mean(field, fields)}"
