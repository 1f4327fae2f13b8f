"""A policy in plain Python that leases GPUs: every job gets them for an hour, then it waits for its next turn.

``Start(..., until=...)`` is a lease. When it ends, the job is in the queue again, with what it has done kept.
"""

from dataclasses import dataclass

import shunter
from shunter.cluster import Cluster
from shunter.model import Plan, Start, View

HOUR = 3_600_000


@dataclass(frozen=True)
class Hourly:
    """The job that has had the least GPU time is next; jobs that don't fit are passed over."""

    needs: frozenset[str] = frozenset()

    def start(self, cluster: Cluster, previous: None = None) -> None:
        """It remembers nothing."""

    def decide(self, view: View, memory: None) -> Plan:
        """Start one job until an hour from now; called again until the plan is empty."""
        pending = view.pending
        for job in pending[view.attained(pending).argsort(kind="stable")].tolist():
            if gpus := view.room(job):
                return Plan([Start(job, gpus, until=view.now + HOUR)])
        return Plan()


if __name__ == "__main__":
    for policy in ("fifo:blocking=skip,placement=count", Hourly()):
        summary = shunter.simulate("synthetic:jobs=500,gpus=64,load=1.2", "8x8", policy).summary
        print(
            f"{summary['policy']}: mean JCT {summary['jct_s']['mean'] / 3600:.2f} h, longest wait"
            f" {summary['wait_s']['max'] / 3600:.1f} h"
        )
