"""Gittins' index against its definition, and the policy that orders by it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shunter
from shunter import registry
from shunter.cluster import Cluster, NodeGroup
from shunter.model import GPU, Trace
from shunter.policies.gittins import EVERY, TABLE, Gittins, find_indices
from shunter.scheduling.backfill.bounds import BINS, FEWEST, FEWEST_LEFT, GROUPS, bounds_for, note_run_time, ratio_bin
from shunter.scheduling.queue.policy import queue_of
from shunter.sim.engine import Simulator
from shunter.world import Job

ESTIMATE = 600_000  # ms; the fourth group


def table_of(bounds):
    found = np.full(GROUPS * BINS, np.nan)
    find_indices(bounds, found, np.empty((2, BINS + 1)), np.empty(BINS + 1, np.int64))
    return found.reshape(GROUPS, BINS)


def defined(counts, edges, age):
    """The index at the beginning of a bin: over every later bin, jobs that end up to there over the time they take."""
    begins = np.concatenate(([edges[0] / 2], edges[:BINS]))
    best = 0.0
    for last in range(age, BINS):
        ended, spent = 0, 0.0
        for at in range(age, BINS):
            until = min(at, last)
            spent += counts[at] * (begins[until + 1] - begins[age])
            ended += counts[at] * (at <= last)
        best = max(best, ended / spent) if spent else best
    return best


@given(st.lists(st.floats(0.01, 100), min_size=FEWEST, max_size=60))
@settings(max_examples=25)
def test_the_index_is_the_steepest_way_to_an_end(ratios):
    bounds = bounds_for(0.9)
    for ratio in ratios:
        note_run_time(bounds, ESTIMATE, ratio * ESTIMATE)
    (counts,) = {tuple(row) for row in bounds.counts if row.any()}
    row = table_of(bounds)[3]
    for age in range(0, BINS, 17):
        known = sum(counts[age:]) >= FEWEST_LEFT
        assert row[age] == pytest.approx(defined(counts, bounds.edge, age) if known else 0, rel=1e-9)


def test_groups_of_which_too_little_is_known_go_by_all_jobs():
    bounds = bounds_for(0.9)
    assert not table_of(bounds).any()
    for _ in range(FEWEST):
        note_run_time(bounds, ESTIMATE, ESTIMATE)
    found = table_of(bounds)
    assert (found == found[3]).all()
    assert found[0, 0] == pytest.approx(1 / bounds.edge[ratio_bin(1.0)], rel=0.01)  # all end at their estimates


def key(bounds=None, **known):
    params = Gittins().key_params()
    if bounds is not None:
        params[TABLE:] = table_of(bounds).ravel()
    return Gittins.key(Job(**(dict.fromkeys(Job._fields, 0.0) | {"checkpointable": 1.0} | known)), params)


def test_without_ended_jobs_it_is_the_remaining_area_or_as_much_again():
    assert key(gpus=4.0, estimate=100.0) == 400
    assert key(gpus=4.0, estimate=100.0, work=30.0) == 280
    assert key(gpus=4.0, estimate=100.0, work=70.0) == 280
    assert key(gpus=4.0, estimate=100.0, work=500.0) == 2000


def test_a_job_that_outlived_the_short_ones_goes_back_in_the_order():
    """Half of the jobs end at a tenth of their estimate, half at ten times: at first it pays to try."""
    bounds = bounds_for(0.9)
    for at in range(40):
        note_run_time(bounds, ESTIMATE, ESTIMATE * (0.1 if at % 2 else 10))
    new, old = key(bounds, gpus=1.0, estimate=600.0), key(bounds, gpus=1.0, estimate=600.0, work=120.0)
    assert new == pytest.approx(120, rel=0.1)  # half of them end within 60 s
    assert old == pytest.approx(6000 - 120, rel=0.1)


def test_the_key_of_a_job_that_can_not_be_stopped_is_its_area():
    bounds = bounds_for(0.9)
    for at in range(40):
        note_run_time(bounds, ESTIMATE, ESTIMATE * (0.1 if at % 2 else 10))
    assert key(bounds, gpus=2.0, estimate=600.0, checkpointable=0.0) == 1200
    assert key(bounds, gpus=2.0, estimate=600.0) < 300


def jobs(count=400, seed=0):
    rng = np.random.default_rng(seed)
    return Trace.of(
        "t",
        [str(at) for at in range(count)],
        submit=np.sort(rng.integers(0, 4_000_000, count)),
        duration=np.exp(rng.normal(12, 1.5, count)).astype(np.int64) + 1,
        gpus=rng.choice([1, 2, 4, 8], count) * GPU,
        user=rng.integers(0, 5, count),
        users=tuple("abcde"),
    )


@pytest.mark.parametrize(
    "text", ["gittins", "gittins:backfill=none", "gittins:backfill=none,estimate=rolling,blocking=skip"]
)
def test_the_compiled_run_is_the_plain_one(text):
    digests = set()
    for compiled in (True, False):
        simulator = Simulator(jobs(), Cluster("c", (NodeGroup(4, 8),)))
        simulator.run(registry.policy(text), compiled=compiled)
        digests.add(simulator.digest)
    assert len(digests) == 1


def test_the_table_is_made_again_every_hour_while_jobs_end():
    trace = jobs()
    simulator, policy = Simulator(trace, Cluster("c", (NodeGroup(4, 8),))), registry.policy("gittins")
    hour_later = int(trace.submit[0]) + EVERY
    memory = simulator.run(policy, until=hour_later - 1)
    assert not queue_of(memory.form).params[TABLE:].any()  # it was made when nothing had ended
    memory = simulator.run(policy, memory=memory, until=hour_later + 100_000)
    assert queue_of(memory.form).params[TABLE:].any()
    assert queue_of(memory.form).params[0] == hour_later


def test_it_beats_orders_by_the_same_estimates():
    """Users whose jobs end at once or run for long: the estimate alone does not say which."""
    trace = "synthetic:jobs=3000,gpus=64,load=1.1,seed=1"
    waits = {
        text: shunter.simulate(trace, "8x8", text).summary["wait_s"]["mean"] for text in ("gittins", "saf", "srtf")
    }
    assert waits["gittins"] < min(waits["saf"], waits["srtf"]) / 2
