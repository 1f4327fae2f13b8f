"""A trace on standard input: read once, within bounds, named in errors, and gone afterwards."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from shunter import safe_files
from shunter.cli.main import app

JOBS = "job_id,submit,duration,gpus\na,0,60,1\nb,5,30,2\nc,9,10,1\n"


def shunter(*words: str, given: str | bytes = JOBS):
    return CliRunner().invoke(app, list(words), prog_name="shunter", input=given)


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.mark.parametrize("given", [JOBS, gzip.compress(JOBS.encode(), mtime=0)], ids=["plain", "gzip"])
def test_it_is_read_packed_or_not(given):
    found = shunter("trace", "describe", "-", "--json", given=given)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["jobs"] == 3


def test_a_run_of_it_is_repeated_with_the_same_input_alone():
    first = shunter("simulate", "-", "-c", "1x2", "-p", "fifo", "--out", "run", "--json")
    again = shunter("simulate", "run/experiment.toml", "--json")
    assert json.loads(again.stdout)["digest"] == json.loads(first.stdout)["digest"]
    other = shunter("simulate", "run/experiment.toml", "--json", given=JOBS.replace("60", "61"))
    assert other.exit_code == 2
    assert "is not the trace of the experiment any longer" in other.stderr


def test_errors_name_standard_input_and_the_line():
    bad = shunter("trace", "describe", "-", given=JOBS.replace("b,5,30,2", "b,5,30,many"))
    assert bad.exit_code == 2
    assert "standard input line 3" in bad.stderr
    unfit = shunter("simulate", "-", "-c", "1x1", "-p", "fifo")
    assert unfit.exit_code == 2
    assert "- line 3: job 'b'" in unfit.stderr
    assert shunter("trace", "describe", "-", given="").stderr.startswith("error: standard input: the file is empty")


def test_more_than_the_bound_is_refused(monkeypatch):
    monkeypatch.setattr(safe_files, "most_loaded", lambda: 10)
    found = shunter("trace", "describe", "-")
    assert found.exit_code == 2
    assert "standard input: it holds more than" in found.stderr


def test_nothing_is_left_and_a_terminal_is_not_waited_for(tmp_path):
    command = [sys.executable, "-m", "shunter", "trace", "validate", "-"]
    assert subprocess.run(command, input=JOBS.encode(), capture_output=True, check=False).returncode == 0
    assert list(tmp_path.iterdir()) == []
    ours, theirs = pty.openpty()
    ended = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False)
    os.close(ours)
    os.close(theirs)
    assert ended.returncode == 2
    assert "standard input: is the terminal; pipe something into it, or name a file" in ended.stderr


@pytest.mark.parametrize("option", ["--report", "--out", "--swf", "--batsim-csv"])
def test_nothing_is_written_to_a_file_of_that_name(tmp_path, option):
    found = shunter("simulate", "synthetic:jobs=10", "-c", "8x8", "-p", "fifo", option, "-")
    assert found.exit_code == 2
    assert not (tmp_path / "-").exists()
