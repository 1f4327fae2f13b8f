"""Slurm's commands when they fail: what is said, and what helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from shunter.live.journal import NO_JOURNAL, Journal
from shunter.live.manager import DeclinedError, UnreachableError
from shunter.slurm.client import Client


def failing(folder: Path, program: str, words: str) -> Client:
    """A client whose command says this, and fails."""
    (folder / program).write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    (folder / program).chmod(0o755)
    client = Client()
    client.environment["PATH"] = str(folder)
    return client


def test_errors_name_a_remedy(tmp_path: Path) -> None:
    away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    with pytest.raises(UnreachableError, match=r"connect failure\); is slurmctld up\? See 'shunter slurm doctor'$"):
        failing(tmp_path, "squeue", away).run("squeue", "--all")
    with pytest.raises(DeclinedError, match="is disabled; this site keeps no accounting"):
        failing(tmp_path, "sacct", "Slurm accounting storage is disabled").run("sacct", "-a")
    with pytest.raises(DeclinedError, match=r"scontrol update: Invalid job id specified$"):
        failing(tmp_path, "scontrol", "Invalid job id specified").run("scontrol", "update")


def test_a_journal_that_is_not_made_yet_has_no_invented_id() -> None:
    assert Journal.in_memory().id == Journal.in_memory().id == NO_JOURNAL
    assert Journal.in_memory("1f2e3d4c").id == "1f2e3d4c"
