"""``--json`` on every command, and JSON from those that had none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.live.journal import Journal
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.slurm.lab import Lab
from shunter.slurm.watcher import Watcher

ALWAYS_JSON = {"slurm dashboard"}  # prints nothing but JSON, so that an option would change nothing


def commands(found: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Every command by its words, with its options."""
    if hasattr(found, "commands"):
        for name, command in found.commands.items():
            yield from commands(command, (*path, name))
    else:
        yield " ".join(path), [option for each in found.params for option in each.opts]


def output(*words: str) -> object:
    result = CliRunner().invoke(app, list(words), prog_name="shunter")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_every_command_has_json():
    every = dict(commands(typer.main.get_command(app)))
    assert len(every) > 40
    assert {name for name, options in every.items() if "--json" not in options} == ALWAYS_JSON


@pytest.mark.parametrize("command", sorted(ALWAYS_JSON))
def test_what_has_no_option_is_json_by_itself(command):
    assert output(*command.split())


def test_resume_says_whether_jobs_were_handed_back(tmp_path):
    journal = tmp_path / "j.db"
    Journal(journal).close()
    assert output("slurm", "resume", "--journal", str(journal), "--json") == {"resumed": False}


def test_snapshot_says_what_it_wrote(tmp_path, monkeypatch):
    monkeypatch.setattr(Watcher, "snapshot", lambda _: Snapshot(0, (LiveJob("7", "7", "PENDING"),), ()))
    out = tmp_path / "now.json"
    assert output("slurm", "snapshot", str(out), "--json") == {"file": str(out), "jobs": 1, "nodes": 0}
    assert out.is_file()


def test_a_message_of_the_watchdog_is_a_json_document(tmp_path, monkeypatch):
    Journal(tmp_path / "j.db").close()
    monkeypatch.setattr("shunter.live.watchdog.watch", lambda _journal, _manager, say: say("slurmctld is away"))
    found = output("slurm", "watchdog", "--journal", str(tmp_path / "j.db"), "--json")
    assert found["message"] == "slurmctld is away"
    assert set(found) == {"at", "message"}


@pytest.mark.slurm
@pytest.mark.skipif(bool(Lab.missing()), reason=Lab.missing() or "-")
def test_a_lab_keeps_standard_output_for_its_json():
    ours = [sys.executable, "-m", "shunter", "slurm", "lab", "--nodes", "1x2:k80", "--json", "--"]
    ended = subprocess.run([*ours, "sh", "-c", "sinfo -h; exit 7"], capture_output=True, text=True, check=False)
    found = json.loads(ended.stdout)
    assert (ended.returncode, found["exit_code"]) == (7, 7)
    assert found["nodes"] == ["k80-1"]
    assert "k80-1" in ended.stderr
    assert not Path(found["slurm_conf"]).exists()
