"""One function per line of the table of aims; each returns the rows that it fills."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import adapting_cost, equality, excerpts, peers, workload
from benchmarks.plain_policy import PlainFifo
from shunter import clusters, extras, registry, simulation
from shunter import world as w
from shunter.cluster import Cluster
from shunter.live.forecast import Outlook
from shunter.model import GPU, Trace
from shunter.network.model_assignment import with_models
from shunter.network.models import catalogue
from shunter.network.placing import Costs, TierNetwork, shape_of
from shunter.report.metrics import jct_ms
from shunter.reproduce.dally.design import workloads
from shunter.setup import set_up
from shunter.sim import Scenario, Simulator
from shunter.testing.live import habitual, snapshot_of

STATIC = [f"{name}blocking={rule}" for rule in ("strict", "skip") for name in
          ("fifo:", "sjf:estimate=oracle,", "saf:", "f1:")]  # fmt: skip
VARYING = ["wfp3", "multifactor", "fifo:backfill=easy", "saf:backfill=easy", "wfp3:backfill=easy"]
DECIDING = ["fifo", "fifo:blocking=skip", "wfp3", "fifo:backfill=easy", "las"]
STOPPING = ["las", "tiresias", "tiresias:order=gittins", "tiresias:limits=none"]
PREEMPTIVE = ["srtf:estimate=oracle", "srtf:estimate=oracle,blocking=skip", *STOPPING, "dally", "gandiva",
              "marshal", "themis", "themis:auction=greedy"]  # fmt: skip
RESIZING = ["elastic", "optimus", "slaq", "qoredl", "saf:backfill=easy"]  # the last one for comparison
LUCID = ["lucid:estimate=none", "lucid:estimate=rolling", "lucid:refit=0"]  # the last one by its model
TURNS = [*STOPPING, "gandiva:slicing=true", "gandiva:slicing=true,packing=true"]  # many stops while others wait
GROWING = ["fifo", "fifo:blocking=skip", "wfp3", "saf:backfill=easy", "srtf:estimate=oracle"]
CALM = "52x8"  # on which there are hours with hardly a queue
CARRIED_LOAD = 0.6  # strict queues are short at this one
GIB, HOUR_MS = 2**30, 3_600_000


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    jobs: int = workload.PHILLY_JOBS
    repeats: int = 3  # the best of this many
    growth: int = 30_000  # jobs, and ten times as many
    memory: int = 1_000_000  # jobs
    event_peer: int = 10_000  # jobs of the skipping event loop, which is slow
    tick_peer: int = 1_000
    cases: int = 50  # schedules per policy against the reference
    starts: bool = True  # whether starting with an empty cache is measured
    rows: int = 1_200_000  # of the log that is read
    racks: int = 1_024  # of 8 machines of 8 GPUs, of the large cluster
    learned: int = 100_000  # jobs that models are fitted to
    turns: int = 5_000  # jobs that take turns, and four times as many
    hours: int = 8  # that are simulated ahead


QUICK = Size(1_500, 1, 300, 2_000, 300, 60, 2, False, 2_000, 16, 400, 100, 2)


@dataclass(frozen=True)
class Row:
    """One line of the outcome."""

    what: str
    measure: str
    measured: float
    unit: str
    aim: float | None = None
    at_most: bool = False
    remark: str = ""

    @property
    def met(self) -> bool:
        """Whether the aim, if there is one, is reached."""
        if self.aim is None:
            return True
        return self.measured <= self.aim if self.at_most else self.measured >= self.aim

    @property
    def verdict(self) -> str:
        """Met, or by how much not."""
        if self.aim is None or self.met:
            return "; ".join(filter(None, ["met" if self.aim is not None else "", self.remark]))
        ratio = self.measured / self.aim
        short = f"is {100 * (ratio - 1):.0f} % above" if self.at_most else f"falls short by {100 * (1 - ratio):.0f} %"
        return "; ".join(filter(None, [short, self.remark]))


@contextmanager
def one_core() -> Iterator[None]:
    """Stay on one core, where the system lets us."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Timing(NamedTuple):
    """Seconds that something took, and how many of them it had the processor."""

    wall: float
    cpu: float

    @property
    def remark(self) -> str:
        """A word on a machine that was busy with something else, so that the code is not blamed."""
        return f"busy machine: {self.cpu:.2g} s of CPU in {self.wall:.2g} s" if self.cpu < 0.85 * self.wall else ""


