"""``elastic`` on a live cluster: its order, jobs that their users change, and what jobs served first are charged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from growth import FAR_BELOW_QUADRATIC, growth
from shunter.drive import decide
from shunter.live.backend import LiveBackend, Rhythm, Round
from shunter.live.hints import JobHints
from shunter.live.nodes import Node
from shunter.live.stops import StopLimits
from shunter.policies.elastic.memory import OVERTAKEN, ElasticState
from shunter.registry import policy
from shunter.slurm.comments import hints_in
from shunter.testing import memory_manager
from shunter.testing.memory_manager import MemoryManager

MINUTE = 60_000


@dataclass
class TwoParts(MemoryManager):
    """A cluster whose two nodes are each a partition of its own: a and b."""

    def nodes(self) -> list[Node]:
        return [replace(node, partitions=(name,)) for node, name in zip(super().nodes(), "ab", strict=True)]


@dataclass
class Played:
    """A policy that looks at a cluster; the clock is the test's."""

    manager: MemoryManager
    patch: pytest.MonkeyPatch
    now: int = 1_800_000_000_000
    rounds: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.patch.setattr(memory_manager, "_now", lambda: self.now)

    def begin(self, subject: str = "elastic") -> None:
        levers = frozenset({"nice", "requeue", "resize"})
        self.backend = LiveBackend(self.manager, Rhythm(0.0, 0.0), levers=levers, stops=StopLimits(min_run_s=0.0))
        self.policy = policy(subject)
        self.memory = self.policy.start(self.backend.cluster)

    def submit(self, gpus: int, minutes: int, **about: Any) -> str:
        name = self.manager.submit(gpus, minutes)
        self.change(name, **about)
        return name

    def change(self, name: str, **about: Any) -> None:
        self.manager.jobs[name] = replace(self.manager.jobs[name], **about)

    def look(self, after_minutes: float = 0.0) -> Round:
        self.now += round(after_minutes * MINUTE)
        view = self.backend.look()
        assert view is not None
        decide(self.backend, self.policy, view, self.memory)
        return self.backend.wanted()

    @property
    def own(self) -> ElasticState:
        own = self.memory.form.memory.own
        assert isinstance(own, ElasticState)
        return own

    def due(self, minutes: float, **more: Any) -> JobHints:
        return JobHints(deadline=self.now / 1000 + 60 * minutes, **more)


