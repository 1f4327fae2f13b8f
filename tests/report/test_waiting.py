"""Why jobs waited: every claim is held against the state of the cluster, read from the event log in another way."""

from __future__ import annotations

import copy
import dataclasses
from bisect import bisect_right
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import shunter
from shunter import registry
from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.model import GPU, Plan, Reason, Start, Trace
from shunter.report.explain import pieces, waits
from shunter.report.waiting import waiting
from shunter.run_folder import Run
from shunter.seeding import rng
from shunter.sim import Simulator

POLICIES = (
    "fifo",
    "fifo:blocking=skip",
    "sjf:estimate=oracle",
    "wfp3",
    "fifo:backfill=easy",
    "saf:estimate=oracle,backfill=easy",
    "srtf:estimate=oracle",
    "las:blocking=skip",
    "fifo:backfill=conservative,depth=5",
)


def busy_trace(seed: int, jobs: int = 120) -> Trace:
    draw = rng(seed, "waiting")
    return Trace.of(
        "busy",
        [f"j{i}" for i in range(jobs)],
        submit=np.sort(draw.integers(0, 40_000, jobs)) * 10,
        duration=draw.integers(1, 30_000, jobs),
        gpus=draw.choice([1, 1, 2, 3, 4, 8], jobs) * GPU,
        vc=draw.integers(0, 2, jobs),
        vcs=("red", "blue"),
        user=draw.integers(0, 3, jobs),
        users=("ann", "bob", "cid"),
    )


CLUSTER = Cluster("two", (NodeGroup(3, 4, vc="red"), NodeGroup(2, 4, vc="blue")))


@pytest.fixture(scope="module", params=POLICIES)
def run(request: pytest.FixtureRequest) -> Run:
    return shunter.simulate(busy_trace(1), CLUSTER, request.param, decisions=True).kept


