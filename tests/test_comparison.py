"""Several policies on the same jobs: in one process or many, interrupted or not."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import shunter
from shunter import comparison, simulation
from shunter.errors import RunError
from shunter.processes import run_tasks
from shunter.report.intervals import MEASURES, value_at
from shunter.setup import set_up

TRACE, CLUSTER = "synthetic:jobs=200,gpus=16,load=1.2", "2x8"

SLOW_POLICY = '''
import os, time
from dataclasses import dataclass
from pathlib import Path
from shunter.model import NOTHING, Plan, Start

@dataclass(frozen=True)
class Slow:
    """First come, first served, and slow: it writes down that it ran and then takes its time."""

    needs = frozenset()

    def start(self, cluster, previous=None):
        with Path(os.environ["DIARY"]).open("a") as diary:
            diary.write("run\\n")
        return ()

    def decide(self, view, memory):
        time.sleep(float(os.environ["PAUSE"]))
        free = [int(gpu) for node in range(len(view.nodes.free)) for gpu in view.free_gpus(node)]
        for job in view.pending[:1]:
            if len(free) >= view.jobs.gpus[job]:
                return Plan([Start(int(job), free[: view.jobs.gpus[job]])])
        return NOTHING
'''


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_processes_give_what_one_process_gives_and_progress_ends_at_the_end():
    told, setup = [], set_up(TRACE, CLUSTER)
    alone = shunter.compare(TRACE, CLUSTER, ["fifo", "sjf"], repeat=2, workers=1)
    options = comparison.CompareOptions(repeat=2, workers=2)
    together = comparison.compare_setup(setup, ["fifo", "sjf"], options, lambda *progress: told.append(progress))
    assert told[-1] == (800, 800)
    assert told == sorted(told)
    digests = [[[s["digest"] for s in row] for row in found.summaries] for found in (alone, together)]
    assert digests[0] == digests[1]
    assert alone.policies[1]["difference"] == together.policies[1]["difference"]
    assert alone.policies[0]["difference"] is None


def test_one_repeat_is_the_trace_as_it_is():
    found = shunter.compare(TRACE, CLUSTER, ["fifo", "sjf"], seed=1, workers=1)
    runs_alone = [shunter.simulate(TRACE, CLUSTER, policy, seed=1) for policy in ("fifo", "sjf")]
    assert [row["digest"] for row in found.policies] == [result.digest for result in runs_alone]
    means = [result.summary["jct_s"]["mean"] for result in runs_alone]
    assert found.policies[1]["difference"]["mean_s"] == pytest.approx(means[1] - means[0])


def test_numbers_are_averaged_over_repeats():
    found = shunter.compare(TRACE, CLUSTER, ["fifo"], repeat=3, workers=1)
    means = [summary["jct_s"]["mean"] for summary in found.summaries[0]]
    assert len(set(means)) == 3
    assert found.policies[0]["jct_s"]["mean"] == pytest.approx(np.mean(means))
    assert (found.policies[0]["jobs"], len(found.policies[0]["repeats"])) == (200, 3)


def test_a_kept_comparison_is_a_folder_of_runs(tmp_path):
    out = tmp_path / "out"
    found = shunter.compare(TRACE, CLUSTER, ["fifo", "sjf"], repeat=2, workers=1, out=out)
    assert json.loads((out / "comparison.json").read_text()) == json.loads(json.dumps(found.as_dict()))
    assert sum((folder / "experiment.toml").exists() for folder in out.iterdir()) == 4
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["out"]
    from shunter.experiment import read

    again = simulation.rerun(read(next(out.glob("1-*-repeat1")) / "experiment.toml"))
    assert again.digest == found.summaries[0][1]["digest"]
    with pytest.raises(RunError, match="exists already"):
        shunter.compare(TRACE, CLUSTER, ["fifo"], out=out)


def test_nothing_is_left_behind_without_out(tmp_path):
    shunter.compare(TRACE, CLUSTER, ["fifo"], workers=1)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"policies": []}, "nothing to compare"),
        ({"policies": ["fifo", "fifo"]}, "more than once"),
        ({"repeat": 0}, "repeat must be >= 1"),
        ({"workers": 0}, "workers must be >= 1"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, says):
    with pytest.raises(RunError, match=says):
        shunter.compare(**{"trace": TRACE, "cluster": CLUSTER, "policies": ["fifo"], **arguments})


def test_two_comparisons_do_not_write_to_one_folder(tmp_path):
    setup = set_up(TRACE, CLUSTER)
    out = tmp_path / "out"
    with comparison._stash(setup, out), pytest.raises(RunError, match="another comparison is being written there"):
        comparison.compare_setup(setup, ["fifo"], comparison.CompareOptions(out=out))
    with comparison._stash(setup, None) as first, comparison._stash(setup, None) as second:
        assert first != second  # without a folder of its own, the second keeps nothing
    assert not second.exists()


def test_a_home_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert shunter.compare(TRACE, CLUSTER, ["fifo"], workers=1).policies[0]["finished"] == 200


@pytest.mark.parametrize(("how", "out"), [(signal.SIGKILL, None), (signal.SIGINT, "out")])
def test_an_interrupted_comparison_goes_on_where_it_was(tmp_path, how, out):
    (tmp_path / "slow_policy.py").write_text(SLOW_POLICY)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    places = {"PYTHONPATH": path, "DIARY": str(tmp_path / "diary"), "PAUSE": "0"}
    command = [sys.executable, "-m", "shunter", "compare", TRACE, "-c", CLUSTER, "-p", "slow_policy.Slow", "-p", "fifo"]
    command += ["--workers", "2", "--json", *(["--out", str(tmp_path / out)] if out else [])]

    process = subprocess.Popen(
        command, env={**os.environ, **places, "PAUSE": "1"}, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    kept = "cache/shunter/compare/*/[!.]*/summary.json" if out is None else ".out.unfinished/[!.]*/summary.json"
    while not list(tmp_path.glob(kept)) and process.poll() is None:
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[1]
    os.kill(process.pid, how)
    _, errors = process.communicate()
    assert process.returncode == (130 if how == signal.SIGINT else -9)
    assert "Traceback" not in errors
    if how == signal.SIGINT:
        assert "interrupted: stopped; the same command goes on from what was finished" in errors
    assert not (tmp_path / "out").exists()

    again = subprocess.run(command, env={**os.environ, **places}, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "1 of 2 runs was reused" in again.stderr
    assert [row["policy"] for row in json.loads(again.stdout)["policies"]] == ["slow_policy.Slow", "fifo"]
    assert (tmp_path / "diary").read_text() == "run\nrun\n"  # the slow one was run anew, fifo was not run again
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(".out")]
    assert left == []


def test_a_policy_whose_code_has_changed_is_run_again(tmp_path, monkeypatch):
    (tmp_path / "own_policy.py").write_text(SLOW_POLICY)
    monkeypatch.syspath_prepend(tmp_path)
    import own_policy

    setup = set_up(TRACE, CLUSTER)
    slow = simulation.resolve(own_policy.Slow())
    before = comparison._task(setup, slow, "slow", 0, 0, tmp_path)
    assert comparison._task(setup, slow, "slow", 0, 0, tmp_path) == before
    (tmp_path / "own_policy.py").write_text(SLOW_POLICY + "# changed\n")
    assert comparison._task(setup, slow, "slow", 0, 0, tmp_path) != before


@pytest.mark.parametrize(("compiled", "jobs"), [([], [1]), (["queue.nbi"], [])])
def test_what_all_share_is_compiled_once_where_nothing_is(compiled, jobs, tmp_path, monkeypatch):
    for name in compiled:
        (tmp_path / name).touch()
    seen = []
    monkeypatch.setattr(comparison, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(comparison, "run", lambda setup, policy: seen.append(len(setup.trace)))
    comparison.compile_once(set_up("synthetic:jobs=20,gpus=16", "2x8"), "fifo")
    assert seen == jobs


def test_a_number_that_some_repeats_lack_is_the_mean_of_the_others():
    repeats = tuple({"sharing": {"mean_slowdown": slowdown}, "none": None} for slowdown in (None, 1.0, 1.5))
    row = comparison._average(repeats)
    assert (row["sharing"], row["none"]) == ({"mean_slowdown": 1.25}, None)


def _times(factor, task, tell):
    return factor * task


def test_processes_import_nothing_from_the_present_folder(tmp_path, monkeypatch):
    mark = tmp_path / "ran"
    (tmp_path / "multiprocessing.py").write_text(f"open({str(mark)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    assert run_tasks(_times, 3, [1, 2], [1, 1], 2, lambda done, total: None) == [3, 6]
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_lock_of_another_process_does_no_harm(kind, tmp_path):
    treasure, planted = tmp_path / "treasure", tmp_path / ".out.unfinished"
    treasure.write_text("mine")
    planted.mkdir()
    if kind == "link":
        (planted / "lock").symlink_to(treasure)
        with pytest.raises(RunError, match="choose another folder"):
            shunter.compare(TRACE, CLUSTER, ["fifo"], out=tmp_path / "out", workers=1)
    else:
        os.mkfifo(planted / "lock")
        shunter.compare(TRACE, CLUSTER, ["fifo"], out=tmp_path / "out", workers=1)
    assert treasure.read_text() == "mine"


def test_every_measure_has_an_interval_over_repeats():
    found = shunter.compare("synthetic:jobs=60,gpus=16,load=1.2", CLUSTER, ["fifo", "sjf"], repeat=5, workers=1)
    first, second = found.policies
    assert set(first["intervals"]) == set(second["differences"]) == set(MEASURES)
    for name, between in second["differences"].items():
        assert between["low"] <= between["value"] <= between["high"], name
        assert between["value"] == pytest.approx(value_at(second, name) - value_at(first, name))
    assert found.as_dict()["intervals"]["over"] == "repeats"
    assert "5 repeats" in found.about_intervals
    assert "too narrow" in found.about_intervals


def test_a_single_run_has_intervals_over_stretches_and_says_so():
    found = shunter.compare(TRACE, CLUSTER, ["fifo", "sjf"], workers=1)
    assert found.as_dict()["intervals"]["over"] == "stretches"
    assert "--repeat 5" in found.about_intervals
    differences = found.policies[1]["differences"]
    assert differences["jct_s.p99"]["low"] is not None
    assert differences["utilization"]["low"] is None  # a number of the whole run


def test_repeats_have_their_numbers_and_seeds():
    found = shunter.compare(TRACE, CLUSTER, ["fifo"], seed=3, repeat=2, workers=1)
    repeats = found.policies[0]["repeats"]
    assert [(one["repeat"], one["repeat_seed"]) for one in repeats] == [(0, 3), (1, 4)]
    assert found.as_dict()["seeds"] == [3, 4]
    alone = shunter.simulate(TRACE + ",seed=1", CLUSTER, "fifo", seed=4)
    assert repeats[1]["digest"] == alone.digest


# ------------------------------------------------------------------------------------------- what stops cost

BUSY = "synthetic:jobs=300,gpus=16,load=1.3"


def test_stops_cost_what_tiresias_measured_unless_said_otherwise():
    usual, free, dear = (
        shunter.simulate(BUSY, CLUSTER, "las", **more) for more in ({}, {"overhead": 0}, {"overhead": "60,120"})
    )
    lost = [result.summary["lost_gpu_hours"] for result in (usual, free, dear)]
    assert lost[1] == 0 < lost[0]
    assert dear.cluster.overheads.restart == ((1, 120.0),)
    assert simulation.rerun(usual.experiment).digest == usual.digest
    assert simulation.rerun(free.experiment).digest == free.digest


def test_costs_of_a_cluster_are_its_own(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text("[[nodes]]\ncount = 2\ngpus = 8\n[overheads]\ncheckpoint = 5\n")
    assert set_up(BUSY, file, overhead="usual").cluster.overheads.restart == ()
    assert set_up(BUSY, file, overhead="1,2").cluster.overheads.checkpoint == ((1, 1.0),)


def test_a_policy_may_have_costs_of_its_own():
    found = shunter.compare(BUSY, CLUSTER, ["fifo", "las", "srtf"], workers=1, overhead={"las": (60, 120)})
    rows = {row["policy"]: row for row in found.policies}
    assert rows["las"]["stop_costs"] == "60 + 120 s"
    assert rows["srtf"]["stop_costs"] == "0 + 62 s"
    alone = shunter.simulate(BUSY, CLUSTER, "las", overhead="60,120")
    assert rows["las"]["digest"] == alone.digest
    with pytest.raises(RunError, match=r"--overhead lass=.*did you mean 'las'"):
        shunter.compare(BUSY, CLUSTER, ["fifo", "las"], overhead={"lass": 0})


@pytest.mark.parametrize(("overhead", "says"), [
    ((3600, 7200), "Costs change the winner: if stopping jobs were free, las would have the shortest mean JCT"),
    (0, "las has the shortest mean JCT"),
])  # fmt: skip
def test_the_verdict_begins_with_costs_that_change_the_winner(overhead, says):
    found = shunter.compare(BUSY, CLUSTER, ["fifo:backfill=easy", "las"], workers=1, overhead=overhead)
    assert found.verdict.startswith(says)


def test_a_lock_that_was_removed_with_its_folder_locks_nothing(tmp_path, monkeypatch):
    """The comparison that had it is done and has deleted the folder; a third one may have made it again."""
    lock, real = tmp_path / ".out.unfinished" / "lock", fcntl.flock

    def late(file, how):
        real(file, how)
        shutil.rmtree(lock.parent)
        lock.parent.mkdir()
        lock.touch()

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(RunError, match="another comparison is being written there"):
        shunter.compare("synthetic:jobs=5", "16x8", ["fifo"], workers=1, out=tmp_path / "out")