def best_of(repeats: int, work: Callable[[], object]) -> Timing:
    """The fastest of some repetitions on one core."""
    found = []
    with one_core():
        for _ in range(repeats):
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            found.append(Timing(time.perf_counter() - wall, time.process_time() - cpu))
    return min(found, key=lambda took: took.cpu)


def simulated(trace: Trace, policy: str, nodes: int = workload.NODES, reasons: bool = False) -> Simulator:
    """One whole run, from arrays to the last event."""
    simulator = Simulator(trace, workload.cluster(nodes), reasons=reasons)
    simulator.run(registry.policy(policy))
    return simulator


def warm(trace: Trace, policy: str) -> None:
    """Have the policy's kernels compiled."""
    simulated(trace.select(np.arange(min(200, len(trace)))), policy)


# ------------------------------------------------------------------------------------------- the rows


def speeds(trace: Trace, size: Size) -> Iterator[Row]:
    """Jobs per second of CPU of the compiled policies."""
    groups = [("static order", STATIC, 500_000), ("varies with time, or EASY", VARYING, 50_000)]
    for what, policies, aim in [*groups, ("preemptive", PREEMPTIVE, 20_000)]:
        for policy in policies:
            warm(trace, policy)
            took = best_of(size.repeats, lambda policy=policy: simulated(trace, policy))  # type: ignore[misc]
            yield Row(f"{what}: {policy}", "jobs per second of CPU", len(trace) / took.cpu, "jobs/s", aim)


def resizing(trace: Trace, size: Size) -> Iterator[Row]:
    """Policies that change the width of jobs, half of which have a range, a third a deadline; and one that does not."""
    jobs = workload.elastic(trace)
    for policy in RESIZING:
        simulators: list[Simulator] = []

        def run(jobs: Trace, policy: str = policy, kept: list[Simulator] = simulators) -> None:
            kept[:] = [Simulator(jobs, workload.costly())]
            kept[0].run(registry.policy(policy))

        run(jobs.select(np.arange(min(200, len(jobs)))))
        took = best_of(size.repeats, lambda run=run: run(jobs))  # type: ignore[misc]
        served = _served(jobs, simulators[0])
        yield Row(f"resizes: {policy}", "jobs per second of CPU", len(jobs) / took.cpu, "jobs/s", 20_000, remark=served)


def _served(jobs: Trace, simulator: Simulator) -> str:
    """Deadlines met, what became of the other jobs, and what that took."""
    spent = simulator.world.jobs[w.ENDED_AT] - jobs.submit
    met, late = 100 * (spent <= jobs.deadline)[jobs.deadline > 0].mean(), (spent - jobs.duration)[jobs.deadline == 0]
    kinds = simulator.events[:, 1]
    changes = f"{(kinds == w.MOVE).sum():,} changes of width, {(kinds == w.PREEMPT).sum():,} stops"
    delays = f"others {late.mean() / HOUR_MS:.1f} h later, P99 {np.percentile(late, 99) / HOUR_MS:.0f} h"
    return f"{met:.1f} % of deadlines met, {delays}; {changes}"


def sharing(trace: Trace, size: Size) -> Iterator[Row]:
    """Lucid, which profiles jobs and lets them share GPUs; its model was fitted to the first jobs before."""
    begin = int(trace.submit[4 * size.turns]) // 1000
    setup = set_up(trace, workload.cluster(), since=str(begin))
    for text in LUCID if extras.is_there("interpret.glassbox") else LUCID[:-1]:
        named = simulation.resolve(text)
        named = named.with_past(simulation.learned_before(named.policy, setup))
        took = best_of(1 + size.repeats, lambda named=named: simulation.run(setup, named))  # type: ignore[misc]
        yield Row(f"shares GPUs: {text}", "jobs per second of CPU", len(setup.trace) / took.cpu, "jobs/s", 20_000)


