"""Backfilling where GPUs are leased: what is reserved for the first job that finds no room holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shunter import registry
from shunter.cluster import Cluster, NodeGroup
from shunter.drive import drive
from shunter.errors import PolicyError
from shunter.model import Plan, Trace, View
from shunter.reasons import CODES
from shunter.scheduling.queue.policy import queue_of
from shunter.sim.engine import Simulator
from shunter.testing import strategies
from shunter.testing.offers import LeaseJob
from shunter.testing.racks import cluster_of, play, simulator_of, trace_of
from shunter.testing.reference import runs_of
from shunter.testing.tiers import Layout

World: TypeAlias = tuple[list[LeaseJob], Layout]
MINUTE = 60_000
MODELS = {"resnet50": (1.0, 1.0, 1.0)}  # as fast anywhere, so that estimates are the truth
PAIR = Layout((2,), ((0,),))
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def starts(jobs: list[LeaseJob], policy: str, layout: Layout = PAIR) -> list[int]:
    """When each job first started, in minutes."""
    simulator, _ = play(jobs, layout, MODELS, f"{policy},estimate=oracle")
    return [runs[0].start // MINUTE for runs in runs_of(simulator.events, len(jobs))]


def minutes(*jobs: tuple[int, int, int]) -> list[LeaseJob]:
    """Jobs of (submitted, minutes, GPUs)."""
    return [LeaseJob(at * MINUTE, work * MINUTE, gpus) for at, work, gpus in jobs]


# ------------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize(
    ("policy", "without"),
    [
        ("dally:lease=0,timers=none", [0, 15, 2, 10]),
        ("tiresias:lease=100000", [0, 15, 2, 10]),
        ("tiresias:lease=0", [0, 10, 2, 15]),  # the third is stopped for the second
    ],
)
def test_a_later_job_passes_only_if_it_ends_in_time(policy: str, without: list[int]) -> None:
    """The second job can have both GPUs at 10; the third would be there until 14, the fourth until 9."""
    jobs = minutes((0, 10, 1), (1, 5, 2), (2, 12, 1), (4, 5, 1))
    assert starts(jobs, f"{policy},backfill=none") == without
    assert starts(jobs, f"{policy},backfill=easy") == [0, 10, 15, 4]


def test_a_later_job_may_stay_beside_the_reservation() -> None:
    """The third job can have a machine at 10, and the fourth is on another one."""
    layout = Layout((2, 2, 1), ((0, 0, 1),))
    jobs = minutes((0, 10, 2), (0, 30, 2), (1, 5, 2), (2, 60, 1))
    assert starts(jobs, "dally:lease=0,timers=infinite,backfill=easy", layout) == [0, 0, 10, 2]


def test_a_lease_counts_as_an_end() -> None:
    """The third job has room at 4, when the others' leases end; the fourth would still be there, the fifth not."""
    jobs, layout = minutes((0, 60, 1), (0, 60, 1), (1, 60, 3), (2, 60, 1), (3, 1, 1)), Layout((3,), ((0,),))
    assert starts(jobs, "dally:lease=240,timers=none,backfill=none", layout) == [0, 0, 62, 2, 4]
    assert starts(jobs, "dally:lease=240,timers=none,backfill=easy", layout) == [0, 0, 4, 8, 3]


def test_a_lease_is_not_prolonged_at_the_cost_of_the_reservation() -> None:
    """At 4 nobody takes the first job's GPU, but the third wants both, and the second ends at 6."""
    jobs = minutes((0, 60, 1), (2, 4, 1), (3, 5, 2))
    assert starts(jobs, "dally:lease=240,timers=none,renewal=keep,backfill=none") == [0, 2, 8]
    assert starts(jobs, "dally:lease=240,timers=none,renewal=keep,backfill=easy") == [0, 2, 6]


def test_a_job_that_waits_for_a_better_tier_holds_no_reservation() -> None:
    """The fourth job could have a GPU on each machine but prefers one; where it takes nothing else, that is kept."""
    jobs, layout = minutes((0, 30, 1), (0, 2, 1), (0, 100, 1), (3, 5, 2), (4, 60, 1)), Layout((2, 2), ((0, 0),))
    patient = "dally:lease=0,timers=manual,machine_timer=86400,rack_timer=86400,backfill=easy"
    assert starts(jobs, patient, layout) == [0, 0, 0, 64, 4]
    assert starts(jobs, "dally:lease=0,timers=infinite,backfill=easy", layout) == [0, 0, 0, 30, 30]


