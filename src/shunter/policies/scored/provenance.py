"""What a model was trained on, beside what it is run on: whether it meets jobs again, or another cluster."""

from __future__ import annotations

from shunter.cluster import Cluster
from shunter.model import Trace
from shunter.policies.scored.models import Training
from shunter.traces.slicing import date
from shunter.world import I64


def remarks(training: Training, trace: Trace, cluster: Cluster) -> list[str]:
    """What one must know before the numbers of a run on this trace and cluster."""
    return [*met_again(training, trace.name, trace.submit), *elsewhere(training, cluster)]


def met_again(training: Training, name: str, submit: I64) -> list[str]:
    """That some of the jobs submitted then may be those that the model learned from or was chosen by."""
    same = training.trace == name
    if training.submitted is None:
        unsure = f"the model was trained on a trace of this name, '{name}', and its file doesn't say on which jobs"
        return [f"{unsure}: numbers on jobs that it learned from say nothing about others"] if same and name else []
    first, last = training.submitted
    again = int(((submit >= first) & (submit <= last)).sum())
    if not again:
        return []
    learned = "learned from, or was chosen by," if same else "may have learned from"
    span = f"submitted {date(first)} to {date(last)}"
    return [
        f"the model {learned} {again:,} of these {len(submit):,} jobs: it was trained on jobs of '{training.trace}'"
        f" {span}. Numbers on them say nothing about other jobs"
    ]


def elsewhere(training: Training, cluster: Cluster) -> list[str]:
    """That the model was trained on another cluster."""
    if training.cluster in ("", cluster.name):
        return []
    return [f"the model was trained on cluster {training.cluster}, and this is {cluster.name}"]
