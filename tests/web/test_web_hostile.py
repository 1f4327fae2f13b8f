"""What others may put into the folder or send: the page refuses it with a message, and goes on."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import Future

import pytest

pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")

from shunter.errors import RunError
from shunter.web.access import Access
from shunter.web.changes import BIN, Changes
from shunter.web.choices import MOST_JOBS, trace_text
from shunter.web.folder import RunsFolder
from shunter.web.tasks import BackgroundTask, Tasks

ROW = '{"policy": "a", "jobs": %s, "jct_s": {"mean": %s, "p99": 1}}'
RECORD = '{"policies": [%s], "trace": "a", "cluster": "b"}'


@pytest.fixture(scope="module")
def served(serve, filled):
    return serve(filled)


@pytest.mark.parametrize("rows", ["", ROW % ("Infinity", 1), ROW % (1, "NaN"), ROW % (1, "Infinity")])
def test_a_broken_comparison_does_not_hide_the_others(served, rows):
    bad = served.folder / "bad"
    bad.mkdir()
    (bad / "comparison.json").write_text(RECORD % rows)
    try:
        assert "sjf" in served.get("/runs").text
        assert {each["name"] for each in served.get("/api/runs").json if each["problem"]} == {"bad"}
    finally:
        shutil.rmtree(bad)


def test_a_name_that_is_no_text_does_not_hide_the_others(served):
    bad = os.fsencode(served.folder) + b"/bad\xff"
    os.mkdir(bad)
    try:
        with open(bad + b"/comparison.json", "w") as file:
            file.write(RECORD % (ROW % (1, 1)))
        assert served.get("/runs").status == served.get("/api/runs").status == 200
    finally:
        shutil.rmtree(bad)


def test_a_link_in_a_run_is_not_followed(served, tmp_path):
    (tmp_path / "secret.json").write_text('{"secret": 1}')
    run = served.folder / "linked"
    shutil.copytree(served.folder / "sjf", run)
    (run / "summary.json").unlink()
    (run / "summary.json").symlink_to(tmp_path / "secret.json")
    try:
        for path in ("/api/summary", "/api/explain", "/runs/report", "/runs/steps"):
            found = served.get(path, run="linked", job="1")
            assert found.status == 422
            assert "secret" not in found.text
    finally:
        shutil.rmtree(run)


def test_a_summary_that_is_none_is_a_message(served):
    bad = served.folder / "none"
    bad.mkdir()
    (bad / "comparison.json").write_text("[")
    try:
        assert served.get("/api/summary", run="none").status == 422
    finally:
        shutil.rmtree(bad)


@pytest.mark.parametrize("name", ["a" * 5000, "a/" * 3000, "\ud800"])
def test_an_odd_name_is_refused(tmp_path, name):
    with pytest.raises(RunError, match="no such name"):
        RunsFolder.of(tmp_path).path(name)


def test_a_number_has_plain_digits(served):
    assert served.get("/runs/steps", run="sjf", at="²").status == 422


@pytest.mark.parametrize("jobs", ["1,jobs=10000000", "1_000_000", "+10000000"])
def test_the_limit_of_jobs_holds_however_they_are_written(tmp_path, jobs):
    with pytest.raises(RunError, match=f"up to {MOST_JOBS:,}"):
        trace_text(RunsFolder.of(tmp_path), f"synthetic:jobs={jobs}")


def test_a_cookie_is_not_unquoted():
    """To unquote takes the square of what is sent, for whoever sends it: 50 kB of backslashes took 6 s."""
    gate = Access("t" * 40, 1)
    assert gate.admits(f'other="\\0"; {gate.cookie_name}={gate.cookie}', "")
    assert not gate.admits(f'{gate.cookie_name}="{gate.cookie}"', "")


def test_nobody_waits_for_a_task_in_an_answer():
    tasks = Tasks()
    tasks.kept["a"] = BackgroundTask("a", Future())
    with pytest.raises(RunError, match="still being computed"):
        tasks.ended("a")


def test_the_bin_is_no_way_out(tmp_path):
    (tmp_path / "in" / "run").mkdir(parents=True)
    (tmp_path / "in" / "run" / "experiment.toml").touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / BIN).symlink_to(tmp_path / "out")
    with pytest.raises(RunError, match="is a link"):
        Changes(RunsFolder.of(tmp_path / "in")).delete("run")
    assert list((tmp_path / "out").iterdir()) == []
