"""Test suites to inherit: the requirements on every policy and every backend.

Save a class like these as ``test_mine.py``, ``pip install pytest``, and run ``python -m pytest test_mine.py``.

class TestMine(PolicyConformance):
    @pytest.fixture
    def policy(self):
        return Mine(alpha=2)          # or "mylab.sched.Mine:alpha=2"

class TestMyBackend(BackendConformance):
    @pytest.fixture
    def backend(self):
        return MyBackend(...)         # fresh, with jobs still to come, some larger than others
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from shunter import world as w
from shunter.capabilities import Compilable
from shunter.drive import drive
from shunter.errors import InputError, PolicyError
from shunter.model import GPU, Plan, Preempt, Refusal, Start, Timer, View
from shunter.protocols import Backend, Policy
from shunter.registry import policy as policy_named
from shunter.scheduling.queue.keys import check_key
from shunter.scheduling.queue.policy import Queued
from shunter.sim.engine import Simulator
from shunter.testing.cases import CASES, Case
from shunter.testing.invariants import check
from shunter.testing.needed import pytest
from shunter.world import I64

EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=str)
BUSY = CASES[0]


class _Refusals:
    """An observer that keeps what was refused."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def decided(self, view: View, plan: Plan, refusals: Sequence[Refusal]) -> None:
        """Remember each."""
        self.seen += [f"at {view.now} ms {refusal.action}: {refusal.why}" for refusal in refusals]


