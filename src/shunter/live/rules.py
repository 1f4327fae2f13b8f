"""The rules of a site's scheduler, as far as a forecast needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rules:
    """The rules of a queue."""

    backfills: bool = True  # whether later jobs may go first
    tiers: Mapping[str, int] = field(default_factory=dict)  # of partitions: jobs of a higher one go first; 1 by default
    limits: Mapping[str, str] = field(default_factory=dict)  # of partitions: the longest time limit; "": none
