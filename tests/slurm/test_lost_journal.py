"""A journal that is lost while a controller acts, on a real Slurm: nothing is changed without it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from acting import acting, fill, nices, untouched

from shunter.live.daemons import wait
from shunter.live.journal import DONE, Journal
from shunter.live.levers import Order
from shunter.live.watchdog import Watchdog
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab
from shunter.slurm.manager import SlurmManager

pytestmark = pytest.mark.slurm


@pytest.mark.parametrize("swapped", [False, True])
def test_without_its_journal_a_controller_changes_nothing(lab: Lab, tmp_path: Path, swapped: bool) -> None:
    fill(lab, 9, 7, 5)
    journal, kept = tmp_path / "j.db", tmp_path / "kept.db"
    with acting(lab, journal) as controller:
        assert wait(lambda: len(controller.outcomes) >= 2, 180)
        assert not untouched(lab)
        journal.rename(kept)
        if swapped:
            Journal(journal).close()
        before = nices(lab) | {lab.submit("--gpus=2", "--time=1", script="sleep 600"): 0}
        controller.problems.clear()
        controller.wait_rounds()
        assert nices(lab) == before
        assert "the journal was removed or replaced while it was in use" in str(controller.problems[-1])
        if swapped:
            return  # the new one has used the old one's log
        kept.rename(journal)
        assert wait(lambda: nices(lab) != before, 180)


@pytest.mark.parametrize("lost", ["removed", "replaced", "damaged"])
def test_the_watchdog_lifts_pins_by_their_marks(lab: Lab, tmp_path: Path, lost: str) -> None:
    """Nobody else would: a controller that has lost its journal changes nothing, and one that is gone can't."""
    job, other = fill(lab, 9, 8)
    journal = tmp_path / "j.db"
    dog = Watchdog(journal, SlurmManager(Client(lab.conf)))
    with closing(Journal(journal)) as book:
        name = book.id
    for number, whose in ((job, name), (other, "0" * 8)):
        mark = f"admincomment=site-text,shunter:{whose}:pin=>p100-1"
        lab.run("scontrol", "update", f"jobid={number}", "ReqNodeList=p100-1", mark)
    assert dog._goes_on()  # as long as the journal is there, it decides
    assert lab.job(job)["ReqNodeList"] == "p100-1"
    if lost == "damaged":
        dog._book._file.execute("pragma wal_checkpoint(truncate)")
        journal.write_bytes(bytes(journal.stat().st_size))
        dog._book._file.execute("pragma shrink_memory")
    else:
        journal.unlink()
        if lost == "replaced":
            Journal(journal).close()
    assert not dog._goes_on()
    dog._book.close()
    assert lab.job(job)["ReqNodeList"] == "(null)"
    assert lab.job(job)["AdminComment"] == "site-text"
    assert lab.job(other)["ReqNodeList"] == "p100-1"  # of another controller


def test_the_watchdog_lifts_pins_by_the_journals_copy(lab: Lab, tmp_path: Path) -> None:
    """Where the account may not write marks."""
    (job,) = fill(lab, 9)
    journal = tmp_path / "j.db"
    dog = Watchdog(journal, SlurmManager(Client(lab.conf)))
    with closing(Journal(journal)) as book:
        book.settle(book.intend(1, [Order(str(job), "pin", "p100-1", "")])[0], DONE)
    lab.run("scontrol", "update", f"jobid={job}", "ReqNodeList=p100-1")
    journal.unlink()
    assert not dog._goes_on()
    dog._book.close()
    assert lab.job(job)["ReqNodeList"] == "(null)"
