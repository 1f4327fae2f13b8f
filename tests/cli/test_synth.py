"""``shunter trace synth``."""

from __future__ import annotations

import os

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter import traces
from shunter.cli import trace_synth as synth
from shunter.cli.main import app
from shunter.setup import read_trace
from shunter.traces import twins


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


def made(*arguments):
    return CliRunner().invoke(app, ["trace", "synth", *arguments], prog_name="shunter")


def ok(*arguments):
    result = made(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stderr


def test_a_twin_of_a_published_trace_is_written_and_the_next_step_is_named():
    told = ok("t.parquet", "--like", "philly", "--jobs", "300", "--seed", "3")
    assert "300 jobs over 0.2 days, a load of" in told
    assert "shunter simulate t.parquet -c philly -p fifo" in told
    assert traces.read("t.parquet").digest == twins.twin("philly", 300, seed=3).digest
    assert read_trace("synthetic:like=philly,jobs=300,seed=3").digest == traces.read("t.parquet").digest


def test_the_next_step_of_a_trace_with_deadlines_compares_what_meets_them():
    told = " ".join(ok("t.parquet", "--jobs", "20", "--deadlines", "1").split())
    assert "shunter compare t.parquet -c auto -p saf:backfill=easy -p edf:backfill=easy -p elastic" in told


def test_a_twin_of_ones_own_trace_says_what_is_kept():
    ok("own.parquet", "--like", "pai", "--jobs", "400")
    told = ok("twin.parquet", "--fit", "own.parquet", "--load", "0.8", "--gpus", "500")
    assert "every name of the original is replaced, except GPU types" in told
    assert "v100-32" in told
    assert "a load of 0.80 on 500 GPUs" in told
    assert len(traces.read("twin.parquet")) == 400


def test_the_same_jobs_at_other_times():
    ok("own.parquet", "--jobs", "200")
    assert "all at once" in ok("batch.parquet", "--from", "own.parquet", "--arrivals", "batch")
    ok("poisson.parquet", "--from", "own.parquet", "--arrivals", "poisson", "--load", "2", "--gpus", "64")
    own, batch, poisson = (traces.read(f"{name}.parquet") for name in ("own", "batch", "poisson"))
    assert own.duration.tolist() == batch.duration.tolist() == poisson.duration.tolist()
    assert len(np.unique(batch.submit)) == 1
    span = int(poisson.submit[-1] - poisson.submit[0])
    assert (poisson.gpus / 1000 * poisson.duration).sum() / (64 * span) == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize("how", [["--fit"], ["--arrivals", "batch", "--from"]])
def test_bad_rows_of_ones_own_trace_can_be_skipped(tmp_path, how):
    rows = [f"j{job},{60 * job},{job + 5},1" for job in range(150)]
    (tmp_path / "log.txt").write_text("\n".join(["job_id,submit,duration,gpus", *rows, "x,never,1,1", ""]))
    assert "submit must be a time" in made("t.csv", *how, "log.txt", "--format", "csv").stderr
    assert "left out 1 bad row" in ok("t.csv", *how, "log.txt", "--format", "csv", "--on-bad-row", "skip")
    assert len(traces.read("t.csv")) == 150


def test_a_name_that_cannot_be_written_is_refused_before_anything_is_made():
    assert "give a name that ends in one of these" in made("t.txt", "--jobs", "100000000").stderr


def test_arrivals_in_a_synthetic_text():
    assert len(np.unique(read_trace("synthetic:jobs=20,arrivals=batch").submit)) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--like", "pai", "--fit", "own.csv"], "keep one of them"),
        (["--like", "venus"], "known: helios-earth"),
        (["--like", "pai", "--arrivals", "rush"], "must be batch or poisson"),
        (["--like", "pai", "--arrivals", "batch", "--load", "1"], "drop --load"),
        (["--from", "own.csv"], "changes nothing; add"),
        (["--from", "own.csv", "--arrivals", "batch", "--jobs", "5"], "drop --jobs"),
        (["--from", "own.csv", "--load", "1"], "add --gpus N, or drop --load"),
        (["--fit", "own.csv", "--gpus", "8"], "add --load X, or drop --gpus"),
        (["--fit", "own.csv"], "own.csv: there is no such file"),
        (["--like", "pai", "--jobs", "0"], "jobs must be from 1"),
        (["--like", "pai", "--gpus", "0"], "gpus must be at least 1"),
        (["--like", "pai", "--on-bad-row", "skip"], "are about the FILE of --fit or --from"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_written(arguments, told):
    result = made("t.parquet", *arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert os.listdir() == []


def test_the_help_and_completion_name_every_published_trace():
    text = " ".join(made("--help").stdout.replace("│", " ").split())
    assert all(name in text for name in twins.names())
    assert synth._published("helios-v") == ["helios-venus"]
    assert synth._published("") == twins.names()
