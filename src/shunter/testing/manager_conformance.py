"""The requirements on every resource manager: inherit the suite for your own adapter.

class TestMine(ManagerConformance):
    @pytest.fixture
    def manager(self):
        return MyManager(...)         # a cluster whose GPUs are all in use, and on which at least three jobs wait
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from shunter.live import warming
from shunter.live.backend import LiveBackend, Rhythm
from shunter.live.controller import Controller, Mode, RoundResult, own_value
from shunter.live.journal import Journal
from shunter.live.levers import Order
from shunter.live.manager import GoneError, ResourceManager
from shunter.live.releasing import release
from shunter.live.rounds import Authority, Rounds
from shunter.live.snapshot import LiveJob
from shunter.live.wait_causes import Kind
from shunter.registry import policy
from shunter.testing.needed import pytest

JOURNAL = "1f2e3d4c"  # whose marks the suite sets
OTHER = "2a2a2a2a"
ROUNDS = 4


class ManagerConformance:
    """Inherit it and give it a fixture ``manager``; the tests change its waiting jobs and give them back."""

    @pytest.fixture
    def job(self, manager: ResourceManager) -> LiveJob:
        """A job that waits for its turn."""
        return _waiting(manager)[0]

    @pytest.fixture
    def book(self, tmp_path: Path) -> Iterator[Journal]:
        """The journal of a controller."""
        with closing(Journal(tmp_path / "journal.db")) as book:
            yield book

    def test_a_snapshot_is_of_now_and_whole(self, manager: ResourceManager) -> None:
        """Nodes with GPUs, jobs with names of their own, in the dialect in which they are written."""
        seen = manager.snapshot()
        assert abs(seen.now - 1000 * time.time()) < 60_000
        assert {node.name for node in seen.nodes} == {node.name for node in manager.nodes()}
        assert all(node.gpus > 0 for node in seen.nodes)
        assert len({job.id for job in seen.jobs}) == len(seen.jobs)
        assert not manager.unread
        for job in _waiting(manager):
            assert manager.waits(job.id)
            assert not manager.held(job.target)
            assert seen.words.meaning(job).kind in (Kind.TURN, Kind.CLUSTER)
            assert seen.requests.of(job).names, f"no node can have job {job.id}"
        assert isinstance(manager.counters(), str)
        assert manager.boot_time() <= time.time() + 60

    @pytest.mark.parametrize("change", [-100, 100])
    def test_a_nice_moves_a_job_and_is_marked(self, manager: ResourceManager, job: LiveJob, change: int) -> None:
        """The change and its mark show together; given back, nothing of them is left."""
        order = _order(job, "nice", str(job.nice + change))
        manager.carry_out(order)
        seen = _named(manager, job)
        assert manager.shows("nice", order.value, seen)
        assert (seen.priority - job.priority) * change < 0, "a lower nice is a higher priority"
        assert seen.marked["nice"].before == str(job.nice)
        assert (seen.marked["nice"].journal, seen.marked["nice"].value) == (JOURNAL, order.value)
        assert seen.annotation == manager.annotated(order)
        assert manager.commands(order)
        manager.give_back(seen, {"nice": str(job.nice)})
        back = _named(manager, job)
        assert (back.nice, back.marks, back.annotation) == (job.nice, (), job.annotation)

    def test_an_order_without_a_journal_leaves_no_mark(self, manager: ResourceManager, job: LiveJob) -> None:
        """For accounts that may not write marks."""
        manager.carry_out(_order(job, "nice", str(job.nice + 7), journal=""))
        seen = _named(manager, job)
        assert (seen.nice, seen.marks) == (job.nice + 7, ())

    def test_a_priority_is_set_outright_and_given_back(self, manager: ResourceManager, job: LiveJob) -> None:
        """It shows as set by hand, and is computed again after that."""
        value = str(job.priority + 500)
        manager.carry_out(_order(job, "priority", value))
        seen = _named(manager, job)
        assert manager.shows("priority", value, seen)
        assert set(seen.marked) == {"priority"}
        assert manager.set_by_hand().get(seen.number) in (int(value), None)  # None: this one can't say so
        manager.give_back(seen, {"priority": own_value(job, "priority", {})})
        back = _named(manager, job)
        assert (back.nice, back.marks) == (job.nice, ())
        assert seen.number not in manager.set_by_hand()

    def test_a_pin_names_nodes_and_goes(self, manager: ResourceManager, job: LiveJob) -> None:
        """Some nodes of those that the job may have."""
        node = sorted(manager.snapshot().requests.of(job).names)[0]
        manager.carry_out(_order(job, "pin", node))
        seen = _named(manager, job)
        assert manager.shows("pin", node, seen)
        assert seen.marked["pin"].value == node
        manager.give_back(seen, {"pin": ""})
        assert manager.shows("pin", "", _named(manager, job))

    def test_several_levers_are_marked_side_by_side(self, manager: ResourceManager, job: LiveJob) -> None:
        """Each adds its mark to those before, and marks of values that others changed go by themselves."""
        node = sorted(manager.snapshot().requests.of(job).names)[0]
        nice = _order(job, "nice", str(job.nice + 5))
        manager.carry_out(nice)
        manager.carry_out(_order(_named(manager, job), "pin", node))
        seen = _named(manager, job)
        assert set(seen.marked) == {"nice", "pin"}
        manager.unmark(seen, ("pin",))
        left = _named(manager, job)
        assert set(left.marked) == {"nice"}
        assert manager.shows("pin", node, left), "only the mark goes"

    def test_a_job_that_is_gone_is_refused_by_kind(self, manager: ResourceManager, job: LiveJob) -> None:
        """So that a controller knows that nothing is left to undo."""
        with pytest.raises(GoneError):
            manager.carry_out(Order("999999", "nice", "1", "0"))

    def test_all_is_given_back_by_the_marks_alone(self, manager: ResourceManager) -> None:
        """An empty journal suffices."""
        before = {job.id: (job.nice, job.wanted_nodes, job.annotation) for job in _waiting(manager)}
        for at, job in enumerate(_waiting(manager)):
            manager.carry_out(_order(job, "nice", str(job.nice + 10 * (at + 1))))
        with closing(Journal.in_memory()) as empty:
            undone, problems = release(manager, empty, manager.snapshot(), own=False)
        assert (undone, problems) == (len(before), [])
        assert {job.id: (job.nice, job.wanted_nodes, job.annotation) for job in _waiting(manager)} == before

    def test_of_two_controllers_the_first_one_stays(self, manager: ResourceManager) -> None:
        """The second sees the first, and acts when that is gone."""
        with closing(Journal.in_memory(JOURNAL)) as one, closing(Journal.in_memory(OTHER)) as two:
            first, second = manager.presence(one, 60.0), manager.presence(two, 60.0)
            try:
                assert first.rival() == ""
                assert JOURNAL in second.rival()
                assert first.rival() == ""
                first.remove()
                assert second.rival() == ""
            finally:
                first.remove()
                second.remove()

    def test_a_controller_gives_the_queue_the_order_of_its_policy(
        self, manager: ResourceManager, book: Journal
    ) -> None:
        """A few rounds of shortest limit first, then everything is given back."""
        shortest_first = policy("sjf:estimate=limit")
        warming.rounds(shortest_first)  # a look must not grow old while kernels compile
        controller = Controller(manager, book, mode=Mode.ACT, interval_s=60.0)
        backend = LiveBackend(manager, Rhythm(0.0, 0.0))
        presence = manager.presence(book, 60.0)
        results: list[RoundResult] = []
        rounds = Rounds(shortest_first, backend, controller, Authority(controller, presence), (results.append,))
        before = {job.id: job.nice for job in _waiting(manager)}
        rounds.run(ROUNDS)
        presence.remove()
        assert len(results) == ROUNDS
        assert not results[-1].failed
        assert results[0].done > 0
        assert results[-1].done == 0, "a queue that stands right is left alone"
        jobs = _waiting(manager)
        by_limit = sorted(jobs, key=lambda job: job.limit)
        assert sorted(jobs, key=lambda job: -job.priority) == by_limit
        assert release(manager, book, manager.snapshot())[1] == []
        assert {job.id: job.nice for job in _waiting(manager)} == before


def _waiting(manager: ResourceManager) -> list[LiveJob]:
    found = [job for job in manager.snapshot().jobs if job.waits and job.gpus]
    assert len(found) >= 3, "the suite needs at least three jobs that wait for GPUs"
    return found


def _named(manager: ResourceManager, job: LiveJob) -> LiveJob:
    """The same job as it is now."""
    return next(each for each in manager.snapshot().jobs if each.id == job.id)


def _order(job: LiveJob, lever: str, value: str, journal: str = JOURNAL) -> Order:
    own = own_value(job, lever, {})
    return Order(job.handle, lever, value, own, "a test", job.target, job.annotation, journal)
