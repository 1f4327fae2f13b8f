"""Jobs that a user made to harm others: the controller goes on, and orders the rest."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from busy_manager import busy

import shunter
from shunter.errors import LiveError
from shunter.live import reconciling, running
from shunter.live.backend import LiveBackend, Rhythm
from shunter.live.controller import Mode, RoundResult
from shunter.live.guard import GuardWindow
from shunter.live.hints import JobHints
from shunter.live.journal import ABANDONED, DONE, INTENT, Journal
from shunter.live.levers import Order
from shunter.live.reconciling import Reconciler
from shunter.live.replica import known_model
from shunter.live.running import ControllerSettings, run
from shunter.live.tolerance import Tolerance, WaitComparison
from shunter.model import Trace
from shunter.registry import policy
from shunter.testing.memory_manager import MemoryManager

ONCE = ControllerSettings(Mode.ACT, Rhythm(0.0, 0.0), rounds=2)
DAY_S = 86_400


def acted_on(manager: MemoryManager, journal: Path) -> tuple[list[RoundResult], list[LiveError]]:
    results, problems = list[RoundResult](), list[LiveError]()
    run(policy("sjf:estimate=limit"), manager, journal, ONCE, on_round=results.append, on_silence=problems.append)
    return results, problems


@pytest.mark.parametrize("gpus", [9, 300_000_000, 10**16, 10**18])
def test_a_job_that_asks_for_more_gpus_than_there_are_is_left_alone(tmp_path: Path, gpus: int) -> None:
    manager = busy()
    odd = manager.submit(gpus, 5)  # the shortest: it would come first
    results, problems = acted_on(manager, tmp_path / "journal.db")
    assert not problems
    assert len(results) == 2
    assert all(order.handle != odd for result in results for order in result.orders)
    assert [name for name in manager.order() if name != odd] == ["5", "4", "3"]


def test_an_error_that_no_one_foresaw_ends_no_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([OverflowError("too large"), MemoryError("448 MiB")])
    look = LiveBackend.look

    def sometimes(self: LiveBackend) -> object:
        if (problem := next(failures, None)) is not None:
            raise problem
        return look(self)

    monkeypatch.setattr(running, "_compile", lambda *_: None)  # it looks at a cluster of its own
    monkeypatch.setattr(LiveBackend, "look", sometimes)
    results, problems = acted_on(busy(), tmp_path / "journal.db")
    assert len(results) == 2
    said = [str(problem) for problem in problems]
    assert said[0].startswith("a look failed: OverflowError at test_odd_jobs.py:")
    assert said[1].endswith(": 448 MiB")


def test_a_guard_that_can_not_compare_ends_no_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(GuardWindow, "verdict", too_large)
    guarded = replace(ONCE, guard=Tolerance(every_s=0.0))
    results, journal = list[RoundResult](), tmp_path / "journal.db"
    run(policy("sjf:estimate=limit"), busy(), journal, guarded, on_round=results.append)
    assert len(results) == 2
    with closing(Journal(journal)) as book:
        assert ("guard can't", "too large") in [event[1:] for event in book.events()]


def test_an_error_in_what_observes_a_round_ends_no_controller(tmp_path: Path) -> None:
    def odd(_: RoundResult) -> None:
        raise ZeroDivisionError("odd job")

    problems = list[LiveError]()
    run(policy("fifo"), busy(), tmp_path / "journal.db", ONCE, on_round=odd, on_silence=problems.append)
    assert ["odd job" in str(problem) for problem in problems] == [True, True]


@pytest.mark.parametrize(("real_s", "ratio"), [(0.0, 1.0), (5.0, np.inf)])
def test_waits_are_compared_where_nobody_waited(real_s: float, ratio: float) -> None:
    assert WaitComparison(20, real_s, 0.0, 0.0, 0.0).ratio(0.0) == ratio


def test_a_job_cancelled_while_it_waited_is_no_job_that_ran(tmp_path: Path) -> None:
    """Else anyone could teach run times of a moment without using a GPU, or make each look fail by a last request."""
    manager = busy()
    backend = LiveBackend(manager, Rhythm(0.0, 0.0))
    backend.look()
    waits = manager.jobs["3"]
    cancelled = replace(waits, state="CANCELLED", gpus=10_000_000, start=waits.submit, end=waits.submit, nodes=())
    manager.jobs["3"] = cancelled
    view = backend.look()
    assert view is not None
    assert not len(view.ended)
    assert view.past is None
    assert not cancelled.has_run


def test_a_job_that_wants_a_share_of_a_gpu_ends_no_plans() -> None:
    """Conservative backfilling plans whole GPUs; it is what a shadow of Slurm usually has."""
    rows = np.arange(40)
    jobs = Trace.of(
        "shared", [str(row) for row in rows], submit=rows * 60_000, duration=(1 + rows % 7) * 600_000,
        gpus=np.where(rows % 5, 1000 + rows % 3 * 1000, 500), limit=(1 + rows % 7) * 900_000,
    )  # fmt: skip
    digests = {
        backfill: shunter.simulate(jobs, "1x4", f"fifo:backfill={backfill}").digest
        for backfill in ("none", "easy", "conservative")
    }
    assert digests["conservative"] == digests["easy"] != digests["none"]
    remarks = [policy(f"fifo:backfill={backfill}").remarks(jobs) for backfill in ("conservative", "easy")]
    assert ["want a share of a GPU" in " ".join(each) for each in remarks] == [True, False]


def test_models_that_users_invent_take_no_memory() -> None:
    manager = busy()
    backend = LiveBackend(manager, Rhythm(0.0, 0.0))
    for number in range(50):
        for name, job in manager.jobs.items():
            manager.jobs[name] = replace(job, hints=JobHints(model=f"invented-{number}-{name}"))
        backend.look()
    assert backend.names.count("model") == 0
    manager.jobs["3"] = replace(manager.jobs["3"], hints=JobHints(model="ResNet-50"))
    backend.look()
    assert backend.names.table()["models"] == ("resnet50",)


def test_a_model_is_known_by_any_of_its_spellings_and_no_other() -> None:
    assert known_model("ResNet-50") == known_model("resnet50") == "resnet50"
    assert known_model("resnet51") == known_model("") == ""


def test_a_trace_may_name_tens_of_thousands_of_models() -> None:
    count = 60_000  # a table of pairs would take 27 GiB
    jobs = np.arange(count)
    trace = Trace.of(
        "many", [f"j{job}" for job in jobs], submit=jobs, duration=[1000] * count, gpus=[1000] * count, model=jobs,
        models=tuple(f"m{job}" for job in jobs),
    )  # fmt: skip
    assert shunter.simulate(trace, "1x8", "fifo").summary["jobs"] == count


def test_what_a_clock_ahead_has_written_is_old_once_the_clock_is_right(tmp_path: Path) -> None:
    """Else nobody's change of such a job would be respected, and an interrupted act would wait for that time."""
    manager = busy()
    manager.jobs["3"] = replace(manager.jobs["3"], nice=50)  # an administrator has set another value than ours
    with closing(Journal(tmp_path / "journal.db")) as journal:
        (moved,) = journal.intend(1, [Order("3", "nice", "-300", "0")])
        journal.settle(moved, DONE)
        (interrupted,) = journal.intend(1, [Order("4", "nice", "-200", "0")])
        with closing(sqlite3.connect(tmp_path / "journal.db", timeout=30)) as file, file:
            file.execute("update acts set at = ?", (time.time() + DAY_S,))
        reconciler = Reconciler(manager, journal)
        noticed = reconciler.reconcile(manager.snapshot(), ())
        assert "someone set its nice to 50" in noticed["3"]
        reconciler._missed[interrupted.id] -= reconciling.LANDING_S + 1
        reconciler.reconcile(manager.snapshot(), ())
        assert not journal.acts(INTENT)
        assert [act.order.handle for act in journal.acts(ABANDONED)] == ["4"]


def test_a_round_reads_no_act_that_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal may hold those of three months, and a round must not take longer for them."""
    asked = []
    acts = Journal.acts

    def noted(self: Journal, *states: str, lever: str = "", **more: int) -> object:
        asked.append((states, lever))
        return acts(self, *states, lever=lever, **more)

    monkeypatch.setattr(Journal, "acts", noted)
    acted_on(busy(), tmp_path / "journal.db")
    assert asked
    assert all(states or lever for states, lever in asked)
