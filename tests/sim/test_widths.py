"""Jobs that give a range of GPUs: widths that are refused, speeds by width and placement, what a change costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import RandomActions, cluster, column, ends, jobs, play, story

import shunter
from shunter import world as w
from shunter.cluster import NodeGroup
from shunter.errors import TraceError
from shunter.model import GPU, Migrate, Resize, Start, Trace
from shunter.network.placing import Costs, TierNetwork
from shunter.scaling.curves import Scaling, ScalingCurve
from shunter.sim import Scenario, Simulator
from shunter.testing.widths import ElasticStay, replayed

OUTSIDE = "the number of GPUs is outside of the job's range (min_gpus, max_gpus)"
CURVE = ScalingCurve("m", ((2, 0.9), (4, 0.75)), ((2, 0.5), (4, 0.4)))
KNOWN = Scenario(scaling=Scaling((CURVE,)))
RANGE = {"min_gpus": 1, "max_gpus": 4, "model": "m"}


def test_a_start_may_have_any_width_in_the_range():
    run = play(jobs((0, 900, 2, RANGE)), cluster(4), {0: [[Start(0, [0, 1, 2, 3])]]}, scenario=KNOWN)
    assert ends(run) == [540]  # four GPUs are 3.0 times one, two are 1.8 times
    run = play(jobs((0, 900, 2, RANGE)), cluster(4), {0: [[Start(0, [3])]]}, scenario=KNOWN)
    assert ends(run) == [1620]


def test_what_is_outside_of_the_range_is_refused_by_name():
    trace = jobs((0, 900, 2, {"min_gpus": 2, "max_gpus": 3}))
    plans = {0: [[Start(0, [0])]], 1: [[Start(0, [0, 1, 2, 3])]], 2: [[Start(0, [0, 1])]], 3: [[Resize(0, [0])]]}
    plans |= {4: [[Resize(0, [0, 1, 2, 3])]], 5: [[Resize(0, [])]]}
    run = play(trace, cluster(4), plans)
    nothing = "wrong number of GPUs for the job"
    assert run.refused == [(0, OUTSIDE), (1, OUTSIDE), (3, OUTSIDE), (4, OUTSIDE), (5, nothing)]


def test_a_range_far_beyond_the_cluster_fills_no_memory():
    wide = [(0, 900, 1 + at, {"min_gpus": 1, "max_gpus": 10**6, "model": "m"}) for at in range(30)]
    with pytest.raises(TraceError, match="max_gpus 1,000,000 is too large a range for 30 kinds of jobs"):
        Simulator(jobs(*wide), cluster(32), scenario=KNOWN)
    Simulator(jobs(*wide[:2]), cluster(32), scenario=KNOWN)
    Simulator(jobs(*[wide[0]] * 30), cluster(32), scenario=KNOWN)  # all of one kind


def test_a_job_without_a_range_starts_on_what_it_asks_for():
    run = play(jobs((0, 900, 2)), cluster(4), {0: [[Start(0, [0])]], 1: [[Start(0, [0, 1])]]})
    assert run.refused == [(0, "wrong number of GPUs for the job")]


def test_a_migration_keeps_the_width_of_a_job_with_a_range():
    plans = {0: [[Start(0, [0, 1])]], 1: [[Migrate(0, [0, 1, 2])]]}
    assert play(jobs((0, 900, 2, RANGE)), cluster(4), plans).refused == [(1, "wrong number of GPUs for the job")]


def test_a_resize_costs_a_stop_and_a_start_and_changes_the_speed():
    plans = {0: [[Start(0, [0, 1])]], 300: [[Resize(0, [0, 1, 2, 3])]]}
    run = play(jobs((0, 900, 2, RANGE)), cluster(4, checkpoint=0.01, restart=0.015), plans, scenario=KNOWN)
    assert ends(run) == [300 + 25 + round(600 * 0.6)]
    assert story(run, 0)[2:4] == [(300, "MOVE"), (300, "START")]
    assert column(run, w.LOST) == [25 * 4]


def test_across_machines_a_job_is_slower_also_on_the_gpus_that_it_asks_for():
    run = play(jobs((0, 900, 2, RANGE)), cluster(1, 1), {0: [[Start(0, [0, 1])]]}, scenario=KNOWN)
    assert ends(run) == [1620]  # 1.0 over 1.8


def test_a_job_whose_model_nobody_knows_is_in_proportion():
    run = play(jobs((0, 900, 2, RANGE | {"model": "other"})), cluster(4), {0: [[Start(0, [0, 1, 2, 3])]]})
    assert ends(run) == [450]


def test_the_network_serves_every_width():
    machines = shunter.Cluster(
        "n", (NodeGroup(2, 4),), tiers=(shunter.cluster.Tier("m", 12, 1), shunter.cluster.Tier("n", 1, 2))
    )
    costs = Costs(TierNetwork.of(machines))
    trace = jobs((0, 90_000, 2, {"min_gpus": 1, "max_gpus": 8, "model": "vgg16"}))
    for gpus, shape in (([0, 1, 2, 3], (4, 1)), ([0, 1, 4, 5], (2, 2)), ([0], (1, 1)), ([0, 1, 2, 4], (1, 4))):
        run = play(trace, machines, {0: [[Start(0, gpus)]]}, scenario=Scenario(network=costs))
        slowdown = costs.iteration("vgg16", shape).slowdown
        assert ends(run)[0] == pytest.approx(90_000 * slowdown * 2 / len(gpus), abs=1), gpus


def test_a_range_that_does_not_hold_the_gpus_is_refused_by_name():
    for wrong in ({"min_gpus": 3}, {"max_gpus": 1}):
        with pytest.raises(TraceError, match="job 'j0': min_gpus and max_gpus must be a range"):
            Simulator(jobs((0, 900, 2, wrong)), cluster(4))
    with pytest.raises(TraceError, match=r"for 0\.5 GPUs"):
        Simulator(jobs((0, 900, 0.5, {"max_gpus": 2})), cluster(4))


def test_a_view_shows_ranges_work_and_speeds_as_a_live_cluster_knows_them():
    seen = []

    def look(view):
        one = np.array([0])
        seen.append((view.now, view.work(one).tolist(), view.jobs.workers[0]))
        assert view.speeds(0)[0].tolist() == pytest.approx([0, 1 / 1.8, 1, 3 * 0.8122556 / 1.8, 3 / 1.8])
        assert (view.jobs.min_gpus[0], view.jobs.max_gpus[0]) == (1, 4)

    plans = {0: [[Start(0, [0])]], 180: [[Resize(0, [0, 1])]], 280: [[]]}
    play(jobs((0, 900, 2, RANGE)), cluster(4), plans, scenario=KNOWN, look=look)
    assert [(now, round(work[0]), width) for now, work, width in seen if now in (180, 280)] == [
        (180, 100, 1), (180, 100, 2), (280, 200, 2),
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------- against the reference


class RandomWidths(RandomActions):
    """Starts jobs on any width that is free, and resizes at random."""

    def actions(self, view, draws, free):
        actions = []
        for job in view.running.tolist():
            mine = list(view.placement(job))
            if view.jobs.max_gpus[job] and draws.random() < 0.5:
                most = min(int(view.jobs.max_gpus[job]), len(mine) + len(free))
                width = int(draws.integers(view.jobs.min_gpus[job], most + 1))
                pool = sorted(mine + free)
                chosen = sorted(draws.permutation(pool)[:width].tolist())
                free = [gpu for gpu in pool if gpu not in chosen]
                actions.append(Resize(job, chosen))
        for job in view.pending.tolist():
            least, most = view.jobs.min_gpus[job] or view.jobs.gpus[job], view.jobs.max_gpus[job] or view.jobs.gpus[job]
            if len(free) >= least:
                width = int(draws.integers(least, min(most, len(free)) + 1)) if most > least else int(least)
                chosen = sorted(draws.permutation(free)[:width].tolist())
                free = [gpu for gpu in free if gpu not in chosen]
                actions.append(Start(job, chosen))
        return actions


def worlds_drawn():
    job = st.tuples(st.integers(0, 2000), st.integers(1, 3000), st.integers(1, 3), st.integers(0, 2), st.booleans())
    return st.tuples(st.lists(job, min_size=1, max_size=6), st.integers(0, 2**16), st.sampled_from([0.0, 0.03]))


@settings(max_examples=60, deadline=None)
@given(worlds_drawn())
def test_a_slow_replay_of_the_stays_comes_to_the_same_ends(drawn):
    rows, seed, cost = drawn
    rows.sort(key=lambda row: row[0])
    about = [
        {"min_gpus": 1, "max_gpus": gpus + more, "model": "m"} if elastic else {} for _, _, gpus, more, elastic in rows
    ]
    trace = jobs(*((submit, work, gpus, more) for (submit, work, gpus, _, _), more in zip(rows, about, strict=True)))
    machines = cluster(2, 4, restart=cost)
    run = Simulator(trace, machines, scenario=KNOWN)
    run.run(RandomWidths(seed))
    speeds = {gpus: CURVE.speeds(6)[:, gpus] for gpus in range(7)}

    def rate(job: int, stay: ElasticStay) -> float:
        asked = int(trace.gpus[job]) // GPU
        if not trace.elastic[job]:
            return 1.0
        return speeds[stay.gpus][int(stay.machines > 1)] / speeds[asked][0]

    assert replayed(run.events, trace, machines, rate) == ends(run)


def test_a_trace_with_ranges_keeps_them_in_both_formats(tmp_path):
    trace = Trace.of(
        "t", ["a", "b"], submit=[0, 1], duration=[10, 20], gpus=[2000, 1000], min_gpus=[1, 0], max_gpus=[4, 0],
        loss_curve=[0, -1], loss_curves=("cifar",),
    )  # fmt: skip
    for name in ("t.csv", "t.parquet"):
        shunter.write_trace(trace, tmp_path / name)
        assert shunter.read_trace(tmp_path / name).digest == trace.digest
    (tmp_path / "bad.csv").write_text("job_id,submit,duration,gpus,min_gpus\na,0,10,1,2\n")
    with pytest.raises(TraceError, match=r"line 2: min_gpus and max_gpus must be a range.*got 2 \.\. 0 for 1 GPUs"):
        shunter.read_trace(tmp_path / "bad.csv")