def turns(trace: Trace, size: Size) -> Iterator[Row]:
    """Policies that stop jobs often: how many stops there are is up to the policy, so the rows say that too."""
    for policy in TURNS:
        warm(trace, policy)
        some = [trace.select(np.arange(min(count, len(trace)))) for count in (size.turns, 4 * size.turns)]
        took = [best_of(size.repeats, lambda p=policy, t=t: simulated(t, p)).cpu for t in some]  # type: ignore[misc]
        stops = [int(simulated(t, policy).world.jobs[w.PREEMPTIONS].sum()) for t in some]
        speed = f"{stops[1]:,} stops, {stops[1] / took[1]:,.0f} a second"
        yield Row(f"turns: {policy}", "jobs per second of CPU", len(some[1]) / took[1], "jobs/s", 20_000, remark=speed)
        measure = f"CPU time of {len(some[1]):,} over {len(some[0]):,} jobs"
        grown = f"{stops[1] / max(stops[0], 1):.1f} times as many stops"
        yield Row(f"turns: {policy}", measure, took[1] / took[0], "x", 5, at_most=True, remark=grown)


def decisions(trace: Trace, size: Size) -> Iterator[Row]:
    """How much longer a run takes that keeps why jobs waited."""
    for policy in DECIDING:
        timings: dict[bool, list[float]] = {False: [], True: []}
        with one_core():
            for kept in [False, True] * (2 * size.repeats + 1):  # in turn, so that a busy moment hits both
                timings[kept].append(simulated(trace, policy, reasons=kept).elapsed_s)
        more = 100 * (min(timings[True]) / min(timings[False]) - 1)
        yield Row(f"--decisions: {policy}", "% longer in the engine", max(more, 0.01), "%", 30, at_most=True)


def plain_python(trace: Trace, size: Size) -> Iterator[Row]:
    """Events per second of a plain Python policy through ``drive``, on a cluster large enough for a short queue."""
    some, cluster = trace.select(np.arange(min(20_000, len(trace)))), workload.cluster(2 * workload.NODES)
    simulators: list[Simulator] = []

    def run() -> None:
        simulators.append(Simulator(some, cluster))
        simulators[-1].run(PlainFifo())

    took = best_of(size.repeats, run)
    count = int(np.isin(simulators[-1].events[:, 1], (w.ARRIVE, w.FINISH)).sum())
    what, measure = "plain Python policy through drive", f"arrivals and ends/s, {cluster.nodes} nodes"
    yield Row(what, measure, count / took.cpu, "events/s", 20_000)


def threads(trace: Trace, size: Size) -> Iterator[Row]:
    """How much faster two threads run two simulations than one does: the compiled loop holds no lock."""

    def both(workers: int) -> float:
        with ThreadPoolExecutor(workers) as pool:
            begun = time.perf_counter()
            list(pool.map(lambda _: simulated(trace, "wfp3"), range(2)))
            return time.perf_counter() - begun

    ratio = max(both(1) / both(2) for _ in range(size.repeats))
    yield Row("two simulations on two threads", "speed-up over one thread", ratio, "x", 1.3)


def growth(size: Size) -> Iterator[Row]:
    """Time for ten times the jobs at the same load: the table's, at which strict queues go on growing, and a lower one.

    A longer queue is more work for the same number of jobs, so the row says how the mean wait changed.
    """
    for load in (workload.LOAD, CARRIED_LOAD):
        small, large = workload.made_up(size.growth, load), workload.made_up(10 * size.growth, load)
        for policy in GROWING:
            warm(small, policy)
            once = best_of(size.repeats, lambda p=policy, t=small: simulated(t, p))  # type: ignore[misc]
            tenfold = best_of(min(size.repeats, 2), lambda p=policy, t=large: simulated(t, p))  # type: ignore[misc]
            waits = [simulated(trace, policy).world.jobs[w.WAITED].mean() / HOUR_MS for trace in (small, large)]
            remark = f"mean wait {waits[0]:.1f} h, then {waits[1]:.1f} h"
            measure = f"CPU time of {10 * size.growth:,} over {size.growth:,} synthetic jobs"
            what = f"growth at load {load}: {policy}"
            yield Row(what, measure, tenfold.cpu / once.cpu, "x", 12, at_most=True, remark=remark)
    yield equal_queues(size)


