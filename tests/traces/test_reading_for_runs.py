"""Formats and bad rows from the prompt to the record of a run and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import HELIOS, sample
from typer.testing import CliRunner

from growth import FAR_BELOW_QUADRATIC, growth
from shunter import experiment
from shunter.cli.console import format_names
from shunter.cli.main import app
from shunter.errors import TraceError
from shunter.setup import recorded_setup, set_up
from shunter.traces import formats, read

BAD = HELIOS + "15,eve,vcA,long,4,32,1,RUNNING,2020-04-01 00:03:00,2020-04-01 00:03:00,,,0\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with a bad row, whose name says nothing."""
    path = tmp_path / "log"
    path.write_text(BAD)
    return path


def test_a_record_reads_alike(tmp_path: Path, log: Path) -> None:
    setup = set_up(log, "4x8", format="helios", on_bad_row="skip")
    (tmp_path / "experiment.toml").write_text(experiment.to_toml(setup.experiment("fifo", 0)))
    record = experiment.read(tmp_path / "experiment.toml")
    assert (record.trace.format, record.trace.on_bad_row) == ("helios", "skip")
    assert recorded_setup(record).trace.digest == setup.trace.digest
    with pytest.raises(TraceError, match="end_time must be known"):
        recorded_setup(experiment.override(record, ["trace.on_bad_row=fail"]))


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_bad_input_ends_with_code_2_and_writes_nothing(tmp_path: Path, log: Path, command: str) -> None:
    out = tmp_path / "out"
    arguments = [command, str(log), "-c", "4x8", "-p", "fifo", "--out", str(out)]
    for more, part in (
        ([], "end_time must be known"),
        (["--format", "helio"], "did you mean 'helios'?"),
        (["--format", "sacct"], "is no 'sacct' trace"),
        (["--on-bad-row", "ignore"], "must be fail or skip"),
    ):
        done = CliRunner().invoke(app, [*arguments, *more])
        assert done.exit_code == 2
        assert part in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == [log]


def test_a_job_that_never_fits_is_reported_with_its_line_and_remarks_before_it(tmp_path: Path) -> None:
    path = sample(tmp_path, "helios")
    done = CliRunner().invoke(app, ["simulate", str(path), "-c", "1x8", "-p", "fifo"])
    assert done.exit_code == 2
    assert "note: left out 1 job that asked for no GPU" in done.stderr
    assert f"{path} line 5: job '14' (16 GPUs" in done.stderr


def test_format_names_complete() -> None:
    assert format_names("") == formats()
    assert format_names("s") == ["sacct", "supercloud", "swf"]


def test_reading_takes_as_long_as_there_are_rows(tmp_path: Path) -> None:
    head, row, *_ = HELIOS.splitlines()

    def made(rows: int) -> Path:
        path = tmp_path / f"{rows}.csv"
        path.write_text("\n".join([head, *(row.replace("11,", f"{job},", 1) for job in range(rows))]))
        return path

    assert len(read(made(120_000))) == 120_000
    assert growth(read, made(7_500), made(120_000)) < FAR_BELOW_QUADRATIC


def test_quoted_fields_are_read_fast_and_slowly_alike(tmp_path: Path) -> None:
    head, *rows = HELIOS.splitlines()
    fast, slow = tmp_path / "fast.csv", tmp_path / "slow.csv"
    fast.write_text("\n".join([head, *(row.replace(",train,", ',"a ""big"", job",') for row in rows)]))
    slow.write_text(
        "\n".join([head, *(row.replace(",train,", ',"a ""big"", job",').replace("ann", '"an\nn"') for row in rows)])
    )
    assert read(fast).job_names == read(slow).job_names == ('a "big", job', "eval")
