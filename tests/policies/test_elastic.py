"""Policies that resize: minimal shares, who is admitted, who gets what is spare, and Qore-DL's cases."""

from __future__ import annotations

import copy
import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from shunter import clusters, registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.model import GPU, Trace
from shunter.sim import Simulator
from shunter.testing.resizing.active import ActiveJobs
from shunter.testing.resizing.adjusting import AdjusterCases, Option, adjusted, exhaustive, genetic
from shunter.testing.resizing.shares import LATER, NOT_ADMITTED, DatedJob, PlainShares, admit_all

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import undated_waits

MINUTE = 60_000


def trace(*rows, **more):
    """Jobs (submit, declared minutes on one GPU, deadline in minutes, most GPUs), in proportion to their GPUs."""
    submit, work, due, most = (np.array(column) for column in zip(*rows, strict=True))
    return Trace.of(
        "t", [f"j{at}" for at in range(len(rows))], submit=submit * MINUTE, duration=work * MINUTE,
        declared=work * MINUTE, gpus=np.full(len(rows), GPU), deadline=due * MINUTE, min_gpus=np.ones(len(rows), int),
        max_gpus=most, **more,
    )  # fmt: skip


def ran(jobs, policy, gpus=4, restart=0.0):
    machines = Cluster("c", (NodeGroup(1, gpus),), overheads=Overheads(restart=((1, restart),)))
    simulator = Simulator(jobs, machines)
    simulator.run(registry.policy(policy))
    return simulator


def met(simulator):
    jobs = simulator.world.jobs
    return (jobs[w.ENDED_AT] - jobs[w.SUBMIT] <= jobs[w.DEADLINE]).tolist()


def shares(due, left, capacity=4, most=4, *, width=0, calm=0, speed=None, cost=0.0, others=False):
    """The share of each job in 20 slots of one unit; speed is in proportion to GPUs if not given."""
    speed = np.arange(most + 1.0) if speed is None else np.array(speed, float)
    plans = PlainShares(np.arange(1.0, 21.0), np.full(20, capacity), np.full(20, calm), others)
    left = [each if isinstance(each, tuple) else (each,) for each in left]
    jobs = [
        DatedJob(job, float(due[job]), left[job], left[job][0], 1, most, width, cost, speed, False, (1, most))
        for job in np.argsort(due).tolist()
    ]
    admit_all(plans, jobs)
    return [plans.share(job) for job in range(len(due))]


def test_the_lowest_level_that_meets_the_deadline_is_the_share():
    assert shares([10], [10]) == [1]
    assert shares([10], [11]) == [2]
    assert shares([10], [41]) == [NOT_ADMITTED]


def test_a_share_has_the_least_gpu_time_and_a_running_job_keeps_its_width():
    slow_alone = [0, 0.5, 1.8, 2.4, 2.8]  # two GPUs do most per GPU
    assert shares([10], [4], speed=slow_alone) == [2]
    assert shares([10], [4], speed=slow_alone, width=1) == [2]
    assert shares([10], [4], width=3, cost=1.0) == [3]  # no width takes less GPU time
    assert shares([10], [40], width=3, cost=0.0) == [4]  # but it must be in time


def test_a_later_job_gets_what_the_earlier_leaves_over_time():
    assert shares([5, 10], [20, 20]) == [4, 0]  # all GPUs first, then all again
    assert shares([5, 10], [20, 21]) == [4, NOT_ADMITTED]
    assert shares([10, 5], [20, 20]) == [0, 4]  # by deadline, not by row


def test_the_job_with_most_work_left_is_put_off_where_not_all_can_be_in_time():
    assert shares([5, 10], [20, 10], capacity=2) == [NOT_ADMITTED, 1]
    assert shares([8, 10, 10], [16, 5, 4], capacity=2) == [NOT_ADMITTED, 1, 1]
    assert shares([8, 10, 10], [16, 2, 2], capacity=2) == [2, 0, 0]


def test_a_job_that_is_late_by_caution_is_planned_with_hope():
    assert shares([10], [(41, 20)]) == [2]
    assert shares([10], [(41, 42)]) == [NOT_ADMITTED]


def test_jobs_without_a_deadline_go_on_while_others_can_be_in_time_beside_them():
    assert shares([10], [20], calm=2) == [2]
    assert shares([10], [10], calm=4) == [1]  # not beside them


