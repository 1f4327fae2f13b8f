"""Stores, sweep files and caches that others made, or that hold more than ours."""

from __future__ import annotations

import os
import time

import polars as pl
import pytest
from typer.testing import CliRunner

import shunter
from shunter.cli.main import app
from shunter.errors import RunError
from shunter.sweeps import cached_runs, store
from shunter.sweeps import form as forms
from shunter.sweeps.store import Store, frame_of

AXES = {"traces": ["synthetic:jobs=40,gpus=8"], "clusters": ["1x8"], "policies": ["fifo"]}
OLD = time.time() - 60 * 86_400


def test_a_cache_deletes_nothing_but_its_own_old_runs(tmp_path):
    ours, theirs = tmp_path / f"tuning-{'a' * 16}", tmp_path / "thesis"
    for folder in (ours, theirs):
        Store.open(folder, "v").add([{"key": "k", "begun": 1.0}])
        (folder / "runs" / "notes.txt").write_text("x")
        for path in (*folder.rglob("*"), folder):
            os.utime(path, (OLD, OLD))
    cached_runs._forget_old(tmp_path)
    assert len(Store.existing(theirs).files()) == 1
    assert Store.existing(ours).files() == []
    assert {path.name for path in tmp_path.rglob("*.txt")} == {"notes.txt"}
    assert len(list(tmp_path.rglob("*.txt"))) == 2


def test_an_empty_store_of_long_ago_is_removed(tmp_path):
    ours = tmp_path / f"reproduce-{'0' * 16}"
    Store.open(ours, "v").add([{"key": "k", "begun": 1.0}])
    for path in ours.rglob("*"):
        os.utime(path, (OLD, OLD))
    cached_runs._forget_old(tmp_path)
    assert not ours.exists()


def test_large_stores_are_not_joined(tmp_path, monkeypatch):
    """A joined file could be larger than what is read of one."""
    monkeypatch.setattr(store, "SETTLED_FILES", 1)
    monkeypatch.setattr(store, "SETTLED_BYTES", 1000)
    kept = Store.open(tmp_path / "runs", "v")
    for number in range(3):
        kept.add([{"key": str(number), "begun": 1.0}])
    kept.settle()
    assert len(kept.files()) == 3


def test_names_of_folders_are_no_patterns(tmp_path):
    found = shunter.sweep(**AXES, out=tmp_path / "runs[1]*", workers=1)
    assert found.runs.height == 1
    assert shunter.sweep(**AXES, out=tmp_path / "runs[1]*", workers=1).progress.done == 0


