"""Age and usage looked at once in a period, ranks of users, CPUs and bills: against a slow count from the log."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter.cluster import Cluster, NodeGroup
from shunter.errors import PolicyError
from shunter.model import GPU, Trace
from shunter.policies.multifactor import Multifactor
from shunter.scheduling.queue.usage import rank_users
from shunter.seeding import rng
from shunter.sim.engine import Simulator
from shunter.world import FINISH, START

MACHINES = Cluster("c", (NodeGroup(2, 4, cpus=16), NodeGroup(1, 2, cpus=8)))
NODES, CPUS, GPUS = 3, 40, 10
USERS = ("ann", "bob", "cy", "di", "eve")
JOBS = 40


def crowd(seed: int) -> Trace:
    """Jobs of several users that come faster than they can run."""
    draw = rng(seed, "periods")
    gpus = draw.choice([1, 1, 2, 4, 6], JOBS)
    return Trace.of(
        "crowd",
        [str(i) for i in range(JOBS)],
        submit=np.sort(draw.integers(0, 120, JOBS)) * 500,
        duration=draw.integers(1, 40, JOBS) * 700,
        gpus=gpus * GPU,
        cpus=gpus * draw.integers(0, 3, JOBS) * 1000,
        mem_gib=gpus * draw.integers(0, 3, JOBS) * 2048,
        user=draw.integers(0, len(USERS), JOBS),
        users=USERS,
        qos=draw.integers(0, 3, JOBS) * 500,
    )


class Count:
    """The priorities of Slurm's manual, from the log up to a time, all counted anew each time."""

    def __init__(self, policy: Multifactor, trace: Trace, events: np.ndarray) -> None:
        self.policy, self.trace = policy, trace
        self.begin = {job: time for time, kind, job, *_ in events.tolist() if kind == START}
        self.end = {job: time for time, kind, job, *_ in events.tolist() if kind == FINISH}

    def used(self, user: int, until: float) -> float:
        """The integral of what ran, each moment of it halved in every half-life since."""
        p, total = self.policy, 0.0
        for job in np.flatnonzero(self.trace.user == user):
            begin, end = (min(times[job], until) / 1000 for times in (self.begin, self.end))
            one = [2 ** (-(until / 1000 - time) / p.decay) * p.decay / np.log(2) for time in (begin, end)]
            gpus, cpus, gib = self.trace.gpus[job] / GPU, self.trace.cpus[job] / 1000, self.trace.mem_gib[job] / 1024
            total += (p.bill_gpu * gpus + p.bill_cpu * cpus + p.bill_mem * gib) * (one[1] - one[0])
        return total

    def fair(self, now: int) -> list[float]:
        """Every user's factor; who has not been seen by then has used nothing."""
        seen = sorted(set(self.trace.user[self.trace.submit < now].tolist()))
        used = {user: round(self.used(user, now), 6) for user in seen}
        total = sum(used.values())
        found = [1.0] * len(USERS)
        for user in seen if total > 0 else ():
            less = sum(other < used[user] for other in used.values())
            rank, share = (len(seen) - less) / len(seen), used[user] / total * len(seen)
            found[user] = rank if self.policy.fair_tree else 2**-share
        return found

    def size(self, job: int) -> float:
        """By GPUs, or by CPUs and nodes."""
        gpus, cpus = self.trace.gpus[job] / GPU, self.trace.cpus[job] / 1000
        nodes = -(-gpus // 4)
        by_cpus = ((cpus / CPUS if cpus else gpus / GPUS) + nodes / NODES) / 2
        size = gpus / GPUS if self.policy.size_by == "gpus" else by_cpus
        return 1 - size if self.policy.favor_small else size

    def priority(self, job: int, now: int, fair: list[float]) -> float:
        """The weighted sum."""
        p = self.policy
        age = min(max(now - self.trace.submit[job], 0) / 1000 / p.max_age, 1.0)
        gpus, qos = self.trace.gpus[job] / GPU / GPUS, self.trace.qos[job] / 1000
        shared = fair[self.trace.user[job]]
        return p.age * age + p.fairshare * shared + p.size * self.size(job) + p.gpu * gpus + p.qos * qos


WEIGHTS = st.sampled_from([0.0, 100.0, 1000.0])
POLICIES = st.builds(
    Multifactor,
    age=WEIGHTS, fairshare=WEIGHTS, size=WEIGHTS, gpu=WEIGHTS, qos=st.just(10.0),
    max_age=st.sampled_from([10.0, 100.0]), decay=st.sampled_from([60.0, 3600.0]), favor_small=st.booleans(),
    size_by=st.sampled_from(["gpus", "cpus"]), period=st.sampled_from([1.5, 10.0, 60.0]), fair_tree=st.booleans(),
    bill_gpu=st.just(1.0), bill_cpu=st.sampled_from([0.0, 2.0]), bill_mem=st.sampled_from([0.0, 0.5]),
)  # fmt: skip


@settings(deadline=None)
@given(policy=POLICIES, seed=st.integers(0, 10_000))
def test_the_job_that_starts_has_the_highest_priority_as_of_the_period(policy, seed):
    trace = crowd(seed)
    simulator = Simulator(trace, MACHINES)
    simulator.run(policy)
    count, period, waiting = Count(policy, trace, simulator.events), round(1000 * policy.period), set(range(JOBS))
    factors: dict[int, list[float]] = {}
    for job, time in count.begin.items():
        now = time // period * period
        fair = factors.setdefault(now, count.fair(now))
        priority = {other: count.priority(other, now, fair) for other in waiting if trace.submit[other] <= time}
        assert priority[job] >= max(priority.values()) - 1e-6
        waiting.remove(job)


@pytest.mark.parametrize("more", [{"backfill": "easy"}, {"backfill": "conservative"}, {"blocking": "skip"}], ids=str)
@pytest.mark.parametrize("tree", [False, True])
def test_a_period_works_with_every_rule_compiled_or_not(more, tree):
    policy = Multifactor(period=10.0, fair_tree=tree, size_by="cpus", max_age=60.0, **more)
    digests = []
    for compiled in (True, False):
        simulator = Simulator(crowd(1), MACHINES)
        simulator.run(policy, compiled=compiled)
        digests.append(simulator.digest)
    assert digests[0] == digests[1]


def test_users_with_equal_usage_have_the_same_rank():
    """Two have used nothing, one something, one more; the fifth has never been seen."""
    memory = Simulator(crowd(0), MACHINES).run(Multifactor(period=10.0, fair_tree=True), until=1000)
    queue = memory.form.memory
    queue.users.seen[:], queue.state.users_seen = [1, 1, 1, 1, 0], 4
    for used, factors in (([0, 7, 0, 3, 0], [1, 0.25, 1, 0.5]), ([5, 5, 5, 5, 0], [1, 1, 1, 1])):
        queue.users.usage[:] = used
        rank_users(queue)
        assert (2 ** -queue.users.counted[:4]).tolist() == pytest.approx(factors)


def test_a_rank_without_a_period_and_usage_of_nothing_are_refused():
    with pytest.raises(PolicyError, match="give one, such as period=300"):
        Multifactor(fair_tree=True)
    with pytest.raises(PolicyError, match="nothing counts as usage"):
        Multifactor(bill_gpu=0.0)


def test_what_the_trace_lacks_is_named():
    trace = Trace.of("t", ["a"], submit=[0], duration=[1], gpus=[GPU], user=[0], users=("ann", "bob"))
    told = " ".join(Multifactor(size_by="cpus", bill_cpu=1.0, bill_mem=1.0).remarks(trace))
    for what in ("size_by: no job states its CPUs", "bill_cpu: no job states its CPUs", "bill_mem: no job states mem"):
        assert what in told
