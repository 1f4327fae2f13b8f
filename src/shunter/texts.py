"""Texts: those from files of others, made harmless where people read them; counts, times, and changes in percent."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}  # seconds of a unit of time
_OF_ONE = {"are": "is", "were": "was", "have": "has", "do": "does"}  # verbs of several, and of one


def printable(text: str) -> str:
    """Text without what could move a terminal's cursor, hide a part or turn its direction; line ends stay."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)


def toml_text(text: str) -> str:
    """Text in quotes for a TOML file; what is not printable is written by its number."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)


def unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys differ (ValueError), for ``object_pairs_hook``: json alone takes the last of two."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"key '{twice[:40]}' is given twice")
    return found


def counted(count: int | str, noun: str, verb: str = "") -> str:
    """``1 GPU``, ``2-4 GPUs``, ``3 policies``, ``1,200 nodes``; with a verb ``1 job waits``, ``2 jobs wait``."""
    text = count if isinstance(count, str) else f"{count:,}"
    nouns = noun if text == "1" else f"{noun[:-1]}ies" if noun.endswith("cy") else f"{noun}s"
    return f"{text} {nouns}" + (f" {agreeing(verb, text)}" if verb else "")


def agreeing(verb: str, count: int | str) -> str:
    """A verb, written as for several, as it is for a count."""
    return _OF_ONE.get(verb, f"{verb}s") if str(count) == "1" else verb


def between(low: str, high: str) -> str:
    """``2 to 5``, or one number where both ends are the same."""
    return low if low == high else f"{low} to {high}"


def percent(part: float) -> str:
    """A change as people read it: with its sign, a decimal where it is small, and no sign of nothing."""
    if math.isnan(part):
        return "unknown"
    digits = 0 if abs(part) >= 0.1 else 1
    text = f"{100 * part:+.{digits}f} %"
    return "0 %" if float(text[:-2]) == 0 else text
