"""A policy in plain Python: what it sees, what it answers, and where it keeps what it remembers.

Slower than an ``Ordering``, but free to do anything: this one lets users take turns.
"""

from dataclasses import dataclass, field

import shunter
from shunter import Cluster, Plan, Start, View


@dataclass
class Turns:
    """What is remembered: how often each user had a turn."""

    taken: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RoundRobin:
    """The user who had the fewest turns is next; jobs that don't fit are passed over."""

    needs: frozenset[str] = frozenset()  # {"duration"} would make it an oracle

    def start(self, cluster: Cluster, previous: Turns | None = None) -> Turns:
        """A fresh memory, or a copy of that of the configuration before."""
        return Turns(dict(previous.taken)) if previous else Turns()

    def decide(self, view: View, memory: Turns) -> Plan:
        """Start one job; asked again at the same instant until the plan is empty."""
        turns = {job: memory.taken.get(int(view.jobs.user[job]), 0) for job in view.pending.tolist()}
        for job in sorted(turns, key=lambda job: (turns[job], job)):
            if gpus := view.room(job):  # of its virtual cluster and GPU type, with the CPUs and memory that it asks for
                memory.taken[int(view.jobs.user[job])] = turns[job] + 1
                return Plan([Start(job, gpus)])
        return Plan()


if __name__ == "__main__":
    for policy in ("fifo:blocking=skip,placement=count", RoundRobin()):
        summary = shunter.simulate("synthetic:jobs=500,gpus=64,load=1.2", "8x8", policy).summary
        wait, fairness = summary["wait_s"]["mean"], summary["fairness"]["jain"]
        print(f"{summary['policy']}: mean wait {wait:,.0f} s, fairness {fairness:.2f}")
