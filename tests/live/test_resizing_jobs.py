"""Resizing on a live cluster: only jobs that agreed, within their own request, and undone like everything else."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from shunter.errors import LiveError
from shunter.live.backend import Rhythm
from shunter.live.controller import ChangeLimits, Mode, RoundResult
from shunter.live.hints import JobHints
from shunter.live.journal import ABANDONED, DONE, INTENT, LANDING_S, Journal
from shunter.live.journal_file import JournalError
from shunter.live.levers import Order, levers_from
from shunter.live.releasing import release
from shunter.live.running import ControllerSettings, run
from shunter.live.snapshot import LiveJob
from shunter.live.stops import StopLimits
from shunter.registry import policy
from shunter.slurm.comments import hints_in
from shunter.testing.memory_manager import MemoryManager

HOUR_MS = 3_600_000
AGREES = JobHints(requeue="yes", resize="1-4")


def busy(**of_running) -> MemoryManager:
    """A long job holds all four GPUs, for an hour by now; one of 20 minutes, due in 22, wants two of them now."""
    manager = MemoryManager(node_count=1)
    manager.submit(4, 6000)
    manager.schedule()
    about = {"start": manager.jobs["1"].start - HOUR_MS, "hints": AGREES} | of_running
    manager.jobs["1"] = replace(manager.jobs["1"], **about)
    manager.submit(2, 20)
    due = JobHints(deadline=manager.jobs["2"].submit / 1000 + 1320)
    manager.jobs["2"] = replace(manager.jobs["2"], hints=due)
    return manager


def controlled(manager: MemoryManager, journal: Path, levers="nice,requeue,resize", limits=None) -> list[RoundResult]:
    results = list[RoundResult]()
    how = ControllerSettings(
        mode=Mode.ACT, rhythm=Rhythm(0.0, 0.0), rounds=3, bounds=ChangeLimits(stops=limits or StopLimits()),
        levers=levers_from(levers),
    )  # fmt: skip
    run(policy("elastic"), manager, journal, how, on_round=results.append)
    return results


def pulled(results: list[RoundResult]) -> list[tuple[str, str]]:
    return [(order.handle, order.lever) for result in results for order in result.orders if order.lever != "nice"]


def test_a_job_that_agreed_is_shrunk_for_one_with_a_deadline_and_gets_its_request_back(tmp_path: Path) -> None:
    manager, journal = busy(), tmp_path / "j.db"
    assert pulled(controlled(manager, journal)) == [("1", "signal"), ("1", "resize")]
    assert (manager.jobs["1"].gpus, manager.jobs["1"].restarts) == (2, 1)
    manager.schedule()
    assert all(job.runs for job in manager.jobs.values())  # both at the same time
    manager.jobs["1"] = replace(manager.jobs["1"], state="PENDING", start=-1, nodes=())
    with closing(Journal(journal)) as book:
        assert {act.order.lever for act in book.acts(DONE)} >= {"resize"}
        undone, problems = release(manager, book, manager.snapshot())
        assert (undone > 0, problems) == (True, [])
        assert not book.in_force()
    assert (manager.jobs["1"].gpus, manager.jobs["1"].marks) == (4, ())


@pytest.mark.parametrize(
    ("of_running", "limits"),
    [
        ({"hints": JobHints()}, None),
        ({"hints": JobHints(requeue="yes")}, None),
        ({"hints": JobHints(resize="1-4")}, None),
        ({"hints": JobHints(requeue="yes", resize="4-4")}, None),
        ({"hints": JobHints(requeue="yes", resize="1-4", sla="yes")}, None),
        ({"requeues": False}, None),
        ({"restarts": 3}, None),
        ({"per_task": "gres:gpu:1"}, None),
        ({"per_job": "gres:gpu:4,gres:nvme:4"}, None),
        ({"min_nodes": 4}, None),
        ({}, StopLimits(per_hour=0)),
        ({}, StopLimits(min_run_s=7200)),
    ],
)
def test_jobs_are_not_resized_if(tmp_path: Path, of_running, limits) -> None:
    manager = busy(**of_running)
    found = [lever for _, lever in pulled(controlled(manager, tmp_path / "j.db", limits=limits))]
    assert not {"signal", "resize"} & set(found)
    assert manager.jobs["1"].gpus == 4


def test_without_the_lever_nothing_is_resized_and_the_lever_needs_requeue(tmp_path: Path) -> None:
    manager = busy()
    assert not any(lever in ("signal", "resize") for _, lever in pulled(controlled(manager, tmp_path / "j", "nice")))
    with pytest.raises(LiveError, match="needs requeue"):
        levers_from("nice,resize")
    with pytest.raises(LiveError, match="no lever 'signal'"):
        levers_from("nice,signal")


@pytest.mark.parametrize("said", ["0-4", "4-2", "1-99999", "1-4096000000", "-1-4", "1", "1-", "a-b", "²-4", "1-4-8"])
def test_a_range_that_can_not_be_is_no_consent(said: str) -> None:
    assert hints_in(f"shunter: requeue=yes resize={said}").widths == (0, 0)


def test_no_job_gets_more_than_it_asked_for() -> None:
    """The manager checked its user's limits for that; changes by an operator are not checked again."""
    hints = JobHints(requeue="yes", resize="1-4096")
    job = LiveJob("7", "7", "PENDING", gpus=2, per_job="gres:gpu:2", requeues=True, hints=hints)
    assert job.widths == (1, 2)
    task, own_record = replace(job, id="7_1"), replace(job, id="7_1", handle="7_1")
    assert (own_record.widths, replace(job, min_nodes=2).widths) == ((0, 0), (2, 2))
    assert (task.widths, replace(job, per_job="", per_node="gres:gpu:2", max_nodes=2).widths) == ((0, 0), (0, 0))


