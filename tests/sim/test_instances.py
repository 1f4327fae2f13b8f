"""The instances of a job: CPU and memory change within ranges, some of them serve, and nothing is oversubscribed."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import RandomActions, cluster, column, ends, jobs, play, story

import shunter
from shunter import world as w
from shunter.cluster import NodeGroup
from shunter.errors import TraceError
from shunter.instances import CPU_POWER, SERVED, training_by_width
from shunter.model import GPU, Migrate, Preempt, Resize, Start
from shunter.scaling.curves import Scaling, ScalingCurve
from shunter.sim import Scenario, Simulator
from shunter.testing import invariants
from shunter.testing.widths import ElasticStay, replayed

GIB = 1024
CPU_OUTSIDE = "the CPU of an instance is outside of the job's range (min_cpus, max_cpus)"
MEM_OUTSIDE = "the memory of an instance is outside of the job's range (min_mem_gib, max_mem_gib)"
SERVERS = "wrong number of parameter servers: one at least and a worker, none for a job without them"
VERTICAL = {"cpus": 8000, "min_cpus": 2000, "max_cpus": 8000, "mem_gib": 8 * GIB, "max_mem_gib": 6 * GIB}  # of two GPUs
HOST = NodeGroup(1, 4, cpus=16, mem_gib=32)
SPEED = 2**CPU_POWER  # of twice the CPU


def test_twice_the_cpu_is_as_fast_as_was_measured_and_takes_its_room():
    plans = {0: [[Start(0, [0, 1], cpu=8000)]], 10: [[]]}
    run = play(jobs((0, 1000, 2, VERTICAL)), cluster(HOST), plans, look=lambda view: int(view.nodes.cpu_free[0]))
    assert ends(run) == [int(np.ceil(1000 / SPEED))]
    assert run.seen[:3] == [16_000, 0, 0]
    assert story(run, 0)[1:3] == [(0, "EQUIP"), (0, "START")]
    assert run.world.nodes[w.CPU_FREE].tolist() == [16_000]
    invariants.check(run.events, run.trace, run.cluster)


def test_a_vertical_resize_costs_what_any_resize_costs():
    plans = {0: [[Start(0, [0, 1])]], 300: [[Resize(0, [0, 1], cpu=8000, mem=5 * GIB)]], 400: [[]]}
    run = play(
        jobs((0, 1000, 2, VERTICAL)), cluster(HOST, checkpoint=0.01, restart=0.015), plans,
        look=lambda view: (int(view.jobs.cpu_now[0]), int(view.nodes.mem_free[0]) // GIB),
    )  # fmt: skip
    assert ends(run) == [300 + 25 + int(np.ceil(700 / SPEED))]
    assert column(run, w.LOST) == [25 * 2]
    assert (8000, 22) in run.seen


def test_a_resize_keeps_what_instances_have_and_a_new_start_has_what_is_asked_for():
    plans = {
        0: [[Start(0, [0, 1], cpu=2000)]],
        100: [[Resize(0, [2, 3])]],
        200: [[Preempt(0)]],
        300: [[Start(0, [0, 1])]],
    }
    seen = play(
        jobs((0, 1000, 2, VERTICAL)), cluster(HOST), plans, look=lambda view: (view.now, int(view.jobs.cpu_now[0]))
    )
    assert dict(seen.seen) | {0: 2000, 100: 2000, 200: 4000, 300: 4000} == dict(seen.seen)
    slow = 200 / SPEED
    assert ends(seen) == [300 + int(np.ceil(1000 - slow))]


def test_what_is_outside_of_a_range_or_of_the_host_is_refused_by_name():
    trace = jobs((0, 1000, 2, VERTICAL), (0, 1000, 2, {"cpus": 2000}))
    plans = {
        0: [[Start(0, [0, 1], cpu=1999)]],
        1: [[Start(0, [0, 1], cpu=8001)]],
        2: [[Start(0, [0, 1], mem=7 * GIB)]],
        3: [[Start(0, [0, 1], mem=3 * GIB)]],  # no least is given: not below what it asks for
        4: [[Start(1, [0, 1], cpu=2000)]],  # no range at all
        5: [[Start(0, [0, 1], cpu=0)]],
        6: [[Start(0, [0, 1], servers=1)]],
        7: [[Start(1, [2, 3])]],
        8: [[Start(0, [0, 1], cpu=8000)]],  # 16 cores, and 14 are left
        9: [[Start(0, [0, 1], cpu=7000)]],
    }
    run = play(trace, cluster(HOST), plans)
    cpu = CPU_OUTSIDE
    assert run.refused == [
        (0, cpu), (1, cpu), (2, MEM_OUTSIDE), (3, MEM_OUTSIDE), (4, cpu), (5, cpu), (6, SERVERS),
        (8, "too few CPU cores are free on a node"),
    ]  # fmt: skip
    assert ends(run)[0] == 9 + int(np.ceil(1000 / 1.75**CPU_POWER))


def test_a_plan_is_tried_with_what_its_own_actions_gave():
    trace = jobs((0, 1000, 2, VERTICAL), (0, 1000, 2, VERTICAL))
    fine = [Start(0, [0, 1], cpu=8000), Resize(0, [0, 1], cpu=4000), Start(1, [2, 3])]
    run = play(trace, cluster(HOST), {0: [fine]})
    assert run.refused == []
    full = [Start(0, [0, 1], cpu=6000), Resize(0, [2, 3]), Start(1, [0, 1])]
    assert play(trace, cluster(HOST), {0: [full], 1: [fine]}).refused == [(0, "too few CPU cores are free on a node")]
    moved = [Start(0, [0, 1], cpu=8000), Migrate(0, [2, 3]), Preempt(0), Start(1, [0, 1], cpu=8000)]
    assert play(trace, cluster(HOST), {0: [moved], 1500: [[Start(0, [0, 1])]]}).refused == []


# ------------------------------------------------------------------------------------------------------------- roles

PARAMETER = {"min_gpus": 2, "max_gpus": 10, "servers": 1}


def test_servers_do_no_work_and_each_serves_four_workers():
    for gpus, servers, workers in (
        (3, None, 2),
        (5, None, 4),
        (6, None, 4),
        (7, None, 5),
        (6, 1, 4),
        (6, 3, 3),
        (8, 1, 4),
    ):
        given_ = {0: [[Start(0, range(gpus), servers=servers)]]}
        run = play(jobs((0, 1200, 3, PARAMETER)), cluster(10), given_)
        assert ends(run) == [1200 * 2 // workers], (gpus, servers)
    assert training_by_width(3, 1, 10).tolist() == [0, 0, 1, 2, 3, 4, 4, 5, 6, 7, 8]
    assert SERVED == 4


def test_the_log_says_which_roles_are_not_as_usual():
    plans = {0: [[Start(0, range(6), servers=3)]], 600: [[Resize(0, range(5))]]}
    run = play(jobs((0, 1200, 3, PARAMETER)), cluster(10), plans)
    assert [(t, a, b) for t, kind, _, a, b in run.events.tolist() if kind == w.ROLES] == [(0, 3, 3)]
    assert ends(run) == [600 + 300 // 2]


def test_servers_must_leave_a_worker():
    plans = {0: [[Start(0, [0, 1], servers=2)]], 1: [[Start(0, [0, 1, 2], servers=0)]], 2: [[Start(0, [0, 1, 2])]]}
    run = play(jobs((0, 1200, 3, PARAMETER)), cluster(10), plans)
    assert run.refused == [(0, SERVERS), (1, SERVERS)]


def test_a_view_shows_speeds_with_servers_and_by_cpu():
    curve = ScalingCurve("m", ((2, 0.9), (4, 0.75)))
    about = PARAMETER | {"model": "m", "cpus": 3000, "max_cpus": 2000}
    simulator = Simulator(jobs((0, 900, 3, about)), cluster(10), scenario=Scenario(scaling=Scaling((curve,))))
    view = simulator.present()
    assert view.speeds(0)[0, :6].tolist() == pytest.approx([0, 0, 1 / 1.8, 1, 3 * 0.8122556 / 1.8, 3 / 1.8])
    assert view.cpu_speed(0, 2000) == pytest.approx(SPEED)
    assert (view.jobs.servers[0], view.jobs.max_cpu[0], view.jobs.min_cpu[0]) == (1, 2000, 1000)
    plain = Simulator(jobs((0, 900, 3)), cluster(10)).present()
    assert plain.cpu_speed(0, 2000) == 1.0
    assert plain.jobs.servers.tolist() == [0]


# -------------------------------------------------------------------------------------------------------- what is read


@pytest.mark.parametrize("huge", [2**63, -(2**63) - 1, 10**30])
def test_numbers_that_64_bits_cannot_hold_are_refused_by_name(huge):
    trace = jobs((0, 1000, 2, VERTICAL))
    plans = {
        0: [[Start(0, [0, 1], cpu=huge)]],
        1: [[Start(0, [0, 1], mem=huge)]],
        2: [[Start(0, [0, 1], servers=huge)]],
        3: [[Start(0, [0, huge])]],
        4: [[Start(huge, [0, 1])]],
        5: [[Start(0, [0, 1])]],
        6: [[Resize(0, [0, 1], cpu=huge)]],
        7: [[Resize(0, [huge, 0, 1])]],
    }
    no_gpu, no_job = "there is no such GPU", "there is no such job"
    assert play(trace, cluster(HOST), plans).refused == [
        (0, CPU_OUTSIDE), (1, MEM_OUTSIDE), (2, SERVERS), (3, no_gpu), (4, no_job), (6, CPU_OUTSIDE), (7, no_gpu),
    ]  # fmt: skip
    run = play(trace, cluster(HOST), {0: [[Start(0, [0, 1], until=2**63)]]})
    assert (run.refused, ends(run)) == ([], [1000])


def test_wrong_ranges_are_refused_with_job_or_line(tmp_path):
    for wrong, must in (
        ({"cpus": 4000, "min_cpus": 3000}, "min_cpus and max_cpus must be a range"),
        ({"max_cpus": 3000}, "min_cpus and max_cpus must be a range"),
        ({"mem_gib": 4096, "max_mem_gib": 1024}, "min_mem_gib and max_mem_gib must be a range"),
        ({"servers": 2}, "servers must leave a worker"),
        ({"servers": 1, "min_gpus": 1}, "servers must leave a worker"),
    ):
        with pytest.raises(TraceError, match=f"job 'j0': {must}"):
            Simulator(jobs((0, 900, 2, wrong)), cluster(4))
    for columns, row, message in (
        ("cpus,min_cpus", "4,3", r"line 2: min_cpus and max_cpus must be a range.*got 3 \.\. 0 for 2 cores; correct"),
        ("mem_gib,max_mem_gib", "4,1", r"line 2: min_mem_gib.*got 0 \.\. 1 for 2 GiB; correct"),
        ("servers", "2", r"line 2: servers must leave a worker.*got 2 of 2, min_gpus 0; correct"),
        ("max_cpus", "-1", "line 2: max_cpus must be 0, or a number from 0.001"),
        ("max_cpus", "1e-9", "line 2: max_cpus must be 0, or a number from 0.001.*got '1e-9'; correct"),
        ("servers", "1.5", "line 2: servers must be a whole number"),
    ):
        (tmp_path / "bad.csv").write_text(f"job_id,submit,duration,gpus,{columns}\na,0,10,2,{row}\n")
        with pytest.raises(TraceError, match=message):
            shunter.read_trace(tmp_path / "bad.csv")


def test_a_trace_keeps_them_in_both_formats_and_others_keep_their_digest(tmp_path):
    trace = jobs((0, 1000, 3, VERTICAL | PARAMETER | {"cpus": 12_000, "mem_gib": 12 * GIB}))
    for name in ("t.csv", "t.parquet"):
        shunter.write_trace(trace, tmp_path / name)
        assert shunter.read_trace(tmp_path / name).digest == trace.digest
    assert Simulator(jobs((0, 1000, 3)), cluster(4)).world.instances.shape[1] == 0


def test_an_excerpt_goes_on_with_what_instances_have():
    run = play(jobs((0, 1000, 2, VERTICAL)), cluster(HOST), {0: [[Start(0, [0, 1], cpu=8000)]]}, until=100)
    part = run.excerpt(np.array([0]), np.array([200]))
    assert part.world.instances[w.CPU_NOW].tolist() == [8000, 4000]
    fork = run.fork()
    fork.run(shunter.policy("fifo"))
    part.run(shunter.policy("fifo"))
    assert ends(fork)[0] == ends(part)[0] == int(np.ceil(1000 / SPEED))
    assert copy.deepcopy(fork.world.nodes[w.CPU_FREE]).tolist() == [16_000]


# ------------------------------------------------------------------------------------------- against the reference


class RandomInstances(RandomActions):
    """Starts and resizes jobs with any width, CPU, memory and servers that there is room for."""

    def actions(self, view, draws, free):
        actions = []
        room = np.array([view.nodes.cpu_free, view.nodes.mem_free])
        for job in [*view.running.tolist(), *view.pending.tolist()]:
            mine = list(view.placement(job))
            pool = sorted(mine + free)
            least, most = view.jobs.min_gpus[job] or view.jobs.gpus[job], view.jobs.max_gpus[job] or view.jobs.gpus[job]
            if len(pool) < least or (mine and draws.random() < 0.5):
                continue
            width = int(draws.integers(least, min(most, len(pool)) + 1))
            chosen, more = sorted(draws.permutation(pool)[:width].tolist()), self._drawn(view, job, width, draws)
            if not mine and not len(view.running) and not actions:
                chosen, more = pool[: int(view.jobs.gpus[job])], {}  # so that it gets on
            had = np.array([view.jobs.cpu_now[job], view.jobs.mem_now[job]])
            each = np.array([more.get("cpu", had[0]), more.get("mem", had[1])])
            after = room + self._on(view, mine, had) - self._on(view, chosen, each)
            if (after >= 0).all():
                actions.append(Resize(job, chosen, **more) if mine else Start(job, chosen, **more))
                free, room = [gpu for gpu in pool if gpu not in chosen], after
        return actions

    @staticmethod
    def _on(view, gpus, each):
        return each[:, None] * np.bincount(view.gpus.node[list(gpus)], minlength=len(view.nodes.free))

    @staticmethod
    def _drawn(view, job, width, draws):
        jobs, found = view.jobs, {}
        for name, low, high in (("cpu", jobs.min_cpu, jobs.max_cpu), ("mem", jobs.min_mem, jobs.max_mem)):
            if high[job] and draws.random() < 0.7:
                found[name] = int(draws.integers(low[job], high[job] + 1))
        if jobs.servers[job] and draws.random() < 0.5:
            found["servers"] = int(draws.integers(1, width))
        return found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2000), st.integers(1, 3000), st.integers(2, 3), st.integers(0, 2), st.integers(0, 3)),
        min_size=1, max_size=6,
    ),
    st.integers(0, 2**16),
    st.sampled_from([0.0, 0.03]),
)  # fmt: skip
def test_a_slow_replay_conserves_work_and_finds_nothing_oversubscribed(rows, seed, cost):
    rows.sort(key=lambda row: row[0])
    about = []
    for _, _, gpus, more, kind in rows:
        each = {"cpus": 2000 * gpus, "mem_gib": 2 * GIB * gpus}
        vertical = {"min_cpus": 500, "max_cpus": 5000, "min_mem_gib": GIB, "max_mem_gib": 6 * GIB} if kind & 1 else {}
        servers = {"servers": 1, "min_gpus": 2, "max_gpus": gpus + more} if kind & 2 else {}
        about.append(each | vertical | servers)
    trace = jobs(*((submit, work, gpus, more) for (submit, work, gpus, _, _), more in zip(rows, about, strict=True)))
    host = NodeGroup(1, 4, cpus=10, mem_gib=12)
    machines = cluster(host, host, restart=cost)
    run = Simulator(trace, machines)
    run.run(RandomInstances(seed))

    def rate(job: int, stay: ElasticStay) -> float:
        asked, usual = int(trace.gpus[job]) // GPU, int(trace.servers[job])
        speed = (stay.cpu / 2000) ** CPU_POWER
        if usual:
            serving = stay.servers or (usual if stay.gpus == asked else -(-stay.gpus // 5))
            speed *= min(stay.gpus - serving, 4 * serving) / min(asked - usual, 4 * usual)
        return speed

    assert replayed(run.events, trace, machines, rate) == ends(run)
    assert run.world.nodes[w.CPU_FREE].tolist() == [10_000, 10_000]
    assert run.world.nodes[w.MEM_FREE].tolist() == [12 * GIB, 12 * GIB]
