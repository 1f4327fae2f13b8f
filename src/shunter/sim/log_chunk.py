"""A full part of the event log, kept in a third of the memory: a run with many stops writes millions of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from shunter import world as w
from shunter.world import I64


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Rows of the log, column by column: each value less the lowest of its column, in as few bytes as that needs."""

    lowest: tuple[int, ...]
    above: tuple[Any, ...]

    @classmethod
    def of(cls, rows: I64) -> Self:
        """A copy of these rows."""
        lowest, above, values = [], [], np.empty(len(rows), np.int64)  # one array for all columns, in the cache
        for column in rows.T:
            values[:] = column
            least = int(values.min(initial=w.NEVER))
            most = int(values.max(initial=least))
            values -= least
            lowest.append(least)
            above.append(values.astype(np.min_scalar_type(most - least)))
        return cls(tuple(lowest), tuple(above))

    def rows(self) -> I64:
        """The rows as they were."""
        found = np.empty((len(self.above[0]), len(self.above)), np.int64)
        for column, (least, values) in enumerate(zip(self.lowest, self.above, strict=True)):
            found[:, column] = values
            found[:, column] += least
        return found
