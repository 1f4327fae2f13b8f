"""Ces: who sleeps, who wakes for whom, what waiting for a node costs, and that nobody waits for ever."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shunter
from shunter import registry, simulation
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.energy.series import of_run
from shunter.errors import EnergyError, InvariantError, PolicyError
from shunter.model import GPU, NOTHING, Plan, Start, Trace
from shunter.policies.ces.policy import Ces
from shunter.policies.fifo import Fifo
from shunter.report.energy import sleeps
from shunter.report.explain import find, timeline
from shunter.sim.engine import Simulator
from shunter.testing.invariants import check

SECOND = 1000
EAGER = "forecast=last,step=10,buffer=0,least=1,keep=0,past=1,fell=0"  # idle nodes sleep after a minute


def trace(*rows, vcs=()):
    """Jobs (submit s, duration s, GPUs, vc)."""
    return Trace.of(
        "t", [f"j{i}" for i in range(len(rows))],
        submit=np.array([row[0] * SECOND for row in rows], np.int64),
        duration=np.array([row[1] * SECOND for row in rows], np.int64),
        gpus=np.array([row[2] * GPU for row in rows], np.int64),
        vc=np.array([vcs.index(row[3]) if len(row) > 3 else -1 for row in rows], np.int64), vcs=vcs,
    )  # fmt: skip


def cluster(*groups, wake=30.0):
    return Cluster("c", groups or (NodeGroup(4, 4),), overheads=Overheads(wake=wake))


def ran(jobs, machines, policy=f"ces:{EAGER}", **how):
    simulator = Simulator(jobs, machines, **how)
    simulator.run(registry.policy(policy))
    check(simulator.events, jobs, machines)
    return simulator


def rows(simulator, kind):
    """(time s, node or job) of the rows of a kind."""
    events = simulator.events
    column = 2 if kind in (w.ARRIVE, w.FINISH) else 3
    return [(int(row[0]) / SECOND, int(row[column])) for row in events[events[:, 1] == kind]]


def waits(simulator):
    return [int(ms) / SECOND for ms in simulator.world.jobs[w.WAITED]]


# ------------------------------------------------------------------------------------------- sleeping and waking

LONG = (0, 500, 1)  # keeps a node busy, and the simulation going


def test_idle_nodes_sleep_and_a_job_that_needs_one_waits_until_it_is_awake():
    run = ran(trace(LONG, (200, 50, 4)), cluster())
    assert rows(run, w.SLEEP)[:3] == [(70, 3), (70, 2), (70, 1)]  # the first seven steps only teach
    assert rows(run, w.WAKE) == [(200, 1)]
    assert waits(run) == [0, 30]
    assert rows(run, w.FINISH) == [(280, 1), (500, 0)]


def test_a_job_that_fits_on_an_awake_node_wakes_none():
    run = ran(trace(LONG, (200, 50, 3)), cluster())
    assert rows(run, w.WAKE) == []
    assert waits(run) == [0, 0]


def test_jobs_that_fit_on_one_node_wake_one_and_a_large_one_wakes_as_many_as_it_needs():
    run = ran(trace(LONG, (200, 50, 2), (200, 50, 2), (201, 50, 4)), cluster())
    assert rows(run, w.WAKE) == [(200, 1), (201, 2)]  # three GPUs were free beside the long job, then one
    run = ran(trace((0, 500, 4), (200, 50, 2), (201, 50, 2), (205, 50, 8)), cluster())
    assert rows(run, w.WAKE) == [(200, 1), (205, 2), (205, 3)]
    assert waits(run) == [0, 30, 29, 30]


def test_a_buffer_is_woken_too_and_nothing_sleeps_for_a_while():
    run = ran(
        trace((0, 500, 4), (200, 20, 4)),
        cluster(),
        f"ces:{EAGER},buffer=1,keep=5".replace("buffer=0,", "").replace("keep=0,", ""),
    )
    assert rows(run, w.SLEEP)[:2] == [(70, 3), (70, 2)]  # one stays awake, which the second job takes
    run = ran(trace((0, 500, 4), (200, 90, 8)), cluster(NodeGroup(6, 4)), f"ces:{EAGER},keep=12".replace("keep=0,", ""))
    assert rows(run, w.WAKE) == [(200, 1), (200, 2)]
    later = [time for time, _ in rows(run, w.SLEEP) if time > 200]
    assert min(later) == 330  # 230 to 320 it runs; 200 + 12 steps are over at 320


PEAK = "ces:forecast=peak,step=10,window=9,buffer={}"


def test_without_a_forecast_as_many_are_awake_as_were_in_use_lately():
    """Three nodes are in use for 95 s: nine steps later one is enough, or two with a buffer of one."""
    run = ran(trace((0, 500, 4), (0, 95, 8)), cluster(), PEAK.format(0))
    assert rows(run, w.SLEEP)[:1] == [(70, 3)]  # the first seven steps only teach
    assert [time for time, _ in rows(run, w.SLEEP)[1:3]] == [190, 190]
    run = ran(trace((0, 500, 4), (0, 95, 8)), cluster(), PEAK.format(1))
    assert [time for time, _ in rows(run, w.SLEEP) if time < 400] == [190, 190]


def test_without_a_forecast_those_in_use_lately_are_woken_together():
    """Two of four nodes were in use lately; a job that needs a third wakes the buffer beyond the most of late."""
    run = ran(trace((0, 900, 4), (300, 60, 4)), cluster(), PEAK.format(0))
    assert rows(run, w.WAKE) == [(300, 1)]
    run = ran(trace((0, 900, 4), (300, 60, 4), (400, 60, 8)), cluster(NodeGroup(8, 4)), PEAK.format(1))
    assert len(rows(run, w.WAKE)) == 2
    assert waits(run) == [0, 0, 30]


def test_no_node_sleeps_that_a_waiting_job_may_use():
    """Four nodes; a job of three holds back one of two for which only one is left."""
    run = ran(trace((0, 300, 12), (1, 50, 8)), cluster())
    assert [time for time, _ in rows(run, w.SLEEP) if time < 300] == []
    assert waits(run)[1] == 299


def test_a_job_wakes_nodes_of_its_own_virtual_cluster_only():
    machines = cluster(NodeGroup(3, 4, vc="a"), NodeGroup(3, 4, vc="b"))
    jobs = trace((0, 500, 1, "a"), (0, 500, 1, "b"), (200, 50, 8, "b"), vcs=("a", "b"))
    run = ran(jobs, machines)
    assert rows(run, w.WAKE) == [(200, 4), (200, 5)]
    few = ran(jobs, machines, f"ces:{EAGER},buffer=9".replace("buffer=0,", ""))
    assert rows(few, w.SLEEP) == []
    busy = trace((0, 500, 12, "a"), (0, 500, 1, "b"), (2, 90, 4, "a"), vcs=("a", "b"))
    run = ran(busy, machines)  # somebody waits in a; b may sleep all the same
    assert {node for time, node in rows(run, w.SLEEP) if time < 500} == {4, 5}
    assert rows(run, w.WAKE) == []


def test_the_buffer_of_a_wake_up_is_of_the_same_virtual_cluster():
    machines = cluster(NodeGroup(4, 4, vc="a"), NodeGroup(4, 4, vc="b"))
    full = [(0, 900, 4, "a"), (0, 900, 4, "b"), (250, 600, 4, "a"), (250, 600, 4, "b")]
    run = ran(
        trace(*full, (300, 50, 4, "b"), vcs=("a", "b")), machines, f"ces:{EAGER},buffer=2".replace("buffer=0,", "")
    )
    assert [node for _, node in rows(run, w.SLEEP)][:4] == [7, 3, 6, 2]
    assert rows(run, w.WAKE) == [(300, 6), (300, 7)]  # two more would be the buffer, but one is all that b has


def test_those_sleep_first_where_most_are_idle_and_the_highest():
    machines = cluster(NodeGroup(2, 4, vc="a"), NodeGroup(4, 4, vc="b"))
    jobs = trace((0, 500, 1, "a"), (0, 500, 1, "b"), vcs=("a", "b"))
    run = ran(jobs, machines, f"ces:{EAGER},buffer=2".replace("buffer=0,", ""))
    assert [node for _, node in rows(run, w.SLEEP)] == [5, 4]  # one is left idle in each


def test_nodes_that_wake_at_once_delay_no_job():
    run = ran(trace(LONG, (200, 50, 4)), cluster(wake=0.0))
    assert (rows(run, w.WAKE), waits(run)) == ([(200, 1)], [0, 0])


def test_a_node_that_breaks_while_it_sleeps_is_no_trouble():
    from shunter.sim.scenario import Fault, Scenario

    faults = tuple(Fault(time * SECOND, node, (time + 90) * SECOND) for time, node in ((150, 1), (205, 2)))
    jobs = trace((0, 600, 4), (200, 50, 8), (210, 50, 4))
    run = ran(jobs, cluster(NodeGroup(4, 4)), scenario=Scenario(faults))
    assert sorted(job for _, job in rows(run, w.FINISH)) == [0, 1, 2]


# ------------------------------------------------------------------------------------------- nobody waits for ever


@dataclass(frozen=True)
class Stubborn:
    """Starts a job only while every node is up: nobody could guess what it waits for."""

    needs = frozenset()

    def start(self, cluster, previous=None):
        return None

    def decide(self, view, memory):
        if (view.nodes.state != w.UP).any() or not len(view.pending):
            return NOTHING
        job = int(view.pending[0])
        free = np.concatenate([view.free_gpus(node) for node in range(len(view.nodes.state))])
        return (
            Plan((Start(job, free[: view.jobs.gpus[job]].tolist()),)) if len(free) >= view.jobs.gpus[job] else NOTHING
        )


@dataclass(frozen=True)
class Lazy(Stubborn):
    """Never starts anything."""

    def decide(self, view, memory):
        return NOTHING


def test_after_a_while_a_waiting_job_gets_every_node_that_it_may_use():
    policy = Ces(Stubborn(), "last", 1, 18, 0, 1, 1, 0, 0, 10.0, patience=100.0)
    run = ran(trace(LONG, (200, 20, 1)), cluster(), policy)
    assert rows(run, w.WAKE) == [(300, 1), (300, 2), (300, 3)]
    assert waits(run) == [0, 130]


def test_a_policy_that_never_starts_a_job_is_found_out():
    with pytest.raises(InvariantError, match="left 1 job waiting although nothing more will happen"):
        Simulator(trace((0, 5, 1)), cluster()).run(Ces(Lazy(), "last"))


INNER = ("fifo", "fifo:blocking=skip;placement=spread", "sjf:backfill=easy;estimate=oracle", "las:look_again=20",
         "smallest:blocking=skip;placement=first-fit", "tiresias:lease=30;limits=none")  # fmt: skip


@st.composite
def setups(draw):
    """Little clusters of one or two virtual clusters, and jobs that come in bursts with time to sleep between."""
    parts = draw(st.integers(1, 2))
    groups = [NodeGroup(draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 4])), vc="ab"[i]) for i in range(parts)]
    jobs, now = [], 0
    for _ in range(draw(st.integers(1, 14))):
        now += draw(st.sampled_from([0, 0, 3, 60, 200]))
        at = draw(st.integers(0, parts - 1))
        size = draw(st.integers(1, groups[at].count * groups[at].gpus))
        jobs.append((now, draw(st.integers(1, 150)), size, "ab"[at]))
    machines = cluster(*groups, wake=float(draw(st.sampled_from([0, 5, 45]))))
    rule = f"forecast=last,step={draw(st.sampled_from([4, 10]))},buffer={draw(st.integers(0, 1))},least=1"
    rule += f",keep={draw(st.integers(0, 3))},past=1,fell=0,patience={draw(st.sampled_from([0, 40]))}"
    return trace(*jobs, vcs=("a", "b")[:parts]), machines, f"ces:policy={draw(st.sampled_from(INNER))},{rule}"


@settings(max_examples=60, deadline=None)
@given(setups())
def test_no_job_is_lost_and_none_waits_long_beside_a_sleeping_node(drawn):
    jobs, machines, text = drawn
    policy = registry.policy(text)
    simulator = ran(jobs, machines, policy)  # every rule of the log: nobody lost, nobody on a node that sleeps
    spells, patience = sleeps(simulator.events), (policy.patience + policy.step) * SECOND
    for job, begin, end in waiting(simulator.events):
        mine = np.flatnonzero(machines.node_vc == jobs.vc[job])
        for node, slept, woken in spells[np.isin(spells[:, 0], mine)].tolist():
            assert min(end, woken) - max(begin, slept) <= patience, (job, node)
            assert not begin < slept < end, f"node {node} went to sleep while job {job} waited"


def waiting(events):
    """(job, from, to) of all waits."""
    since = {}
    for time, kind, job, a, _ in events.tolist():
        if kind in (w.ARRIVE, w.PREEMPT) or (kind == w.FAIL and a == 0):
            since[job] = time
        elif kind == w.START and job in since:
            yield job, since.pop(job), time


# ------------------------------------------------------------------------------------------- the forecast


@pytest.fixture(scope="module")
def tides():
    """Nine days: more jobs by day than by night, each an hour long on a node of its own."""
    count = [round(6 - 5 * np.cos(2 * np.pi * hour / 24)) for hour in range(24)]
    return trace(*((3600 * hour, 3600, 4) for hour in range(9 * 24) for _ in range(count[hour % 24])))


def test_the_forecast_is_learned_from_the_demand_seen_so_far(tides, monkeypatch):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr("shunter.energy.forecast.ROUNDS", 40)
    policy = registry.policy("ces:buffer=1,falls=0")
    simulator = Simulator(tides, cluster(NodeGroup(12, 4), wake=300))
    memory = simulator.run(policy, until=6 * 86_400_000)
    assert memory.forecaster is None  # a week is what it takes
    memory = simulator.run(policy, memory=memory)
    assert memory.forecaster is not None
    assert memory.fitted == 1008
    assert sleeps(simulator.events)[:, 1].max() > 8 * 86_400_000
    assert len(memory.used) == 9 * 144  # one step after the other


def test_the_demand_before_a_window_is_known_from_the_beginning(tides):
    from shunter.setup import set_up

    window = set_up(tides, cluster(NodeGroup(12, 4)), since="+8")
    memory = simulation.taught(registry.policy("ces:forecast=last"), window, window.trace)
    assert len(memory.used) == 8 * 144
    assert memory.time[-1] == 8 * 86_400_000 - 600_000
    assert set(memory.used[12 * 6 : 13 * 6]) == {11}  # noon
    assert simulation.taught(registry.policy("ces:forecast=last"), set_up(tides, "12x4"), tides) is None
    late = simulation.run(window, "ces:forecast=last,fell=0").events
    assert late[late[:, 1] == w.SLEEP, 0].min() == 8 * 86_400_000 + 600_000  # at the end of the first step


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("shunter.extras.is_there", lambda module: False)
    simulator = Simulator(trace((0, 5, 1)), cluster())
    with pytest.raises(PolicyError, match=r"needs lightgbm; .*scripts/install ml .*, or set forecast=last"):
        simulator.run(registry.policy("ces"))
    simulator.run(registry.policy("ces:forecast=last"))


# ------------------------------------------------------------------------------------------- text and telling


def test_the_policy_that_schedules_is_named_in_the_text():
    text = "ces:policy=sjf:estimate=oracle;backfill=easy,forecast=last,keep=3"
    policy = registry.policy(text)
    assert registry.text(policy) == text
    assert (policy.policy.estimate, policy.policy.backfill, policy.needs) == ("oracle", "easy", frozenset({"duration"}))
    assert registry.policy("ces") == Ces(Fifo())
    assert registry.text(Ces(Fifo())) == "ces"
    assert registry.text(registry.policy("ces:policy=fifo:placement=count")) == "ces:policy=fifo:placement=count"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ces:policy=fifi", "there is no policy 'fifi'; did you mean 'fifo'"),
        ("ces:policy=fifo:speed=9", "policy 'fifo' has no parameter 'speed'"),
        ("ces:policy=ces", "must not be ces itself"),
        ("ces:buffer=-1", "parameter 'buffer' must be"),
        ("ces:forecast=leak", "must be lightgbm | peak | last, got 'leak'"),
    ],
)
def test_what_is_wrong_in_the_text_is_said(text, said):
    with pytest.raises(PolicyError) as error:
        registry.policy(text)
    assert said in str(error.value)


def test_a_text_in_place_of_an_object_is_refused():
    with pytest.raises(PolicyError, match="'fifo' is the text of a policy; pass the object"):
        Simulator(trace((0, 5, 1)), cluster()).run(Ces())


def test_the_reason_of_a_job_that_waits_for_a_node_says_so():
    jobs = trace((0, 500, 4), (200, 50, 4), (205, 20, 4))
    run = simulation.run(simulation.set_up(jobs, cluster()), f"ces:{EAGER}", decisions=True).kept
    told = {job: [line.text for line in timeline(run, find(run, job)) if line.code] for job in ("j1", "j2")}
    assert told["j1"] == ["waited for sleeping nodes, awake at day 0 00:03:50"]
    assert set(told["j2"]) == {"waited for sleeping nodes, awake at day 0 00:03:55"}
    assert not [line for line in timeline(run, find(run, "j0")) if line.code]


def test_a_run_with_sleep_has_it_in_its_summary_and_others_do_not():
    jobs = trace((0, 500, 4), (200, 50, 4))
    summary = shunter.simulate(jobs, cluster(), f"ces:{EAGER}").summary
    assert (summary["energy"]["delayed_jobs"], summary["energy"]["delay_s"]["mean"]) == (1, 30)
    assert "energy" not in shunter.simulate(jobs, cluster(), "fifo").summary


def test_a_long_time_without_jobs_is_skipped(monkeypatch):
    """Jobs 30,000 years apart: in between, nothing is decided once all nodes sleep that may."""
    monkeypatch.setattr("shunter.policies.ces.policy.SETTLED_S", 3600)
    count, decide = [0], Ces.decide

    def counted(self, view, memory):
        count[0] += 1
        return decide(self, view, memory)

    monkeypatch.setattr(Ces, "decide", counted)
    jobs = trace((0, 50, 4), (10**12, 50, 4), (10**12 + 100, 50, 4))
    simulator = ran(jobs, cluster())
    assert simulator.over
    assert count[0] < 2000
    assert len([node for _, node in rows(simulator, w.SLEEP)]) >= 4


def test_a_short_time_without_jobs_is_not():
    """Nodes fall asleep in it as they did before."""
    jobs = trace((0, 50, 4), (3000, 50, 4))
    asleep = [time for time, _ in rows(ran(jobs, cluster()), w.SLEEP)]
    assert asleep
    assert min(asleep) < 3000


def test_a_demand_over_too_long_a_time_is_refused():
    simulator = ran(trace((0, 50, 4), (10**12, 50, 4)), cluster(), "fifo")
    with pytest.raises(EnergyError, match=r"'t' spans 1,666,666,666 steps of 600 s.*trace slice"):
        of_run("t", simulator.events, 4)
