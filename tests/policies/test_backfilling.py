"""What backfilling promises when estimates are exact, checked on the engine itself."""

import importlib
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter import placers, registry
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import PolicyError
from shunter.model import GPU, Plan, Start, Trace
from shunter.sim import Scenario
from shunter.sim.engine import Simulator
from shunter.sim.scenario import Fault
from shunter.world import RANK, STARTED

EXACT = "estimate=oracle"
WHOLE_NODES = ["consolidate", "first-fit", "count"]
CLUSTERS = [
    Cluster("even", (NodeGroup(3, 4),)),
    Cluster("uneven", (NodeGroup(1, 2), NodeGroup(1, 8), NodeGroup(2, 4))),
]


@st.composite
def traces(draw):
    """Crowded little traces; every job fits either cluster under any placement."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 30), st.integers(1, 25), st.sampled_from([1, 1, 2, 3, 4, 8])),
            min_size=3,
            max_size=30,
        )
    )
    submit, duration, gpus = zip(*sorted(rows, key=lambda row: row[0]), strict=True)
    return Trace.of(
        "t",
        [str(i) for i in range(len(rows))],
        submit=np.array(submit) * 1000,
        duration=np.array(duration) * 1000,
        gpus=np.array(gpus) * GPU,
    )


@dataclass(frozen=True)
class OnlyOne:
    """Starts one job as soon as its placement lets it, and nothing else."""

    job: int
    placement: str
    needs: frozenset = frozenset()

    def start(self, cluster, previous=None):
        return None

    def decide(self, view, memory):
        if self.job not in view.pending:
            return Plan()
        place = importlib.import_module(f"shunter.placers.{self.placement.replace('-', '_')}").place
        nodes, counts = np.zeros(64, np.int64), np.zeros(64, np.int64)
        free, total, order = (view.nodes.free.copy(), view.nodes.total.copy(), view.world.nodes[RANK])
        used = place(free, total, order, int(view.jobs.gpus[self.job]), 0, nodes, counts)
        gpus = [gpu for i in range(used) for gpu in view.free_gpus(int(nodes[i]))[: counts[i]].tolist()]
        return Plan((Start(self.job, gpus),)) if gpus else Plan()


def start_if_nobody_else_did(simulator, job, placement):
    """When a job starts in a copy of this simulation in which nothing else does."""
    twin = simulator.fork()
    twin.run(OnlyOne(job, placement), until=10**9)
    return int(twin.world.jobs[STARTED, job])


def run_watching_heads(trace, cluster, placement):
    """Run FIFO with EASY; returns what each job, once it was the head, was promised, and the simulation."""
    policy = registry.policy(f"fifo:backfill=easy,placement={placement},{EXACT}")
    simulator, promised = Simulator(trace, cluster), {}
    simulator.prepare(policy.needs)
    memory = policy.start(cluster)
    for view in simulator:
        while True:
            plan = policy.decide(view, memory)
            head = int(memory.form.memory.head[0])
            if head >= 0 and head not in promised:
                promised[head] = start_if_nobody_else_did(simulator, head, placement)
            if not plan.actions:
                break
            assert not simulator.apply(plan)
    return promised, simulator


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda cluster: cluster.name)
@pytest.mark.parametrize("placement", WHOLE_NODES)
@settings(max_examples=60, deadline=None)
@given(trace=traces())
def test_easy_never_delays_the_head(trace, placement, cluster):
    promised, simulator = run_watching_heads(trace, cluster, placement)
    for job, latest in promised.items():
        assert simulator.world.jobs[STARTED, job] <= latest, (
            f"job {job} was promised {latest} ms\n{simulator.story(job)}"
        )


def test_easy_does_backfill():
    """Job 1 wants the whole cluster at 10 s; job 2 is done by then and passes it, job 3 isn't and waits."""
    trace = Trace.of(
        "t", list("abcd"), submit=[0, 1, 2, 3], duration=[10_000, 5_000, 9_000, 9_999], gpus=[GPU, 12 * GPU, GPU, GPU]
    )
    promised, simulator = run_watching_heads(trace, CLUSTERS[0], "consolidate")
    assert promised[1] == 10_000
    assert simulator.world.jobs[STARTED].tolist() == [0, 10_000, 2, 15_000]


