"""Our own policy: what it does where Dally, Tiresias or a plain queue would do something else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Tier
from shunter.model import GPU, Trace
from shunter.sim import Scenario, Simulator

TIERS = (Tier("machine", 100, 1), Tier("rack", 50, 1), Tier("network", 10, 10))
RACK = Cluster("one rack of 2 x 4", (NodeGroup(2, 4, racks=(2,)),), tiers=TIERS)
RACKS = Cluster("2 racks of 2 x 4", (NodeGroup(4, 4, racks=(2, 2)),), tiers=TIERS)
HOUR = 3_600_000
SLOW = Scenario(tier_speed={"chatty": (1.0, 0.1, 0.01), "quiet": (1.0, 0.99, 0.98)})


def jobs(*rows, iterations=0):
    """(submit h, hours, gpus, model) each."""
    models = ("chatty", "quiet")
    return Trace.of(
        "t",
        [f"j{i}" for i in range(len(rows))],
        submit=[round(row[0] * HOUR) for row in rows],
        duration=[round(row[1] * HOUR) for row in rows],
        gpus=[row[2] * GPU for row in rows],
        model=[models.index(row[3]) for row in rows],
        iterations=np.full(len(rows), iterations),
        models=models,
    )


def run(trace, cluster=RACK, policy="marshal", scenario=SLOW):
    simulator = Simulator(trace, cluster, scenario=scenario)
    simulator.run(registry.policy(policy))
    return simulator


def ends(simulator):
    """When each job ended, in hours."""
    return (simulator.world.jobs[w.ENDED_AT] / HOUR).tolist()


def nodes_of(simulator, job):
    """The nodes of each start of a job."""
    found = {}
    for time, kind, who, node, _ in simulator.events.tolist():
        if kind == w.START and who == job:
            found.setdefault(time, []).append(node)
    return found


def test_short_work_goes_first_where_iterations_are_declared_and_waits_its_turn_where_not():
    rows = [(0, 9, 8, "quiet"), (0, 2, 8, "quiet"), (0, 1, 8, "quiet")]
    fast = Scenario()
    assert ends(run(jobs(*rows, iterations=100), scenario=fast)) == [12, 3, 1]
    # nobody knows: an hour each in turn, so that the shorter ones end first all the same
    assert ends(run(jobs(*rows), scenario=fast)) == [12, 5, 3]


def test_a_job_that_outlasts_all_other_work_is_not_kept_waiting():
    """There is work for 6 h, so the job of 14 h decides when the last one ends, and begins at once."""
    rows = [*[(0, 2, 1, "quiet")] * 16, (0, 14, 1, "quiet")]
    found = ends(run(jobs(*rows, iterations=100), scenario=Scenario()))
    assert (found[-1], max(found[:-1])) == (14, 6)


def test_a_job_that_suffers_waits_for_a_machine_and_one_that_does_not_takes_what_is_free():
    # 3 GPUs are taken on each machine for 10 h; a job of 2 GPUs could run on one GPU of each
    taken = [(0, 10, 3, "quiet"), (0, 10, 3, "quiet")]
    chatty = run(jobs(*taken, (0.1, 2, 2, "chatty")))
    quiet = run(jobs(*taken, (0.1, 2, 2, "quiet")))
    assert ends(quiet)[2] == pytest.approx(0.1 + 2 / 0.99, abs=0.01)
    probe, late = nodes_of(chatty, 2).items()
    assert probe == (round(0.1 * HOUR), [0, 1])  # a short look at how slow that is ...
    assert late[0] == HOUR  # ... then it waits for one machine, which it gets when the leases of those before it end
    assert len(late[1]) == 1
    assert ends(chatty)[2] == pytest.approx(3, abs=0.01)


def test_without_patience_it_stays_where_it_is_slow():
    taken = [(0, 10, 3, "quiet"), (0, 10, 3, "quiet")]
    patient, hasty = (
        run(jobs(*taken, (0.1, 2, 2, "chatty")), policy=policy) for policy in ("marshal", "marshal:patience=0")
    )
    held = [simulator.world.jobs[w.EXECUTED, 2] for simulator in (patient, hasty)]
    assert held[0] < 0.3 * held[1]


def test_at_the_end_of_a_lease_a_job_stays_unless_there_is_a_better_place():
    # the second job has to begin on two machines and moves to one when the first one has ended
    trace = jobs((0, 1.5, 3, "quiet"), (0, 1.5, 2, "quiet"), (0.01, 6, 3, "quiet"))
    simulator = run(trace)
    places = nodes_of(simulator, 2)
    first, *later = places.values()
    assert len(first) == 2
    assert [len(nodes) for nodes in later] == [1]
    assert simulator.world.jobs[w.PREEMPTIONS].tolist() == [0, 0, 1]


def test_splits_are_even_where_that_is_possible():
    trace = jobs((0, 5, 1, "quiet"), (0.01, 5, 8, "quiet"))
    places = nodes_of(run(trace, RACKS), 1)
    counts = {node for nodes in places.values() for node in nodes}
    assert counts <= {2, 3}  # both machines of the other rack, 4 on each


def test_what_it_learns_does_not_need_the_model():
    """Two models of the same speeds are scheduled alike, whatever they are called."""
    rows = [
        (0, 10, 3, "quiet"),
        (0, 10, 3, "quiet"),
        (0.1, 2, 2, "chatty"),
        (0.2, 3, 4, "chatty"),
        (0.3, 1, 6, "quiet"),
    ]
    one = run(jobs(*rows), RACKS)
    unnamed = dataclasses.replace(jobs(*rows), models=("quiet2", "chatty2"))
    other = run(
        unnamed, RACKS, scenario=Scenario(tier_speed={"quiet2": (1.0, 0.1, 0.01), "chatty2": (1.0, 0.99, 0.98)})
    )
    assert one.digest == other.digest


@pytest.mark.parametrize(("nodes", "gpus"), [((4, 4, 4, 4, 4, 4), 24), ((4, 4), 6), ((3, 3, 3), 7), ((4, 4, 4, 4), 13)])
@pytest.mark.parametrize("model", ["chatty", "quiet"])
def test_a_job_alone_never_waits(nodes, gpus, model):
    """It has the best place that there is, however bad that is."""
    cluster = Cluster("alone", tuple(NodeGroup(1, count) for count in nodes), tiers=TIERS)
    simulator = run(jobs((0, 30, gpus, model)), cluster)
    assert simulator.world.jobs[w.WAITED].tolist() == [0]


def test_half_a_gpu_is_kept_beside_another_job():
    trace = dataclasses.replace(jobs((0, 5, 1, "quiet"), (0, 5, 1, "quiet")), gpus=np.array([GPU // 2] * 2))
    simulator = run(trace, Cluster("one", (NodeGroup(1, 2),)), "marshal:renewal=keep", Scenario())
    assert simulator.world.jobs[w.PREEMPTIONS].tolist() == [0, 0]


def test_an_undeclared_job_makes_no_job_outlast_the_rest():
    """What is left is known only if all jobs say so; then short work goes first again."""
    trace = jobs((0, 40, 1, "quiet"), *[(5, hours, 8, "quiet") for hours in (3, 1, 2)], iterations=100)
    trace.iterations[2] = 0
    found = ends(run(trace, scenario=Scenario(), cluster=Cluster("c", (NodeGroup(2, 4), NodeGroup(1, 1)))))
    assert found[3] < found[1]