def equal_queues(size: Size) -> Row:
    """The same for ``wfp3`` from a number of jobs on at which its queue has stopped growing."""
    some, more = 10 * size.growth // 3, 10 * size.growth
    traces = [workload.made_up(count) for count in (some, more)]
    took = [best_of(min(size.repeats, 2), lambda t=trace: simulated(t, "wfp3")).cpu for trace in traces]  # type: ignore[misc]
    waits = [simulated(trace, "wfp3").world.jobs[w.WAITED].mean() / HOUR_MS for trace in traces]
    measure = f"CPU time of {more:,} over {some:,} synthetic jobs"
    remark = f"mean wait {waits[0]:.1f} h, then {waits[1]:.1f} h"
    what = f"growth at load {workload.LOAD}, a queue that grows no more: wfp3"
    return Row(what, measure, took[1] / took[0], "x", 3.6, at_most=True, remark=remark)


PEAK = """
import json, sys
from benchmarks import workload
from benchmarks.measures import peak_bytes, simulated
simulated(workload.made_up(100), "fifo")
before = peak_bytes()
simulated(workload.made_up(int(sys.argv[1])), "fifo")
print(json.dumps(peak_bytes() - before))
"""


def peak_bytes() -> int:
    """The most memory that this process ever had."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def memory(size: Size) -> Iterator[Row]:
    """Peak memory of making and simulating many jobs, over that of a process that has imported everything."""
    done = subprocess.run([sys.executable, "-c", PEAK, str(size.memory)], capture_output=True, text=True, check=True)
    per_million = json.loads(done.stdout) / GIB * 1e6 / size.memory
    yield Row("memory", "peak per million jobs, trace included", per_million, "GiB", 1, at_most=True)


READ = """
import json, sys, time
from benchmarks.measures import peak_bytes
from shunter.traces import read
wall, cpu = time.perf_counter(), time.process_time()
jobs = len(read(sys.argv[1]))
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, peak_bytes(), jobs]))
"""


def reading(size: Size) -> Iterator[Row]:
    """Time and peak memory of a process that reads a large log."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cluster_log.csv")
        workload.write_helios_log(path, size.rows)
        command = [sys.executable, "-c", READ, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall, cpu, peak, jobs = json.loads(done.stdout)
    what, remark = f"reading {size.rows:,} rows of a Helios log", f"{jobs:,} GPU jobs"
    yield Row(
        what, "seconds", wall, "s", 10, at_most=True, remark="; ".join(filter(None, [remark, Timing(wall, cpu).remark]))
    )
    yield Row(what, "peak of the process", peak / GIB, "GiB", 2, at_most=True)


def starts(size: Size) -> Iterator[Row]:
    """Whole processes: the first on a fresh machine, and later ones."""
    if not size.starts:
        return
    with tempfile.TemporaryDirectory() as cache:
        yield _seconds("shunter --help", _process(["--help"], cache), 0.5)
    for policy in ("fifo", "fifo:backfill=easy", "tiresias", "dally"):
        command = ["simulate", "synthetic:jobs=1000,gpus=128", "-c", "16x8", "-p", policy, "--json"]
        with tempfile.TemporaryDirectory() as cache:
            first, later = _process(command, cache), _process(command, cache)
        yield _seconds(f"first run, nothing compiled: {policy}", first, 15)
        yield _seconds(f"every later start: {policy}", later, 2)
    with tempfile.TemporaryDirectory() as cache:
        yield _seconds("shunter demo, nothing compiled", _process(["demo"], cache), 60)


def _process(arguments: list[str], cache: str) -> Timing:
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "SHUNTER_KERNELS": ""}
    wall, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-m", "shunter", *arguments], env=environment, capture_output=True, check=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Timing(time.perf_counter() - wall, cpu)


def _seconds(what: str, took: Timing, aim: float) -> Row:
    return Row(what, "seconds of the whole process", took.wall, "s", aim, at_most=True, remark=took.remark)