def test_a_job_of_one_width_waits_beside_others_while_its_deadline_is_sure():
    assert shares([10], [8], most=1, others=True) == [LATER]  # with a tenth of the time for those served first
    assert shares([10], [8], most=1) == [1]  # there are no others
    assert shares([10], [8], most=2, others=True) == [1]  # it can give way in width
    assert shares([10], [8.5], most=1, others=True) == [1]  # no GPU now is too late
    assert shares([10], [8], most=1, others=True, cost=1.0) == [1]
    assert shares([10, 10], [3, 4], capacity=1, most=1, others=True) == [LATER, LATER]
    assert shares([10, 10], [5, 4], capacity=1, most=1, others=True) == [LATER, 1]  # not both can wait
    assert shares([10, 20], [20, 10], capacity=1, most=1, others=True) == [NOT_ADMITTED, LATER]


def test_elastic_meets_deadlines_that_need_more_gpus_than_were_asked_for():
    jobs = trace((0, 40, 12, 4), (0, 10, 30, 4))
    assert met(ran(jobs, "elastic")) == [True, True]
    assert met(ran(jobs, "edf")) == [False, True]


def test_elastic_lets_a_hopeless_job_not_cost_another_its_deadline():
    jobs = trace((0, 100, 20, 4), (0, 60, 20, 4))
    assert met(ran(jobs, "elastic")) == [False, True]


def test_elastic_serves_jobs_without_a_deadline_with_what_is_left():
    simulator = ran(trace((0, 20, 25, 1), (0, 30, 0, 2)), "elastic")
    assert met(simulator)[0]
    assert simulator.world.jobs[w.STARTED].tolist() == [0, 0]


def of_one_width(*rows):
    """Jobs (submit, minutes, declared minutes, deadline in minutes) on all four GPUs."""
    submit, work, declared, due = (np.array(column) * MINUTE for column in zip(*rows, strict=True))
    names = [f"j{at}" for at in range(len(rows))]
    return Trace.of("t", names, submit=submit, duration=work, declared=declared, deadline=due, gpus=4 * GPU + 0 * work)


def test_elastic_stops_no_job_for_a_deadline_before_it_must():
    simulator = ran(of_one_width((0, 30, 60, 0), (1, 10, 10, 49)), "elastic")  # by what is declared it must at last
    assert simulator.world.jobs[w.PREEMPTIONS].tolist() == [0, 0]
    assert met(simulator)[1]
    simulator = ran(of_one_width((0, 50, 60, 0), (1, 10, 10, 49)), "elastic")
    assert simulator.world.jobs[w.PREEMPTIONS].tolist() == [1, 0]
    assert met(simulator)[1]


def test_elastic_starts_jobs_with_time_for_their_deadline_by_their_work():
    rows = (0, 20, 20, 60), (1, 20, 20, 100), (2, 10, 10, 0)
    assert (ran(of_one_width(*rows), "elastic").world.jobs[w.STARTED] / MINUTE).tolist() == [0, 30, 20]


def test_elastic_stops_jobs_with_time_for_their_deadline_before_others():
    jobs = trace((0, 20, 100, 1), (0, 20, 0, 1), (5, 5, 6, 1))
    jobs = dataclasses.replace(jobs, min_gpus=0 * jobs.gpus, max_gpus=0 * jobs.gpus)
    simulator = ran(jobs, "elastic", gpus=2)
    assert simulator.world.jobs[w.PREEMPTIONS].tolist() == [1, 0, 0]
    assert met(simulator)[0]
    assert met(simulator)[2]


def stream(hours, minutes, due=0):
    """A job on one GPU every half hour, two of them at once at the start; the third job wants all four, by no time."""
    count = 2 * hours
    submit = np.array([0, 0, 1, *range(2, 2 + count)]) * 30 * MINUTE
    work = np.full(count + 3, minutes) * MINUTE
    gpus = np.where(np.arange(count + 3) == 2, 4, 1) * GPU
    deadline = np.where(gpus == GPU, due * 60 * MINUTE, 0)
    names = [f"j{at}" for at in range(count + 3)]
    return Trace.of("t", names, submit=submit, duration=work, declared=work, gpus=gpus, deadline=deadline)


def hours_started(jobs, policy):
    return ran(jobs, policy).world.jobs[w.STARTED] / (60 * MINUTE)


def test_elastic_serves_a_job_first_that_has_waited_for_ten_times_its_work():
    jobs = stream(48, 120, due=100)  # they never leave four GPUs free
    assert hours_started(jobs, "elastic:patience=10000")[2] > 48
    assert 20.5 < hours_started(jobs, "elastic:patience=4")[2] <= 21  # its own work is two hours on all four
    assert 30.5 < hours_started(jobs, "elastic:patience=30")[2] <= 31