def test_no_rule_protects_jobs_still_to_come():
    """Why EASY can lose by any factor: what passes in time takes the GPU that a hundred short jobs would have used."""
    rows = [(0, 1000, 1), (1, 500, 2), (1, 900, 1), *[(second, 1, 1) for second in range(2, 102)]]
    submit, duration, gpus = (np.array(column) for column in zip(*rows, strict=True))
    names = [str(job) for job in range(len(rows))]
    trace = Trace.of("t", names, submit=submit * 1000, duration=duration * 1000, gpus=gpus * GPU)
    begun = {
        backfill: starts(trace, registry.policy(f"sjf:{EXACT},backfill={backfill}"), Cluster("c", (NodeGroup(1, 2),)))
        for backfill in ("none", "easy")
    }
    wait, easy_wait = (found - trace.submit for found in begun.values())
    assert begun["easy"][2] == 1000  # it passes
    assert begun["easy"][1] <= begun["none"][1] + 1000  # which costs the first job nothing; it waits for a short one
    assert (wait[3:] == 0).all()
    assert easy_wait.sum() > 10 * wait.sum()


@pytest.mark.parametrize("passing", [0, 500, 1_000])
def test_a_job_passes_only_if_it_is_short_for_those_that_ended(passing):
    """The same, after 30 jobs of a second: 500 times that is too short for the job of 900 s, 1,000 times is not."""
    rows = [(0, 1, 1)] * 30 + [(60, 1000, 1), (61, 500, 2), (61, 900, 1), *[(at, 1, 1) for at in range(62, 162)]]
    submit, duration, gpus = (np.array(column) for column in zip(*rows, strict=True))
    names = [str(job) for job in range(len(rows))]
    trace = Trace.of("t", names, submit=submit * 1000, duration=duration * 1000, gpus=gpus * GPU)
    policy = registry.policy(f"sjf:{EXACT},backfill=easy,passing={passing / 8}")  # they took 8 s in the mean, on 2 GPUs
    begun = starts(trace, policy, Cluster("c", (NodeGroup(1, 2),)))
    passes = begun[32] == 61_000
    assert passes == (passing != 500)
    assert (begun[33:] == trace.submit[33:]).all() != passes


def passes(first):
    """Whether a job of 900 s passes one that waits for its whole node, after these jobs: (second, run time, vc)."""
    later = first[-1][0] + 10_000
    rows = [(at, time, 1, vc) for at, time, vc in first]
    rows += [(later, 5000, 3, 0), (later + 1, 100, 4, 0), (later + 2, 900, 1, 0)]
    submit, duration, gpus, vc = (np.array(column) for column in zip(*rows, strict=True))
    names = [str(job) for job in range(len(rows))]
    columns = {"submit": submit * 1000, "duration": duration * 1000, "gpus": gpus * GPU, "vc": vc}
    trace = Trace.of("t", names, vcs=("a", "b"), **columns)
    cluster = Cluster("c", (NodeGroup(1, 4, vc="a"), NodeGroup(1, 4, vc="b")))
    return starts(trace, registry.policy(f"fifo:{EXACT},backfill=easy,passing=20"), cluster)[-1] == trace.submit[-1]


LONG = [(1000 * at, 1000, 0) for at in range(700)]


def test_old_completion_times_count_less_and_less():
    """Jobs of 1,000 s ended, then thousands of 1 s: the mean of all of them would still let 900 s pass."""
    assert passes(LONG)
    assert not passes(LONG + [(800_000 + 2 * at, 1, 0) for at in range(3000)])
    assert np.mean([1000] * 700 + [1] * 3000) * 20 > 900


def test_completion_times_are_those_of_the_virtual_cluster():
    """So nobody keeps the jobs of others from passing by many short ones."""
    flood = [(800_000 + 2 * at, 1, 1) for at in range(3000)]
    assert passes(LONG + flood)


def test_any_job_passes_one_that_can_not_start():
    """A node is down, so that nothing can be reserved for a job of two nodes."""
    rows = [(0, 10, 1)] * 30 + [(1000, 60, 8), (1001, 7200, 1)]
    submit, duration, gpus = (np.array(column) for column in zip(*rows, strict=True))
    names = [str(job) for job in range(len(rows))]
    trace = Trace.of("t", names, submit=submit * 1000, duration=duration * 1000, gpus=gpus * GPU)
    down = Scenario((Fault(500_000, 1, 86_400_000),))
    policy = registry.policy(f"fifo:{EXACT},backfill=easy,passing=32")
    begun = starts(trace, policy, Cluster("c", (NodeGroup(2, 4),)), scenario=down)
    assert begun[-2:].tolist() == [86_400_000, 1_001_000]


