"""Work that is under way is a small file beside its output, and nothing of it is left."""

from __future__ import annotations

import json
import os
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import shunter
from shunter import under_way
from shunter import world as w
from shunter.cli.main import app
from shunter.setup import set_up
from shunter.sim import Simulator, engine
from shunter.sweeps import running
from shunter.under_way import RunPoint, UnderWay, file_of, read, shown

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
        {"course": [1]},
        {"course": [[0, 1, 2]]},
        {"course": [[0, 1, 2, float("nan")]]},
        {"course": [[0, 1, 2, -1]]},
        {"course": [[0, 1, 2, "3"]]},
        {"course": {"0": 1}},
        {"gpus": 10**400},
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
    gone.at = time.time()
    assert gone.alive
    gone.at += 86_400  # a clock can't be so far ahead
    assert not gone.alive


def test_a_run_keeps_few_points_of_its_simulated_time_and_the_newest(tmp_path):
    with shown(tmp_path / "run", UnderWay(*ABOUT)) as note:
        for number in range(1, 1000):
            note.reach(RunPoint(60.0 * number, number, number % 7, 4.0), 1000)
            found = read(file_of(tmp_path / "run"))
            assert len(found.course) <= under_way.MOST_POINTS
            assert found.course[-1] == (60.0 * number, number, number % 7, 4.0)
        steps = np.diff([point.time_s for point in found.course][:-1])
    assert found.course[0] == (0, 0, 0, 0)
    assert max(steps) < 2 * min(steps)  # spread over all of it
    assert len(steps) > under_way.MOST_POINTS / 3


def test_a_course_that_goes_back_in_time_is_read_forwards(tmp_path):
    with shown(tmp_path / "run", UnderWay(*ABOUT)) as note:
        note.reach(RunPoint(5.0, 1, 0, 1.0), 2)
        known = json.loads(file_of(tmp_path / "run").read_text())
    course = [[0, 0, 0, 0], [5, 1, 0, 1], [3, 9, 9, 9], [7, 2, 0, 1]] + [[9, 2, 0, 1]] * 1000
    file_of(tmp_path / "run").write_text(json.dumps(known | {"course": course}))
    found = read(file_of(tmp_path / "run")).course
    assert [point.time_s for point in found[:4]] == [0, 5, 7, 9]
    assert len(found) < 2 * under_way.MOST_POINTS


@pytest.mark.parametrize("compiled", [True, False])
def test_a_simulation_says_how_far_it_is_as_its_log_does(compiled, monkeypatch):
    monkeypatch.setattr(engine, "STRETCH_S", 0.0)
    setup = set_up("synthetic:jobs=300,gpus=16,seed=1", "4x4")
    simulator, found = Simulator(setup.trace, setup.cluster), []
    note = lambda point: found.append((point, simulator.events))  # noqa: E731
    simulator.run(shunter.policy("fifo"), compiled=compiled, progress=note)
    assert len(found) > 3
    for point, past in found[:: max(1, len(found) // 20)]:
        assert point.time_s == (past[-1, 0] - setup.trace.submit[0]) / 1000
        kinds = {kind: int((past[:, 1] == kind).sum()) for kind in (w.ARRIVE, w.FINISH)}
        started = past[past[:, 1] == w.START]
        assert point.ended == kinds[w.FINISH]
        assert point.waiting == kinds[w.ARRIVE] - len(np.unique(started[:, 2]))
        left = past[past[:, 1] == w.FINISH][:, 2]
        assert point.busy_gpus == started[~np.isin(started[:, 2], left)][:, 4].sum() / 1000


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