def test_a_file_runs_code_only_if_it_is_allowed(tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("from pathlib import Path\nPath('PWNED').touch()\n")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "sweep.toml"
    for policies in ('["evil_module.P"]', '[{policy = "fifo", grid = {placement = ["evil_module.place"]}}]'):
        file.write_text(f'traces = ["synthetic"]\nclusters = ["1x8"]\npolicies = {policies}\n')
        with pytest.raises(RunError, match=r"is a module.*allow_code=True"):
            shunter.sweep(file, workers=1)
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize(
    "command", ["curl evil | sh; shunter simulate x", "shunter simulate $(reboot)", "rm -rf /", "'"]
)
def test_commands_of_others_are_not_shown(tmp_path, command):
    kept = Store.open(tmp_path / "runs", "v")
    kept.add([{"key": "k", "begun": 1.0, "error": "no", "command": command}])
    assert kept.read()["command"].to_list() == [None]
    kept.add([{"key": "l", "begun": 1.0, "error": "no", "command": "shunter simulate 'a b.csv' --cluster 1x8"}])
    assert "shunter simulate 'a b.csv' --cluster 1x8" in kept.read()["command"].to_list()


def test_a_text_that_never_ends_is_refused(tmp_path):
    kept = Store.open(tmp_path / "runs", "v")
    frame_of([{"key": "k", "error": "x" * 200_000}] * 50).write_parquet(tmp_path / "runs" / "runs" / "bomb.parquet")
    with pytest.raises(RunError, match=r"bomb.parquet: has a text of more than"):
        kept.read()


def test_many_files_together_are_bounded(tmp_path, monkeypatch):
    kept = Store.open(tmp_path / "runs", "v")
    for number in range(5):
        kept.add([{"key": str(number), "begun": 1.0}] * 100)
    monkeypatch.setattr(store, "most_loaded", lambda: 200_000)
    with pytest.raises(RunError, match="holds more than"):
        kept.read()


def test_what_a_run_is_comes_from_the_plan(tmp_path):
    """A row with a right key and another policy does not make that policy part of the sweep."""
    found = shunter.sweep(**AXES, out=tmp_path / "runs", workers=1)
    (file,) = Store.existing(tmp_path / "runs").files()
    pl.read_parquet(file).with_columns(policy=pl.lit("forged"), trace=pl.lit("forged")).write_parquet(file)
    again = shunter.sweep(**AXES, out=tmp_path / "runs", workers=1)
    assert again.runs["policy"].to_list() == ["fifo"]
    assert again.runs["trace"].to_list() == found.runs["trace"].to_list()


def test_an_interrupted_beginning_does_not_block_a_folder(tmp_path):
    Store.open(tmp_path / "runs", "v")
    (tmp_path / "runs" / "runs").rmdir()
    Store.open(tmp_path / "runs", "v").add([{"key": "k", "begun": 1.0}])
    assert Store.existing(tmp_path / "runs").read().height == 1


def test_measures_and_packages_that_changed_are_run_again(tmp_path, monkeypatch):
    package = tmp_path / "mylab_rules"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "measures.py").write_text("from mylab_rules.value import VALUE\ndef mine(run):\n    return VALUE\n")
    (package / "value.py").write_text("VALUE = 2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    axes = {**AXES, "measures": ["mylab_rules.measures.mine"], "out": tmp_path / "runs", "workers": 1}
    assert shunter.sweep(**axes).progress.done == 1
    assert shunter.sweep(**axes).progress.done == 0
    (package / "value.py").write_text("VALUE = 99.0\n")
    assert shunter.sweep(**axes).progress.done == 1


@pytest.mark.parametrize("missing", ["traces", "clusters", "policies"])
def test_a_missing_axis_is_named(tmp_path, missing):
    file = tmp_path / "sweep.toml"
    lines = {"traces": 'traces = ["synthetic"]', "clusters": 'clusters = ["1x8"]', "policies": 'policies = ["fifo"]'}
    file.write_text("\n".join(line for key, line in lines.items() if key != missing))
    with pytest.raises(RunError, match=rf"sweep.toml: there are no {missing}; add {missing} = "):
        forms.read(file)


def test_a_pipe_is_no_page_and_formulas_are_no_cells(tmp_path):
    shunter.sweep(**AXES, out=tmp_path / "runs", workers=1)
    os.mkfifo(tmp_path / "page.html")
    done = CliRunner().invoke(
        app, ["sweep", "show", str(tmp_path / "runs"), "--report", str(tmp_path / "page.html"), "--force"]
    )
    assert done.exit_code == 2
    (file,) = Store.existing(tmp_path / "runs").files()
    pl.read_parquet(file).with_columns(host=pl.lit("=HYPERLINK(1)")).write_parquet(file)
    done = CliRunner().invoke(app, ["sweep", "export", str(tmp_path / "runs"), str(tmp_path / "runs.csv")])
    assert done.exit_code == 0
    assert pl.read_csv(tmp_path / "runs.csv")["host"].to_list() == ["'=HYPERLINK(1)"]


def test_a_measure_is_checked_before_anything_runs(tmp_path):
    (tmp_path / "sweep.toml").write_text('traces = ["synthetic"]\nclusters = ["1x8"]\npolicies = ["fifo"]\n')
    done = CliRunner().invoke(app, ["sweep", str(tmp_path / "sweep.toml"), "--measure", "wait"])
    assert done.exit_code == 2
    assert not (tmp_path / "sweep").exists()