def answers(size: Size) -> Iterator[Row]:
    """What stands behind a forecast: a copy of a simulation, and a hundred futures of the last job of a long queue."""
    trace = habitual(10_000, 400, 8.0)
    simulator = Simulator(trace, clusters.load("50x8"))
    simulator.run(registry.policy("fifo:backfill=easy"), until=int(trace.submit[2500]))
    took = best_of(5 * size.repeats, simulator.fork)
    yield Row("fork of a simulation of 10,000 jobs", "ms of CPU", 1000 * took.cpu, "ms", 5, at_most=True)

    present = snapshot_of(simulator)
    waiting = [job for job in present.jobs if job.state == "PENDING"][:1000]
    outlook = Outlook(replace(present, jobs=(*(job for job in present.jobs if job.runs), *waiting)))
    last = outlook.line.order(waiting)[-1]
    replace(outlook, samples=1).of(last)  # compiles
    took = best_of(size.repeats, lambda: outlook.of(last))
    what = f"start of the last of {len(waiting):,} waiting jobs, {outlook.samples} futures"
    yield Row(what, "seconds of CPU", took.cpu, "s", 2, at_most=True)


def looking_ahead(trace: Trace, size: Size) -> Iterator[Row]:
    """An hour ahead in an excerpt beside a fork of the whole simulation, and 40 settings tried on a generated hour."""
    setup, learns = set_up(trace, CALM), extras.is_there("interpret.glassbox")
    for policy in excerpts.POLICIES if learns else excerpts.POLICIES[:-1]:
        calm = sorted(excerpts.measured(setup, policy, size.hours))[: size.hours // 2]
        ratio = statistics.median(fork / part for _, fork, part in calm)
        what, measure = f"the next hour in an excerpt: {policy}", f"times as fast as in a fork, calm hours of {CALM}"
        yield Row(what, measure, ratio, "x", 4, remark=f"up to {calm[-1][0]:,} unfinished jobs")
    for policy in ("tiresias", "themis", "lucid") if learns else ("tiresias", "themis"):
        work = adapting_cost.adapting("venus", policy)
        slowest = max(adapting_cost.searches(work, adapting_cost.HOURS[: size.hours]), key=lambda found: found.seconds)
        what, remark = f"search of an hour: {policy}", f"{slowest.jobs:,} jobs; {slowest.evaluations} settings"
        yield Row(what, "seconds of CPU, the slowest of some hours", slowest.seconds, "s", 1, True, remark)


def placements(size: Size) -> Iterator[Row]:
    """What one placement's iteration time costs, from the GPUs of each machine: asked again, and asked first."""
    tiers = TierNetwork.of(clusters.load("dally-8rack"))
    machines, racks = [8] * 8, [0, 0, 0, 0, 1, 1, 1, 1]
    costs, asked = Costs(tiers), 1_000
    longest = max(catalogue().values(), key=lambda model: len(model.layers)).name

    def ask(times: int = 1) -> None:
        for _ in range(times):
            costs.iteration(longest, shape_of(machines, racks))

    costs.profile(longest)
    first = best_of(1, ask)
    again = best_of(size.repeats, lambda: ask(asked))
    what = f"network: one placement's iteration time, {longest}"
    yield Row(what, "us, asked again", again.cpu / asked * 1e6, "us", 20, at_most=True)
    yield Row(what, "ms, asked first", first.cpu * 1000, "ms", 50, at_most=True)


def shared_links(trace: Trace, size: Size) -> Iterator[Row]:
    """What a network costs the engine where jobs are spread: each on links of its own, and all on the same ones."""
    jobs, cluster = with_models(trace.select(np.arange(min(2_000, len(trace)))), 0), clusters.load("dally-8rack")
    costs, policy = Costs(TierNetwork.of(cluster)), registry.policy("fifo:placement=spread")
    for contention, aim in ((False, 300_000), (True, 20_000)):
        scenario, taken = Scenario(network=costs, contention=contention), []
        for _ in range(1 + size.repeats):  # the first one has the kernels compiled
            with one_core():
                simulator = Simulator(jobs, cluster, scenario=scenario)
                simulator.run(policy)
            taken.append(simulator.elapsed_s)
        what = f"network: fifo:placement=spread on dally-8rack, {'shared' if contention else 'own'} links"
        yield Row(what, f"jobs/s of {len(jobs):,}", len(jobs) / min(taken), "jobs/s", aim)


def large_cluster(size: Size) -> Iterator[Row]:
    """Dally's batch on a very large cluster, from arrays to the last event."""
    found, stands_in = workloads(["batch"])
    jobs, small = found["batch"], clusters.load("dally-8rack")
    group = dataclasses.replace(small.groups[0], count=8 * size.racks, racks=(8,) * size.racks)
    cluster = dataclasses.replace(small, name=f"dally-{size.racks}rack", groups=(group,))
    scenario = Scenario(network=Costs(TierNetwork.of(cluster)))

    def run(policy: str, on: Cluster) -> None:
        Simulator(jobs, on, scenario=scenario).run(registry.policy(policy))

    for policy in ("dally", "tiresias", "marshal"):
        run(policy, small)
        took = best_of(size.repeats, lambda policy=policy: run(policy, cluster))  # type: ignore[misc]
        remark = "a stand-in for the batch" if stands_in else ""
        what, measure = f"{cluster.gpus:,} GPUs: {policy}", f"seconds of CPU for a batch of {len(jobs)} jobs"
        yield Row(f"large cluster, {what}", measure, took.cpu, "s", 60, at_most=True, remark=remark)


def correctness(size: Size) -> Iterator[Row]:
    """Schedules that are those of the reference."""
    compared, same = equality.equal(size.cases)
    remark = "a sample; tests/test_against_reference.py is the whole"
    yield Row("correctness", "schedules equal to the reference's", same, f"of {compared:,}", compared, remark=remark)


# ------------------------------------------------------------------------------------------- the peers


def peer_rows(trace: Trace, size: Size) -> Iterator[Row]:
    """The loops that people write, on jobs of the same trace, and how many times faster the engine is on them."""
    middle = len(trace) // 3
    short = np.flatnonzero(trace.duration[middle:] <= 4 * 3600_000)[: size.tick_peer] + middle
    slices = [
        ("heapq loop, strict FIFO", "fifo", np.arange(len(trace))),
        ("heapq loop, skipping FIFO", "fifo:blocking=skip", np.arange(middle, middle + size.event_peer)),
        ("one-second tick loop, strict FIFO", "fifo", short),
    ]
    for what, policy, rows in slices:
        yield _peer(what, policy, whole_seconds(trace.select(rows)), size)


def whole_seconds(trace: Trace) -> Trace:
    """The trace in whole seconds, which is what a tick loop can do."""
    submit, duration = (np.rint(column / 1000).astype(np.int64) * 1000 for column in (trace.submit, trace.duration))
    return dataclasses.replace(trace, submit=submit, duration=duration)


def _peer(what: str, policy: str, trace: Trace, size: Size) -> Row:
    columns = (trace.submit // 1000, trace.duration // 1000, trace.gpus // GPU)
    jobs = list(zip(*(column.tolist() for column in columns), strict=True))
    ends: list[list[int]] = []
    shape = (workload.NODES, workload.GPUS_PER_NODE)

    def run() -> None:
        ticks = what.startswith("one-second")
        ends.append(peers.tick_loop(jobs, *shape) if ticks else peers.event_loop(jobs, *shape, "skip" in policy))

    peer, engine = best_of(1, run), best_of(size.repeats, lambda: simulated(trace, policy))
    theirs = np.mean(np.array(ends[0]) - columns[0])
    ours = jct_ms(simulated(trace, policy).world.jobs).mean() / 1000
    same = f"same mean JCT, {ours:,.1f} s" if abs(theirs - ours) < 1e-6 * ours else f"OTHER MEAN JCT: {theirs}, {ours}"
    remark = f"shunter is {peer.cpu / engine.cpu:,.0f} times faster on these {len(trace):,} jobs; {same}"
    return Row(f"peer: {what}", "jobs per second of CPU", len(trace) / peer.cpu, "jobs/s", remark=remark)
