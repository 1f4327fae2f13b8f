"""Policies that resize jobs in plain Python: slow, and written apart from the compiled ones, which they check."""

from __future__ import annotations

import dataclasses
from typing import Any

from shunter.testing.resizing.elastic import PlainElastic
from shunter.testing.resizing.policy import PlainResizing
from shunter.testing.resizing.qoredl import PlainQoredl
from shunter.testing.resizing.sharing_out import PlainOptimus, PlainSlaq

PLAIN: dict[str, type[PlainResizing]] = {
    "Elastic": PlainElastic,
    "OptimusPolicy": PlainOptimus,
    "Slaq": PlainSlaq,
    "Qoredl": PlainQoredl,
}


def plain(policy: Any) -> PlainResizing:
    """The plain version of a policy, with the same settings."""
    fields = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
    return PLAIN[type(policy).__name__](**fields)