def test_elastic_lets_a_short_job_into_the_time_of_a_long_deadline():
    jobs = of_one_width((0, 3000, 3000, 3600), (1, 10, 10, 0))
    for policy, minutes in (("elastic", 20), ("elastic:patience=1", 60), ("elastic:owed=0.1", 100)):
        simulator = ran(jobs, policy)
        assert minutes < simulator.world.jobs[w.STARTED][1] / MINUTE < minutes + 5
        assert simulator.world.jobs[w.PREEMPTIONS].tolist() == [1, 0]
        assert met(simulator)[0]


def test_elastic_serves_the_job_with_the_least_work_first():
    simulator = ran(of_one_width((0, 3000, 3000, 3600), (1, 20, 20, 0), (2, 10, 10, 0)), "elastic")
    assert np.diff(simulator.world.jobs[w.STARTED][1:]) < 0


def test_elastic_serves_a_job_sooner_behind_one_with_several_times_its_work():
    """Where the other one has less, a tenth of the GPU time is too little until it has ended."""
    jobs = of_one_width((0, 600, 600, 2400), (1, 60, 60, 0))
    for overtakes, minutes, stops in ((4, 120, 1), (10, 599, 0)):
        simulator = ran(jobs, f"elastic:overtakes={overtakes}")
        assert minutes < simulator.world.jobs[w.STARTED][1] / MINUTE < minutes + 5
        assert simulator.world.jobs[w.PREEMPTIONS][0] == stops


def test_elastic_serves_a_job_first_no_longer_than_it_should_take():
    dated = [(100 * at, 60, 60, 130) for at in range(60)]
    simulator = ran(of_one_width(dated[0], (1, 3000, 1, 0), *dated[1:]), "elastic")
    assert simulator.world.jobs[w.STARTED][1] / MINUTE < 20
    assert np.mean(met(simulator)) > 0.9  # first again only after ten times the wait


def test_elastic_serves_jobs_first_for_the_share_owed_at_most():
    simulator = ran(of_one_width((0, 600, 600, 690), *[(1, 1, 1, 0)] * 200), "elastic:owed=0.1")
    before = simulator.world.jobs[w.STARTED][1:] < simulator.world.jobs[w.ENDED_AT][0]
    assert 50 < before.sum() < 100
    assert met(simulator)[0]


def test_elastic_serves_no_job_first_that_finds_no_room():
    jobs = of_one_width((0, 600, 600, 0), (1, 10, 10, 0), (2, 30, 30, 60), (3, 10, 10, 0))
    jobs = dataclasses.replace(jobs, gpus=np.array([1, 4, 3, 3]) * GPU, checkpointable=np.array([0, 1, 1, 1], bool))
    simulator = ran(jobs, "elastic")
    assert simulator.world.jobs[w.STARTED][1] / MINUTE >= 600
    assert simulator.world.jobs[w.STARTED][3] / MINUTE < 120
    assert met(simulator)[2]


def test_elastic_gives_gpus_beyond_those_asked_for_back_when_a_job_comes():
    jobs = trace((0, 60, 0, 4), (1, 5, 0, 1))
    assert jobs.submit[1] % (2 * MINUTE) > 0  # between two looks
    assert ran(jobs, "elastic").world.jobs[w.STARTED].tolist() == [0, MINUTE]


def mixed(seed, jobs=400, gpus=16):
    """Jobs of which half have a deadline and a range; the others have one size. As much work as the GPUs can do."""
    draw = np.random.default_rng(seed)
    asked = draw.choice([1, 2, 4, 8], jobs, p=[0.5, 0.2, 0.2, 0.1])
    work = np.round(np.exp(draw.normal(7.5, 1.3, jobs)) * 1000).astype(int) + MINUTE
    submit = np.sort(draw.uniform(0, (asked * work).sum() / gpus, jobs)).astype(int)
    dated = draw.random(jobs) < 0.5
    due = np.where(dated, (work * draw.uniform(1.2, 4, jobs)).astype(int), 0)
    least, most = np.where(dated, 1, 0), np.where(dated, np.minimum(asked * 4, 8), 0)
    return Trace.of(
        "mixed", [f"j{at}" for at in range(jobs)], submit=submit, duration=work, declared=work, gpus=asked * GPU,
        deadline=due, min_gpus=least, max_gpus=most,
    )  # fmt: skip


def test_elastic_does_not_starve_jobs_of_one_size_without_a_deadline():
    jobs = mixed(seed=2)  # 1.36 times without room kept for the oldest
    machines = Cluster("c", (NodeGroup(2, 8),), overheads=Overheads(restart=((1, 25.0),)))
    waits = []
    for policy in ("saf:backfill=easy", "elastic"):
        simulator = Simulator(jobs, machines)
        simulator.run(registry.policy(policy))
        taken = simulator.world.jobs[w.ENDED_AT] - simulator.world.jobs[w.SUBMIT] - jobs.duration
        waits.append(np.percentile(taken[jobs.deadline == 0], 99))
    assert waits[1] <= 1.2 * waits[0]