@pytest.mark.parametrize(
    "request_",
    [
        {"per_node": "gres:gpu:a100", "gpus": 1, "max_nodes": 1},  # 100 is a part of the type
        {"per_job": "gres:gpu:2,gres:nvme:8", "gpus": 2},
        {"per_job": "gres:nvme:8", "gpus": 2},
    ],
)
def test_a_number_that_is_not_of_gpus_is_no_request_to_resize(request_) -> None:
    hints = JobHints(requeue="yes", resize="1-8")
    job = LiveJob("7", "7", "RUNNING", requeues=True, hints=hints, nodes=("n1",), **request_)
    assert job.widths == (0, 0)


def asked(journal: Path, state: str) -> None:
    """The journal of a controller that has asked job 1 to queue itself with two GPUs, or was killed then."""
    with closing(Journal(journal)) as book:
        (act,) = book.intend(1, [Order("1", "signal", "2", "0")])
        book.settle(act, state)


def test_a_signal_that_may_have_been_sent_counts_as_a_stop_and_is_not_sent_again(tmp_path: Path, monkeypatch) -> None:
    """The job may be saving its work: nothing of it shows until it queues itself."""
    manager, journal = busy(), tmp_path / "j.db"
    asked(journal, INTENT)
    monkeypatch.setattr("shunter.live.reconciling.LANDING_S", -1.0)
    assert LANDING_S > 0
    assert pulled(controlled(manager, journal)) == []
    with closing(Journal(journal)) as book:
        assert [act.state for act in book.acts(lever="signal")] == [DONE]
        assert book.stops_since(0.0) == 1


@pytest.mark.parametrize("hints", [AGREES, replace(AGREES, sla="yes"), replace(AGREES, resize="")])
def test_a_job_that_queued_itself_is_resized_only_if_its_owner_still_agrees(tmp_path: Path, hints) -> None:
    manager, journal = busy(), tmp_path / "j.db"
    asked(journal, DONE)
    manager.jobs["1"] = replace(manager.jobs["1"], state="PENDING", start=-1, nodes=(), restarts=1, hints=hints)
    controlled(manager, journal)
    assert (manager.jobs["1"].gpus == 2) == (hints == AGREES)


def test_a_number_that_was_given_up_before_it_was_given_is_given_by_the_next_controller(tmp_path: Path) -> None:
    manager, journal = busy(), tmp_path / "j.db"
    asked(journal, DONE)
    with closing(Journal(journal)) as book:
        (act,) = book.intend(2, [Order("1", "resize", "job:gpus:2", "job:gpus:4")])
        book.settle(act, ABANDONED)
    manager.jobs["1"] = replace(manager.jobs["1"], state="PENDING", start=-1, nodes=(), restarts=1)
    controlled(manager, journal)
    assert manager.jobs["1"].gpus == 2


@pytest.mark.parametrize(
    ("lever", "value", "before"),
    [
        ("signal", "2", "x"),
        ("signal", "9" * 5000, "0"),
        ("requeue", "", ""),
        ("nice", "1", "many"),
        ("priority", "1", "5"),
    ],
)
def test_a_journal_with_numbers_that_are_none_is_damaged(tmp_path: Path, lever: str, value: str, before: str) -> None:
    with closing(Journal(tmp_path / "j.db")) as book:
        book.intend(1, [Order("1", "pin", "n1", "")])
        with pytest.raises(JournalError, match="damaged"):
            book.intend(1, [Order("1", lever, value, before)])


@pytest.mark.parametrize(("held", "first"), [(False, "1"), (True, "2")])
def test_time_for_which_a_user_held_a_job_puts_it_before_no_other(tmp_path: Path, held: bool, first: str) -> None:
    """Jobs without deadlines that wait too long come first where others have one, but time on hold is no wait."""
    manager = MemoryManager(node_count=1)
    for minutes in (60, 20, 20):
        manager.submit(4, minutes)
    now = manager.jobs["1"].submit
    manager.jobs["1"] = replace(
        manager.jobs["1"], submit=now - 48 * HOUR_MS, eligible=now if held else now - 48 * HOUR_MS
    )
    manager.jobs["3"] = replace(manager.jobs["3"], hints=JobHints(deadline=now / 1000 + 48 * 3600))
    assert controlled(manager, tmp_path / "j.db", "nice")[0].round.ranking[0] == first
