"""A resource manager in memory: live/ needs no more of a cluster than the seam declares."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from busy_manager import busy

from shunter.live.backend import Rhythm
from shunter.live.controller import Mode, RoundResult
from shunter.live.journal import Journal
from shunter.live.levers import levers_from
from shunter.live.marks import Mark
from shunter.live.reconciling import Reconciler
from shunter.live.running import ControllerSettings, run
from shunter.live.tolerance import Tolerance
from shunter.registry import policy
from shunter.testing.manager_conformance import ManagerConformance
from shunter.testing.memory_manager import MemoryManager


class TestMemory(ManagerConformance):
    @pytest.fixture
    def manager(self) -> MemoryManager:
        return busy()


@pytest.mark.parametrize("levers", ["nice", "priority"])
def test_jobs_start_in_the_order_of_the_policy(tmp_path: Path, levers: str) -> None:
    manager, results = busy(), list[RoundResult]()

    def seen(result: RoundResult) -> None:
        results.append(result)
        if len(results) == 2:
            manager.end("1")
            manager.schedule()

    settings = ControllerSettings(
        Mode.ACT, Rhythm(0.0, 0.0), levers=levers_from(levers), rounds=4, guard=Tolerance.of("on:base=fifo")
    )
    run(policy("sjf:estimate=limit"), manager, tmp_path / "journal.db", settings, on_round=seen)
    assert [job.id for job in manager.jobs.values() if job.runs] == ["2", "5"]
    assert manager.order() == ["4", "3"]
    assert [result.round.number for result in results] == [1, 2, 3, 4]
    with_events = Journal(tmp_path / "journal.db")
    assert [kind for _, kind, _ in with_events.events()] == ["begin", "end"]
    with_events.close()


def test_one_that_watches_changes_nothing(tmp_path: Path) -> None:
    manager, results = busy(), list[RoundResult]()
    settings = ControllerSettings(Mode.WATCH, Rhythm(0.0, 0.0), rounds=2)
    run(policy("sjf:estimate=limit"), manager, tmp_path / "journal.db", settings, on_round=results.append)
    assert len(results[0].orders) == 2  # two of three must move
    assert manager.calls["change"] == 0


@pytest.mark.parametrize("may_change", [True, False])
def test_marks_that_are_no_longer_true_go_only_when_jobs_may_be_changed(tmp_path: Path, may_change: bool) -> None:
    manager = busy()
    with closing(Journal(tmp_path / "journal.db")) as journal:
        marked = (Mark(journal.id, "nice", "0", "-300"),)
        manager.jobs["3"] = replace(manager.jobs["3"], marks=marked, nice=5)  # somebody has set another value
        noticed = Reconciler(manager, journal).reconcile(manager.snapshot(), (), may_change)
        assert (not manager.jobs["3"].marks) == may_change
        assert ("3" in noticed) == may_change


def test_live_loads_nothing_of_slurm() -> None:
    """Not even on demand, in a round and in a forecast."""
    code = (
        "import sys, pathlib, tempfile; sys.path.insert(0, 'tests/live')\n"
        "from test_memory_manager import busy, test_one_that_watches_changes_nothing as watches\n"
        "from shunter.live.forecast import Outlook\n"
        "from shunter.live.why import why\n"
        "watches(pathlib.Path(tempfile.mkdtemp()))\n"
        "outlook = Outlook(busy().snapshot(), samples=2)\n"
        "job = outlook.snapshot.jobs[-1]\n"
        "outlook.of(job); why(outlook, job)\n"
        "print([name for name in sys.modules if name.startswith('shunter.slurm')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr[-2000:]
