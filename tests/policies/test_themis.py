"""Themis on worlds small enough to work out by hand, and its auctions against every possible outcome."""

import math
from itertools import product

import numpy as np
import pytest

from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import PolicyError
from shunter.model import GPU, Trace
from shunter.policies.themis import auction as auction_kernels
from shunter.seeding import rng
from shunter.sim.engine import Simulator

MODELS = ("resnet50", "vgg16")
LOOSE, SKEWED = range(2)


def jobs_of(*rows, **more):
    """Rows are (submit, duration, GPUs), seconds; every job declares its iterations."""
    submit, duration, gpus = (np.array(column) for column in zip(*rows, strict=True))
    about = {"submit": submit * 1000, "duration": duration * 1000, "gpus": gpus * GPU}
    return Trace.of("t", [str(i) for i in range(len(rows))], **about, iterations=np.full(len(rows), 100), **more)


def machines(*gpus):
    """A cluster of machines with so many GPUs, each in a rack of its own."""
    return Cluster("little", tuple(NodeGroup(1, each) for each in gpus))


def simulated(policy, trace, cluster, until=None, seed=0):
    simulator = Simulator(trace, cluster, seed=seed)
    memory = simulator.run(registry.policy(policy), until=until)
    return simulator, memory


def starts(simulator, at=None):
    """The jobs that start, in order; of one moment only, if given (s)."""
    events = simulator.events
    rows = events[(events[:, 1] == w.START) & ((events[:, 0] == 1000 * at) if at is not None else True)]
    return list(dict.fromkeys(zip(rows[:, 0].tolist(), rows[:, 2].tolist(), strict=True)))


def started(simulator, at):
    return {job for _, job in starts(simulator, at)}


# ------------------------------------------------------------------------------------------- rho


@pytest.mark.parametrize(
    ("ideal", "first", "second"),
    [
        # job 0 stops after 10 s with 90 s left, alone for 1 s and one of two for 9: 1.9 jobs on one GPU
        # job 1 came at 1 s, stops at 20 s after 10 s of running, one of two all the time
        ("share", (10 + 90) / (100 * 1.9), (19 + 90) / (100 * 2)),
        ("alone", (10 + 90) / 100, (19 + 90) / 100),
    ],
)
def test_rho_by_hand(ideal, first, second):
    trace = jobs_of((0, 100, 1), (1, 100, 1))
    policy = f"themis:lease=10,fraction=1,ideal={ideal},renewal=again"
    simulator, memory = simulated(policy, trace, machines(1), until=20_000)
    known = memory.form.memory.fair.known
    assert known.last_rho.tolist() == pytest.approx([first, second], rel=1e-12)
    assert known.rho[0] == pytest.approx(first * (1 + 10 / 60), rel=1e-12)
    assert [job for _, job in starts(simulator)] == [0, 1, 0]


def test_a_share_is_never_more_than_was_asked_for():
    """Two jobs of one GPU on eight: their ideal time is their own."""
    _, memory = simulated("themis:lease=10,renewal=again", jobs_of((0, 100, 1), (0, 50, 1)), machines(8), until=10_000)
    assert memory.form.memory.fair.known.last_rho.tolist() == pytest.approx([1.0, 1.0])


def test_rho_goes_by_the_speed_so_far():
    """On GPUs of half the speed 10 s are 5 s of work, and 95 s of work take 190 s."""
    slow = Cluster("slow", (NodeGroup(1, 1, "old"),), speeds={"old": 0.5})
    _, memory = simulated("themis:lease=10,ideal=alone,renewal=again", jobs_of((0, 100, 1)), slow, until=10_000)
    assert memory.form.memory.fair.known.last_rho[0] == pytest.approx((10 + 190) / 100)