def test_the_queue_is_in_the_order_in_which_jobs_should_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm starts a job as soon as a GPU is free, long before the next look."""
    played = Played(MemoryManager(node_count=1), monkeypatch)
    played.submit(4, 20)
    played.manager.schedule()
    long, short, other = played.submit(2, 50), played.submit(2, 20), played.submit(2, 30)
    agrees = {"requeue": "yes", "resize": "1-2"}
    later, sooner = (played.submit(2, 40, hints=played.due(due, **agrees)) for due in (720, 700))
    played.begin("elastic:patience=1000")
    assert played.look().ranking == [sooner, later, short, other, long]
    played.change(later, hints=played.due(300, **agrees))
    played.change(other, hints=JobHints(run_s=60.0))
    assert played.look(1).ranking == [later, sooner, other, short, long]
    played.change(sooner, hints=played.due(20, **agrees))  # it can't be in time any more
    assert played.look(1).ranking == [later, other, short, sooner, long]


@pytest.mark.parametrize(
    "about",
    [
        {"hints": JobHints(deadline=1_800_900_000)},
        {"hints": JobHints(run_s=7.0)},
        {"gpus": 4, "per_job": "gpus:4"},
        {"limit": 7 * MINUTE},
        {"partition": "b"},
    ],
    ids=lambda about: next(iter(about)),
)
def test_a_policy_never_mixes_what_a_job_asked_for_with_what_it_asks_for_now(
    monkeypatch: pytest.MonkeyPatch, about: dict[str, Any]
) -> None:
    """What it keeps by row, such as jobs by deadline, holds within one generation of views."""
    played = Played(TwoParts(), monkeypatch)
    for gpus in (4, 4, 1, 1):
        played.submit(gpus, 60, partition="a", hints=played.due(600))
    played.begin()
    first = played.look(1).view
    assert played.look(1).view.generation == first.generation
    played.change("4", **about)
    changed = played.look(1).view
    assert changed.generation > first.generation
    assert changed.moved is not None
    assert changed.moved.tolist() == [0, 1, 2, 3]
    assert played.look(1).view.generation == changed.generation


def served_first(monkeypatch: pytest.MonkeyPatch, said: JobHints, manager: MemoryManager | None = None) -> Played:
    """A long job with a deadline was stopped for one that waited too long, which runs."""
    played = Played(manager or MemoryManager(node_count=1), monkeypatch)
    about = {} if manager is None else {"partition": "a"}
    played.submit(4, 6000, hints=played.due(30_000, requeue="yes"), **about)
    played.manager.schedule()
    played.submit(4, 10, hints=said, **about)
    played.begin()
    played.look()
    assert played.look(30).preempts == ["1"]
    played.change("1", state="PENDING", start=-1, nodes=(), restarts=1)
    played.change("2", state="RUNNING", start=played.now, nodes=("n0",))
    return played


def test_a_job_served_first_that_ended_is_charged_for_its_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    played = served_first(monkeypatch, JobHints())
    played.look(5)
    played.now += 10 * MINUTE
    played.manager.end("2")
    played.look()
    paid = played.own.next_first[0, OVERTAKEN]
    assert played.now - 30 * MINUTE < paid < played.now + 30 * MINUTE


def runs_on_hold(played: Played) -> None:
    played.change("2", state="PENDING", start=-1, nodes=(), reason="JobHeldUser", priority=0)


def runs_again(played: Played) -> None:
    played.change("2", state="PENDING", start=-1, nodes=(), submit=played.now, eligible=played.now)


def declares_more(played: Played) -> None:
    played.change("2", state="PENDING", start=-1, nodes=(), hints=JobHints(run_s=1e6))


def is_completing(played: Played) -> None:
    played.change("2", state="COMPLETING")
    played.look(0.1)
    runs_again(played)


def restarts_between_looks(played: Played) -> None:
    played.change("2", start=played.now, restarts=1)


@pytest.mark.parametrize("away", [runs_on_hold, runs_again, declares_more, is_completing, restarts_between_looks])
def test_no_job_served_first_escapes_what_it_took(monkeypatch: pytest.MonkeyPatch, away: Any) -> None:
    """It declares a second, runs for 9 minutes, and is queued again by its user before it ends."""
    played = served_first(monkeypatch, JobHints(run_s=1.0))
    played.look(9)
    before = int(played.own.next_first[0, OVERTAKEN])
    away(played)
    played.look(1)
    played.look(1)  # by now it is first no longer
    assert not (played.own.first_until > played.now).any()
    assert 17 * MINUTE < played.own.next_first[0, OVERTAKEN] - before < 29 * MINUTE  # time that nobody used lapses


@pytest.mark.parametrize("other", ["a", "b"])
def test_a_job_served_first_may_go_to_another_partition(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    played = Played(TwoParts(), monkeypatch)
    parts = {"a": "b", "b": "a"}[other]
    played.submit(4, 6000, hints=played.due(30_000, requeue="yes"), partition=parts)
    played.change("1", state="RUNNING", start=played.now, nodes=("n0" if parts == "a" else "n1",))
    played.submit(4, 10, partition=parts)
    played.begin()
    played.look()
    assert played.look(30).ranking[0] == "2"
    played.manager.jobs.pop("1")
    played.look(1)
    played.change("2", partition=other)
    played.look(1)
    own = played.own
    assert own.firsts_size.sum() == 1
    home = int(np.flatnonzero(own.firsts_size)[0])
    assert own.pool[own.firsts[own.first[home]]] == home


@pytest.mark.parametrize("rows_change", [False, True])
def test_what_ended_jobs_needed_is_learned_whether_or_not_others_came(
    monkeypatch: pytest.MonkeyPatch, rows_change: bool
) -> None:
    played = Played(MemoryManager(node_count=1), monkeypatch)
    played.submit(4, 60)
    played.manager.schedule()
    played.submit(4, 60)
    played.begin()
    played.look()
    played.now += 30 * MINUTE
    played.manager.end("1")
    if rows_change:
        played.submit(4, 60)
    played.look()
    assert played.own.above.sum() == 16  # of 32 bins up to what was said


def test_a_long_comment_takes_no_longer_than_its_length_is() -> None:
    assert growth(hints_in, "shunter:" + "a" * 2000, "shunter:" + "a" * 32_000) < FAR_BELOW_QUADRATIC