class PolicyConformance:
    """Inherit it and give it a fixture ``policy``: an object, or the text that names one.

    A policy may refuse a case it can't handle with a ``PolicyError``, before anything is done; the test is skipped.
    """

    tenants: ClassVar[int] = 1  # jobs that the policy puts on one GPU at most, beyond shares that add up to one
    must_handle: ClassVar[frozenset[str]] = frozenset({"plain"})  # cases that may not be refused

    @pytest.fixture
    def subject(self, policy: Policy | str) -> Policy:
        """The policy under test."""
        return policy_named(policy)

    def _ran(self, policy: Policy, case: Case, **how: Any) -> Simulator:
        simulator = case.simulator()
        try:
            simulator.run(policy, **how)
        except PolicyError as refusal:
            assert case.name not in self.must_handle, f"{policy} refuses the case '{case}': {refusal}"  # noqa: PT017
            assert not (simulator.events[:, 1] == w.START).any(), f"{policy} refuses the case '{case}' too late"
            pytest.skip(f"the policy refuses this case: {refusal}")
        return simulator

    @EVERY_CASE
    def test_keeps_the_rules(self, subject: Policy, case: Case) -> None:
        """No GPU oversubscribed, no job lost, gangs, types, VCs, CPU, memory, all work done; every plan accepted.

        The compiled form, where there is one, gives the same events.
        """
        refusals = _Refusals()
        simulator = self._ran(subject, case, compiled=False, observers=[refusals])
        assert not refusals.seen, refusals.seen[0]
        check(simulator.events, case.trace, case.cluster, tenants=self.tenants)
        if isinstance(subject, Compilable):
            _assert_same(self._ran(subject, case).events, simulator.events, "the compiled loop", "drive")

    def test_same_seed_same_digest(self, subject: Policy) -> None:
        """Nothing but trace, cluster and seed decides; not what the policy object did before, either."""
        first, second = self._ran(subject, BUSY), self._ran(copy.deepcopy(subject), BUSY)
        _assert_same(first.events, second.events, "one run", "another with the same seed")

    def test_a_fork_changes_nothing(self, subject: Policy) -> None:
        """Copying changes neither the simulation nor the copy's further course."""
        whole = self._ran(subject, BUSY)
        simulator = BUSY.simulator()
        memory = simulator.run(subject, until=_middle(whole.events))
        twin = simulator.fork()
        twin.run(subject, memory=copy.deepcopy(memory))
        simulator.run(subject, memory=memory)
        _assert_same(twin.events, whole.events, "a fork", "the run it was copied from")
        _assert_same(simulator.events, whole.events, "a run that was forked", "one that wasn't")

    def test_does_not_read_the_truth(self, subject: Policy) -> None:
        """How long a job will run must not matter before it ends, but to an oracle."""
        if "duration" in subject.needs:
            pytest.skip("the policy declares itself an oracle")
        events = self._ran(subject, BUSY).events
        moment = _middle(events)
        ended = np.unique(events[(events[:, 1] == w.FINISH) & (events[:, 0] <= moment), 2])
        longer = BUSY.trace.duration * 3 + 1000 * np.arange(len(BUSY.trace), 0, -1)
        longer[ended] = BUSY.trace.duration[ended]
        other = dataclasses.replace(BUSY, trace=dataclasses.replace(BUSY.trace, duration=longer))
        before, after = events[events[:, 0] <= moment], self._ran(subject, other).events
        _assert_same(after[after[:, 0] <= moment], before, "with other durations of jobs that still run", "it")

    def test_is_frozen(self, subject: Policy) -> None:
        """A policy is its configuration: it can be a key, and a run does not change it."""
        fields = copy.deepcopy(getattr(subject, "__dict__", {}))
        before = (hash(subject), repr(subject))
        self._ran(subject, BUSY)
        assert getattr(subject, "__dict__", {}) == fields, "a run changed the policy; keep what changes in its memory"
        assert (hash(subject), repr(subject)) == before

    @EVERY_CASE
    def test_memory_takes_over(self, subject: Policy, case: Case) -> None:
        """A new configuration goes on where another stopped, and one that knows nothing finds its way too."""
        middle = _middle(self._ran(subject, case).events)
        for keep, compiled in itertools.product((True, False), (True, False)):
            simulator = case.simulator()
            memory = simulator.run(subject, until=middle, compiled=compiled)
            fresh = subject.start(case.cluster, memory) if keep else None
            simulator.run(subject, memory=fresh, compiled=compiled)
            check(simulator.events, case.trace, case.cluster, tenants=self.tenants)

    @EVERY_CASE
    def test_an_excerpt_is_like_a_fork(self, subject: Policy, case: Case) -> None:
        """Without the jobs that have ended, and with other rows, a new configuration of it decides the same.

        Both continue from one memory, which ``start`` must not change.
        """
        whole = self._ran(subject, case)
        for moment in (_middle(whole.events), _middle(whole.events) // 2):
            simulator = case.simulator()
            memory = simulator.run(subject, until=moment)
            begun = len(simulator.events)
            fork, part = simulator.fork(), simulator.excerpt(simulator.coming)
            assert part.rows is not None
            for twin in (fork, part):
                twin.run(subject, memory=subject.start(case.cluster, memory))
            events = part.events
            events[:, 2] = np.where(events[:, 2] >= 0, part.rows.taken[events[:, 2]], events[:, 2])
            _assert_same(events, fork.events[begun:], "an excerpt", "a fork")

    def test_knows_its_jobs_by_other_rows(self, subject: Policy) -> None:
        """A live cluster gives jobs other rows from view to view: what the policy remembers of them goes on."""
        whole = self._ran(subject, BUSY)
        simulator = BUSY.simulator()
        memory = simulator.run(subject, until=_middle(whole.events))
        begun, part = len(simulator.events), simulator.excerpt(simulator.coming)
        assert part.rows is not None
        part.run(subject, memory=copy.deepcopy(memory))
        simulator.run(subject, memory=subject.start(BUSY.cluster, memory))
        events = part.events
        events[:, 2] = np.where(events[:, 2] >= 0, part.rows.taken[events[:, 2]], events[:, 2])
        _assert_same(events, simulator.events[begun:], "with other rows", "a new configuration with the same")

    def test_its_key_is_as_declared(self, subject: Policy) -> None:
        """An order's key is a number, stays within its parameters, and changes only as its flags say."""
        if not isinstance(subject, Queued):
            pytest.skip("the policy has no key")
        check_key(subject)

    def test_nothing_to_do(self, subject: Policy) -> None:
        """A trace without jobs is over at once."""
        no_jobs = dataclasses.replace(BUSY, trace=BUSY.trace.select(np.zeros(len(BUSY.trace), np.bool_)))
        assert len(self._ran(subject, no_jobs).events) == 0


def _middle(events: I64) -> int:
    """A time when about half of the jobs have ended."""
    ends = events[events[:, 1] == w.FINISH, 0]
    return int(np.sort(ends)[len(ends) // 2])


def _assert_same(left: I64, right: I64, who: str, other: str) -> None:
    common = min(len(left), len(right))
    differs = np.flatnonzero((left[:common] != right[:common]).any(axis=1))
    row = int(differs[0]) if len(differs) else common
    assert np.array_equal(left, right), (
        f"row {row} of the log (time, kind, job, a, b): {who} has {left[row : row + 1].tolist()},"
        f" {other} has {right[row : row + 1].tolist()}"
    )


# ---------------------------------------------------------------------------------------------- backends


class BackendConformance:
    """Inherit it and give it a fixture ``backend``: a fresh one, with at least three jobs still to come."""

    @pytest.fixture
    def views(self, backend: Backend) -> Iterator[View]:
        """Its views, prepared for a policy that needs nothing."""
        backend.prepare(frozenset())
        return iter(backend)

    @pytest.fixture
    def view(self, views: Iterator[View]) -> View:
        """The first view in which a job waits that could start."""
        return next(view for view in views if len(view.pending) and view.room(int(view.pending[0])))

    def test_views_are_read_only(self, view: View) -> None:
        """A policy can't change the world but through a plan."""
        for columns in (view.jobs, view.nodes, view.gpus):
            for name, values in vars(columns).items():
                with pytest.raises(ValueError, match="read-only"):
                    values[0] = 0
                assert not values.flags.writeable, name

    def test_truth_is_hidden(self, view: View) -> None:
        """A policy that did not ask does not get the true durations."""
        assert view.truth is None

    def test_unknown_needs_are_refused(self, backend: Backend) -> None:
        """By name, before anything is done."""
        with pytest.raises(InputError, match="phase_of_the_moon"):
            backend.prepare(frozenset({"phase_of_the_moon"}))

    def test_pending_is_in_submit_order(self, views: Iterator[View]) -> None:
        """Job ids ascend, and so do submissions."""
        for _, view in zip(range(20), views, strict=False):
            assert (np.diff(view.pending) > 0).all()
            assert (np.diff(view.jobs.submit[view.pending]) >= 0).all()

    def test_a_view_is_a_window(self, backend: Backend, view: View) -> None:
        """After ``apply`` the same view shows the effects of the plan."""
        job = int(view.pending[0])
        gpus, free = view.room(job), int(view.nodes.free.sum())
        assert not backend.apply(Plan((Start(job, gpus),)))
        assert job not in view.pending
        assert job in view.running
        assert view.placement(job) == gpus
        assert all(job in view.tenants(gpu) for gpu in gpus)
        assert int(view.nodes.free.sum()) == free - len(gpus)

    def test_what_is_refused_is_not_done(self, backend: Backend, view: View) -> None:
        """Each impossible action is answered with a reason, and nothing changes."""
        job, before = int(view.pending[0]), _snapshot(view)
        gpus = view.room(job)
        for action in (
            Start(-1, gpus),
            Start(job, (*gpus, len(view.gpus.node))),
            Start(job, (-1, *gpus[1:])),
            Start(job, (*gpus, gpus[0])),
            Start(job, gpus[1:]),
            Start(job, gpus, until=view.now),
            Preempt(job),
            Timer(view.now),
        ):
            refusals = backend.apply(Plan((action,)))
            assert [refusal.action for refusal in refusals] == [action]
            assert refusals[0].why
            assert _snapshot(view) == before, f"{action} was refused and yet did something"

    def test_whole_plan_or_nothing(self, backend: Backend, view: View) -> None:
        """One impossible action, and the good ones before it are not done either."""
        job, before = int(view.pending[0]), _snapshot(view)
        good = Start(job, view.room(job))
        refusals = backend.apply(Plan((good, good)))
        assert [refusal.action for refusal in refusals] == [good]
        assert _snapshot(view) == before
        assert not backend.apply(Plan((good,)))

    def test_no_job_takes_what_another_has(self, backend: Backend, views: Iterator[View]) -> None:
        """Two jobs on the same GPUs in one plan are refused, and so is the second one later."""
        view, (first, second) = next((view, pair) for view in views if (pair := _alike(view)))
        gpus = view.room(first)
        assert backend.apply(Plan((Start(first, gpus), Start(second, gpus))))
        assert not backend.apply(Plan((Start(first, gpus),)))
        assert backend.apply(Plan((Start(second, gpus),)))
        assert second in view.pending

    def test_arrivals_and_ends_are_shown_once(self, backend: Backend) -> None:
        """Every job arrives before it ends, ends once, and time never goes back."""
        watcher = _Greedy()
        drive(backend, watcher)
        assert len(watcher.ended) >= 3
        assert len(watcher.ended) == len(set(watcher.ended)), "a job's end was shown twice"
        assert set(watcher.ended) <= set(watcher.arrived), "a job ended that never arrived"
        assert watcher.times == sorted(watcher.times)


def _alike(view: View) -> tuple[int, int] | None:
    """Two waiting jobs of whole GPUs and one size, the first of which could start now."""
    waiting = [int(job) for job in view.pending if view.jobs.share[job] == GPU]
    for index, first in enumerate(waiting):
        for second in waiting[index + 1 :]:
            if view.jobs.gpus[first] == view.jobs.gpus[second] and view.room(first):
                return first, second
    return None


def _snapshot(view: View) -> tuple[Any, ...]:
    """All that a plan could change."""
    lists = (view.now, view.pending.tolist(), view.running.tolist(), view.arrived.tolist(), view.ended.tolist())
    return (*lists, *(values.tolist() for columns in (view.nodes, view.gpus) for values in vars(columns).values()))


class _Greedy:
    """Starts whatever fits, and notes what it was shown."""

    needs: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.arrived: list[int] = []
        self.ended: list[int] = []
        self.times: list[int] = []
        self._generation = -1
        self._jobs: list[int] = []  # by row: a number that stays with the job when rows change
        self._numbers = itertools.count()

    def start(self, cluster: Any, previous: Any = None) -> None:
        """Nothing is remembered."""

    def _follow(self, view: View) -> None:
        """Give every job its number, a new one where it was not in the view before."""
        if view.generation == self._generation:
            return
        before = {} if view.moved is None else dict(zip(view.moved.tolist(), self._jobs, strict=True))
        self._jobs = [before[row] if row in before else next(self._numbers) for row in range(len(view.jobs.gpus))]
        self._generation = view.generation

    def decide(self, view: View, memory: None) -> Plan:
        """Start the first job that fits."""
        self.times.append(view.now)
        assert set(view.arrived.tolist()) <= set(view.pending.tolist()), "a job arrived that does not wait"
        assert not set(view.ended.tolist()) & {*view.pending.tolist(), *view.running.tolist()}
        self._follow(view)
        self.arrived += [self._jobs[row] for row in view.arrived]
        self.ended += [self._jobs[row] for row in view.ended]
        for job in view.pending.tolist():
            gpus = view.room(job)
            if gpus:
                return Plan((Start(job, gpus),))
        return Plan()