@pytest.mark.parametrize(("growth", "at_20"), [(60, []), (10, [0])])
def test_the_most_unfairly_treated_comes_first(growth, at_20):
    """At 20 s job 1 has rho (19 + 10) / 20 = 1.45, job 0 waits with 1 x (1 + 10 / growth)."""
    trace = jobs_of((0, 1000, 1), (1, 20, 1))
    simulator, _ = simulated(f"themis:lease=10,ideal=alone,growth={growth}", trace, machines(1))
    assert [job for _, job in starts(simulator, at=20)] == at_20


def test_jobs_that_never_ran_come_first():
    trace = jobs_of((0, 1000, 1), (0, 1000, 1), (2, 1000, 1))
    simulator, _ = simulated("themis:lease=10", trace, machines(1), until=30_000)
    assert sorted(job for _, job in starts(simulator)[:3]) == [0, 1, 2]


# ------------------------------------------------------------------------------------------- offers


@pytest.mark.parametrize(
    ("fraction", "expected"), [(1, {0, 1}), (0.5, {0, 1}), (0.34, {0, 1}), (0.3, {0, 1}), (0.0, {2})]
)
def test_the_fraction_decides_which_jobs_are_offered_gpus(fraction, expected):
    """At 20 s the rho of jobs 0 and 1 is 7/6, of job 2 1.09; of all three, job 2 with its two GPUs is worth most."""
    trace = jobs_of((0, 40, 1), (0, 1000, 1), (1, 100, 2))
    policy = f"themis:lease=10,renewal=again,ideal=alone,objective=value,fraction={fraction}"
    simulator, _ = simulated(policy, trace, machines(2), until=20_000)
    assert started(simulator, at=10) == {2}
    assert started(simulator, at=20) == expected


def test_a_part_is_the_floor_but_at_least_one_job():
    """Of ten who never ran, (1 - 0.8) x 10 = 2 are offered two GPUs; who wants both gets them, if among those two."""
    trace = jobs_of(*[(0, 50, 2)] * 2, *[(0, 50, 1)] * 8)
    large = [
        bool(started(simulated("themis:lease=0,objective=value", trace, machines(2), 0, seed)[0], at=0) & {0, 1})
        for seed in range(200)
    ]
    assert sum(large) / len(large) == pytest.approx(1 - 8 / 10 * 7 / 9, abs=0.1)  # of one, it would be 0.2


def test_equals_are_drawn_by_seed_at_the_cut():
    trace = jobs_of(*[(0, 50, 1)] * 10)
    first = {}
    for seed, _ in product(range(12), range(2)):
        simulator, _ = simulated("themis:lease=0,fraction=1", trace, machines(1), until=0, seed=seed)
        job = starts(simulator)[0][1]
        assert first.setdefault(seed, job) == job
    assert len(set(first.values())) > 3


def test_what_is_left_is_offered_to_the_rest():
    """The first in the order needs three GPUs, two are free; the others get them although they were not the first."""
    trace = jobs_of((0, 100, 2), (1, 100, 3), (2, 100, 1), (3, 100, 1))
    simulator, _ = simulated("themis:lease=0,fraction=1", trace, machines(4), until=3_000)
    assert started(simulator, at=2) | started(simulator, at=3) == {2, 3}


# ------------------------------------------------------------------------------------------- leases


