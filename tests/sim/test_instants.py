"""The order of events, timers, and policies that go wrong."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import Refusals, Script, cluster, column, ends, jobs, play, story

from shunter import world as w
from shunter.drive import PATIENCE
from shunter.errors import PolicyError
from shunter.model import NOTHING, Plan, Preempt, Start, Timer
from shunter.sim import Fault, Scenario, Simulator
from shunter.sim.state import TIMERS


def test_kinds_at_one_instant_finish_failure_repair_arrival_timer():
    trace = jobs((0, 500), (0, 900, 1, {"failures": 1, "fail_after": 500}), (500, 10), (0, 100, 1, {"after": 0}))
    scenario = Scenario((Fault(100, 1, 500), Fault(500, 2, 600)))
    run = play(trace, cluster(2, 1, 1), {500: []}, greedy=True, scenario=scenario)
    assert [row for row in story(run) if row[0] == 500][:6] == [
        (500, "FINISH", 0),
        (500, "ARRIVE", 2),  # the child of job 0 (job 3 in the list above), with its end
        (500, "FAIL", 1),
        (500, "NODE_DOWN", -1),
        (500, "NODE_UP", -1),
        (500, "ARRIVE", 3),
    ]


def test_one_decision_sees_all_that_happened_at_its_instant():
    looks = lambda view: (view.now, view.ended.tolist(), view.arrived.tolist())  # noqa: E731
    run = play(jobs((0, 500), (0, 500), (500, 10), (500, 10)), cluster(2), greedy=True, look=looks)
    assert [row for row in run.seen if row[0] == 500] == [(500, [0, 1], [2, 3]), (500, [], []), (500, [], [])]


def test_a_policy_is_asked_again_until_its_plan_is_empty():
    run = play(jobs((0, 10), (0, 10), (0, 10)), cluster(3), greedy=True, look=lambda view: view.now)
    assert run.seen == [0, 0, 0, 0, 10]


class Ticking:
    """Sets a timer at every decision, and starts jobs at the third one only."""

    needs = frozenset()

    def __init__(self):
        self.asked = []

    def start(self, cluster, previous=None):
        return None

    def decide(self, view, memory):
        self.asked.append(view.now)
        actions = [Timer(view.now + 100)] if len(self.asked) <= 4 else []
        if len(self.asked) == 3:
            actions.append(Start(0, [0]))
        return Plan(actions)


def test_a_plan_of_timers_alone_is_not_asked_about_again_at_its_instant():
    policy, simulator = Ticking(), Simulator(jobs((0, 1000)), cluster(1))
    simulator.run(policy)
    assert policy.asked == [0, 100, 200, 200, 300, 1200]
    assert ends(simulator) == [1200]


def test_timers_for_one_time_ring_once_however_often_they_are_set():
    plans = {0: [[Timer(50)] * 200 + [Start(0, [0])]]}
    run = play(jobs((0, 100)), cluster(1), plans, look=lambda view: view.now)
    assert run.refused == []
    assert run.seen == [0, 0, 50, 100]


def test_no_timer_is_lost_in_silence():
    times = list(range(1, TIMERS + 1))
    fine = [Start(0, [0]), *(Timer(time) for time in (*times, *times))]
    run = play(jobs((0, 1000)), cluster(1), {0: [fine]}, look=lambda view: view.now)
    assert run.seen == [0, 0, *times, 1000]
    many = [Timer(time) for time in range(1, TIMERS + 2)]
    run = play(jobs((0, 1000)), cluster(1), {0: [many], 5: []}, greedy=True)
    assert run.refused == [(0, f"more than {TIMERS} timers")]  # one too many, and so nothing of it was done


def test_timers_are_free_again_when_they_have_rung():
    plans = {time: [[Timer(t) for t in range(time + 1, time + TIMERS)]] for time in (0, 1000, 2000)}
    run = play(jobs((0, 3000)), cluster(1), {0: [[Start(0, [0])], *plans[0]], 1000: plans[1000], 2000: plans[2000]})
    assert [time for time, _ in run.refused] == [0] * (TIMERS > 62)  # two more are set already at 0


def test_a_timer_in_the_past_is_refused():
    run = play(jobs((100, 10)), cluster(1), {100: [[Timer(100)]], 110: [[Timer(50)]], 120: []}, greedy=True)
    assert run.refused == [(100, "the time is not in the future"), (110, "the time is not in the future")]


def test_a_policy_that_never_starts_anything_is_reported_with_the_history_of_a_job():
    class Idle(Script):
        def decide(self, view, memory):
            return NOTHING

    with pytest.raises(PolicyError) as error:
        Simulator(jobs((7, 1000, 2), (8, 1)), cluster(2)).run(Idle())
    assert "left 2 jobs waiting" in str(error.value)
    assert "job 'j0': 2 GPUs, submitted at 7 ms, state pending\n  7 ms ARRIVE" in str(error.value)


def test_a_preempted_job_that_is_never_started_again_has_its_history_reported():
    with pytest.raises(PolicyError, match=r"0 ms START 0 1000\n  300 ms PREEMPT 0 0"):
        play(jobs((0, 1000)), cluster(1), {0: [[Start(0, [0])]], 300: [[Preempt(0)]]})


def test_a_policy_whose_plans_are_always_refused_is_stopped():
    class Stubborn(Script):
        def decide(self, view, memory):
            return Plan([Start(0, [9])])

    watcher = Refusals()
    with pytest.raises(
        PolicyError, match=f"policy Stubborn: {PATIENCE} plans refused in a row, the last at 99 ms: .* no such GPU"
    ):
        Simulator(jobs(*((i, 1) for i in range(300))), cluster(1)).run(Stubborn(), observers=[watcher])
    assert len(watcher.list) == PATIENCE


def test_what_the_simulator_can_not_know_is_refused_before_anything_happens():
    simulator = Simulator(jobs((0, 1)), cluster(1))
    with pytest.raises(PolicyError, match="does not know loss"):
        simulator.run(Script(needs=frozenset({"loss", "duration"})))
    assert len(simulator.events) == 0


def test_only_an_oracle_sees_the_truth():
    for needs, truth in ((frozenset(), None), (frozenset({"duration"}), [70.0])):
        policy = Script(greedy=True, needs=needs, look=lambda view: view.truth)
        Simulator(jobs((0, 70)), cluster(1)).run(policy)
        assert policy.seen[0] == truth


def test_nothing_that_a_view_shows_can_be_written_to():
    simulator = Simulator(jobs((0, 70)), cluster(1))
    simulator.prepare(frozenset({"duration"}))
    view, world = next(iter(simulator)), simulator.world
    before = world.copy()
    shown = {name: getattr(view.world, name) for name in world.fields} | {"truth": view.truth}
    shown |= vars(view.jobs) | vars(view.nodes) | vars(view.gpus)
    assert {"clock", "jobs", "declared", "free", "tenants", "truth"} <= shown.keys()
    for array in shown.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 5
    for name in world.fields:
        with pytest.raises(AttributeError, match="can't be set"):
            setattr(view.world, name, getattr(before, name))
    with pytest.raises(TypeError):
        view.names["user"] = ()
    for name in world.fields:
        np.testing.assert_array_equal(getattr(world, name), getattr(before, name))


def test_a_view_shows_what_the_engine_changes():
    simulator = Simulator(jobs((0, 70)), cluster(1))
    view = simulator.present()
    simulator.world.clock[w.NOW] = 7
    assert view.now == 7


def test_simulators_do_not_share_anything_that_changes():
    trace, machines = jobs((0, 100), (0, 100), (50, 10)), cluster(1, 1)
    first = play(trace, machines, greedy=True)
    again = play(trace, machines, greedy=True)
    assert first.digest == again.digest
    assert column(first, w.ENDED_AT) == column(again, w.ENDED_AT)
    assert machines.node_gpus.tolist() == [1, 1]
    assert trace.submit.tolist() == [0, 0, 50]
