"""What a policy knows of jobs and users goes on when a live cluster's rows stand for other jobs."""

from __future__ import annotations

import numpy as np
import pytest

from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.model import GPU, Trace, View
from shunter.registry import policy
from shunter.scheduling.queue.policy import queue_of
from shunter.sim.engine import Simulator

CLUSTER = Cluster("little", (NodeGroup(2, 4),))


def view_of(ids: list[str], now: int, generation: int, moved: list[int] | None, gpus: int = 8) -> View:
    """Jobs j0, j1 ... that were submitted at 0, 1 ... s by users 0, 1, 0, 1 ... and all wait for the whole cluster."""
    numbers = np.array([int(name[1:]) for name in ids])
    given = {"submit": numbers * 1000, "duration": numbers * 0 + 60_000, "gpus": numbers * 0 + gpus * GPU}
    users = {"user": numbers % 2, "users": ("ann", "bob"), "limit": (numbers + 1) * 10_000}
    simulator = Simulator(Trace.of("t", ids, **given, **users), CLUSTER)
    simulator.world.clock[w.NOW] = now
    view = simulator.present()
    view.generation, view.moved = generation, None if moved is None else np.array(moved)
    return view


def test_estimates_move_with_their_jobs() -> None:
    sjf = policy("sjf:estimate=limit")
    memory = sjf.start(CLUSTER)
    first = view_of(["j0", "j3", "j5"], 10_000, 1, None)
    sjf.decide(first, memory)
    queue = queue_of(memory.form)
    assert queue.estimate.tolist() == [10_000, 40_000, 60_000]
    queue.estimate[:] = [1, 2, 3]  # as if they had been learned then
    queue.users.ended[0] = 7
    second = view_of(["j3", "j4", "j5", "j6"], 20_000, 2, [-1, 0, 2])
    sjf.decide(second, memory)
    queue = queue_of(memory.form)
    assert queue.estimate.tolist() == [2, 50_000, 3, 70_000]
    assert queue.users.ended[0] == 7
    assert sjf.ranking(second, memory).tolist() == [0, 2, 1, 3]


def test_a_view_that_was_missed_costs_only_what_was_known_of_jobs() -> None:
    sjf = policy("sjf:estimate=limit")
    memory = sjf.start(CLUSTER)
    sjf.decide(view_of(["j0", "j3"], 10_000, 1, None), memory)
    queue_of(memory.form).estimate[:] = 1
    later = view_of(["j3", "j4", "j5"], 20_000, 5, [0, -1, 1, 2])  # of rows that it never saw
    sjf.decide(later, memory)
    assert queue_of(memory.form).estimate.tolist() == [40_000, 50_000, 60_000]


def test_timers_of_dally_go_on() -> None:
    dally = policy("dally")
    memory = dally.start(CLUSTER)
    dally.decide(view_of(["j0", "j3"], 10_000, 1, None, gpus=4), memory)
    offers = memory.form.memory
    timers = offers.own
    timers.timer[0], timers.tuned_at[0], timers.first[0], timers.last[0] = 123.0, 0, 2, 5
    timers.waits[0, :2] = [77, 88]
    dally.decide(view_of(["j3", "j4"], 20_000, 2, [-1, 0], gpus=4), memory)
    again = memory.form.memory
    assert again is not offers
    assert again.own.waits[0, :2].tolist() == [77, 88]
    assert again.own.first[0] == 2
    dally.decide(view_of(["j3", "j4"], 30_000, 3, [0, 1], gpus=2), memory)  # another size: nothing is known of it
    assert memory.form.memory.own.waits[0, :2].tolist() == [0, 0]


@pytest.mark.parametrize("estimate", ["limit", "rolling"])
def test_themis_knows_how_fairly_its_jobs_were_treated(estimate: str) -> None:
    themis = policy(f"themis:estimate={estimate}")
    memory = themis.start(CLUSTER)
    themis.decide(view_of(["j0", "j3", "j5"], 10_000, 1, None), memory)
    known = memory.form.memory.fair.known
    known.met_with[:], known.last_rho[:] = [7, 8, 9], [1, 2, 3]
    memory.form.memory.fair.job_time.total = 50_000.0
    themis.decide(view_of(["j3", "j4", "j5", "j6"], 20_000, 2, [-1, 0, 2]), memory)
    fair = memory.form.memory.fair
    assert fair.known.met_at.tolist() == [10_000, 20_000, 10_000, 20_000]
    assert fair.known.met_with[[0, 2]].tolist() == [8, 9]
    assert fair.known.last_rho[[0, 2]].tolist() == [2, 3]
    assert fair.job_time.total > 50_000
