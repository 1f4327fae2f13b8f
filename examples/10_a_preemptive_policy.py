"""A policy in plain Python that stops jobs: the shortest run so far may take the place of a longer one.

A plan frees GPUs with ``Preempt`` before it gives them away with ``Start``. The backend checks the whole plan first. It
refuses to stop a job that is not checkpointable.
"""

from dataclasses import dataclass

import shunter
from shunter.cluster import Cluster
from shunter.model import Plan, Preempt, Start, View

HOUR = 3_600_000


@dataclass(frozen=True)
class YoungestFirst:
    """A waiting job may stop one running job that has run an hour longer, if it has room then."""

    needs: frozenset[str] = frozenset()

    def start(self, cluster: Cluster, previous: None = None) -> None:
        """It remembers nothing."""

    def decide(self, view: View, memory: None) -> Plan:
        """Start one job, on free GPUs or on those of a job that it stops; called again until the plan is empty."""
        pending = view.pending
        for job in pending[view.executed(pending).argsort(kind="stable")].tolist():
            if gpus := view.room(job):
                return Plan([Start(job, gpus)])
            for other in view.running.tolist():
                longer = view.executed(other) >= view.executed(job) + HOUR
                if longer and view.jobs.checkpointable[other] and (gpus := view.room(job, without=[other])):
                    return Plan([Preempt(other), Start(job, gpus)])
        return Plan()


if __name__ == "__main__":
    for policy in ("fifo:blocking=skip,placement=count", YoungestFirst()):
        summary = shunter.simulate("synthetic:jobs=500,gpus=64,load=1.2", "8x8", policy).summary
        print(f"{summary['policy']}: mean JCT {summary['jct_s']['mean'] / 3600:.2f} h, {summary['preemptions']} stops")
