"""Declared parameters: one field carries default, range, scale and meaning.

The same declaration feeds the policy string, ``shunter policies NAME``, validation and the search for good values.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from shunter.errors import InputError, PolicyError, did_you_mean

Scale = Literal["linear", "log"]
T = TypeVar("T")


@dataclass(frozen=True)
class Between:
    """A search tries numbers in this range, by factors where ``log``; ``off`` is one more value, outside of it."""

    low: float
    high: float
    log: bool = False
    off: str = ""


@dataclass(frozen=True)
class Among:
    """A search tries these values."""

    values: tuple[str, ...]


@dataclass(frozen=True)
class Growing:
    """A search tries texts of up to ``most`` growing numbers in this range, by factors, such as 3250/7200, and none."""

    low: float
    high: float
    most: int
    none: str = "none"


@dataclass(frozen=True)
class Param:
    """The declaration of one parameter, except its name."""

    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    by_path: bool = False  # also takes the dotted path of something that a third party wrote
    file: bool = False  # also takes the path of a file
    scale: Scale = "linear"
    policy: bool = False  # it names another policy, with ; in place of , between its settings
    search: Between | Among | Growing | None = None  # what a search for good settings tries; None: it leaves it alone

    def range_text(self, kind: type) -> str:
        """The allowed values in words, for people."""
        if self.policy:
            return "a policy"
        if self.choices:
            more = ("a dotted path",) * self.by_path + ("a file",) * self.file
            return " | ".join((*self.choices, *more))
        if kind is bool:
            return "true | false"
        if self.low is None and self.high is None:
            return kind.__name__
        low = "-inf" if self.low is None else f"{self.low:g}"
        high = "inf" if self.high is None else f"{self.high:g}"
        return f"{low} .. {high}"


def param(default: Any, doc: str, **limits: Any) -> Any:
    """Declare a dataclass field: its default, its meaning and the values it may take."""
    return dataclasses.field(default=default, metadata={"param": Param(doc, **limits)})


def declared(cls: type) -> dict[str, tuple[type, Any, Param]]:
    """Every parameter of a dataclass: name -> (type, default, declaration); a plain field is one without range."""
    plain = [f for f in dataclasses.fields(cls) if f.init and type(f.default) in (bool, int, float, str)]
    return {f.name: (type(f.default), f.default, f.metadata.get("param", Param("not described"))) for f in plain}


def named(text: str, what: str = "policy", error: type[InputError] = PolicyError) -> tuple[str, dict[str, str]]:
    """The name and the settings in a text like ``wfp3:backfill=easy,depth=2``."""
    name, _, settings = text.strip().partition(":")
    return name, settings_of(settings, f"{what} '{text}'", error)


def settings_of(text: str, what: str, error: type[InputError] = PolicyError) -> dict[str, str]:
    """Settings such as ``backfill=easy,depth=2``; ``what`` they are, for messages."""
    values: dict[str, str] = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise error(f"{what}: settings are written key=value,key=value, got '{item}'")
        if key.strip() in values:
            raise error(f"{what}: '{key.strip()}' is set twice")
        values[key.strip()] = value
    return values


def build(
    cls: type[T], name: str, values: Mapping[str, Any], what: str = "policy", error: type[InputError] = PolicyError
) -> T:
    """``cls(**values)`` with every value parsed from text where needed and checked against its declaration."""
    known = declared(cls)
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            raise error(f"{what} '{name}' has no parameter '{key}'; {did_you_mean(key, known)}")
        kind, _, about = known[key]
        wanted = f"{what} '{name}': parameter '{key}' must be {about.range_text(kind)}, got '{value}'"
        checked[key] = _parse(str(value).strip(), kind, about, error(wanted))
    return cls(**checked)


def _parse(text: str, kind: type, about: Param, wrong: InputError) -> Any:
    if about.choices:
        if text not in about.choices and not (about.by_path and "." in text) and not (about.file and text):
            raise wrong
        return text
    if kind is bool:
        truth = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
        if text.lower() not in truth:
            raise wrong
        return truth[text.lower()]
    if kind is str:
        return text
    try:
        number = kind(text)
    except ValueError:
        raise type(wrong)(f"{wrong} (a {'whole ' if kind is int else ''}number)") from None
    out_of_range = (about.low is not None and number < about.low) or (about.high is not None and number > about.high)
    if not math.isfinite(number) or out_of_range:
        raise wrong
    return number
