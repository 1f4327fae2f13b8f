"""Random worlds of racks as the engine takes them, and their logs followed instant by instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Tier
from shunter.model import GPU, Trace
from shunter.protocols import Memory
from shunter.sim.engine import Simulator
from shunter.sim.scenario import Scenario
from shunter.testing.offers import LeaseJob
from shunter.testing.placement import Places
from shunter.testing.tiers import Layout

Models = Mapping[str, tuple[float, float, float]]  # by name, the speeds of a LeaseJob; no two alike


def cluster_of(layout: Layout) -> Cluster:
    """A layout of ``strategies.layouts`` as a cluster."""
    racks = [[n for n, r in enumerate(layout.domains[0]) if r == rack] for rack in sorted(set(layout.domains[0]))]
    pods = (Tier("pod", 1, 1, joins=2),) if len(layout.domains) > 1 else ()
    tiers = (Tier("machine", 1, 1), Tier("rack", 1, 1), *pods, Tier("network", 1, 1))
    return Cluster("racks", tuple(NodeGroup(len(nodes), layout.gpus[nodes[0]]) for nodes in racks), tiers=tiers)


def trace_of(jobs: Sequence[LeaseJob], models: Models) -> Trace:
    """The jobs as a trace."""
    speeds = list(models.values())
    return Trace.of(
        "jobs",
        [str(index) for index in range(len(jobs))],
        submit=[job.submit for job in jobs],
        duration=[job.work for job in jobs],
        gpus=[job.gpus * GPU for job in jobs],
        limit=[job.estimate for job in jobs],
        checkpointable=[job.checkpointable for job in jobs],
        model=[speeds.index(job.speeds) for job in jobs],
        models=tuple(models),
    )


def simulator_of(jobs: Sequence[LeaseJob], layout: Layout, models: Models) -> Simulator:
    """A simulation that has not begun."""
    return Simulator(trace_of(jobs, models), cluster_of(layout), scenario=Scenario(tier_speed=dict(models)))


def play(
    jobs: Sequence[LeaseJob], layout: Layout, models: Models, policy: str, *, compiled: bool = True
) -> tuple[Simulator, Memory]:
    """A simulation that is over, and what the policy remembers of it."""
    simulator = simulator_of(jobs, layout, models)
    return simulator, simulator.run(registry.policy(policy), compiled=compiled)


@dataclass
class LoggedMoment:
    """How things stand when an instant is over, as the log shows it."""

    time: int
    free: list[int]  # GPUs, by node
    since: dict[int, int] = field(default_factory=dict)  # waiting job -> when it began to wait
    begun: dict[int, int] = field(default_factory=dict)  # running job -> when it got its GPUs
    places: dict[int, Places] = field(default_factory=dict)  # running job -> where it is
    executed: dict[int, int] = field(default_factory=dict)  # job -> run time before its present run
    started: dict[int, int] = field(default_factory=dict)  # job started in this instant -> how long it had waited ...
    landed: dict[int, Places] = field(default_factory=dict)  # ... and where, though it may have ended since
    stopped: dict[int, Places] = field(default_factory=dict)  # job whose lease ended in this instant -> where it was


def moments(simulator: Simulator, layout: Layout) -> Iterator[LoggedMoment]:
    """The same moment at the end of each instant at which something was logged."""
    moment = LoggedMoment(-1, list(layout.gpus))
    for time, rows in groupby(simulator.events.tolist(), key=lambda row: row[0]):
        moment.time, moment.started, moment.landed, moment.stopped = time, {}, {}, {}
        for _, kind, job, node, amount in rows:
            _follow(moment, kind, job, node, amount // GPU)
        yield moment


def _follow(moment: LoggedMoment, kind: int, job: int, node: int, gpus: int) -> None:
    now = moment.time
    if kind == w.ARRIVE:
        moment.since[job] = now
    elif kind == w.START:
        if job in moment.since:
            moment.started[job] = now - moment.since.pop(job)
            moment.begun[job], moment.places[job] = now, ()
        moment.places[job] += ((node, gpus),)
        moment.landed[job] = moment.places[job]
        moment.free[node] -= gpus
    elif kind in (w.FINISH, w.PREEMPT):
        moment.executed[job] = moment.executed.get(job, 0) + now - moment.begun.pop(job)
        places = moment.places.pop(job)
        for where, count in places:
            moment.free[where] += count
        if kind == w.PREEMPT:
            moment.since[job] = now
            if node == w.BY_LEASE:
                moment.stopped[job] = places
