"""The engine against the slow, separately written reference: the same schedule, job for job and node for node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shunter import registry
from shunter.cluster import Cluster, NodeGroup
from shunter.model import Trace
from shunter.predictors.noise import noisy_times
from shunter.sim import Simulator
from shunter.testing import reference, strategies
from shunter.testing.reference import RefJob, RefNode, RefRun

# the engine's order -> the same order in the reference's terms; seconds where rounding counts
KEYS = {
    "fifo": lambda i, job, now, executed: job.submit,
    "lifo": lambda i, job, now, executed: -job.submit,
    "sjf": lambda i, job, now, executed: max(job.estimate, 1),
    "saf": lambda i, job, now, executed: job.gpus * (max(job.estimate, 1) / 1000),
    "largest": lambda i, job, now, executed: -job.gpus,
    "wfp3": lambda i, job, now, executed: (
        -cubed(((now - job.submit) / 1000) / (max(job.estimate, 1) / 1000)) * job.gpus
    ),
    "srtf": lambda i, job, now, executed: max(job.estimate, 1) - executed,
    "las": lambda i, job, now, executed: executed * job.gpus,
    "srsf": lambda i, job, now, executed: job.gpus * max((max(job.estimate, 1) - executed) / 1000, executed / 1000),
}
PREEMPTIVE = {"srtf": 1.0, "las": 1.0, "srsf": 2.0}  # with their hysteresis


def cubed(number: float) -> float:
    return number * number * number


def as_trace(jobs: list[RefJob], pools: bool) -> Trace:
    """One tick is one millisecond; where jobs have no limits their estimates travel as such."""
    return Trace.of(
        "random",
        [str(i) for i in range(len(jobs))],
        submit=[job.submit for job in jobs],
        duration=[job.duration for job in jobs],
        gpus=[job.gpus * 1000 for job in jobs],
        limit=[job.limit or max(job.estimate, 1) for job in jobs],
        after=[job.after for job in jobs],
        checkpointable=[job.checkpointable for job in jobs],
        vc=[job.pool if pools else -1 for job in jobs],
        vcs=("pool0", "pool1") if pools else (),
    )


def as_cluster(nodes: list[RefNode], pools: bool) -> Cluster:
    return Cluster("random", tuple(NodeGroup(1, n.gpus, vc=f"pool{n.pool}" if pools else "") for n in nodes))


def engine_runs(jobs: list[RefJob], nodes: list[RefNode], text: str, *, compiled: bool) -> list[list[RefRun]]:
    pools = len({node.pool for node in nodes}) > 1 or any(node.pool for node in nodes)
    cluster = as_cluster(nodes, pools)
    simulator = Simulator(as_trace(jobs, pools), cluster)
    simulator.run(registry.policy(text), compiled=compiled)
    return reference.runs_of(simulator.events, len(jobs))


def both(case: tuple[list[RefJob], list[RefNode]], name: str, **rules: str | float) -> None:
    jobs, nodes = case
    placement = rules.get("placement", "consolidate")
    jobs = [job for job in jobs if reference.fits(job, nodes, placement)]  # type: ignore[arg-type]
    kept = {id(job) for job in jobs}
    if len(kept) != len(case[0]):  # dependencies refer to positions
        jobs = [replace(job, after=-1) for job in jobs]
    if not jobs:
        return
    stops = {"preemptive": name in PREEMPTIVE, "hysteresis": PREEMPTIVE.get(name, 1.0)}
    expected = reference.simulate(jobs, nodes, KEYS[name], **(stops | rules))  # type: ignore[arg-type]
    settings = {"estimate": "limit", "bound": "0", **{key: str(value) for key, value in rules.items()}}
    text = f"{name}:" + ",".join(f"{key}={value}" for key, value in settings.items())
    for compiled in (True, False):
        assert engine_runs(jobs, nodes, text, compiled=compiled) == expected, (text, compiled)


EXAMPLES = settings.default.max_examples  # more where scripts/test-search looks for new ones
SETTINGS = settings(max_examples=EXAMPLES // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("placement", ["consolidate", "first-fit", "spread", "count", "tight", "weighed"])
@pytest.mark.parametrize("blocking", ["strict", "skip"])
@SETTINGS
@given(case=strategies.cases(), name=st.sampled_from(["fifo", "lifo", "sjf", "saf", "largest"]))
def test_plain_queues(case: tuple[list[RefJob], list[RefNode]], name: str, blocking: str, placement: str) -> None:
    both(case, name, blocking=blocking, placement=placement)


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
@pytest.mark.parametrize("placement", ["consolidate", "count", "tight", "weighed"])
@SETTINGS
@given(case=strategies.cases(), name=st.sampled_from(["fifo", "sjf", "saf"]))
def test_backfilling(case: tuple[list[RefJob], list[RefNode]], name: str, backfill: str, placement: str) -> None:
    both(case, name, backfill=backfill, placement=placement)


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
@SETTINGS
@given(
    case=strategies.cases(), name=st.sampled_from(["fifo", "saf"]), candidates=st.sampled_from(["queue", "shortest"])
)
def test_estimates_that_run_out_are_raised(
    case: tuple[list[RefJob], list[RefNode]], name: str, backfill: str, candidates: str
) -> None:
    """With ticks of half a minute jobs outlive estimates by several of the steps by which these are raised."""
    jobs, nodes = case
    both(
        (scaled(jobs, 30_000), nodes), name, backfill=backfill, candidates=candidates if backfill == "easy" else "queue"
    )


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
@SETTINGS
@given(
    case=strategies.cases(max_jobs=60, max_submit=80),
    limits=st.sampled_from([0, 1, 3]),
    bound=st.sampled_from([0.5, 0.9]),
    candidates=st.sampled_from(["queue", "shortest"]),
    compiled=st.booleans(),
)
def test_promises_by_bounds(
    case: tuple[list[RefJob], list[RefNode]], limits: int, bound: float, candidates: str, compiled: bool, backfill: str
) -> None:
    """Estimates are the truth with noise, so that bounds differ from estimates and from limits, if there are any."""
    drawn, nodes = case
    jobs = [job for job in scaled(drawn, 20_000) if reference.fits(job, nodes, "consolidate")]
    if not jobs:
        return
    estimates = noisy_times(np.array([job.duration for job in jobs], np.float64), 0).tolist()
    far = 20 * 20_000 * limits
    jobs = [replace(job, after=-1, estimate=guess, limit=far) for job, guess in zip(jobs, estimates, strict=True)]
    order = candidates if backfill == "easy" else "queue"
    rules = {"backfill": backfill, "bound": bound, "candidates": order}
    expected = reference.simulate(jobs, nodes, KEYS["fifo"], **rules)  # type: ignore[arg-type]
    pools = any(node.pool for node in nodes)
    trace = replace(as_trace(jobs, pools), limit=np.full(len(jobs), far))
    simulator = Simulator(trace, as_cluster(nodes, pools))
    text = f"fifo:estimate=noisy,backfill={backfill},bound={bound},candidates={order}"
    simulator.run(registry.policy(text), compiled=compiled)
    assert reference.runs_of(simulator.events, len(jobs)) == expected


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("passing", [0.05, 0.2])
@pytest.mark.parametrize("pools", [1, 2])
@pytest.mark.parametrize("name", ["fifo", "sjf"])
def test_only_short_jobs_pass(name: str, pools: int, passing: float, seed: int) -> None:
    """Enough jobs end for the mean completion time to count, and some are too long for it; they differ by pool."""
    drawn, nodes = np.random.default_rng(seed), [RefNode(4, pool) for pool in range(pools) for _ in range(2)]
    pool = drawn.integers(0, pools, 120 * pools)
    durations = (1 + 2 * pool) * drawn.integers(1, 6, 120 * pools) ** 2
    submits = np.cumsum(drawn.integers(0, 6, 120 * pools))
    columns = submits, durations, drawn.integers(1, 7, 120 * pools), durations, pool
    jobs = [RefJob(*map(int, row[:3]), estimate=int(row[3]), pool=int(row[4])) for row in zip(*columns, strict=True)]
    any_job, short = (
        reference.simulate(jobs, nodes, KEYS[name], backfill="easy", passing=each) for each in (0, passing)
    )
    assert any_job != short
    both((jobs, nodes), name, backfill="easy", passing=passing)


def test_old_completion_times_count_half() -> None:
    """More than a thousand jobs have ended, and the later ones take longer."""
    drawn, count = np.random.default_rng(0), 1100
    durations = drawn.integers(1, 6, count) ** 2 * np.where(np.arange(count) < 900, 1, 4)
    submits = np.cumsum(drawn.integers(0, 12, count) * np.where(np.arange(count) < 900, 1, 4))
    columns = submits, durations, drawn.integers(1, 7, count), durations
    jobs = [RefJob(*map(int, row[:3]), estimate=int(row[3])) for row in zip(*columns, strict=True)]
    both((jobs, [RefNode(4), RefNode(4)]), "fifo", backfill="easy", passing=0.2)


def scaled(jobs: list[RefJob], tick: int) -> list[RefJob]:
    """The same jobs in another unit of time."""
    return [
        replace(job, submit=job.submit * tick, duration=job.duration * tick, estimate=job.estimate * tick)
        for job in jobs
    ]


@pytest.mark.parametrize("blocking", ["strict", "skip"])
@pytest.mark.parametrize("placement", ["consolidate", "count"])
@SETTINGS
@given(case=strategies.cases(dependencies=False), name=st.sampled_from(list(PREEMPTIVE)))
def test_preemption(case: tuple[list[RefJob], list[RefNode]], name: str, blocking: str, placement: str) -> None:
    both(case, name, blocking=blocking, placement=placement)


@st.composite
def with_keepers(draw: st.DrawFn) -> tuple[list[RefJob], list[RefNode]]:
    """Jobs some of which can't be stopped."""
    jobs, nodes = draw(strategies.cases(dependencies=False, max_submit=30))
    return [replace(job, checkpointable=draw(st.booleans())) for job in jobs], nodes


