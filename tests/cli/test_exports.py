"""Runs for tools that read other layouts."""

from __future__ import annotations

import csv

import pytest
from typer.testing import CliRunner

import shunter
from shunter.cli.main import app

RUN = ["simulate", "synthetic:jobs=200,gpus=16,load=1.2", "-c", "2x8", "-p", "fifo", "--json"]


def command(*arguments):
    return CliRunner().invoke(app, [*RUN, *map(str, arguments)])


def test_swf_holds_what_was_simulated(tmp_path):
    assert command("--swf", tmp_path / "run.swf").exit_code == 0
    result = shunter.simulate(RUN[1], "2x8", "fifo")
    back = shunter.read_trace(tmp_path / "run.swf")
    assert len(back) == 200
    assert abs(back.recorded_wait - result.jobs["wait"].to_numpy() * 1000).max() <= 1000
    assert abs(back.duration - result.jobs["run"].to_numpy() * 1000).max() <= 1000
    assert {back.outcomes[code] for code in back.outcome} == {"completed"}


def test_batsim_csv_has_a_row_per_job(tmp_path):
    assert command("--batsim-csv", tmp_path / "jobs.csv").exit_code == 0
    with (tmp_path / "jobs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 200


@pytest.mark.parametrize(("option", "name"), [("--swf", "run.swf"), ("--batsim-csv", "jobs.csv")])
def test_what_is_there_is_kept(tmp_path, option, name):
    (tmp_path / name).write_text("mine")
    done = command(option, tmp_path / name)
    assert done.exit_code == 2
    assert "exists already" in done.stderr
    assert (tmp_path / name).read_text() == "mine"
    assert command(option, tmp_path / name, "--force").exit_code == 0
    assert (tmp_path / name).read_text() != "mine"


def test_other_endings_are_refused_before_anything_runs(tmp_path):
    done = command("--swf", tmp_path / "run.txt")
    assert done.exit_code == 2
    assert "must end in .swf" in " ".join(done.stderr.split())


@pytest.mark.parametrize(("option", "name"), [("--swf", "run.swf"), ("--batsim-csv", "jobs.csv")])
def test_a_folder_that_is_not_there_is_reported_before_anything_runs(tmp_path, option, name):
    done = command(option, tmp_path / "nowhere" / name, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert "there is no folder" in " ".join(done.stderr.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["simulate", "compare"])
def test_decisions_need_a_place(name):
    done = CliRunner().invoke(app, [name, *RUN[1:], "--decisions"])
    assert done.exit_code == 2
    assert "give that too" in " ".join(done.stderr.split())
    assert not done.stdout
