"""A disk that fills up while a controller acts, on a real Slurm: nothing is changed without its intent on disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from acting import fill, nices, shunter, untouched

from shunter.errors import LiveError
from shunter.live.audit import AuditLog
from shunter.live.backend import Rhythm
from shunter.live.controller import Mode, RoundResult
from shunter.live.journal import DONE, INTENT, Journal
from shunter.live.running import ControllerSettings, run
from shunter.registry import policy
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab
from shunter.slurm.manager import SlurmManager

pytestmark = pytest.mark.slurm
MIB = 1 << 20


@pytest.fixture
def disk(lab_folder: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = lab_folder / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={MIB},mode=0750", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("a small file system can't be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(disk: Path) -> None:
    with (disk / "filler").open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))


def test_nothing_is_changed_until_there_is_room_again(lab: Lab, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    fill(lab, 9, 7, 5)
    journal, log = disk / "j.db", AuditLog(disk / "audit.jsonl", disk / "j.db")
    outcomes: list[RoundResult] = []
    problems: list[LiveError] = []
    before: dict[int, int] = {}

    def told(outcome: RoundResult) -> None:
        outcomes.append(outcome)
        if len(outcomes) == 2:  # all is in order; now one comes that has to be moved
            before.update(nices(lab) | {lab.submit("--gpus=2", "--time=1", script="sleep 600"): 0})
            fill_up(disk)
        log.seen(outcome)

    def away(problem: LiveError) -> None:
        problems.append(problem)
        assert nices(lab) == before
        if len(problems) == 3:
            (disk / "filler").unlink()

    settings = ControllerSettings(Mode.ACT, Rhythm(0.3, 0.2), rounds=9)
    run(policy("sjf:estimate=limit"), SlurmManager(Client(lab.conf)), journal, settings, on_round=told, on_silence=away)
    log.close()
    assert len(problems) == 3
    assert all("disk is full" in str(problem) or "No space left" in str(problem) for problem in problems)
    assert len(outcomes) >= 4
    assert nices(lab) != before  # it went on where it was
    with closing(Journal(journal)) as book:
        assert not book.acts(INTENT)
        assert len(book.acts(DONE)) >= 3
        fill_up(disk)
    result = shunter("release", "--journal", journal, "--json")
    assert result.exit_code == 1, result.output
    assert "is not noted: " in json.loads(result.stdout)["problems"][0]
    assert untouched(lab)
    (disk / "filler").unlink()
    result = shunter("release", "--journal", journal, "--json")
    assert result.exit_code == 0, result.output
    for line in (disk / "audit.jsonl").read_text().splitlines():
        json.loads(line)  # none is cut
