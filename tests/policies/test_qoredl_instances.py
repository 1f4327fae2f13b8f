"""Qore-DL on jobs with parameter servers and a range of CPU: its configurator, its scheduler and its adjuster."""

from __future__ import annotations

import numpy as np

from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.model import GPU, Trace
from shunter.sim import Simulator

MINUTE = 60_000


def run(rows, machines, policy="qoredl", until=None, **shared):
    """Jobs of (gpus, work, deadline) in minutes, all submitted at once."""
    gpus, work, due = np.array(rows).T
    columns = {name: np.full(len(rows), value) for name, value in shared.items() if np.ndim(value) == 0}
    columns |= {name: np.array(value) for name, value in shared.items() if np.ndim(value)}
    trace = Trace.of(
        "t", [f"j{at}" for at in range(len(rows))], submit=np.zeros(len(rows)), duration=work * MINUTE, gpus=gpus * GPU,
        declared=work * MINUTE, deadline=due * MINUTE, **columns,
    )  # fmt: skip
    simulator = Simulator(trace, machines)
    simulator.run(registry.policy(policy), until=until)
    return simulator


def hosts(*gpus, cpus=0):
    return Cluster(
        "c", tuple(NodeGroup(1, each, cpus=cpus) for each in gpus), overheads=Overheads(restart=((1, 25.0),))
    )


def rows_of(simulator, kind):
    return [row[2:] for row in simulator.events.tolist() if row[1] == kind]


def test_the_configurator_chooses_workers_from_the_deadline_and_servers_by_load():
    """One worker takes 60 minutes; due after 21, it needs three. Empty: a server for two; then for three of them."""
    about = {"min_gpus": 2, "max_gpus": 12, "servers": 1}
    found = run([(2, 60, 21)], hosts(10, 10), until=0, **about).world
    assert (found.jobs[w.WORKERS, 0], found.instances[w.SERVERS_NOW, 0]) == (5, 2)
    crowd = run([(5, 600, 0), (2, 60, 21)], hosts(10), until=0, min_gpus=[5, 2], max_gpus=[5, 12], servers=[0, 1])
    wide = crowd.world.jobs[w.WORKERS].tolist()
    assert wide[1] == 5  # both come at once, so the load is still that of the empty cluster
    later = run([(2, 60, 61)], hosts(10, 10), until=0, **about).world
    assert (later.jobs[w.WORKERS, 0], later.instances[w.SERVERS_NOW, 0]) == (2, 1)


def test_the_load_decides_how_many_servers_there_are():
    busy = {"min_gpus": [8, 2], "max_gpus": [8, 12], "servers": [0, 1]}
    trace = Trace.of(
        "t", ["a", "b"], submit=np.array([0, 30]) * 1000, duration=np.array([600, 60]) * MINUTE,
        gpus=np.array([8, 2]) * GPU, declared=np.array([600, 60]) * MINUTE, deadline=np.array([0, 21]) * MINUTE,
        **{name: np.array(value) for name, value in busy.items()},
    )  # fmt: skip
    simulator = Simulator(trace, hosts(16))
    simulator.run(registry.policy("qoredl"), until=53_000)
    # half of the only host is in use: a server for every three workers
    assert (simulator.world.jobs[w.WORKERS, 1], simulator.world.instances[w.SERVERS_NOW, 1]) == (4, 1)


def test_a_late_job_that_can_t_be_wider_gets_more_cpu():
    """Four hours of work, due in three and a half: 1.36 times the CPU is 1.13 times as fast."""
    about = {"cpus": 4000, "min_cpus": 1000, "max_cpus": 8000}
    simulator = run([(2, 240, 210)], hosts(8, cpus=16), until=6 * MINUTE, **about)
    assert simulator.world.instances[w.CPU_NOW].tolist() == [int(2000 + 0.36 * 2000)]
    assert rows_of(simulator, w.EQUIP) == [[0, 2720, 0]]
    assert rows_of(simulator, w.MOVE) == [[0, 2, 2]]
    still = run([(2, 240, 210)], hosts(8, cpus=16), "qoredl:adjust=false", until=6 * MINUTE, **about)
    assert still.world.instances[w.CPU_NOW].tolist() == [2000]


def test_it_gets_no_more_than_its_host_has():
    simulator = run([(2, 240, 210)], hosts(8, cpus=5), until=6 * MINUTE, cpus=4000, max_cpus=8000)
    assert simulator.world.instances[w.CPU_NOW].tolist() == [2500]
    assert simulator.world.nodes[w.CPU_FREE].tolist() == [0]


def test_in_a_crowded_cluster_a_job_with_time_to_spare_gives_up_cpu():
    for search in ("exhaustive", "genetic"):
        about = {"cpus": 16_000, "min_cpus": 500, "max_cpus": 8000}
        simulator = run([(8, 60, 600)], hosts(8, cpus=16), f"qoredl:search={search}", until=6 * MINUTE, **about)
        assert 950 <= simulator.world.instances[w.CPU_NOW, 0] < 2000, search


def test_a_job_that_finds_no_room_begins_with_less_cpu():
    """Two hosts of 5 cores, an instance wants 4: with 0.85 ** 3 of it, 2.456, two fit on each."""
    about = {"cpus": 16_000, "min_cpus": 1000, "max_cpus": 4000}
    simulator = run([(4, 60, 600)], hosts(4, 4, cpus=5), until=0, **about)
    assert simulator.world.jobs[w.WORKERS].tolist() == [4]
    assert simulator.world.instances[w.CPU_NOW].tolist() == [2456]
    none = run([(4, 60, 600)], hosts(4, 4, cpus=5), until=0, cpus=16_000, min_cpus=3000)
    assert none.world.jobs[w.WORKERS].tolist() == [0]
