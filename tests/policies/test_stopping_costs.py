"""Policies that stop jobs where stopping costs time: seconds, worked out by hand."""

from __future__ import annotations

import pytest

from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.errors import PolicyError
from shunter.model import GPU, Trace
from shunter.sim import Simulator
from shunter.traces.synthetic import synthetic

KINDS = {w.START: "start", w.PREEMPT: "stop", w.FINISH: "end"}


def jobs(*rows):
    """Jobs (submit, duration), each of one GPU."""
    submit, duration = zip(*rows, strict=True)
    return Trace.of(
        "t",
        [f"j{i}" for i in range(len(rows))],
        submit=[1000 * s for s in submit],
        duration=[1000 * d for d in duration],
        gpus=[GPU] * len(rows),
    )


def costs(checkpoint, restart, nodes=1, gpus=1):
    overheads = Overheads(checkpoint=((64, checkpoint),), restart=((64, restart),))
    return Cluster("c", (NodeGroup(nodes, gpus),), overheads=overheads)


def story(policy, trace, cluster):
    """What happened, as (second, what, job)."""
    simulator = Simulator(trace, cluster)
    simulator.run(registry.policy(policy))
    return [(time / 1000, KINDS[kind], job) for time, kind, job, *_ in simulator.events.tolist() if kind in KINDS]


def test_a_job_works_for_as_long_as_stopping_it_costs_before_it_is_stopped():
    """A stop costs 30 + 10: the long job is stopped at 40, not at 20; it takes 10 s to restart, from 80 on."""
    found = story("srtf:estimate=oracle,min_run=1", jobs((0, 500), (20, 10)), costs(30, 10))
    assert found == [
        (0, "start", 0), (70, "stop", 0), (70, "start", 1), (80, "end", 1), (80, "start", 0), (550, "end", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "stopped"), [(",min_run=0", 20), (",min_run=1", 40), (",min_run=2.5", 100), ("", 400)]
)
def test_how_long_is_a_setting_and_ten_times_the_cost_by_default(setting, stopped):
    """Only the restart costs anything, so that GPUs are free at once: 40 s."""
    found = story(f"srtf:estimate=oracle{setting}", jobs((0, 500), (20, 10)), costs(0, 40))
    assert found[1] == (stopped, "stop", 0)


def test_after_a_restart_the_time_counts_from_when_it_is_over():
    """It comes back at 50, works from 90 on, and may be stopped from 130 on; looks are at the multiples of 40."""
    found = story("srtf:estimate=oracle,min_run=1", jobs((0, 500), (20, 10), (55, 10)), costs(0, 40))
    assert [time for time, what, _ in found if what == "stop"] == [40, 160]


@pytest.mark.parametrize("policy", ["srtf:estimate=oracle", "las", "tiresias", "gandiva:slicing=true"])
def test_where_stops_are_free_the_setting_does_nothing(policy):
    trace, cluster = synthetic(jobs=60, seed=1, gpus=4, load=1.5), costs(0, 0, gpus=4)
    joined = "," if ":" in policy else ":"
    digests = set()
    for text in (policy, f"{policy}{joined}min_run=50"):
        simulator = Simulator(trace, cluster)
        simulator.run(registry.policy(text))
        digests.add(simulator.digest)
    assert len(digests) == 1


def test_a_tiresias_job_that_was_spared_is_stopped_at_the_next_look():
    """Queues end at 10 GPU seconds; at 15 the first has worked too little; the next look is at 60."""
    found = story("tiresias:limits=10,look_again=60,min_run=1", jobs((0, 500), (15, 5)), costs(0, 40))
    assert found[:3] == [(0, "start", 0), (60, "stop", 0), (60, "start", 1)]


@pytest.mark.parametrize(("checkpoint", "restart"), [(60, 120), (60, 60)])
@pytest.mark.parametrize("policy", ["las", "srtf:estimate=oracle", "tiresias"])
def test_costly_stops_end(policy, checkpoint, restart):
    """Where every stop costs minutes, jobs still end, and most GPU time is not lost."""
    simulator = Simulator(synthetic(jobs=300, seed=0, gpus=16, load=1.2), costs(checkpoint, restart, nodes=2, gpus=8))
    simulator.run(registry.policy(policy))
    table = simulator.world.jobs
    assert simulator.over
    assert 0 < table[w.LOST].sum() < 0.1 * table[w.ATTAINED].sum()


@pytest.mark.parametrize("policy", ["dally", "themis", "marshal", "gandiva", "tiresias"])
@pytest.mark.parametrize("lease", [60, 62])
def test_a_lease_that_a_restart_would_use_up_is_refused(policy, lease):
    simulator = Simulator(jobs((0, 100), (0, 100)), costs(0, 62))
    with pytest.raises(PolicyError, match=rf"policy '{policy}': lease={lease} is too short.*62 s.*lease=0"):
        simulator.run(registry.policy(f"{policy}:lease={lease}"))


@pytest.mark.parametrize("lease", [63, 0])
def test_a_lease_that_leaves_time_to_work_is_not(lease):
    simulator = Simulator(jobs((0, 2), (0, 2)), costs(0, 62))
    simulator.run(registry.policy(f"gandiva:lease={lease}"))
    assert simulator.over
