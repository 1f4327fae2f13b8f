"""Speeds that follow from the network: the engine's shapes and rates against those of shunter.network."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import Script, jobs

from shunter import clusters, registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads, Tier
from shunter.errors import NetworkError
from shunter.model import GPU, Preempt, Start, Timer, Trace
from shunter.network.iteration import Iteration
from shunter.network.placing import Costs, TierNetwork, shape_of, tightest
from shunter.sim import Scenario, Simulator

TIERS = (Tier("machine", 100.0, 0.5), Tier("rack", 40.0, 2.0), Tier("network", 10.0, 20.0))
CLUSTER = Cluster("racks", (NodeGroup(6, 4, racks=(2, 3, 1)),), tiers=TIERS)
COSTS = Costs(TierNetwork.of(CLUSTER), "profiled")


def one_job(gpus: int, model: str = "resnet50", duration: int = 1_000_000) -> Trace:
    return Trace.of("t", ["j"], submit=[0], duration=[duration], gpus=[gpus * GPU], model=[0], models=(model,))


def placed(gpus: list[int], trace: Trace | None = None, costs: Costs | None = COSTS) -> Simulator:
    simulator = Simulator(trace or one_job(len(gpus)), CLUSTER, scenario=Scenario(network=costs))
    simulator.run(Script({0: [[Start(0, gpus)]]}), until=0)
    return simulator


class Numbered(Costs):
    """Every shape has a slowdown of its own, so that one can be told from another."""

    def __init__(self) -> None:
        self.shapes: dict[tuple[int, ...], int] = {}
        self.uneven = "ring"

    def iteration(self, model: str, shape: tuple[int, ...], share: float = 1.0) -> Iteration:
        return Iteration(1000 + self.shapes.setdefault(shape, len(self.shapes)), 1000)


POD, HALL, SITE = Tier("pod", 20.0, 5.0, joins=2), Tier("hall", 15.0, 9.0, joins=2), Tier("site", 10.0, 20.0)
CLUSTERS = {
    "no tiers": Cluster("no tiers", (NodeGroup(6, 4, racks=(2, 3, 1)),)),
    "two tiers": dataclasses.replace(CLUSTER, tiers=TIERS[:2]),
    "three tiers": CLUSTER,
    "four tiers": Cluster("4", (NodeGroup(12, 2, racks=(2, 2, 3, 1, 2, 2)),), tiers=(*TIERS[:2], POD, SITE)),
    "five tiers": Cluster("5", (NodeGroup(8, 2, racks=(1,) * 8), NodeGroup(3, 4)), tiers=(*TIERS[:2], POD, HALL, SITE)),
}


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@given(data=st.data())
def test_the_shape_of_any_placement(cluster: Cluster, data: st.DataObject) -> None:
    """Random nodes with as many or with random numbers of GPUs each, so that even placements are not rare."""
    nodes = sorted(data.draw(st.sets(st.integers(0, cluster.nodes - 1), min_size=1)))
    alike = data.draw(st.integers(0, 2))
    counts = [min(alike or data.draw(st.integers(1, 4)), int(cluster.node_gpus[node])) for node in nodes]
    first = np.concatenate(([0], np.cumsum(cluster.node_gpus)))
    gpus = [int(first[node]) + i for node, count in zip(nodes, counts, strict=True) for i in range(count)]
    costs = Numbered()
    simulator = Simulator(one_job(len(gpus)), cluster, scenario=Scenario(network=costs))
    simulator.run(Script({0: [[Start(0, gpus)]]}), until=0)
    inside = [domain[nodes].tolist() for domain in cluster.tier_domains]
    expected = costs.iteration("resnet50", shape_of(counts, *inside)).slowdown if len(gpus) > 1 else 1.0
    assert simulator.world.progress[w.SPREAD, 0] == 1 / expected


def test_a_job_that_never_fits_is_left_to_the_check_of_that() -> None:
    trace = jobs((0, 1000, 999), (0, 1000, 2), model="vgg11")
    assert Simulator(trace, CLUSTER, scenario=Scenario(network=COSTS))._state.network.row.tolist() == [-1, 0]


@pytest.mark.parametrize("gpus", [[0, 1, 2, 3], [0, 1, 4, 5], [0, 1, 2, 4], [0, 1, 8, 9], [0, 4, 8, 12], [3, 4, 8, 20]])
@pytest.mark.parametrize("model", ["resnet50", "mobilenetv3", "vgg11"])
def test_a_job_runs_as_much_longer_as_its_iterations(gpus: list[int], model: str) -> None:
    simulator = placed(gpus, one_job(4, model))
    simulator.run(Script())
    nodes, counts = np.unique(np.array(gpus) // 4, return_counts=True)
    slowdown = COSTS.iteration(model, shape_of(counts.tolist(), CLUSTER.node_rack[nodes].tolist())).slowdown
    assert slowdown > 1
    assert simulator.events[-1, 0] == pytest.approx(1_000_000 * slowdown, abs=1)


def test_without_a_model_or_on_one_gpu_nothing_changes() -> None:
    for trace in (one_job(1), Trace.of("t", ["j"], submit=[0], duration=[1_000_000], gpus=[4 * GPU])):
        simulator = Simulator(trace, CLUSTER, scenario=Scenario(network=COSTS))
        simulator.run(registry.policy("fifo"))
        assert simulator.events[-1, 0] == 1_000_000


def test_without_a_network_everything_is_as_before() -> None:
    simulator = placed([0, 4, 8, 12], costs=None)
    simulator.run(Script())
    assert simulator.events[-1, 0] == 1_000_000


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(NetworkError, match="resnet51"):
        placed([0, 1], one_job(2, "resnet51"))


def test_a_ready_made_cluster_and_a_policy() -> None:
    cluster = clusters.load("dally-2rack")
    draw = np.random.default_rng(0)
    gpus = draw.choice([1, 4, 8, 16, 32], 60) * GPU
    trace = Trace.of("t", [str(i) for i in range(60)], submit=np.zeros(60), duration=np.full(60, 3_600_000), gpus=gpus,
                     model=draw.integers(0, 3, 60), models=("resnet18", "mobilenetv3", "bert-large"))  # fmt: skip
    scenario = Scenario(network=Costs(TierNetwork.of(cluster)))
    digests = set()
    for compiled in (True, False):
        simulator = Simulator(trace, cluster, scenario=scenario)
        simulator.run(registry.policy("fifo:placement=spread"), compiled=compiled)
        digests.add(simulator.digest)
    assert len(digests) == 1
    plain = Simulator(trace, cluster)
    plain.run(registry.policy("fifo:placement=spread"))
    assert simulator.now > plain.now


def test_communication_is_what_the_network_takes_of_the_time_on_gpus() -> None:
    simulator = placed([0, 1, 8, 9], one_job(4, "mobilenetv3"))
    spread = simulator.world.progress[w.SPREAD, 0]
    assert spread == 1 / COSTS.iteration("mobilenetv3", (2, 1, 2)).slowdown
    simulator.run(Script())
    ran = simulator.world.jobs[w.EXECUTED, 0]
    assert simulator.world.progress[w.COMMUNICATION, 0] == pytest.approx(ran * (1 - spread))
    assert ran - simulator.world.progress[w.COMMUNICATION, 0] == pytest.approx(1_000_000, abs=1)


def test_neither_slow_gpus_nor_neighbours_nor_restarts_are_communication() -> None:
    slow = dataclasses.replace(CLUSTER, speeds={"gpu": 0.5}, overheads=Overheads(((9, 3.0),), ((9, 4.0),)))
    simulator = Simulator(jobs((0, 100_000, 2), (0, 50_000, 1), model="vgg11"), slow)
    plans = {0: [[Start(0, [0, 1]), Start(1, [0], shared=True), Timer(20_000), Timer(30_000)]],
             20_000: [[Preempt(0)]], 30_000: [[Start(0, [2, 3])]]}  # fmt: skip
    simulator.run(Script(plans))
    assert simulator.world.progress[w.COMMUNICATION].tolist() == [0, 0]
    simulator = Simulator(one_job(4, "mobilenetv3"), slow, scenario=Scenario(network=COSTS))
    first, second = [0, 1, 4, 5], [0, 4, 8, 12]
    plans = {0: [[Start(0, first), Timer(20_000), Timer(30_000)]], 20_000: [[Preempt(0)]], 30_000: [[Start(0, second)]]}
    simulator.run(Script(plans))
    shapes = [(2, 2, 1), (1, 2, 2)]
    exposed = [1 - 1 / COSTS.iteration("mobilenetv3", shape).slowdown for shape in shapes]
    rest = simulator.now - 34_000  # it began again at 30 s, after a restart of 4 s
    assert simulator.world.progress[w.COMMUNICATION, 0] == pytest.approx(20_000 * exposed[0] + rest * exposed[1])


def test_an_uneven_placement_can_be_charged_as_the_tightest_even_one() -> None:
    """A reading of Dally's paper: 5 + 3 GPUs cost as much as 4 + 4, and what has no even shape stays a ring."""
    assert tightest(8, (8, 8, 4), 1) == (4, 2, 1)
    assert tightest(8, (8, 8, 4), 2) == (4, 1, 2)
    assert tightest(5, (4, 8, 4), 1) == (1, 5, 1)
    charged = [
        placed([0, 1, 2, 4], one_job(4), Costs(COSTS.fabric, uneven=uneven)).world.progress[w.SPREAD, 0]
        for uneven in ("ring", "even")
    ]
    even = placed([0, 1, 4, 5], one_job(4)).world.progress[w.SPREAD, 0]
    assert charged[1] == even > charged[0]
