"""The checker finds each kind of broken rule in a log that was right before somebody changed it."""

import numpy as np
import pytest

from shunter import registry
from shunter import world as w
from shunter.errors import InvariantError
from shunter.testing.cases import CASES
from shunter.testing.invariants import check

CASE = {case.name: case for case in CASES}


def log(name, policy="fifo"):
    simulator = CASE[name].simulator()
    simulator.run(registry.policy(policy))
    return simulator.events.copy()


def broken(name, events, match):
    with pytest.raises(InvariantError, match=match):
        check(events, CASE[name].trace, CASE[name].cluster)


def row(events, kind, nth=0):
    return int(np.flatnonzero(events[:, 1] == kind)[nth])


@pytest.mark.parametrize("policy", ["fifo", "las", "srtf:backfill=easy,estimate=oracle"])
@pytest.mark.parametrize("name", CASE)
def test_a_right_log_passes(name, policy):
    check(log(name, policy), CASE[name].trace, CASE[name].cluster)


def test_a_job_that_is_lost():
    events = log("plain")
    broken("plain", events[:-1], "1 job never ended")
    check(events[:-1], CASE["plain"].trace, CASE["plain"].cluster, over=False)


def test_an_oversubscribed_node():
    events = log("plain")
    events[events[:, 1] == w.START, 3] = 0
    broken("plain", events, "node 0 has 4 GPUs|given node 0 twice")


def test_a_gang_that_is_not_whole():
    events = log("plain")
    size = np.array([(events[:, 2] == job)[events[:, 1] == w.START].sum() for job in events[:, 2]])
    first_of_two = int(np.flatnonzero((events[:, 1] == w.START) & (size == 2))[0])
    broken("plain", np.delete(events, first_of_two + 1, axis=0), "not given all its GPUs at once")


def test_too_many_gpus():
    events = log("plain")
    events[row(events, w.START), 4] += 1000
    broken("plain", events, "were wanted")


@pytest.mark.parametrize("change", [-1, +5])
def test_work_that_is_not_conserved(change):
    events = log("plain")
    last = row(events, w.FINISH, -1)
    events = events[: last + 1]
    events[last, 0] += change
    if change < 0:
        events[:, 0] = np.minimum(events[:, 0], events[last, 0])
    broken("plain", events, "ms are due|ms would do")


def test_a_job_out_of_its_virtual_cluster():
    events = log("virtual clusters")
    first = row(events, w.START)
    events[first, 3] = 4 if events[first, 3] < 2 else 0
    broken("virtual clusters", events, "is of VC")


def test_a_job_on_another_type():
    case, events = CASE["GPU types"], log("GPU types")
    bound = [i for i in np.flatnonzero(events[:, 1] == w.START) if case.trace.gpu_type[events[i, 2]] >= 0]
    events[bound[0], 3] = (events[bound[0], 3] + 2) % 4
    broken("GPU types", events, "wants GPUs of type")


def test_cpu_and_memory():
    case, events = CASE["CPU and memory"], log("CPU and memory")
    greedy = case.trace.select(np.arange(len(case.trace)))
    greedy.cpus[:] *= 4
    with pytest.raises(InvariantError, match="too few CPU cores"):
        check(events, greedy, case.cluster)
    greedy.cpus[:], greedy.mem_gib[:] = 0, greedy.mem_gib * 4
    with pytest.raises(InvariantError, match="too little memory"):
        check(events, greedy, case.cluster)


def test_a_job_that_does_not_wait_for_another():
    case, events = CASE["dependencies"], log("dependencies")
    child = int(np.flatnonzero(case.trace.after >= 0)[0])
    at = int(np.flatnonzero((events[:, 2] == child) & (events[:, 1] == w.ARRIVE))[0])
    parent_end = int(np.flatnonzero((events[:, 2] == case.trace.after[child]) & (events[:, 1] == w.FINISH))[0])
    moved = np.insert(np.delete(events, at, axis=0), parent_end, events[at], axis=0)
    moved[parent_end, 0] = moved[parent_end + 1, 0]
    broken("dependencies", moved, "which it comes after, ended")


def test_a_node_that_is_down():
    events = log("failing nodes")
    thrown_off = row(events, w.PREEMPT)
    broken("failing nodes", np.delete(events, thrown_off, axis=0), "is not up|while running")


@pytest.mark.parametrize("tenants", [1, 2])
def test_more_work_lost_than_was_done(tenants):
    policy = "fifo" if tenants == 1 else "gandiva:packing=true"
    events, case = log("failing nodes", policy), CASE["failing nodes"]
    check(events, case.trace, case.cluster, tenants=tenants)
    events[row(events, w.PREEMPT), 4] += 60_000
    with pytest.raises(InvariantError, match="not what its checkpoints lack"):
        check(events, case.trace, case.cluster, tenants=tenants)


def test_a_failure_too_many():
    events = log("failing jobs")
    failed = row(events, w.FAIL)
    events[failed, 1] = w.FINISH
    broken("failing jobs", events, "an attempt must fail before")


def test_time_goes_forward():
    events = log("plain")
    events[-1, 0] = 0
    broken("plain", events, "time goes back")


def test_the_message_has_the_history_of_the_job():
    events = log("plain")
    events[row(events, w.START), 4] += 1000
    broken("plain", events, r"(?s)row \d+: .*job 'j\d+' .*ARRIVE 0 0.*START")
