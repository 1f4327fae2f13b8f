"""Numbers as Slurm's JSON wraps them from release 23.02 on: ``{"set": true, "infinite": false, "number": 4}``."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:
    """A value without its wrapping: None where it is not set or has no bound."""
    if isinstance(value, dict) and "number" in value:
        return value["number"] if value.get("set") and not value.get("infinite") else None
    return value