@pytest.mark.parametrize("backfill", ["none", "easy"])
@SETTINGS
@given(
    case=with_keepers(),
    name=st.sampled_from(list(PREEMPTIVE)),
    hysteresis=st.sampled_from([1.0, 1.5, 4.0]),
    max_stops=st.sampled_from([0, 1, 2]),
)
def test_preemption_within_bounds(
    case: tuple[list[RefJob], list[RefNode]], name: str, backfill: str, hysteresis: float, max_stops: int
) -> None:
    """Jobs that can't be stopped, a hysteresis and a number of stops, without and with EASY."""
    both(case, name, backfill=backfill, hysteresis=hysteresis, max_stops=max_stops)


@pytest.mark.parametrize("rules", [{"blocking": "strict"}, {"blocking": "skip"}, {"backfill": "easy"}])
@SETTINGS
@given(case=strategies.cases(dependencies=False))
def test_orders_that_vary_with_time(case: tuple[list[RefJob], list[RefNode]], rules: dict[str, str]) -> None:
    both(case, "wfp3", **rules)


def test_the_mapping_can_fail() -> None:
    """The comparison sees a difference of one tick and of one node."""
    jobs, nodes = [RefJob(0, 5, 2, 5), RefJob(0, 5, 2, 5)], [RefNode(2), RefNode(2)]
    runs = engine_runs(jobs, nodes, "fifo", compiled=True)
    assert runs == [[RefRun(0, 5, ((0, 2),))], [RefRun(0, 5, ((1, 2),))]]
    assert runs != reference.simulate([jobs[0], RefJob(0, 6, 2, 5)], nodes, KEYS["fifo"])
    assert np.array_equal([run.end for job in runs for run in job], [5, 5])