def test_elastic_does_not_widen_a_job_for_less_than_it_costs():
    jobs = trace((0, 5, 60, 1), (0, 8, 60, 4))
    moves = [int((ran(jobs, f"elastic:rest=0,pays={pays}", 2, 60).events[:, 1] == w.MOVE).sum()) for pays in (0, 1000)]
    assert moves[1] == 0
    assert moves[0] > 0


def test_no_policy_but_an_oracle_is_told_when_training_ends():
    early = trace((0, 40, 30, 4), (0, 30, 50, 4))
    late = dataclasses.replace(early, duration=early.duration + 10 * MINUTE)
    for policy in ("elastic", "optimus", "slaq", "qoredl"):
        first, second = (ran(jobs, policy).events for jobs in (early, late))
        until = first[first[:, 1] == w.FINISH][0, 0]
        assert np.array_equal(first[first[:, 0] < until], second[second[:, 0] < until]), policy
    assert registry.policy("elastic").needs == frozenset()
    assert registry.policy("elastic:remaining=oracle").needs == {"duration"}


# ------------------------------------------------------------------------------------------- Qore-DL


def cases(width, late, usage, free, left=60.0):
    count = len(width)
    ones = np.ones(count, np.int64)
    active = ActiveJobs(
        0, np.arange(count), np.ones(count, bool), np.array(width), ones, 8 * ones, ones, 10**9 * ones,
        np.full(count, left), 0 * ones, np.zeros(count, bool), np.zeros((2, count, 9)), np.ones(count),
    )  # fmt: skip
    none = 0 * ones  # of CPU: only widths can change
    return AdjusterCases(
        active,
        lambda job, width, cpu: float(width),
        np.array(late, float),
        usage,
        free,
        none,
        (none, none),
        lambda job: 0,
    )


def widths(found):
    return {job: option.width for job, option in found.items()}


def test_case_1_late_jobs_grow_while_there_is_room():
    assert widths(adjusted(cases([2, 2], [5, -5], 0.5, 3), exhaustive)) == {0: 5}


def test_case_2_late_jobs_grow_and_early_ones_shrink_when_it_is_full():
    found = widths(adjusted(cases([2, 4], [5, -50], 0.8, 0), exhaustive))
    assert found[1] < 4
    assert found[0] == 2 + (4 - found[1])


def test_case_3_jobs_grow_when_it_is_nearly_empty():
    assert widths(adjusted(cases([2, 2], [-5, -5], 0.3, 1), exhaustive)) == {0: 3}


def test_case_4_jobs_shrink_when_it_is_crowded_but_not_beyond_their_deadline():
    assert widths(adjusted(cases([2, 2], [-100, -1], 0.9, 0), exhaustive)) == {0: 1}


def test_between_the_thresholds_nothing_is_done_if_none_is_late():
    assert adjusted(cases([2, 2], [-5, -5], 0.6, 3), exhaustive) == {}


def test_the_genetic_search_finds_an_option_and_mostly_the_best():
    draw = np.random.default_rng(0).random
    options = [Option(width, 0) for width in range(3, 9)]
    found = [genetic(draw)(options, lambda option: -abs(option.width - 6)) for _ in range(50)]
    assert set(found) <= set(options)
    assert found.count(Option(6, 0)) > 25


@pytest.mark.parametrize("policy", ["optimus", "slaq", "qoredl", "elastic"])
def test_widths_stay_in_their_range(policy):
    simulator = ran(trace((0, 40, 30, 2), (1, 30, 50, 4), (2, 30, 20, 3), (2, 10, 0, 1)), policy)
    events = simulator.events
    moves = events[events[:, 1] == w.MOVE]
    most = simulator.trace.max_gpus
    assert (moves[:, 4] <= most[moves[:, 2]]).all()
    assert simulator.over


