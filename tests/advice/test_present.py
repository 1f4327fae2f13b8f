"""What is inferred from a record is what was there, and a replay with it holds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from histories import DAY, jobs, judged, recorded, site_shown
from test_validity import made, pool

from shunter.advice import advising
from shunter.advice.capacity import capacities, learned_until
from shunter.advice.cycle import Cycle, cycle
from shunter.advice.held_jobs import held_until
from shunter.advice.limits import kept_back, user_cap
from shunter.advice.recorded_waits import Capacity
from shunter.advice.verdict import CAUTION, NO, verdict
from shunter.advice.words import inferred
from shunter.cluster import Cluster, NodeGroup
from shunter.sim import Fault, Scenario


@pytest.mark.parametrize("cluster", ["8x8", "4x8", "16x8"])
def test_a_cluster_file_with_half_or_twice_the_gpus_is_put_right(cluster):
    site = site_shown(recorded(jobs(), "8x8"), cluster)
    assert set(site.judged_gpus(site.capacity[0])) == {64}
    found = judged(site)
    assert found["rank_of_waits"] == pytest.approx(1)
    assert found["simulated_wait_s"]["mean"] == pytest.approx(found["recorded_wait_s"]["mean"])
    said = advising.judged(site, found, object())
    if cluster == "8x8":
        assert not site.misstated
        return
    assert site.before["rank_of_waits"] is None or site.before["rank_of_waits"] < 0.9
    assert said.use == CAUTION
    assert f"the given cluster has {site.stated.gpus} GPUs and the record points to 64" in said.why[0]
    assert "A replay on the given cluster gives" in " ".join(inferred(site))


def test_free_gpus_of_a_replay_do_not_point_to_more_gpus_than_stated():
    """The record has all 16 GPUs in use while jobs wait; a replay that keeps four of them free explains no twenty."""
    starts = [600 * (job // 16) for job in range(16 * 144 * 3)]
    trace = made([(0, start, 600, 1) for start in starts])
    simulated = 600_000 * (np.arange(len(trace)) // 12)
    found = capacities(trace, Cluster("c", (NodeGroup(2, 8),)), simulated)[0]
    assert set(found.gpus) == {16}
    more = capacities(trace, Cluster("c", (NodeGroup(1, 14),)), simulated)[0]  # more were in use than the file has
    assert more.gpus[-1] >= 16


def test_half_of_the_nodes_gone_in_the_middle_are_seen_from_the_days_before_alone():
    trace = jobs("jobs=20000,gpus=128,like=philly,load=0.95,seed=3")
    middle = int(trace.submit[0]) + 88 * DAY
    gone = Scenario(tuple(Fault(middle, node, middle + 4000 * DAY, drains=True) for node in range(8, 16)))
    history = recorded(trace, "16x8", gone)
    site = site_shown(history, "16x8")
    capacity = site.capacity[0]
    assert set(capacity.gpus[capacity.since < middle]) == {128}
    assert set(capacity.gpus[capacity.since > middle + 21 * DAY]) == {64}
    found = judged(site)
    means = [about["simulated_wait_s"]["mean"] / found["recorded_wait_s"]["mean"] for about in (found, site.before)]
    assert means[0] > 0.7
    assert means[1] < 0.3
    assert found["rank_of_waits"] > 0.9
    assert site.before["rank_of_waits"] < 0.7
    # what comes later is not known: the same record, cut off, gives the same capacity up to then
    cut = middle + 14 * DAY
    early = site_shown(history.select(history.submit < cut), "16x8").capacity[0]
    same = (early.since >= learned_until(history)) & (early.since < cut - DAY)
    assert (early.gpus[same] == capacity.gpus[: len(early.gpus)][same]).all()


def test_the_gpus_of_each_virtual_cluster_are_found_by_themselves():
    both = Cluster("two", (NodeGroup(8, 8, vc="a"), NodeGroup(4, 8, vc="b")))
    half = jobs("jobs=3000,gpus=64,load=0.9,seed=1", 8)
    other = np.arange(len(half)) % 3 == 0
    trace = dataclasses.replace(half, vc=other.astype(np.int64), vcs=("a", "b"))
    site = site_shown(recorded(trace, both), Cluster("wrong", (NodeGroup(16, 8, vc="a"), NodeGroup(2, 8, vc="b"))))
    assert {one.vc: int(np.median(site.judged_gpus(one))) for one in site.capacity} == {"a": 64, "b": 32}


def test_a_limit_on_users_is_found_and_replayed():
    trace = jobs(most=4)
    history = recorded(trace, "16x8", Scenario(user_cap=8000))
    assert user_cap(history, learned_until(history)) == 8
    site = site_shown(history, "16x8")
    assert site.setup.user_cap == 8000
    assert set(site.judged_gpus(site.capacity[0])) == {128}  # that jobs wait is no sign of fewer GPUs
    assert judged(site)["rank_of_waits"] > 0.99
    assert "the replay lets a user have 8" in " ".join(inferred(site))
    assert kept_back(history, 8).any()
    # without a limit there is none to find, however full it is
    assert user_cap(recorded(trace, "4x8"), learned_until(history)) == 0
    # nor is a record of which nothing can be made believed
    without = dataclasses.replace(site, setup=dataclasses.replace(site.setup, user_cap=0))
    assert verdict(judged(without)).use == NO


def test_a_job_is_held_until_it_was_last_passed_with_room():
    early = [(0, 7200, 60, 2), (1000, 0, 600, 2), (3000, 0, 600, 4)]
    rows = [*early, (5000, 0, 600, 1), (6000, 30, 5000, 8), (6500, 3600, 60, 2)]
    trace = made(rows, limit=[DAY] * 6)
    day = Capacity("", 10, np.array([0]), np.array([10]))
    found = (held_until(trace, pool(10), [day], np.zeros(6, np.bool_)) - trace.submit) // 1000
    # passed by jobs 1 and 2; job 3 asks for less, and beside job 4 there was no room
    assert found.tolist() == [3000, 0, 0, 0, 0, 0]
    assert not (held_until(trace, pool(10), [day], np.ones(6, np.bool_)) - trace.submit).any()
    unlimited = made(rows)  # a shorter job may have passed by backfilling
    assert not (held_until(unlimited, pool(10), [day], np.zeros(6, np.bool_)) - trace.submit).any()


def test_held_jobs_come_into_the_replay_late_and_count_as_not_explained():
    limited = dataclasses.replace(jobs(), limit=np.full(len(jobs()), 30 * DAY))
    history = recorded(limited, "16x8")
    some = np.arange(len(history)) % 10 == 0
    wait = np.where(some, history.recorded_wait + DAY // 2, history.recorded_wait)
    site = site_shown(dataclasses.replace(history, recorded_wait=wait), "16x8")
    held = site.held > 0
    assert held.sum() > 0.8 * some.sum()
    assert np.isin(site.setup.trace.job_id[held], history.job_id[some]).mean() > 0.95
    assert (np.diff(site.setup.trace.submit) >= 0).all()
    assert sorted(site.trace.recorded_wait) == sorted(wait)  # the comparison is with all of the record
    assert "waited for reasons of their own" in " ".join(inferred(site))


def test_a_scheduler_that_starts_jobs_every_three_seconds_is_found_from_the_first_days():
    rng = np.random.default_rng(0)
    submit = np.sort(rng.integers(0, 400_000, 3000))
    wait = 4 + (1 - submit - 4) % 3  # starts are 1, 4, 7 ... and at least 4 s after submission
    trace = made([(at, late, 5, 1) for at, late in zip(submit.tolist(), wait.tolist(), strict=True)])
    found = cycle(trace, 200_000_000)
    assert found == Cycle(3000, 4000)
    later = trace.submit > 200_000_000
    assert (found.waits(trace, np.zeros(3000, np.int64)) == trace.recorded_wait)[later].all()
    assert found.waits(trace, np.full(3000, -1)).max() == -1
    moved = made([(at, 4 + at % 7, 5, 1) for at in submit.tolist()])
    assert cycle(moved, 200_000_000) is None
    assert cycle(trace.select(np.arange(50)), 200_000_000) is None


def test_a_record_without_waits_is_replayed_as_it_is():
    site = site_shown(jobs(), "8x8")
    assert (site.capacity, site.before) == ((), {})
    assert inferred(site) == []
    assert judged(site)["jobs"] == 0
