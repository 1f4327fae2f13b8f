"""A journal that is lost while a controller acts, on a real Slurm: nothing is changed without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from acting import acting, fill, nices, untouched

from shunter.slurm.daemons import wait
from shunter.slurm.journal import Journal
from shunter.slurm.lab import Lab

pytestmark = pytest.mark.xdist_group("slurm")


@pytest.mark.parametrize("swapped", [False, True])
def test_without_its_journal_a_controller_changes_nothing(lab: Lab, tmp_path: Path, swapped: bool) -> None:
    fill(lab, 9, 7, 5)
    journal, kept = tmp_path / "j.db", tmp_path / "kept.db"
    with acting(lab, journal) as controller:
        assert wait(lambda: len(controller.outcomes) >= 2, 60)
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
        assert wait(lambda: nices(lab) != before, 30)
