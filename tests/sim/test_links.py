"""Jobs that share links: the engine against shunter.network.contention, and what must hold whatever comes and goes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import Script, jobs

from shunter import clusters, registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Tier
from shunter.errors import NetworkError
from shunter.model import GPU, Migrate, Plan, Preempt, Resize, Start, Timer, Trace, View
from shunter.network.contention import Flows, Uplinks, fair_shares
from shunter.network.model_assignment import DRAWN
from shunter.network.placing import Costs, TierNetwork, possible_shapes, room, shape_of, top
from shunter.sim import Scenario, Simulator
from shunter.sim.links import stretches
from shunter.sim.shape import slowdown_at

TIERS = (Tier("machine", 100.0, 0.5, uplinks=2), Tier("rack", 40.0, 2.0, uplinks=3), Tier("network", 60.0, 20.0))
POD = Tier("pod", 20.0, 5.0, joins=2, uplinks=2)
CLUSTERS = {
    "two tiers": Cluster("2", (NodeGroup(6, 4),), tiers=(TIERS[0], TIERS[2])),
    "three tiers": Cluster("3", (NodeGroup(6, 4, racks=(2, 3, 1)),), tiers=TIERS),
    "four tiers": Cluster("4", (NodeGroup(10, 2, racks=(2, 2, 3, 1, 2)),), tiers=(*TIERS[:2], POD, TIERS[2])),
}
COSTS = {name: Costs(TierNetwork.of(cluster)) for name, cluster in CLUSTERS.items()}
NEARLY = 1e-12


def some_jobs(count: int = 8) -> Trace:
    return jobs(*((0, 10**9, 1 + index % 7) for index in range(count)), model="mobilenetv3")


def simulator_of(cluster: Cluster, trace: Trace, costs: Costs, contention: bool = True) -> tuple[Simulator, View]:
    simulator = Simulator(trace, cluster, scenario=Scenario(network=costs, contention=contention))
    return simulator, next(iter(simulator))


def flows_of(cluster: Cluster, view: View, job: int) -> list[Flows]:
    nodes, counts = np.unique(view.gpus.node[list(view.placement(job))], return_counts=True)
    return Uplinks.of(cluster).flows(nodes.tolist(), counts.tolist())


def change(draw: st.DataObject, simulator: Simulator, view: View) -> int:
    """Start, stop or move some job on random GPUs; says who came (job + 1), who left (-job - 1), or 0: one did both."""
    free = np.flatnonzero(view.gpus.tenants == 0)
    fits = [job for job in view.pending.tolist() if view.jobs.gpus[job] <= len(free)]
    moves = [job for job in view.running.tolist() if view.jobs.gpus[job] <= len(free)]
    kind = draw.draw(
        st.sampled_from(["start"] * 2 * bool(fits) + ["stop"] * bool(len(view.running)) + ["move"] * bool(moves))
    )
    if kind == "stop":
        job = draw.draw(st.sampled_from(view.running.tolist()))
        assert not simulator.apply(Plan([Preempt(job)]))
        return -job - 1
    job = draw.draw(st.sampled_from(fits if kind == "start" else moves))
    gpus = draw.draw(st.permutations(free.tolist()))[: view.jobs.gpus[job]]
    assert not simulator.apply(Plan([(Start if kind == "start" else Migrate)(job, gpus)]))
    return job + 1 if kind == "start" else 0


@pytest.mark.parametrize("name", CLUSTERS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_shares_are_those_of_the_definition_whatever_comes_and_goes(name: str, data: st.DataObject) -> None:
    cluster = CLUSTERS[name]
    simulator, view = simulator_of(cluster, some_jobs(), COSTS[name])
    capacity, traffic = Uplinks.of(cluster).capacity, simulator._state.traffic
    for _ in range(data.draw(st.integers(1, 12))):
        before = {job: simulator.world.progress[w.SPREAD, job] for job in view.running.tolist()}
        who = change(data, simulator, view)
        running = view.running.tolist()
        flows = [flows_of(cluster, view, job) for job in running]
        shares = fair_shares(flows, capacity)
        assert [
            1 / traffic.stretch[job] if each else 1.0 for job, each in zip(running, flows, strict=True)
        ] == pytest.approx(shares)
        carried = np.zeros(len(capacity))
        for job, each in zip(running, flows, strict=True):
            for flow in each:
                carried[flow.link] += flow.senders * flow.wanted / traffic.stretch[job]
        assert (carried <= np.array(capacity) * (1 + NEARLY)).all()
        for job, speed in before.items():  # one that comes never speeds up another, one that leaves never slows another
            now = simulator.world.progress[w.SPREAD, job]
            if job in running and abs(who) != job + 1 and who:
                assert now <= speed if who > 0 else now >= speed


@pytest.mark.parametrize("name", CLUSTERS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_job_alone_runs_as_its_iterations_at_its_share(name: str, data: st.DataObject) -> None:
    """Uncongested where its links carry what it sends, bit for bit."""
    cluster, costs = CLUSTERS[name], COSTS[name]
    trace = jobs((0, 10**9, data.draw(st.integers(2, 12))), model="mobilenetv3")
    simulator, view = simulator_of(cluster, trace, costs)
    gpus = sorted(data.draw(st.permutations(range(cluster.gpus)))[: view.jobs.gpus[0]])
    simulator.apply(Plan([Start(0, gpus)]))
    nodes, counts = np.unique(view.gpus.node[gpus], return_counts=True)
    shape = shape_of(counts.tolist(), *(domain[nodes].tolist() for domain in cluster.tier_domains))
    (share,) = fair_shares([flows_of(cluster, view, 0)], Uplinks.of(cluster).capacity)
    slowdown = 1 / simulator.world.progress[w.SPREAD, 0]
    if share == 1:
        assert simulator.world.progress[w.SPREAD, 0] == 1 / costs.iteration("mobilenetv3", shape).slowdown
    else:
        assert slowdown == pytest.approx(costs.iteration("mobilenetv3", shape, share).slowdown, rel=0.05)
        assert slowdown > costs.iteration("mobilenetv3", shape).slowdown


def test_a_neighbour_slows_a_job_while_it_is_there() -> None:
    """By hand: each wants 40 GB/s from 2 GPUs of a machine, whose two ports carry 120: enough for one, not for both."""
    cluster, trace = CLUSTERS["three tiers"], jobs((0, 1_000_000, 4), (0, 200_000, 4), model="mobilenetv3")
    simulator, _ = simulator_of(cluster, trace, COSTS["three tiers"])
    first, second = Start(0, [0, 1, 4, 5]), Start(1, [2, 3, 6, 7])
    rates, stretches = [], []
    for start in (first, second):
        simulator.apply(Plan([start]))
        rates.append(float(simulator.world.progress[w.RATE, 0]))
        stretches.append(float(simulator._state.traffic.stretch[0]))
    assert stretches == [1.0, 4 * 40 / 120]
    alone, both = rates
    simulator = Simulator(trace, cluster, scenario=Scenario(network=COSTS["three tiers"], contention=True))
    simulator.run(Script({0: [[first, Timer(100_000)]], 100_000: [[second]]}))
    other = 200_000 / both
    rest = 1_000_000 - 100_000 * alone - other * both
    assert simulator.world.jobs[w.ENDED_AT, 1] == pytest.approx(100_000 + other, abs=1)
    assert simulator.world.jobs[w.ENDED_AT, 0] == pytest.approx(100_000 + other + rest / alone, abs=2)
    communication = simulator.world.jobs[w.EXECUTED, 0] - 1_000_000
    assert simulator.world.progress[w.COMMUNICATION, 0] == pytest.approx(communication, abs=2)


def wide(cluster: Cluster) -> Cluster:
    """The same with a port for every GPU in every tier."""
    tiers = [dataclasses.replace(tier, uplinks=cluster.gpus) for tier in cluster.tiers[:-1]]
    return dataclasses.replace(cluster, tiers=(*tiers, cluster.tiers[-1]))


def a_trace(cluster: Cluster, count: int = 80) -> Trace:
    draw = np.random.default_rng(0)
    names = ("resnet18", "mobilenetv3", "vgg11")
    return Trace.of(
        "t", [str(i) for i in range(count)], submit=np.sort(draw.integers(0, 10**7, count)),
        duration=draw.integers(10**5, 10**7, count), gpus=draw.choice([1, 2, 4, 8], count) * GPU,
        model=draw.integers(0, 3, count), models=names,
    )  # fmt: skip


@pytest.mark.parametrize("policy", ["fifo:placement=spread", "las:placement=spread"])
@pytest.mark.parametrize("name", CLUSTERS)
def test_links_for_all_are_no_links_at_all(name: str, policy: str) -> None:
    trace, digests = a_trace(CLUSTERS[name]), []
    for cluster, contention in ((CLUSTERS[name], False), (wide(CLUSTERS[name]), True), (CLUSTERS[name], True)):
        simulator = Simulator(trace, cluster, scenario=Scenario(network=COSTS[name], contention=contention))
        simulator.run(registry.policy(policy))
        digests.append(simulator.digest)
        assert simulator._state.traffic.senders.sum() == 0
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("policy", ["fifo:placement=spread", "las:placement=spread"])
def test_the_plain_loop_and_copies_agree(policy: str) -> None:
    cluster, scenario = CLUSTERS["three tiers"], Scenario(network=COSTS["three tiers"], contention=True)
    compiled, plain = (Simulator(a_trace(cluster), cluster, scenario=scenario) for _ in range(2))
    memory = compiled.run(registry.policy(policy), until=5 * 10**6)
    twin = compiled.fork()
    compiled.run(registry.policy(policy), memory=memory)
    plain.run(registry.policy(policy), compiled=False)
    assert compiled.digest == plain.digest
    assert compiled._state.traffic.senders.sum() == 0 < twin._state.traffic.senders.sum()


def test_resized_jobs_and_those_without_a_model_send_nothing() -> None:
    cluster = CLUSTERS["three tiers"]
    trace = jobs((0, 10**6, 4, {"model": "vgg11"}), (0, 10**6, 4))
    simulator, view = simulator_of(cluster, trace, COSTS["three tiers"])
    simulator.apply(Plan([Start(1, [2, 3, 6, 7])]))
    simulator.apply(Plan([Start(0, [0, 1, 4, 5])]))
    assert simulator._state.traffic.senders.sum() == 4
    simulator.apply(Plan([Resize(0, [0, 1, 4, 5, 8])]))
    assert simulator._state.traffic.senders.sum() == 0
    assert view.rate(np.array([0, 1])).tolist() == [1.25, 1.0]
    for size in (4, 1, 4):
        simulator.apply(Plan([Resize(0, [0, 1, 4, 5][:size])]))
        assert simulator._state.traffic.senders.sum() == (4 if size == 4 else 0)
    simulator.apply(Plan([Preempt(0)]))
    assert simulator._state.traffic.senders.sum() == 0


def test_contention_needs_a_network() -> None:
    with pytest.raises(NetworkError, match="there is none"):
        Scenario(contention=True)


# ------------------------------------------------------------------------------------------- between known stretches


def test_stretches_cover_what_there_can_be() -> None:
    found = stretches(CLUSTERS["three tiers"], True)
    assert found[0] == 1
    assert found[-1] >= 12 * 60 / 180  # the largest rack has 12 GPUs, which share 3 ports of 60 GB/s
    assert stretches(wide(CLUSTERS["three tiers"]), True)[-1] == pytest.approx(2)
    assert stretches(CLUSTERS["three tiers"], False).tolist() == [1]


@pytest.mark.parametrize(("calibration", "mean", "most"), [("profiled", 0.001, 0.055), ("paper", 0.0025, 0.095)])
def test_what_lies_between_is_near(calibration: str, mean: float, most: float, data) -> None:
    """The figures of docs/reference/network.md."""
    cluster, draw = clusters.load("dally-8rack"), np.random.default_rng(0)
    costs = Costs(TierNetwork.of(cluster), calibration, data=data if calibration == "paper" else None)
    trace = jobs(*((0, 1, gpus, {"model": model}) for gpus in (4, 8, 16) for model in DRAWN))
    network = Simulator(trace, cluster, scenario=Scenario(network=costs, contention=True))._state.network
    off = []
    for job in range(len(trace)):
        model, gpus = trace.models[trace.model[job]], int(trace.gpus[job] // GPU)
        for shape in filter(top, possible_shapes(gpus, room(cluster))):
            key = int(np.dot(shape, network.radix))
            for stretch in np.exp(draw.uniform(0, np.log(64), 3)).tolist():
                exact = costs.iteration(model, shape, 1 / stretch).slowdown
                places = network.key[network.row[job]].tolist()
                place = places.index(key) if key in places else places.index(-top(shape))
                off.append(abs(slowdown_at(network, network.row[job], place, stretch) / exact - 1))
    assert np.mean(off) < mean
    assert max(off) < most
