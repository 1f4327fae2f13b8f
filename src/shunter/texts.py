"""Text from files of others, made harmless where people read it."""

from __future__ import annotations

import json


def printable(text: str) -> str:
    """Text without what could move a terminal's cursor, hide a part or turn its direction; line ends stay."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)


def toml_text(text: str) -> str:
    """Text in quotes for a TOML file; what is not printable is written by its number."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)
