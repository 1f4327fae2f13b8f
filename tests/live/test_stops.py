"""Stops on a live cluster: only jobs that agreed, after a minimum run, a few in an hour, and none if not asked to."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from shunter.live.backend import Rhythm, Scope
from shunter.live.controller import ChangeLimits, Mode, RoundResult
from shunter.live.hints import JobHints
from shunter.live.journal import STOP, Journal
from shunter.live.levers import Order, levers_from
from shunter.live.manager import DeclinedError
from shunter.live.running import ControllerSettings, run
from shunter.live.stops import StopLimits
from shunter.registry import policy
from shunter.testing.memory_manager import MemoryManager

HOUR_MS = 3_600_000
AGREES = JobHints(requeue="yes")


def full(nodes: int = 2, **of_running) -> MemoryManager:
    """Long jobs hold all nodes, each for an hour by now; as many short ones wait."""
    manager = MemoryManager(node_count=nodes)
    for _ in range(nodes):
        manager.submit(4, 600)
    manager.schedule()
    for name, job in manager.jobs.items():
        manager.jobs[name] = replace(job, **({"start": job.start - HOUR_MS, "hints": AGREES} | of_running))
    for _ in range(nodes):
        manager.submit(4, 10)
    return manager


def controlled(manager: MemoryManager, journal: Path, limits=None, levers="nice,requeue", **more) -> list[RoundResult]:
    results = list[RoundResult]()
    bounds = ChangeLimits(stops=limits or StopLimits())
    how = ControllerSettings(
        **({"mode": Mode.ACT, "rhythm": Rhythm(0.0, 0.0), "rounds": 3, "bounds": bounds} | more),
        levers=levers_from(levers),
    )
    run(policy("express:estimate=limit"), manager, journal, how, on_round=results.append)
    return results


def stopped(manager: MemoryManager) -> list[str]:
    return [name for name, job in manager.jobs.items() if job.restarts]


def test_jobs_that_agreed_make_room_for_shorter_ones(tmp_path: Path) -> None:
    manager = full()
    manager.jobs["1"] = replace(manager.jobs["1"], hints=JobHints())
    controlled(manager, tmp_path / "j.db")
    assert stopped(manager) == ["2"]
    assert manager.order()[:2] == ["3", "4"]  # and these come before the one that was stopped


UNTOUCHED = {
    "the operator has not switched it on": ({}, {"levers": "nice"}),
    "they have not agreed": ({"hints": JobHints()}, {}),
    "the manager can not queue them again": ({"requeues": False}, {}),
    "they run for half an hour at least": ({"start": 0}, {}),
    "they were stopped often enough": ({"restarts": 3}, {}),
    "their user is excluded": ({"user": "bob"}, {"scope": Scope(without_users=frozenset({"bob"}))}),
    "their partition is excluded": ({}, {"scope": Scope(without_partitions=frozenset({"main"}))}),
    "they are the manager's alone": ({"hints": JobHints(requeue="yes", sla="yes")}, {}),
    "no stop is allowed": ({}, {"limits": StopLimits(per_hour=0)}),
    "it only watches": ({}, {"mode": Mode.WATCH}),
}


@pytest.mark.parametrize(("of_jobs", "how"), UNTOUCHED.values(), ids=UNTOUCHED)
def test_none_is_stopped_if(tmp_path: Path, of_jobs, how) -> None:
    manager = full()
    for name in ("1", "2"):
        job = manager.jobs[name]
        just_begun = {"start": job.start + HOUR_MS - 60_000} if "start" in of_jobs else {}
        manager.jobs[name] = replace(job, **(of_jobs | just_begun))
    before = [manager.jobs[name] for name in ("1", "2")]
    results = controlled(manager, tmp_path / "j.db", **how)
    assert [manager.jobs[name] for name in ("1", "2")] == before
    if "mode" not in how:
        assert not any(order.lever == "requeue" for result in results for order in result.orders)
        assert not any(result.round.refusals for result in results)  # the policy knew it, and planned without


def test_a_few_stops_in_an_hour_whichever_controller_makes_them(tmp_path: Path) -> None:
    manager, journal = full(nodes=4), tmp_path / "j.db"
    controlled(manager, journal, StopLimits(per_hour=1))
    assert len(stopped(manager)) == 1
    controlled(manager, journal, StopLimits(per_hour=1))  # begun again, it reads what was done in the journal
    assert len(stopped(manager)) == 1
    controlled(manager, journal, StopLimits(per_hour=3))
    assert len(stopped(manager)) == 3


def test_an_hour_later_there_are_stops_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager, journal = full(nodes=4), tmp_path / "j.db"
    controlled(manager, journal, StopLimits(per_hour=1))
    monkeypatch.setattr("shunter.live.controller.HOUR_S", 0.0)
    controlled(manager, journal, StopLimits(per_hour=1), rounds=1)
    assert len(stopped(manager)) == 2


def test_a_plan_that_needs_more_stops_than_are_left_stops_none(tmp_path: Path) -> None:
    """A job of eight GPUs needs both nodes of four: one stop alone would help nobody."""
    manager = MemoryManager(node_count=1, gpus_per_node=8)
    for _ in range(2):
        manager.submit(4, 600)
    manager.schedule()
    for name, job in manager.jobs.items():
        manager.jobs[name] = replace(job, start=job.start - HOUR_MS, hints=AGREES)
    manager.submit(8, 10)
    results = controlled(manager, tmp_path / "one.db", StopLimits(per_hour=1))
    assert stopped(manager) == []
    assert "at most 1 job is stopped in an hour" in results[0].round.refusals[0].why
    controlled(manager, tmp_path / "one.db", StopLimits(per_hour=2))
    assert stopped(manager) == ["1", "2"]


def test_none_is_stopped_after_the_jobs_were_handed_back(tmp_path: Path) -> None:
    manager, journal = full(), tmp_path / "j.db"
    with closing(Journal(journal)) as book:
        book.note(STOP, "handed back")
    controlled(manager, journal)
    assert stopped(manager) == []


def test_a_job_that_someone_else_changed_is_not_stopped(tmp_path: Path) -> None:
    manager, journal = full(), tmp_path / "j.db"
    with closing(Journal(journal)) as book:
        for name in ("1", "2"):
            book.leave_alone(name, "someone set its nice")
    controlled(manager, journal)
    assert stopped(manager) == []


def test_a_stop_that_the_manager_declined_does_not_count(tmp_path: Path) -> None:
    class Declining(MemoryManager):
        def _requeue(self, name: str) -> None:
            raise DeclinedError(f"job {name} can not be queued again")

    manager = full(nodes=1)
    declining = Declining(node_count=1, jobs=manager.jobs, _own=manager._own)
    (result,) = controlled(declining, tmp_path / "j.db", StopLimits(per_hour=1), rounds=1)
    assert [order.lever for order, _ in result.failed] == ["requeue"]
    with closing(Journal(tmp_path / "j.db")) as book:
        assert book.stops_since(0.0) == 0


def test_an_intent_counts_until_it_is_known_what_came_of_it(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "j.db")) as book:
        (act,) = book.intend(1, [Order("7", "requeue", "", "0")])
        assert book.stops_since(0.0) == 1
        book.settle(act, "abandoned")
        assert book.stops_since(0.0) == 0
