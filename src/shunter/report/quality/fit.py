"""Checks of a trace against the cluster that it is meant for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shunter.cluster import Cluster
from shunter.model import GPU
from shunter.report import demand
from shunter.report.quality.finding import Finding, Subject, jobs
from shunter.report.terminal.tables import number, share

SUSTAINED_DAYS = 7


def never_fits(subject: Subject) -> Iterator[Finding]:
    """Jobs that can never run on the cluster."""
    if subject.cluster is None:
        return
    from shunter.sim.feasibility import unfit

    rows = unfit(subject.trace, subject.cluster, None)
    if rows.any():
        divided = " (in a cluster with virtual clusters, a job must name one of them)" if subject.cluster.vcs else ""
        yield Finding(
            "never fits", "error", int(rows.sum()),
            f"{jobs(rows)} that {subject.cluster.name} can never run{divided}",
            "too many GPUs, cores or GiB, or a GPU type or virtual cluster that it lacks; a simulation refuses them",
            "choose another cluster, or leave them out with --drop-unfit",
            subject.examples(rows),
        )  # fmt: skip


def larger_than_a_node(subject: Subject) -> Iterator[Finding]:
    """Jobs that need several nodes."""
    if subject.cluster is None:
        return
    largest = int(subject.cluster.node_gpus.max())
    rows = subject.trace.gpus > largest * GPU
    if rows.any():
        yield Finding(
            "larger than a node", "info", int(rows.sum()),
            f"{jobs(rows)} with more GPUs than the {largest} of the largest node",
            "they run across nodes: placement and network matter, and they wait for several nodes at once",
            "nothing, if jobs may span nodes there",
            subject.examples(rows),
        )  # fmt: skip


def overload(subject: Subject) -> Iterator[Finding]:
    """More GPU time asked for than there is: in all, in a virtual cluster, or in the worst week."""
    if subject.cluster is None:
        return
    trace, cluster = subject.trace, subject.cluster
    loads = {f"on {cluster.name}": demand.load(trace, cluster.gpus)}
    for name, gpus in _parts(cluster).items():
        if name in trace.vcs:
            loads[f"in virtual cluster '{name}'"] = demand.load(trace, gpus, trace.vc == trace.vcs.index(name))
    for where, load in loads.items():
        if load > 1:
            yield Finding(
                "load above capacity", "warning", 1,
                f"the load {where} is {number(load)}: more GPU time is asked for than there is",
                "the queue grows to the end, and waiting times measure the length of the trace, not the policy",
                "take a larger cluster, or a part of the trace",
            )  # fmt: skip
    days, weeks = demand.by_period(trace, trace.submit, cluster.gpus, SUSTAINED_DAYS)
    if len(weeks) > 1 and weeks.max() > 1 >= loads[f"on {cluster.name}"]:
        worst = int(weeks.argmax())
        yield Finding(
            "weeks above capacity", "info", int((weeks > 1).sum()),
            f"{(weeks > 1).sum()} of {len(weeks)} weeks ask for more GPU time than there is; most,"
            f" {number(weeks[worst])}, from {demand.day_name(int(days[worst]), trace.dated)} on",
            "the queue grows in these weeks, which decide the mean waiting time",
            "look at the weeks one by one as well",
        )  # fmt: skip


def oversubscribed(subject: Subject) -> Iterator[Finding]:
    """A recorded schedule that uses more GPUs at once than there are."""
    trace, cluster = subject.trace, subject.cluster
    ran = trace.recorded_wait >= 0
    if cluster is None or not ran.any():
        return
    parts = {f"on {cluster.name}": (cluster.gpus, ran)}
    for name, gpus in _parts(cluster).items():
        if name in trace.vcs:
            parts[f"in virtual cluster '{name}'"] = (gpus, ran & (trace.vc == trace.vcs.index(name)))
    for where, (gpus, rows) in parts.items():
        most, over = demand.recorded_use(trace, rows, gpus)
        if most > gpus * GPU:
            yield Finding(
                "oversubscribed", "warning", int(np.ceil(most / GPU)) - gpus,
                f"as recorded, up to {number(most / GPU)} GPUs are in use at once {where}, which has {gpus:,};"
                f" {share(over)} of the time it is more than there are",
                "the cluster was larger, jobs shared GPUs, or recorded times are wrong; it can't be replayed as it was",
                "check the cluster's size at that time",
            )  # fmt: skip


def _parts(cluster: Cluster) -> dict[str, int]:
    """GPUs of each virtual cluster."""
    return {name: int(cluster.node_gpus[cluster.node_vc == code].sum()) for code, name in enumerate(cluster.vcs)}
