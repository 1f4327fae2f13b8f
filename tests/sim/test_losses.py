"""Losses in the view: those so far, never those to come; and policies that expect work from them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from worlds import cluster, jobs, play

from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.errors import ClusterError, InvariantError
from shunter.model import Start
from shunter.policies.slaq import fall_of
from shunter.sim import Scenario, Simulator
from shunter.testing.cases import CASES
from shunter.testing.resizing import plain

FALLING = tuple(3 * (1.0 + np.arange(100)) ** -2 + 0.5)  # flat after a quarter
POLICIES = ("elastic:remaining=losses,interval=5,rest=10,pays=0", "optimus:remaining=losses,interval=9",
            "slaq:remaining=losses,interval=8", "qoredl:remaining=losses,quantile=0.9")  # fmt: skip


def test_a_view_shows_the_losses_so_far_and_none_to_come():
    seen = {}
    trace = jobs((0, 600, 2, {"declared": 1000, "loss_curve": "a"}), (0, 600, 2, {"loss_curve": "a"}))

    def look(view):
        seen[view.now] = [view.losses(job).tolist() for job in (0, 1)]
        with pytest.raises(InvariantError, match="are not known at"):
            view.losses(0, view.now + 1)

    run = Scenario(losses={"a": (4.0, 3.0, 2.0, 1.0)})
    play(
        trace,
        cluster(4),
        {0: [[Start(0, [0, 1])]], 249: [[]], 250: [[Start(1, [2, 3])]], 599: [[]]},
        scenario=run,
        look=look,
    )
    assert [seen[now][0] for now in (0, 249, 250, 599)] == [[], [], [[0.25, 4.0]], [[0.25, 4.0], [0.5, 3.0]]]
    assert seen[599][1] == []  # it declares nothing


def test_losses_that_are_no_numbers_are_refused():
    with pytest.raises(ClusterError, match="loss curve 'a'"):
        Scenario(losses={"a": (1.0, float("nan"))})


def crowded(seed=0):
    """The first case, with ranges, deadlines, and jobs that need half of what they declare."""
    trace, draw = CASES[0].trace, np.random.default_rng(seed)
    count, asked = len(trace), trace.gpus // 1000
    return dataclasses.replace(
        trace, declared=2 * trace.duration, deadline=draw.integers(0, 4, count) * 60_000,
        min_gpus=np.ones(count, int), max_gpus=asked + 2, loss_curve=np.arange(count) % 2, loss_curves=("a", "b"),
    )  # fmt: skip


MACHINES = Cluster("c", (NodeGroup(3, 4),), overheads=Overheads(restart=((1, 1.0),)))


def events(policy, trace, later):
    curves = {"a": (*FALLING[:50], *later), "b": tuple(np.linspace(2, 1, 50)) + tuple(later)}
    run = Simulator(trace, MACHINES, scenario=Scenario(losses=curves))
    run.run(policy)
    return run.events.tolist()


@pytest.mark.parametrize("text", POLICIES)
def test_losses_to_come_change_nothing_and_plain_python_agrees(text):
    policy, trace = registry.policy(text), crowded()
    found = events(policy, trace, [0.1] * 50)
    assert found == events(policy, trace, [5.0] * 50)  # no job gets that far
    assert found == events(plain(policy), trace, [0.1] * 50)
    if "slaq" in text:  # it reads losses anyhow
        assert found != events(policy, dataclasses.replace(trace, loss_curve=np.full(len(trace), -1)), [0.1] * 50)
    elif "qoredl" not in text:  # which looks at running jobs once in 288 s
        assert found != events(registry.policy(text.replace("losses", "declared")), trace, [0.1] * 50)


def test_slaq_gives_gpus_to_the_job_whose_loss_still_falls():
    about = {"declared": 400_000, "min_gpus": 1, "max_gpus": 3}
    curves = {"flat": (9.0, *[1.0] * 99), "falls": tuple(np.linspace(9, 1, 100))}
    for names, widths in ((("flat", "falls"), [1, 3]), (("falls", "flat"), [3, 1]), (("other", "none"), [2, 2])):
        rows = [(0, 400_000, 2, about | {"loss_curve": name}) for name in names]
        for policy in (registry.policy("slaq:interval=8"), plain(registry.policy("slaq:interval=8"))):
            run = Simulator(jobs(*rows), cluster(4), scenario=Scenario(losses=curves))
            run.run(policy, until=30_000)
            assert run.world.jobs[w.WORKERS].tolist() == widths, (names, policy)


def test_the_fall_of_a_loss_counts_over_its_largest_so_far():
    shares = np.arange(1, 21) / 100
    slope, level, scale = fall_of(np.stack((shares, 1 / (0.5 * np.arange(2, 22) + 1)), axis=1))
    assert (slope, level) == (pytest.approx(0.5, rel=0.1), pytest.approx(1, rel=0.2))
    again = fall_of(np.stack((shares, 100 / (0.5 * np.arange(2, 22) + 1)), axis=1))
    assert again[2] / again[0] == pytest.approx(scale / slope, rel=1e-6)  # units don't matter
    assert fall_of(np.stack((shares, np.full(20, 3.0)), axis=1))[2] == 0
    assert fall_of(np.array([[0.01, 3.0]])) is None


def test_a_flat_loss_lets_a_job_be_done_sooner_than_declared():
    trace = jobs((0, 40_000, 1, {"declared": 100_000, "loss_curve": "a"}))
    run = Simulator(trace, cluster(1), scenario=Scenario(losses={"a": FALLING}))
    policy = registry.policy("elastic:remaining=losses,interval=1,quantile=0.5")
    memory = run.run(policy, until=35_000)
    assert 35_000 < memory.form.memory.expected[0] < 60_000