class Past:
    """Free GPUs per node and waiting jobs at the end of every instant, the slow and obvious way."""

    def __init__(self, run: Run) -> None:
        self.times: list[int] = []
        self.free: list[list[int]] = []
        self.waiting: list[set[int]] = []
        free, held, waiting = run.cluster.node_gpus.tolist(), {}, set()
        for at, (time, kind, job, a, b) in enumerate(run.events.tolist()):
            if kind == w.START:
                free[a] -= b // GPU
                held.setdefault(job, []).append((a, b // GPU))
                waiting.discard(job)
            else:
                for node, gpus in held.pop(job, []):
                    free[node] += gpus
                if kind in (w.ARRIVE, w.PREEMPT):
                    waiting.add(job)
            if at + 1 == len(run.events) or run.events[at + 1, 0] != time:
                self.times.append(time)
                self.free.append(list(free))
                self.waiting.append(set(waiting))

    def at(self, time: int) -> int:
        return bisect_right(self.times, time) - 1


def test_all_waiting_is_accounted_for(run: Run) -> None:
    found = waiting(run)
    assert np.array_equal(found.per_job.sum(axis=0), np.rint(run.jobs["wait"].to_numpy() * 1000).astype(int))
    width = (found.edges[1] - found.edges[0]) * 1000
    assert np.allclose((found.over_time * width).sum(axis=1), found.per_job.sum(axis=1))
    assert sum(times.sum() for times in found.by_size(run.jobs["gpus"].to_numpy()).values()) == found.per_job.sum()


def test_the_pieces_of_each_job_are_its_waits(run: Run) -> None:
    found = waiting(run)
    for job in range(len(run.jobs)):
        spent = dict.fromkeys(found.codes, 0)
        cut = pieces(run, job)
        for piece in cut:
            spent[piece.code] += piece.end - piece.begin
        assert list(spent.values()) == found.per_job[:, job].tolist()
        assert sum(end - begin for begin, end in waits(run, job)) == sum(spent.values())
        assert all(a.end <= b.begin for a, b in pairwise(cut))


def test_over_time_is_the_number_of_waiting_jobs(run: Run) -> None:
    found, past = waiting(run, bins=7), Past(run)
    for at in range(7):
        begin, end = (round(edge * 1000) for edge in found.edges[at : at + 2])
        marks = sorted({begin, end, *(time for time in past.times if begin < time < end)})
        jobs_ms = sum(len(past.waiting[past.at(a)]) * (b - a) for a, b in pairwise(marks))
        assert found.over_time[:, at].sum() * (end - begin) == pytest.approx(jobs_ms)


def holds(code: str, gpus: float, free: np.ndarray) -> bool:
    """Whether what is free in a job's virtual cluster bears out a reason."""
    enough, together = free.sum() >= gpus, free.max() >= gpus
    claims = {"full": not enough, "scattered": enough and not together, "queued": not together, "behind": enough}
    return bool(claims.get(code, True))


def test_the_claims_are_true(run: Run) -> None:
    past, seen = Past(run), set()
    vc = {"red": 0, "blue": 1}
    for job in range(len(run.jobs)):
        about = run.jobs.row(job, named=True)
        own = run.cluster.node_vc == vc[about["vc"]]
        for piece in pieces(run, job):
            seen.add(piece.code)
            for time in [piece.begin, *(t for t in past.times if piece.begin < t < piece.end)]:
                at = past.at(time)
                free = np.array(past.free[at])[own]
                assert job in past.waiting[at]
                assert holds(piece.code, about["gpus"], free)
            for other, length in piece.others.items():
                assert length > 0
                assert run.jobs["vc"][other] == about["vc"]
                assert other != job
    expected = {"full"}
    policy = run.summary["policy"]
    if "blocking=skip" in policy or "easy" in policy:
        expected |= {"scattered"}
    if "easy" in policy:
        expected |= {"reservation"}
    if "conservative" in policy:
        expected = {"planned", "unplanned"}
    elif "skip" not in policy and "easy" not in policy:
        expected |= {"behind", "queued"}
    assert seen >= expected


@pytest.mark.parametrize("policy", POLICIES)
def test_the_plain_loop_says_the_same(policy: str) -> None:
    trace, said = busy_trace(2, 60), []
    for compiled in (True, False):
        simulator = Simulator(trace, CLUSTER, reasons=True)
        simulator.run(registry.policy(policy), compiled=compiled)
        said.append((simulator.digest, simulator.reasons))
    assert said[0][0] == said[1][0]
    assert np.array_equal(said[0][1], said[1][1])


@pytest.mark.parametrize("policy", POLICIES)
def test_saying_why_changes_nothing(policy: str) -> None:
    trace = busy_trace(3)
    digests = {shunter.simulate(trace, CLUSTER, policy, decisions=kept).digest for kept in (True, False)}
    assert len(digests) == 1


def test_a_fork_says_what_the_original_would_have_said() -> None:
    simulator = Simulator(busy_trace(4), CLUSTER, reasons=True)
    policy = registry.policy("fifo:backfill=easy")
    memory = simulator.run(policy, until=200_000)
    twin, memory_of_twin = simulator.fork(), copy.deepcopy(memory)
    simulator.run(policy, memory=memory)
    twin.run(policy, memory=memory_of_twin)
    assert len(twin.reasons)
    assert np.array_equal(simulator.reasons, twin.reasons)


class OneAtATime:
    """Somebody's own policy, with reasons of its own."""

    needs: frozenset[str] = frozenset()

    def start(self, cluster: Cluster, previous: Any = None) -> None:
        return None

    def decide(self, view: Any, memory: Any) -> Plan:
        if len(view.running):
            return Plan((), [Reason(int(job), "one-at-a-time", (int(view.running[0]),)) for job in view.arrived])
        if not len(view.pending):
            return Plan()
        job = int(view.pending[0])
        for node in range(len(view.nodes.free)):
            gpus = view.free_gpus(node)
            if len(gpus) >= view.jobs.gpus[job]:
                return Plan([Start(job, tuple(gpus[: view.jobs.gpus[job]].tolist()))])
        raise AssertionError


def test_a_policy_may_have_reasons_of_its_own() -> None:
    trace = Trace.of("t", ["a", "b"], submit=[0, 10], duration=[100, 100], gpus=[GPU, GPU])
    run = shunter.simulate(trace, "1x2", OneAtATime(), decisions=True).kept
    found = waiting(run)
    assert found.per_job[found.codes.index("one-at-a-time")].tolist() == [0, 90]
    assert pieces(run, 1)[0].numbers == (0, 0, 0)


def test_bins_begin_with_the_first_event_wherever_the_clock_stands():
    late = dataclasses.replace(busy_trace(1), submit=busy_trace(1).submit + 1_700_000_000_000)
    found = waiting(shunter.simulate(late, CLUSTER, "fifo", decisions=True).kept)
    early = waiting(shunter.simulate(busy_trace(1), CLUSTER, "fifo", decisions=True).kept)
    assert np.allclose(found.over_time, early.over_time)
    assert found.edges[0] == late.submit[0] / 1000
