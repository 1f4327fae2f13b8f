"""What a check is given, and what it finds."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter.cluster import Cluster
from shunter.model import Trace
from shunter.report.terminal.tables import share

SHOWN = 5  # jobs named as examples
Severity: TypeAlias = Literal["error", "warning", "info"]


def jobs(rows: NDArray[np.bool_]) -> str:
    """How many jobs these are, for a sentence: ``173 jobs (0.9 %)``."""
    count = int(rows.sum())
    return f"{count:,} job{'' if count == 1 else 's'} ({share(count / len(rows))})"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, odd or missing: what, how often, where, what it means, and what to do."""

    check: str
    severity: Severity
    count: int  # jobs, or whatever ``says`` counts
    says: str
    means: str
    remedy: str
    examples: tuple[str, ...] = ()  # job ids

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self) | {"examples": list(self.examples)}


@dataclass(frozen=True, eq=False)
class Subject:
    """What is looked at: a trace, the cluster it is meant for, and the present."""

    trace: Trace
    cluster: Cluster | None
    now_ms: int

    def examples(self, rows: NDArray[Any]) -> tuple[str, ...]:
        """The ids of the first few of these jobs (a mask or indices)."""
        index = np.flatnonzero(rows) if rows.dtype == bool else rows
        return tuple(str(job) for job in self.trace.job_id[index[:SHOWN]])
