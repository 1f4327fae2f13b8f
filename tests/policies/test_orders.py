"""Every order against its formula, written down here a second time in plain Python."""

import math

import numpy as np
import pytest

from shunter import registry
from shunter.cluster import Cluster, NodeGroup
from shunter.model import GPU, Trace
from shunter.scheduling.queue.ordering import Ordering
from shunter.seeding import rng
from shunter.sim.engine import Simulator
from shunter.world import START, Job

# w: waited, r: run time, n: GPUs, s: submitted; seconds; smaller first
FORMULAS = {
    "fifo": lambda w, r, n, s: s,
    "easypp": lambda w, r, n, s: s,
    "lifo": lambda w, r, n, s: -s,
    "sjf": lambda w, r, n, s: r,
    "ljf": lambda w, r, n, s: -r,
    "saf": lambda w, r, n, s: n * r,
    "edf": lambda w, r, n, s: 1e15 + s,  # without a deadline; with one: below
    "llf": lambda w, r, n, s: 1e15 + s,
    "pedf": lambda w, r, n, s: 1e15 + s,
    "kubeflow": lambda w, r, n, s: s,
    "scored": lambda w, r, n, s: n * r,
    "qssf": lambda w, r, n, s: n * r,
    "laf": lambda w, r, n, s: -n * r,
    "smallest": lambda w, r, n, s: n,
    "largest": lambda w, r, n, s: -n,
    "wfp3": lambda w, r, n, s: -((w / r) ** 3) * n,
    "unicep": lambda w, r, n, s: -w / (math.log2(n + 1) * r),
    "f1": lambda w, r, n, s: math.log10(r) * n + 870 * math.log10(max(s, 0.1)),
    "f2": lambda w, r, n, s: math.sqrt(r) * n + 25_600 * math.log10(max(s, 0.1)),
    "f3": lambda w, r, n, s: r * n + 6_860_000 * math.log10(max(s, 0.1)),
    "f4": lambda w, r, n, s: r * math.sqrt(n) + 530_000 * math.log10(max(s, 0.1)),
}
ELSEWHERE = {"multifactor", "express", "gittins", "srsf", "srtf", "las"}  # in files of their own, or below


def job(**known):
    return Job(**(dict.fromkeys(Job._fields, 0.0) | known))


def key(name, **known):
    policy = registry.policy(name)
    return type(policy).key(job(**known), policy.key_params())


def test_no_order_is_forgotten():
    orders = [name for name in registry.names() if issubclass(registry.policy_class(name), Ordering)]
    assert {*FORMULAS, *ELSEWHERE} == set(orders)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize(
    ("w", "r", "n", "s"), [(0, 1, 1, 0), (10, 2.5, 1, 7), (3600, 60, 8, 100_000), (5, 7200, 48, 0.5)]
)
def test_key_is_the_formula(name, w, r, n, s):
    assert key(name, wait=w, estimate=r, gpus=n, submit=s) == pytest.approx(FORMULAS[name](w, r, n, s), rel=1e-12)


def test_key_of_the_orders_by_deadline():
    assert key("edf", due=500.0, remaining=60.0, submit=7.0) == 500.0
    assert key("llf", due=500.0, remaining=60.0, submit=7.0) == 440.0
    assert key("pedf", due=500.0, remaining=60.0, submit=7.0, wait=400.0, executed=33.0) == 500.0
    assert key("pedf", due=500.0, remaining=60.0, submit=7.0, wait=400.0, executed=34.0) == 1e12 + 500.0


@pytest.mark.parametrize("name", ["edf", "llf", "pedf"])
def test_orders_by_deadline_remark_that_there_are_none(name):
    ordering = registry.policy(name)
    jobs = {"submit": [0], "duration": [1000], "gpus": [GPU], "declared": [1000]}
    assert ordering.remarks(Trace.of("due", ["1"], deadline=[5000], **jobs)) == []
    assert ordering.remarks(Trace.of("none", ["1"], **jobs)) == [
        f"{name}: no job of the trace has a deadline, so it orders jobs as fifo does"
    ]


def test_key_of_the_orders_that_look_at_running_jobs():
    left = {"remaining": 60.0} if "remaining" in Job._fields else {}
    assert key("srtf", estimate=100.0, executed=40.0, **left) == 60.0
    assert key("srsf", gpus=8.0, remaining=60.0, work=40.0) == 480.0
    assert key("srsf", gpus=8.0, remaining=30.0, work=70.0) == 560.0
    assert key("las", attained=320.0, executed=40.0, gpus=8.0) == 320.0


def one_at_a_time(jobs=25):
    """Jobs so large that only one of them can run: the order is all that matters."""
    draw = rng(3, "orders")
    return Trace.of(
        "one at a time",
        [f"j{i}" for i in range(jobs)],
        submit=np.sort(draw.integers(0, 200, jobs)) * 1000,
        duration=draw.integers(1, 100, jobs) * 1000,
        gpus=draw.integers(5, 9, jobs) * GPU,
    )


def expected_order(trace, formula):
    """Serve the first by the formula, again and again."""
    now, waiting, order = 0.0, set(range(len(trace))), []
    submit, duration, gpus = trace.submit / 1000, trace.duration / 1000, trace.gpus / GPU
    while waiting:
        here = [j for j in waiting if submit[j] <= now]
        if not here:
            now = min(submit[j] for j in waiting)
            continue
        first = submit[0]
        chosen = min(here, key=lambda j: (formula(now - submit[j], duration[j], gpus[j], submit[j] - first), j))
        order.append(chosen)
        waiting.remove(chosen)
        now += duration[chosen]
    return order


@pytest.mark.parametrize("name", FORMULAS)
def test_jobs_start_in_the_order_of_the_formula(name):
    trace = one_at_a_time()
    simulator = Simulator(trace, Cluster("one", (NodeGroup(1, 8),)))
    simulator.run(registry.policy(f"{name}:estimate=oracle"))
    events = simulator.events
    assert events[events[:, 1] == START, 2].tolist() == expected_order(trace, FORMULAS[name])


def test_the_orders_differ_on_that_trace():
    assert len({tuple(expected_order(one_at_a_time(), formula)) for formula in FORMULAS.values()}) >= 10