def test_completion_times_stay_with_their_virtual_cluster_when_others_come_and_go():
    def of(*vcs):
        columns = {"submit": [0, 0, 1000], "duration": [1000, 4000, 7000], "gpus": [GPU] * 3, "vc": [0, 1, 1]}
        trace = Trace.of("t", ["x", "y", "z"], vcs=("a", "b"), **columns)
        return Simulator(trace, Cluster("c", tuple(NodeGroup(1, 4, vc=name) for name in vcs)))

    policy, before, after = registry.policy("fifo:backfill=easy,passing=32"), of("a", "b"), of("b", "new", "a")
    memory = before.run(policy)
    known = policy.compiled(after.present(), policy.start(after.cluster, memory)).memory.completions
    assert known.jobs.tolist() == [2, 0, 1, 0]
    assert known.time.tolist() == [11_000, 0, 1000, 0]


def test_passing_that_would_count_as_nothing_is_refused():
    with pytest.raises(PolicyError, match="less than a thousandth; use 0"):
        registry.policy("fifo:backfill=easy,passing=0.0004")


def test_easy_can_lose_under_fifo_too_and_conservative_backfilling_does_not():
    """The last job passes on the GPU that the first of the queue leaves over; a hundred jobs behind it need it."""
    rows = [(0, 100, 3), (1, 100, 3), *[(2, 10, 4)] * 100, (3, 10_000, 1)]
    submit, duration, gpus = (np.array(column) for column in zip(*rows, strict=True))
    names = [str(job) for job in range(len(rows))]
    trace = Trace.of("t", names, submit=submit * 1000, duration=duration * 1000, gpus=gpus * GPU)
    means = {}
    for backfill in ("none", "easy", "conservative"):
        policy = registry.policy(f"fifo:{EXACT},backfill={backfill}")
        begun = starts(trace, policy, Cluster("c", (NodeGroup(1, 4),)))
        means[backfill] = (begun + trace.duration - trace.submit).mean()
    assert means["easy"] > 10 * means["none"]
    assert means["conservative"] == means["none"]


def starts(trace, policy, cluster, **more):
    simulator = Simulator(trace, cluster, **more)
    simulator.run(policy)
    return simulator.world.jobs[STARTED]


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda cluster: cluster.name)
@pytest.mark.parametrize("placement", [*WHOLE_NODES, "spread"])
@settings(max_examples=30, deadline=None)
@given(trace=traces())
def test_conservative_never_delays_anybody(trace, placement, cluster):
    """Every job starts when it would if nobody had come after it."""
    policy = registry.policy(f"fifo:backfill=conservative,placement={placement},{EXACT}")
    full = starts(trace, policy, cluster)
    for count in range(1, len(trace)):
        alone = starts(trace.select(np.arange(count)), policy, cluster)
        assert full[:count].tolist() == alone.tolist(), f"the jobs from {count} on changed something"


def test_conservative_does_backfill():
    trace = Trace.of(
        "t", list("abcd"), submit=[0, 1, 2, 3], duration=[10_000, 5_000, 9_000, 9_999], gpus=[GPU, 12 * GPU, GPU, GPU]
    )
    policy = registry.policy(f"fifo:backfill=conservative,{EXACT}")
    assert starts(trace, policy, CLUSTERS[0]).tolist() == [0, 10_000, 2, 15_000]


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda cluster: cluster.name)
@pytest.mark.parametrize("placement", placers.TOGETHER)
@settings(max_examples=40, deadline=None)
@given(trace=traces())
def test_looking_only_where_something_ends_finds_the_same_reservations(trace, placement, cluster):
    policy = registry.policy(f"fifo:backfill=easy,placement={placement},{EXACT}")
    quick, thorough = Simulator(trace, cluster), Simulator(trace, cluster)
    quick.run(policy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placers, "TOGETHER", ())
        thorough.run(policy)
    assert quick.digest == thorough.digest
