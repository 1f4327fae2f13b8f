"""Slurm's priority: each factor alone decides as Slurm says, and settings that do nothing are named."""

import math

import numpy as np
import pytest

from shunter import registry
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import PolicyError
from shunter.model import GPU, Trace
from shunter.scheduling.queue.ranking import describe
from shunter.sim.engine import Simulator
from shunter.world import START

ONE = Cluster("one", (NodeGroup(1, 8),))
OFF = {"age": 0, "fairshare": 0, "size": 0, "partition": 0, "qos": 0}


def multifactor(**settings):
    return registry.policy("multifactor:" + ",".join(f"{k}={v}" for k, v in (OFF | settings).items()))


def trace_of(rows, **more):
    """Rows are (submit, duration, gpus, user), seconds."""
    submit, duration, gpus, user = (list(column) for column in zip(*rows, strict=True))
    return Trace.of(
        "t",
        [str(i) for i in range(len(rows))],
        submit=[1000 * s for s in submit],
        duration=[1000 * d for d in duration],
        gpus=[GPU * g for g in gpus],
        user=user,
        users=("ann", "bob"),
        **more,
    )


def order(policy, trace, cluster=ONE):
    simulator = Simulator(trace, cluster)
    simulator.run(policy)
    events = simulator.events
    return events[events[:, 1] == START, 2].tolist()


ANN, BOB = 0, 1


@pytest.mark.parametrize(("max_age", "expected"), [(1000, [0, 1, 2]), (10, [0, 2, 1])])
def test_age_counts_up_to_max_age(max_age, expected):
    """Job 1 has waited 90 s, job 2 only 10 s but has a little QOS: which decides only once both are of full age."""
    trace = trace_of([(0, 100, 8, ANN), (10, 1, 8, ANN), (90, 1, 8, ANN)], qos=[0, 0, 1])
    assert order(multifactor(age=1000, qos=1, max_age=max_age), trace) == expected


def decayed(seconds):
    """What a GPU in use so long, up to now, counts at a half-life of 60 s: the integral of 2^(-t/60), in ms."""
    return 1000 * 60 / math.log(2) * (1 - 2 ** (-seconds / 60))


def test_fair_share_halves_past_usage():
    """Ann used 8 GPUs from 0 to 10, bob 4 from 10 to 30; each moment of it has been decaying since."""
    rows = [(0, 10, 8, ANN), (0, 20, 4, BOB), (0, 5, 8, BOB), (0, 5, 8, ANN)]
    policy = multifactor(fairshare=1, decay=60)
    assert order(policy, trace_of(rows)) == [0, 1, 3, 2]
    simulator = Simulator(trace_of(rows), ONE)
    memory = simulator.run(policy, until=30_000)
    queue = memory.form.memory
    ann, bob = 8 * decayed(10) * 2 ** (-20 / 60), 4 * decayed(20)
    assert queue.users.usage.tolist() == pytest.approx([ann, bob])
    assert queue.state.total_usage == pytest.approx(ann + bob)
    job = describe.py_func(simulator.world, queue, 2, queue.state.total_usage, 30_000)
    assert job.usage == pytest.approx(bob / (ann + bob) * 2)  # over an equal share for each of two
    assert type(policy).key(job, policy.key_params()) == pytest.approx(-(2 ** (-bob / (ann + bob) * 2)))


def test_a_failed_attempt_is_usage_too():
    """Ann's job fails after 10 s on 8 GPUs: she has used them, whether it worked or not."""
    trace = trace_of([(0, 20, 8, ANN)], failures=[1], fail_after=[10_000])
    memory = Simulator(trace, ONE).run(multifactor(fairshare=1, decay=60), until=10_000)
    assert memory.form.memory.users.usage.tolist() == pytest.approx([8 * decayed(10)])


def test_without_fair_share_the_submission_decides():
    rows = [(0, 10, 8, ANN), (5, 20, 4, BOB), (6, 5, 8, BOB), (7, 5, 8, ANN)]
    assert order(multifactor(age=1), trace_of(rows)) == [0, 1, 2, 3]


@pytest.mark.parametrize(("favor_small", "expected"), [("false", [0, 3, 1, 2]), ("true", [0, 2, 1, 3])])
def test_size(favor_small, expected):
    trace = trace_of([(0, 10, 8, ANN), (1, 5, 6, ANN), (2, 5, 5, ANN), (3, 5, 8, ANN)])
    assert order(multifactor(size=1, favor_small=favor_small), trace) == expected


def test_qos():
    trace = trace_of([(0, 10, 8, ANN), (1, 5, 8, ANN), (2, 5, 8, ANN), (3, 5, 8, ANN)], qos=[0, 100, 900, 500])
    assert order(multifactor(qos=1), trace) == [0, 2, 3, 1]


@pytest.mark.parametrize(("priority", "expected"), [({}, [0, 1]), ({"a": 0.1, "b": 0.9}, [1, 0])])
def test_partition_is_the_factor_of_the_virtual_cluster(priority, expected):
    """Virtual clusters don't compete, so their factors only show in who is dealt with first."""
    cluster = Cluster("two", (NodeGroup(1, 4, vc="a"), NodeGroup(1, 4, vc="b")), vc_priority=priority)
    trace = trace_of([(0, 10, 4, ANN), (0, 10, 4, ANN)], vc=[0, 1], vcs=("a", "b"))
    assert order(multifactor(partition=1), trace, cluster) == expected


def test_all_weights_zero_is_refused():
    with pytest.raises(PolicyError, match="all weights are 0"):
        multifactor()


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"fairshare": 1}, "fairshare: the trace names fewer than two users"),
        ({"partition": 1}, "partition: the trace names fewer than two virtual clusters"),
        ({"qos": 1}, "qos: no job of the trace has a qos factor"),
        ({"age": 1, "favor_small": "true"}, "favor_small: the weight of size is 0"),
        ({"age": 1, "depth": 7}, "depth does nothing without backfill=conservative"),
    ],
)
def test_settings_that_do_nothing_are_named(settings, what):
    trace = Trace.of("t", ["a"], submit=[0], duration=[1], gpus=[GPU], user=[0], users=("ann",))
    assert any(what in remark for remark in multifactor(**settings).remarks(trace))


def test_settings_that_matter_are_not():
    trace = trace_of([(0, 1, 1, ANN), (0, 1, 1, BOB)], qos=[0, 500], vc=[0, 1], vcs=("a", "b"))
    chatty = multifactor(age=1, fairshare=1, size=1, partition=1, qos=1, favor_small="true")
    assert chatty.remarks(trace) == []
    assert np.isfinite(chatty.key_params()).all()
