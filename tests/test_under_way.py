"""Work that is under way is a small file beside its output, and nothing of it is left."""

from __future__ import annotations

import json
import os

import pytest
from typer.testing import CliRunner

import shunter
from shunter import under_way
from shunter.cli.main import app
from shunter.sweeps import running
from shunter.under_way import UnderWay, file_of, read, shown

ABOUT = ("run", "jobs", "4x4", ["fifo"])
TRACE = "synthetic:jobs=60,gpus=16,seed=1"


@pytest.fixture(autouse=True)
def _every_step(monkeypatch):
    monkeypatch.setattr(under_way, "EVERY_S", 0.0)


def test_it_is_there_while_the_work_lasts_and_gone_at_its_end(tmp_path):
    with shown(tmp_path / "new" / "run", UnderWay(*ABOUT)) as note:
        for done in (10, 20, 30):
            note(done, 40)
        found = read(file_of(tmp_path / "new" / "run"))
        assert (found.kind, found.done, found.total, found.share, found.alive) == ("run", 30, 40, 0.75, True)
        assert [done for _, done in found.points] == [10, 20, 30]
    assert list((tmp_path / "new").iterdir()) == []
    with pytest.raises(KeyboardInterrupt):
        _interrupted(tmp_path / "run")
    assert not file_of(tmp_path / "run").exists()


def _interrupted(folder):
    with shown(folder, UnderWay(*ABOUT)) as note:
        note(1, 2)
        assert file_of(folder).exists()
        raise KeyboardInterrupt


def test_a_long_course_keeps_few_points(tmp_path):
    with shown(tmp_path / "run", UnderWay(*ABOUT)) as note:
        for done in range(1000):
            note(done, 1000)
        points = read(file_of(tmp_path / "run")).points
    assert len(points) <= under_way.MOST_POINTS
    assert points == sorted(points)


def test_without_a_folder_or_where_nothing_can_be_written_the_work_goes_on(tmp_path):
    with shown(None, UnderWay(*ABOUT)) as note:
        note(1, 2)
    (tmp_path / "file").touch()
    with shown(tmp_path / "file" / "run", UnderWay(*ABOUT)) as note:
        note(1, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "other"},
        {"done": "many"},
        {"total": float("inf")},
        {"policies": [1]},
        {"policies": {"fifo": 1}},
        {"points": [1]},
        {"points": {"0": 1}},
        {"points": [[0, float("inf")]]},
        {"points": [[10**400, 1]]},
        {"points": [[1, 10**400]]},
        {"trace": "\ud800"},
        {"policies": ["long" * 100_000]},
        {"more": 1},
    ],
)
def test_a_file_that_is_none_of_ours_says_nothing(tmp_path, change):
    file = file_of(tmp_path / "run")
    with shown(tmp_path / "run", UnderWay(*ABOUT)) as note:
        note(1, 2)
        known = json.loads(file.read_text())
    file.write_text(json.dumps(known | change))
    assert read(file) is None
    file.write_text("[")
    assert read(file) is None


def test_what_was_killed_is_not_under_way(tmp_path):
    gone = UnderWay(*ABOUT, pid=os.getpid())
    assert gone.alive
    gone.pid = 2**22 + 1  # above the largest number of a process
    assert not gone.alive
    gone.host, gone.at = "elsewhere", 0.0
    assert not gone.alive


def test_commands_say_how_far_they_are(tmp_path, monkeypatch):
    seen = []
    noted = under_way.Progressing.__call__

    def follow(self, done, total):
        noted(self, done, total)
        if self.file is not None:
            seen.append((read(self.file).kind, read(self.file).unit))

    monkeypatch.setattr(under_way.Progressing, "__call__", follow)
    run = ["simulate", TRACE, "-c", "4x4", "-p", "fifo", "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, run).exit_code == 0
    shunter.compare(TRACE, "4x4", ["fifo", "sjf"], out=tmp_path / "both", workers=1)
    assert {("run", "jobs"), ("comparison", "jobs")} <= set(seen)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both", "run"]
    assert running.UnderWay is UnderWay  # sweeps say it in the same way