@pytest.mark.parametrize(("by", "ends"), [("time", {0: 40, 1: 40}), ("service", {0: 10, 1: 40})])
def test_leases_by_time_or_service(by, ends):
    """40 s, or 40 GPU seconds, of a job of four GPUs and one of one GPU."""
    simulator, _ = simulated(f"themis:lease=40,lease_by={by}", jobs_of((0, 100, 4), (0, 100, 1)), machines(5), until=0)
    assert {job: int(simulator.world.jobs[w.UNTIL, job]) // 1000 for job in (0, 1)} == ends


@pytest.mark.parametrize(("renewal", "preemptions"), [("keep", 0), ("again", 9)])
def test_a_job_keeps_gpus_that_no_other_wants(renewal, preemptions):
    simulator, _ = simulated(f"themis:lease=10,renewal={renewal}", jobs_of((0, 100, 1)), machines(1))
    assert simulator.world.jobs[w.PREEMPTIONS, 0] == preemptions


def test_a_lease_is_not_renewed_if_a_waiting_job_takes_the_gpus():
    """Even where its kind had been refused before, because nothing was free then."""
    trace = jobs_of((0, 100, 2), (1, 100, 2))
    simulator, _ = simulated("themis:lease=10", trace, machines(2), until=10_000)
    assert started(simulator, at=10) == {1}


def test_an_arrival_at_the_end_of_a_lease_that_is_renewed_starts():
    simulator, _ = simulated("themis:lease=10", jobs_of((0, 100, 1), (10, 5, 1)), machines(2))
    assert starts(simulator) == [(0, 0), (10_000, 1)]


# ------------------------------------------------------------------------------------------- placement


@pytest.mark.parametrize(
    ("threshold", "model", "starts_at"),
    [(0.4, LOOSE, 1), (0.4, SKEWED, 50), (1, SKEWED, 1), (0.05, LOOSE, 50), (0.4, -1, 50), (1, -1, 1)],
)
def test_from_the_threshold_on_jobs_are_consolidated(threshold, model, starts_at):
    """Three GPUs are busy on each of two machines of four; then two GPUs are wanted."""
    trace = jobs_of((0, 50, 3), (0, 50, 3), (1, 10, 2), model=[LOOSE, LOOSE, model], models=MODELS)
    simulator, _ = simulated(f"themis:threshold={threshold},lease=0", trace, machines(4, 4))
    assert simulator.world.jobs[w.STARTED, 2] == 1000 * starts_at


def test_no_job_bids_for_less_than_one_gpu_is_worth():
    """Two GPUs at 0.4 of their speed are worth less than one, but for a job that fits on no machine."""
    trace = jobs_of((0, 50, 1), (0, 50, 1), (1, 10, 2), model=[LOOSE] * 3, models=MODELS)
    simulator, _ = simulated("themis:speeds=1/0.4,lease=0,fit=first", trace, machines(1, 2))
    assert simulator.world.jobs[w.STARTED, 2] == 50_000
    simulator, _ = simulated("themis:speeds=1/0.4,lease=0", jobs_of((0, 10, 2)), machines(1, 1))
    assert simulator.world.jobs[w.STARTED, 0] == 0


# ------------------------------------------------------------------------------------------- auctions


def test_an_auction_is_more_than_one_after_the_other():
    """Three GPUs, log 3, are most per GPU, but 2 log 2 for two jobs of two is more."""
    trace = jobs_of((0, 50, 3), (0, 50, 2), (0, 50, 2))
    outcomes = {}
    for auction in ("exact", "auto", "greedy"):
        policy = f"themis:lease=0,fraction=0,objective=value,auction={auction}"
        outcomes[auction] = started(simulated(policy, trace, machines(4), until=0)[0], at=0)
    assert outcomes == {"exact": {1, 2}, "auto": {1, 2}, "greedy": {0}}


def ways(room, gpus):
    """Every way to take so many GPUs from machines with so many free: GPUs per machine."""
    for counts in product(*(range(min(free, gpus) + 1) for free in room)):
        if sum(counts) == gpus:
            yield counts


def tier_of(counts, rack):
    used = [node for node, count in enumerate(counts) if count]
    return 0 if len(used) == 1 else 1 if len({rack[node] for node in used}) == 1 else 2


def best_sum(jobs, room, rack, gain):
    """The largest sum of gains of any disjoint sets of GPUs, by trying them all."""
    if not jobs:
        return 0.0
    job, *others = jobs
    best = best_sum(others, room, rack, gain)
    for counts in ways(room, job[1]):
        left = [free - count for free, count in zip(room, counts, strict=True)]
        best = max(best, gain(job, tier_of(counts, rack)) + best_sum(others, left, rack, gain))
    return best


SPEEDS = (1.0, 0.8, 0.6)


def gain_of(objective, count, total):
    """What a job (duration, GPUs) that never ran gains at the beginning, on so many GPUs among so many jobs."""

    def gain(job, tier):
        duration, gpus = job
        if objective == "value":
            return max(math.log(max(gpus * SPEEDS[tier], 1.0)), 1e-5)
        ideal = duration * max(1, gpus * count / total)
        return max(math.log(1e9 / (duration / SPEEDS[tier] / ideal)), 1e-5)

    return gain


@pytest.mark.parametrize("objective", ["value", "fairness"])
@pytest.mark.parametrize("seed", range(25))
def test_the_exact_auction_against_every_outcome(objective, seed):
    draw = rng(seed, "auction")
    each, racks = int(draw.integers(2, 4)), tuple(draw.integers(1, 3, 2).tolist())
    nodes = sum(racks)
    jobs = [(int(draw.integers(1, 100)), int(draw.choice([1, 2, 2, 3, 3, 4, 5]))) for _ in range(4)]
    jobs = [(duration, min(gpus, each * nodes)) for duration, gpus in jobs]
    cluster = Cluster("little", (NodeGroup(nodes, each, racks=racks),))
    rack = cluster.node_rack.tolist()
    gain, found = gain_of(objective, len(jobs), cluster.gpus), {}
    for auction in ("exact", "greedy"):
        policy = f"themis:lease=0,fraction=0,threshold=1,speeds=1/0.8/0.6,objective={objective},auction={auction}"
        simulator, _ = simulated(policy, jobs_of(*[(0, *job) for job in jobs]), cluster, until=0)
        placed = {}
        for _, _, job, node, milli in simulator.events[simulator.events[:, 1] == w.START]:
            placed.setdefault(job, [0] * nodes)[node] = milli // GPU
        found[auction] = sum(gain(jobs[job], tier_of(counts, rack)) for job, counts in placed.items())
    assert found["exact"] == pytest.approx(best_sum(jobs, [each] * nodes, rack, gain), rel=1e-9)
    assert found["greedy"] <= found["exact"] + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_exact_where_all_are_alike(seed):
    """Jobs of one GPU each: nobody stands in another's way."""
    draw = rng(seed, "alike")
    trace = jobs_of(*[(0, int(draw.integers(10, 500)), 1) for _ in range(8)])
    logs = [simulated(f"themis:lease=20,auction={how}", trace, machines(2, 1))[0].digest for how in ("exact", "greedy")]
    assert logs[0] == logs[1]


def test_a_search_that_takes_too_long_has_an_outcome_all_the_same(monkeypatch):
    monkeypatch.setitem(auction_kernels.MOST_STEPS, "exact", 5)
    trace = jobs_of(*[(0, 20 + i, 1 + i % 4) for i in range(12)])
    simulator, _ = simulated("themis:auction=exact,fraction=0,lease=10", trace, machines(4, 4))
    assert (simulator.world.jobs[w.STATE] == w.DONE).all()


# ------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("text", ["fast", "1/2", "0.5/0.9", "1/0", ""])
def test_speeds_must_be_speeds(text):
    with pytest.raises(PolicyError, match="'skewed_speeds' must be numbers above 0, at most 1"):
        registry.policy(f"themis:skewed_speeds={text}")


def test_estimates_begin_with_what_was_declared():
    policy = registry.policy("themis")
    assert policy.needs == frozenset()
    assert registry.policy("themis:estimate=oracle").needs == {"duration"}
    trace = jobs_of((0, 100, 1), (0, 100, 1))
    assert policy.estimate_source(trace) == "declared"
    some = Trace.of("t", ["a"], submit=[0], duration=[1000], gpus=[GPU])
    assert policy.estimate_source(some) == "history"
    assert registry.policy("srtf").estimate_source(trace) == "history"


def test_says_where_the_exact_auction_is_not():
    shares = Trace.of("t", ["a"], submit=[0], duration=[1000], gpus=[GPU // 2])
    assert "it is greedy" in registry.policy("themis:auction=exact").remarks(shares)[0]
    assert registry.policy("themis").remarks(shares) == []