def test_a_reservation_binds_only_its_own_pool() -> None:
    """The second and the fourth job wait in their virtual clusters; the third and the fifth would each delay one."""
    cluster = Cluster("two", (NodeGroup(1, 2, vc="red"), NodeGroup(1, 2, vc="blue"), NodeGroup(1, 1, vc="green")))
    jobs = minutes((0, 10, 1), (1, 5, 2), (2, 60, 1), (2, 60, 1), (3, 5, 2), (4, 60, 1), (4, 60, 1))
    trace = replace(trace_of(jobs, MODELS), vc=np.array([0, 0, 0, 1, 1, 1, 2]), vcs=("red", "blue", "green"))
    simulator = Simulator(trace, cluster)
    simulator.run(registry.policy("dally:lease=0,timers=none,backfill=easy,estimate=oracle"))
    found = [runs[0].start // MINUTE for runs in runs_of(simulator.events, len(jobs))]
    assert found == [0, 10, 15, 2, 62, 67, 4]


# ------------------------------------------------------------------------------------------- what must hold


class Watched:
    """A policy whose reservations are written down: who, when that was promised, and for when."""

    def __init__(self, text: str) -> None:
        self.policy: Any = registry.policy(text)
        self.needs = self.policy.needs
        self.promised: list[tuple[int, int, int]] = []

    def start(self, cluster: Any, previous: Any = None) -> Any:
        return self.policy.start(cluster, previous)

    def decide(self, view: View, memory: Any) -> Plan:
        plan: Plan = self.policy.decide(view, memory)
        queue = queue_of(memory.form)
        for time, job, head in zip(
            queue.shadow.time.tolist(), queue.shadow.job.tolist(), queue.head.tolist(), strict=True
        ):
            if head >= 0 and job == head:
                self.promised.append((job, view.now, time))
        return plan


@st.composite
def worlds(draw: st.DrawFn) -> World:
    layout = draw(strategies.layouts())
    return draw(strategies.lease_jobs(layout, [LeaseJob(0, 0, 1)], tick=MINUTE)), layout


@pytest.mark.parametrize(
    "policy",
    [
        "dally:timers=none,lease=0",
        "dally:timers=none,lease=240",
        "dally:timers=infinite,lease=240,renewal=keep",
        "dally:timers=none,lease=240,spread=scatter",
        "tiresias:lease=240,limits=none",
        "tiresias:lease=240,limits=none,renewal=keep",
        "tiresias:lease=0,limits=none",
    ],
)
@SETTINGS
@given(world=worlds())
def test_no_job_starts_after_its_reservation(policy: str, world: World) -> None:
    """With true estimates, of jobs that have not run: nobody who comes later, or comes back, is before them."""
    jobs, layout = world
    watched, simulator = Watched(f"{policy},backfill=easy,estimate=oracle"), simulator_of(jobs, layout, MODELS)
    drive(simulator, watched)
    first = [runs[0].start for runs in runs_of(simulator.events, len(jobs))]
    for job, promised_at, time in watched.promised:
        assert first[job] <= time or first[job] < promised_at, (job, promised_at, time)


def test_reservations_are_made_at_all() -> None:
    watched = Watched("dally:timers=none,backfill=easy,estimate=oracle")
    drive(simulator_of(minutes((0, 10, 1), (1, 5, 2), (2, 12, 1)), PAIR, MODELS), watched)
    assert (1, 2 * MINUTE, 10 * MINUTE) in watched.promised


def test_why_a_job_waits_is_reported() -> None:
    jobs = minutes((0, 10, 1), (1, 5, 2), (2, 12, 1))
    simulator = Simulator(trace_of(jobs, MODELS), cluster_of(PAIR), reasons=True)
    simulator.run(registry.policy("dally:timers=none,backfill=easy,estimate=oracle"))
    told = [row for row in simulator.reasons.tolist() if row[3] == list(CODES).index("reservation")]
    assert [(row[0], row[4], row[5]) for row in told][-1] == (2 * MINUTE, 1, 10 * MINUTE)


# ------------------------------------------------------------------------------------------- settings


def test_what_can_be_set() -> None:
    with pytest.raises(PolicyError, match=r"must be none \| easy"):
        registry.policy("dally:backfill=conservative")
    with pytest.raises(PolicyError, match="renewal=better contradicts backfill=easy"):
        registry.policy("tiresias:lease=60,renewal=better,backfill=easy")
    for other in ("gandiva", "marshal", "themis"):
        with pytest.raises(PolicyError, match="no parameter 'backfill'"):
            registry.policy(f"{other}:backfill=easy")


@pytest.mark.parametrize(
    ("policy", "remarks"),
    [
        ("dally:estimate=oracle", ["estimate does nothing without backfill"]),
        ("tiresias:refit=3", ["refit does nothing without a learned estimate"]),
        ("fifo:estimate=limit,depth=3", ["estimate does nothing without backfill", "depth does nothing"]),
        ("dally:estimate=rolling,refit=3,backfill=easy", []),
        ("sjf:estimate=oracle", []),
        ("qssf", []),
    ],
)
def test_what_does_nothing_is_remarked(policy: str, remarks: list[str]) -> None:
    trace = Trace.of("jobs", ["0"], submit=[0], duration=[1], gpus=[1000])
    found = registry.policy(policy).remarks(trace)
    assert len(found) == len(remarks)
    assert all(text.startswith(start) for text, start in zip(found, remarks, strict=True))
