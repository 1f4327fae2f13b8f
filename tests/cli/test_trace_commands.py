"""``shunter trace ...`` as people use it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.model import Trace
from shunter.traces import read, write
from shunter.traces.synthetic import synthetic

MADE = "synthetic:jobs=300,gpus=16"


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


def shunter(*arguments):
    return CliRunner().invoke(app, ["trace", *arguments], prog_name="shunter")


def ok(*arguments):
    result = shunter(*arguments)
    assert result.exit_code == 0, result.stderr
    return result


def dated() -> Trace:
    made = synthetic(300, gpus=16)
    vcs = {"vc": np.arange(300) % 2, "vcs": ("one", "two, too")}
    given = {name: getattr(made, name) for name in ("duration", "gpus", "user", "users")}
    return Trace.of("dated", made.job_id.tolist(), submit=made.submit + 1_599_436_800_000, **given, **vcs)


def test_describe_prints_charts_or_nothing_but_json():
    text = ok("describe", MADE).stdout
    assert "by weekday" in text
    assert max(map(len, text.splitlines())) <= 100
    about = json.loads(ok("describe", MADE, "-c", "2x8", "--json").stdout)
    assert (about["jobs"], about["load"]["gpus"], about["load"]["suggested"]) == (300, 16, False)


def test_describe_has_no_colours_in_a_pipe():
    command = [sys.executable, "-m", "shunter", "trace", "describe", MADE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout + done.stderr
    assert "█" in done.stdout


def test_describe_writes_a_page(tmp_path):
    result = ok("describe", MADE, "--html", "t.html", "--json")
    assert json.loads(result.stdout)["jobs"] == 300
    page = (tmp_path / "t.html").read_text()
    for part in ("Job sizes", "Submissions by hour", "Busiest users", "Load by day", "no limit", "</html>"):
        assert part in page
    assert shunter("describe", MADE, "--html", "t.html").exit_code == 2
    ok("describe", MADE, "--html", "t.html", "--force")
    assert shunter("describe", MADE, "--html", "nowhere/t.html").exit_code == 2


def test_names_in_a_page_are_text_only(tmp_path):
    trace = Trace.of("<bad>", ["a"], submit=[0], duration=[1], gpus=[1000], user=[0], users=("</script><worse>",))
    write(trace, tmp_path / "t.parquet")
    ok("describe", "t.parquet", "--html", "t.html")
    page = (tmp_path / "t.html").read_text()
    assert "<bad>" not in page
    assert "<worse>" not in page


def test_validate_reports_and_can_be_strict():
    result = ok("validate", MADE, "-c", "1x8")
    assert "never fits" in result.stdout
    assert "->" in result.stdout
    assert shunter("validate", MADE, "-c", "1x8", "--strict").exit_code == 1
    assert shunter("validate", MADE, "-c", "1x8", "--strict", "--json").exit_code == 1
    found = json.loads(ok("validate", MADE, "-c", "8x32", "--strict", "--json").stdout)
    assert {finding["severity"] for finding in found["findings"]} == {"info"}


def test_convert_keeps_the_digest(tmp_path):
    ok("convert", MADE, "a.csv.gz")
    ok("convert", "a.csv.gz", "b.parquet")
    assert "300 jobs written to c.csv" in ok("convert", "b.parquet", "c.csv").stderr
    assert read(tmp_path / "c.csv").digest == synthetic(300, gpus=16).digest
    ok("convert", "c.csv", "d.swf")
    assert "; Note: processors are GPUs" in (tmp_path / "d.swf").read_text()


def test_bad_rows_can_be_skipped_and_are_reported(tmp_path):
    (tmp_path / "t.csv").write_text("job_id,submit,duration,gpus\na,0,5,1\nb,1,x,1\n")
    assert shunter("describe", "t.csv").exit_code == 2
    assert "line 3" in ok("convert", "t.csv", "u.csv", "--format", "csv", "--on-bad-row", "skip").stderr
    assert len(read(tmp_path / "u.csv")) == 1
    assert "line 3" in ok("validate", "t.csv", "--on-bad-row", "skip", "--json").stdout
    assert "line 3" in ok("describe", "t.csv", "--on-bad-row", "skip").stdout
    ok("merge", "t.csv", MADE, "--on-bad-row", "skip", "-o", "v.csv")
    assert len(read(tmp_path / "v.csv")) == 301
    assert shunter("convert", "t.csv", "w.csv", "--format", "parket").exit_code == 2


def test_slice_by_time_names_and_zone(tmp_path):
    trace = dated()
    write(trace, tmp_path / "t.parquet")
    assert "of 300 jobs" in ok("slice", "t.parquet", "a.csv", "--from", "2020-09-07", "--to", "2020-09-07T12:00").stderr
    assert len(read(tmp_path / "a.csv")) == (trace.submit < 1_599_436_800_000 + 12 * 3_600_000).sum()
    ok("slice", "t.parquet", "b.csv", "--to", "+12h")
    assert read(tmp_path / "b.csv").digest == read(tmp_path / "a.csv").digest
    ok("slice", "t.parquet", "c.csv", "--to", "2020-09-07T20:00", "--timezone", "+08:00")
    assert read(tmp_path / "c.csv").digest == read(tmp_path / "a.csv").digest
    ok("slice", "t.parquet", "d.csv", "--vc", "one", "--users", "user01,user02", "--users", "user03")
    kept = read(tmp_path / "d.csv")
    assert set(kept.vcs) == {"one"}
    assert set(kept.users) <= {"user01", "user02", "user03"}


def test_slices_merge_into_the_trace(tmp_path):
    write(dated(), tmp_path / "t.parquet")
    ok("slice", "t.parquet", "a.csv", "--to", "+1")
    ok("slice", "t.parquet", "b.csv", "--from", "+1")
    assert "300 jobs" in ok("merge", "a.csv", "b.csv", "-o", "c.csv").stderr
    assert read(tmp_path / "c.csv").digest == dated().digest


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["describe", "nowhere.csv"], "no such file"),
        (["describe", MADE, "--timezone", "Mars"], "there is no time zone 'Mars'"),
        (["describe", MADE, "-c", "phily"], "did you mean 'philly'"),
        (["describe", MADE, "--html", "there.csv"], "exists already"),
        (["validate", "nowhere.csv"], "no such file"),
        (["convert", MADE, "t.txt"], "written as .parquet"),
        (["convert", MADE, "there.csv"], "exists already"),
        (["slice", MADE, "t.csv"], "give --since, --until, --vc or --users"),
        (["slice", MADE, "t.csv", "--from", "2020-01-01"], "has no dates"),
        (["slice", MADE, "t.csv", "--from", "soon"], "a time must be a date"),
        (["slice", MADE, "t.csv", "--from", "+1000"], "no job of"),
        (["slice", MADE, "t.csv", "--vc", "a"], "has no column 'vc'"),
        (["slice", MADE, "t.csv", "--users", "nobody"], "has the user 'nobody'"),
        (["merge", MADE, "-o", "t.csv"], "two traces or more"),
        (["merge", MADE, "there.csv", "-o", "there.csv"], "exists already"),
    ],
)
def test_bad_input_is_reported_with_code_2_and_writes_nothing(tmp_path, arguments, says):
    (tmp_path / "there.csv").write_text("job_id,submit,duration,gpus\na,0,5,1\n")
    result = shunter(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["there.csv"]


def test_the_page_about_these_commands_shows_what_they_print(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "reference" / "trace-commands.md"
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        printed = []
        for line in (line for line in block.splitlines() if line.startswith("$ ")):
            program, *arguments = shlex.split(line[2:])
            done = ok(*arguments[1:]) if program == "shunter" else None
            text = done.stdout + done.stderr if done else (tmp_path / arguments[0]).read_text()
            printed += [line, *(row.rstrip() for row in text.splitlines())]
        assert block.splitlines() == printed


@pytest.mark.parametrize("command", ["describe", "validate", "convert", "slice", "merge"])
def test_help_has_examples(command):
    assert f"shunter trace {command}" in ok(command, "--help").stdout.split("Examples:")[1]


def test_auto_says_that_the_recorded_cluster_was_larger(tmp_path):
    path = tmp_path / "jobs.csv"
    head, jobs = "job_id,submit,duration,gpus,recorded_wait\n", "".join(f"{n},{n},100,8,0\n" for n in range(20))
    path.write_text(f"{head}{jobs}z,9999,1,1,0\n")
    said = CliRunner().invoke(app, ["simulate", str(path), "-c", "auto", "-p", "fifo"]).stderr
    assert "as recorded" not in said, "for a hundredth of the time"
    path.write_text(head + jobs)
    said = CliRunner().invoke(app, ["simulate", str(path), "-c", "auto:load=4", "-p", "fifo"]).stderr
    assert "of the time: name the real cluster to compare waits" in said
