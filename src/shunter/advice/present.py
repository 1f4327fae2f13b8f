"""The present, replayed: the jobs, and the site as its own record shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter import simulation
from shunter import world as w
from shunter.advice.capacity import capacities, learned_until, modelled, with_room_for_all
from shunter.advice.cycle import Cycle, cycle
from shunter.advice.held_jobs import held_until
from shunter.advice.limits import kept_back, user_cap
from shunter.advice.recorded_waits import Capacity
from shunter.advice.validity import agreement
from shunter.cluster import Cluster
from shunter.clusters.stop_costs import USUAL
from shunter.model import GPU, Trace
from shunter.processes import Progress
from shunter.protocols import Policy
from shunter.setup import ClusterLike, Setup, TraceLike, set_up
from shunter.simulation import NamedPolicy
from shunter.world import I64

FEW = 0.01  # of all waiting: less is not worth it
OFF = 0.1  # of the GPUs: if the record shows this many more or fewer, the cluster file is wrong


@dataclass(frozen=True, eq=False)
class Present:
    """What is replayed, and what of it was inferred from the record."""

    setup: Setup  # with the inferred capacity
    stated: Cluster  # as the cluster file has it
    capacity: tuple[Capacity, ...]  # of each virtual cluster, day by day
    cycle: Cycle | None
    judged_from: int  # ms; what is inferred from the jobs before is not judged by them
    before: dict[str, Any]  # how near a replay with the stated cluster is, by the jobs that are judged
    held: I64  # (jobs,) ms that each waited for reasons of its own before it comes into the replay

    @property
    def trace(self) -> Trace:
        """All jobs as they were recorded, in the order of the replay."""
        jobs = self.setup.trace
        return dataclasses.replace(jobs, submit=jobs.submit - self.held, recorded_wait=jobs.recorded_wait + self.held)

    def judged_gpus(self, one: Capacity) -> I64:
        """The GPUs of a pool on the days that are judged."""
        found: I64 = one.gpus[one.since >= self.judged_from]
        return found if len(found) else one.gpus[-1:]

    def stated_gpus(self, one: Capacity) -> int:
        """The GPUs of a pool as the cluster file has them."""
        own = (group for group in self.stated.groups if group.vc == one.vc or not one.vc)
        return sum(group.count * group.gpus for group in own)

    @property
    def misstated(self) -> list[Capacity]:
        """The pools of which the cluster file says something else than the record, the worst first."""

        def off(one: Capacity) -> float:
            return float(abs(np.median(self.judged_gpus(one)) / self.stated_gpus(one) - 1))

        return sorted((one for one in self.capacity if off(one) > OFF), key=off, reverse=True)


def read(
    history: TraceLike,
    cluster: ClusterLike,
    policies: Sequence[Policy],
    form: str | None = None,
    on_bad_row: str = "fail",
) -> tuple[Setup, Cluster]:
    """What is to be replayed, with room for every job that ran and users' limits; and the cluster of the file.

    Stops cost what the file says, else what they cost in ``simulate`` and ``compare``.
    """
    first = set_up(history, cluster, (), form, on_bad_row, overhead=USUAL)
    second = set_up(first.trace, with_room_for_all(first.cluster, first.trace), policies)
    cap = GPU * user_cap(first.trace, learned_until(first.trace))
    named = dataclasses.replace(second.cluster_source, text=first.cluster_source.text)
    setup = dataclasses.replace(second, trace_source=first.trace_source, cluster_source=named, user_cap=cap)
    return setup, first.cluster


def replay(setup: Setup, base: NamedPolicy, seed: int = 0, progress: Progress | None = None) -> I64:
    """The waits (ms) of all jobs under a policy; -1 for a job that did not end."""
    total = len(setup.trace)
    on_progress = None if progress is None else lambda point: progress(point.ended, total)
    table = simulation.run(setup, base, seed, progress=on_progress).table
    found: I64 = np.where(table[w.STATE] == w.DONE, table[w.WAITED], -1)
    return found


def present(setup: Setup, stated: Cluster, simulated: I64) -> Present:
    """What the record shows of the site; ``simulated`` are the waits of a replay with the stated cluster."""
    trace = setup.trace
    begin = learned_until(trace)
    known = (trace.recorded_wait >= 0) & (simulated >= 0) & (trace.submit >= begin)
    before = agreement(trace, simulated, known) if known.any() else {}
    if not known.any():
        return Present(setup, stated, (), None, begin, before, np.zeros(len(trace), np.int64))
    cap = setup.user_cap // GPU
    found = tuple(capacities(trace, setup.cluster, simulated, cap))
    cluster, faults = modelled(setup.cluster, found)
    held = held_until(trace, setup.cluster, found, kept_back(trace, cap)) - trace.submit
    if held.sum() < FEW * np.maximum(trace.recorded_wait, 0).sum():
        held = np.zeros(len(trace), np.int64)
    jobs, held = _from_when_they_could(trace, held)
    site = dataclasses.replace(setup, trace=jobs, cluster=cluster, faults=faults)
    return Present(site, stated, found, cycle(trace, begin), begin, before, held)


def _from_when_they_could(trace: Trace, held: I64) -> tuple[Trace, I64]:
    """The jobs, submitted when nothing of their own held them any more; and how long they were held."""
    order = np.argsort(trace.submit + held, kind="stable")
    moved = dataclasses.replace(trace, submit=trace.submit + held, recorded_wait=trace.recorded_wait - held)
    return moved.select(order), held[order]
