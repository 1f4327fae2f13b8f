"""TOML files as declared forms, and their mistakes in the file's own words."""

from __future__ import annotations

import re
import tomllib
import typing
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from shunter.errors import InputError, did_you_mean

MOST = 1e9  # seconds, cores, GiB, GB/s: anything above is a slip of the pen
MOST_SHOWN = 5  # mistakes of one file
LONGEST_SHOWN = 200  # characters of what came instead

# -- pydantic's words, and ours
WORDS = (
    (r"^Value error, ", ""),
    (r"^Input should be", "must be"),
    (r"^(String|List|Tuple) should have", "must have"),
    (r"a valid dictionary( or instance of \w+)?", "a table"),
    (r" after validation, not \d+", ""),
)

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Amount = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]


class Form(BaseModel):
    """Strict: no unknown field, no text where a number belongs."""

    model_config = ConfigDict(strict=True, extra="forbid")


F = TypeVar("F", bound=Form)


def filled(form: type[F], text: str, source: str, error: type[InputError], lines: bool = False) -> F:
    """The form as a TOML text fills it; ``source`` is its file, for messages, which may name ``lines``, too."""
    tree = _toml(text, source, error)
    try:
        return form.model_validate(tree)
    except ValidationError as problem:
        details = problem.errors()  # there may be one for each line
        begin = [f" line {_line_of(detail, text)}" if lines else "" for detail in details[:MOST_SHOWN]]
        found = zip(begin, details, strict=False)
        mistakes = [f"{source}{line}: {_described(detail, form)}" for line, detail in found]
        more = [f"and {len(details) - MOST_SHOWN} more"] if len(details) > MOST_SHOWN else []
        raise error("\n  ".join(mistakes + more)) from None


def _line_of(detail: ErrorDetails, text: str) -> int:
    """The line of a field in its [[table]]; that of the table if the field is not on a line of its own, or missing."""
    loc, lines = detail["loc"], text.splitlines()
    if len(loc) < 2 or not isinstance(loc[1], int):
        return 1
    head = re.compile(rf"\s*\[\[\s*{re.escape(str(loc[0]))}\s*\]\]")
    heads = [at for at, line in enumerate(lines) if head.match(line)]
    if loc[1] >= len(heads):
        return 1
    first, name = heads[loc[1]], re.escape(str(loc[2])) if len(loc) > 2 else r"(?!)"
    field = re.compile(rf"\s*[\"']?{name}[\"']?\s*[=.]")
    after = heads[loc[1] + 1] if loc[1] + 1 < len(heads) else len(lines)
    return next((at for at in range(first, after) if field.match(lines[at])), first) + 1


def _toml(text: str, source: str, error: type[InputError]) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        found = re.search(r"(.*) \(at line (\d+), column (\d+)\)", str(problem))
        line = int(found[2]) if found else text.rstrip().count("\n") + 1
        what = f"column {found[3]}: {found[1]}" if found else str(problem)
        raise error(f"{source} line {line}: not valid TOML: {what}; correct the line, see toml.io") from None


def _described(detail: ErrorDetails, form: type[Form]) -> str:
    """One mistake: where, what must hold, what came, the remedy."""
    known = _form_at(form, detail["loc"][:-1]).model_fields if detail["type"] == "extra_forbidden" else ()
    return f"{_place(detail)} {mistake(detail, known)}".lstrip()


def mistake(detail: ErrorDetails, known: Iterable[str]) -> str:
    """What must hold of a field, what came, and the remedy; ``known`` are the fields beside it."""
    kind, got = detail["type"], detail["input"]
    if kind == "missing":
        return "is missing; add it"
    if kind == "extra_forbidden":
        return f"is not known; {did_you_mean(str(detail['loc'][-1]), known)}"
    message = detail["msg"]
    for theirs, ours in WORDS:
        message = re.sub(theirs, ours, message)
    if kind == "value_error" and isinstance(got, dict):  # a validator of ours, of a whole table
        return message
    shown = "a table" if isinstance(got, dict) else repr(got)[:LONGEST_SHOWN]
    remedy = f"write [{shown}]" if kind == "list_type" and isinstance(got, str) else "correct it"
    return f"{message}, got {shown}; {remedy}"


def _form_at(form: type[Form], loc: tuple[int | str, ...]) -> type[Form]:
    """The form of the table that a path leads to; places of a list and keys of a dictionary lead no further."""
    for step in loc:
        if isinstance(step, str) and step in form.model_fields:
            form = next(_forms_in(form.model_fields[step].annotation))
    return form


def _forms_in(kind: Any) -> Iterator[type[Form]]:
    """The forms in a type such as ``list[Annotated[SomeForm, ...]] | None``."""
    if isinstance(kind, type) and issubclass(kind, Form):
        yield kind
    for part in typing.get_args(kind):
        yield from _forms_in(part)


def _place(detail: ErrorDetails) -> str:
    """``[[nodes]] 2: gpus``: the table as in the file, counted from 1, and the field; or ``loads, value 2``."""
    loc = detail["loc"]
    if not loc:  # it is about the whole file
        return ""
    table, rest = str(loc[0]), list(loc[1:])
    if len(rest) == 1 and isinstance(rest[0], int) and not isinstance(detail["input"], dict):
        return f"{table}, value {rest[0] + 1}"
    if rest and isinstance(rest[0], int):
        table, rest = f"[[{table}]] {rest[0] + 1}", rest[1:]
    elif rest:
        table = f"[{table}]"
    return f"{table}: {'.'.join(str(part) for part in rest)}" if rest else table