def test_optimus_gives_gpus_to_whom_they_save_most_time():
    simulator = ran(trace((0, 100, 0, 4), (0, 10, 0, 4)), "optimus", gpus=3)
    first = simulator.events[simulator.events[:, 1] == w.START][:2]
    assert dict(zip(first[:, 2].tolist(), (first[:, 4] // GPU).tolist(), strict=True)) == {0: 2, 1: 1}


def test_elastic_knows_whom_it_serves_first_when_rows_change():
    """As in an excerpt, or on a live cluster: with what they are charged, and when the next may be chosen."""
    jobs, machines = undated_waits.mixed(undated_waits.synthetic(True, 1.6, 3, 160), 2), clusters.load("8x8")
    subject, served = registry.policy("elastic:patience=0.02"), 0
    for moment in np.linspace(0, jobs.submit[-1], 12)[1:].astype(int):
        simulator = Simulator(jobs, machines)
        memory = simulator.run(subject, until=int(moment))
        part = simulator.excerpt(simulator.coming)
        before, now = memory.form.memory.own, subject.compiled(part.present(), copy.deepcopy(memory)).memory.own
        chosen = now.firsts[: now.firsts_size[0]]
        was = part.rows.taken[chosen]
        still = before.firsts[: before.firsts_size[0]]
        assert was.tolist() == [job for job in still if simulator.world.jobs[w.STATE, job] < w.DONE]
        for name in ("area", "first_until", "first_kind", "charged", "last_run", "former_runs", "stops", "patient_for"):
            assert getattr(now, name)[chosen].tolist() == getattr(before, name)[was].tolist()
        assert (now.next_first.tolist(), now.next_search.tolist()) == (
            before.next_first.tolist(),
            before.next_search.tolist(),
        )
        served += len(chosen)
    assert served > 3


def test_elastic_goes_on_with_other_jobs():
    """What it learned of ended jobs without a user stays; nobody of the other trace is served first, or charged."""
    machines, subject = clusters.load("8x8"), registry.policy("elastic:patience=0.02")
    first, second = (undated_waits.mixed(undated_waits.synthetic(True, 1.6, 3, jobs), 2) for jobs in (160, 90))
    first = dataclasses.replace(first, user=np.where(np.arange(len(first)) % 2, first.user, -1))
    memory = Simulator(first, machines).run(subject)
    assert memory.form.memory.own.next_first.max() > 0
    other = Simulator(second, machines)
    taken_over = subject.compiled(other.present(), subject.start(machines, memory)).memory.own
    assert taken_over.next_first.max() == 0
    assert taken_over.above[0].tolist() == memory.form.memory.own.above[0].tolist()
    assert taken_over.above[0].any()
    assert memory.form.memory.own.above[1:].any()
    assert not taken_over.above[1:].any()  # its users are others
    other.run(subject, memory=subject.start(machines, memory))
    assert other.over


def test_elastic_learns_what_jobs_need_from_those_of_the_same_user():
    """Twenty jobs that need many times what they declare make nobody else's deadline look hopeless."""
    liars = [(0, 2, 0, 0)] * 20
    jobs = of_one_width(*liars, (60, 300, 300, 0), (61, 30, 30, 60))
    said = np.where(np.arange(22) < 20, 1000, jobs.declared)
    gpus = np.where(np.arange(22) < 20, 1, 4) * GPU
    for user, in_time in ((1, True), (0, False)):
        users = np.array([*[0] * 21, user])
        simulator = ran(dataclasses.replace(jobs, declared=said, gpus=gpus, user=users, users=("a", "b")), "elastic")
        assert met(simulator)[-1] == in_time


def test_elastic_charges_a_job_that_can_not_be_stopped_until_it_ends():
    """It declares a minute, is served first, and takes five hours: those after it wait for the share that it took."""
    jobs = of_one_width((0, 3000, 3000, 6000), (1, 300, 1, 0), (2, 2, 2, 0))
    for stoppable, hours in ((True, 2), (False, 10)):
        may = dataclasses.replace(jobs, checkpointable=np.array([True, stoppable, True]))
        simulator = Simulator(may, Cluster("c", (NodeGroup(1, 4),)))
        memory = simulator.run(registry.policy("elastic:owed=0.5"), until=400 * MINUTE)
        own = memory.form.memory.own
        assert hours - 1 < own.next_first.max() / (60 * MINUTE) < hours + 2


def test_elastic_serves_a_job_first_once_at_a_time():
    """It finds no CPUs, and waits for ten times as long as when it was chosen, while it is first still."""
    jobs = of_one_width((0, 900, 900, 0), (0, 900, 900, 2000), (1, 500, 500, 0))
    jobs = dataclasses.replace(
        jobs, gpus=np.array([1, 60, 1]) * GPU, cpus=np.array([8000, 0, 1000]), checkpointable=np.arange(3) > 0
    )
    simulator = Simulator(jobs, Cluster("c", (NodeGroup(1, 64, cpus=8),)))
    memory = simulator.run(registry.policy("elastic:patience=0.02"), until=400 * MINUTE)
    assert simulator.world.jobs[w.STARTED].tolist() == [0, 0, -1]
    assert memory.form.memory.own.firsts_size.tolist() == [1]
