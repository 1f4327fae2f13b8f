"""Sweeps as they run: nothing twice, nothing lost, failures as rows."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections import Counter

import polars as pl
import pytest
from typer.testing import CliRunner

import shunter
from shunter import simulation
from shunter.cli.main import app
from shunter.errors import InputError, RunError
from shunter.setup import Setup, set_up
from shunter.simulation import Draw
from shunter.sweeps import form as forms
from shunter.sweeps import places, running, store, work
from shunter.sweeps.engines import opener
from shunter.sweeps.estimating import START_S, estimate
from shunter.sweeps.places import Places, checked, command_of, ground_of
from shunter.sweeps.plan import plan
from shunter.sweeps.store import Store, frame_of

AXES = {
    "traces": ["synthetic:jobs=60,gpus=8"], "clusters": ["1x8"], "loads": [0.8, 1.2],
    "policies": ["fifo", {"policy": "saf", "grid": {"backfill": ["none", "easy"]}}], "seeds": 3,
}  # fmt: skip
FAILING = """
from dataclasses import dataclass
from shunter.policies.fifo import Fifo

@dataclass(frozen=True)
class Failing:
    needs = frozenset()
    def start(self, cluster, previous=None):
        raise ValueError("it never works <b>&")
    def decide(self, view, memory):
        raise NotImplementedError
"""


def planned(**axes):
    made = plan(forms.of(**{**AXES, **axes}))
    return made, ground_of(made)


def keys(made, ground):
    return dict(zip(running.keys_of(made, ground), made.runs, strict=True))


def test_every_run_is_the_run_that_simulate_makes():
    """The numbers and digests of a sweep are those of single runs."""
    found = shunter.sweep(**AXES, workers=1).runs
    for row in found.iter_rows(named=True):
        if row["seed"] == 0:
            alone = shunter.simulate("synthetic:jobs=60,gpus=8", "1x8", row["policy"], load=row["load"])
            assert (row["digest"], row["jct_s.mean"]) == (alone.digest, alone.summary["jct_s"]["mean"])
            assert row["fairness.jain"] == alone.summary["fairness"]["jain"]
    assert found.height == 18
    assert found.filter(pl.col("policy") == "fifo")["digest"].n_unique() == 6


def test_jobs_are_drawn_once_for_all_policies(monkeypatch):
    """Whatever ran on the same jobs before, a run gives what it gives alone."""
    made, ground = planned(loads=[1.2], networks=["profiled"], policies=["fifo", "las", "saf", "fifo:placement=spread"])
    drawn = Counter()
    repeat = Setup.repeat
    monkeypatch.setattr(Setup, "repeat", lambda self, seed, n: drawn.update([n]) or repeat(self, seed, n))
    rows = work.work(work.SweepRunner(ground), work.Batch(1, made.runs, tuple("k" * len(made.runs))))
    assert drawn == {0: 1, 1: 1, 2: 1}
    for run, row in zip(made.runs, rows, strict=True):
        alone = Places(ground)
        assert row["digest"] == simulation.run(alone.setup(run.place), run.policy, 0, run.seed).digest


def test_jobs_are_checked_once_for_each_placement(monkeypatch):
    checked_for = []
    monkeypatch.setattr(simulation, "check", lambda setup, policy: checked_for.append(policy.placement))
    draw = Draw(set_up("synthetic:jobs=10,gpus=8", "1x8"), 0, 1)
    for text in ("fifo", "las", "fifo:placement=spread", "saf"):
        draw.check(shunter.policy(text))
    assert checked_for == ["consolidate", "spread"]


def test_the_command_of_a_row_repeats_it(tmp_path):
    made, ground = planned(loads=[1.2], policies=["las"], overheads=["10,20"], checkpointable=["50%"], seeds=[2])
    (row,) = work.work(work.SweepRunner(ground), work.Batch(1, made.runs, ("k",)))
    command = command_of(made.runs[0], made.choices, 0).split()
    done = subprocess.run([sys.executable, "-m", *command, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["digest"] == row["digest"]


def test_what_was_done_is_not_done_again(tmp_path):
    first = shunter.sweep(**AXES, out=tmp_path / "runs", workers=1)
    again = shunter.sweep(**AXES, out=tmp_path / "runs", workers=1)
    assert (first.progress.done, again.progress.done, again.progress.found) == (18, 0, 18)
    more = shunter.sweep(**{**AXES, "seeds": 4}, out=tmp_path / "runs", workers=1)
    assert (more.progress.done, more.runs.height) == (6, 24)
    assert first.runs["digest"].sort().equals(again.runs["digest"].sort())


def test_a_store_from_before_jobs_could_be_kept_from_stops_is_read(tmp_path):
    done = shunter.sweep(**AXES, out=tmp_path / "runs", workers=1).runs
    for path in (tmp_path / "runs" / store.RUNS).iterdir():
        pl.read_parquet(path).drop("checkpointable").write_parquet(path)
    again = shunter.sweep(**AXES, out=tmp_path / "runs", workers=1)
    assert (again.progress.done, again.progress.found) == (0, 18)
    assert again.runs.equals(done)
    assert Store.existing(tmp_path / "runs").read(["checkpointable"])["checkpointable"].unique().to_list() == [""]


def test_processes_give_the_same_rows_as_one(tmp_path):
    columns = ["key", "policy", "seed", "digest", "jct_s.mean", "wait_s.p99", "fairness.jain"]
    one, two = (shunter.sweep(**AXES, workers=count).runs.select(columns).sort("key") for count in (1, 2))
    assert one.equals(two)


def test_a_key_depends_on_content_and_on_nothing_else(tmp_path):
    """The same jobs in another file, under another name, are the same runs; another job is another run."""
    rows = ["job_id,submit,duration,gpus", "a,0,100,1", "b,5,50,2"]
    for name, lines in (("one.csv", rows), ("two.csv", rows), ("three.csv", [*rows, "c,6,50,2"])):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    found = {}
    for name in ("one", "two", "three"):
        trace = {"trace": str(tmp_path / f"{name}.csv"), "name": name}
        found[name] = set(keys(*planned(traces=[trace], loads=[])))
    assert found["one"] == found["two"]
    assert found["one"].isdisjoint(found["three"])


@pytest.mark.parametrize(
    "change",
    [
        {"clusters": ["2x8"]}, {"loads": [0.9]}, {"overheads": ["1,2"]}, {"policies": ["sjf"]}, {"seeds": [7]},
        {"networks": ["profiled"]}, {"checkpointable": ["none"]}, {"traces": ["synthetic:jobs=61,gpus=8"]},
        {"traces": [{"trace": "synthetic:jobs=60,gpus=8", "windows": [{"since": "+0.01"}]}]},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_whatever_decides_a_run_is_in_its_key(change):
    base = {"loads": [0.8], "policies": ["fifo"], "seeds": [1]}
    assert set(keys(*planned(**base))).isdisjoint(keys(*planned(**{**base, **change})))


def test_a_run_that_fails_is_a_row_and_the_others_go_on(tmp_path, monkeypatch):
    (tmp_path / "failing_policy.py").write_text(FAILING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    axes = {**AXES, "policies": ["fifo", "failing_policy.Failing"], "seeds": 1}
    found = shunter.sweep(**axes, out=tmp_path / "runs", workers=1)
    assert found.failed.height == 2
    assert found.failed["error"].str.contains("ValueError: it never works").all()
    assert found.failed["command"].str.contains("shunter simulate synthetic:jobs=60,gpus=8 --cluster 1x8").all()
    again = shunter.sweep(**axes, out=tmp_path / "runs", workers=1)
    retried = shunter.sweep(**axes, out=tmp_path / "runs", workers=1, retry_failed=True)
    assert (again.progress.done, retried.progress.done, retried.runs.height) == (0, 2, 4)


def test_a_job_that_never_fits_is_refused_before_anything_runs(tmp_path):
    axes = {**AXES, "clusters": ["1x1"], "loads": []}
    with pytest.raises(InputError, match=r"cluster 1x1, policy fifo: .*or set drop_unfit = true"):
        shunter.sweep(**axes, out=tmp_path / "runs", workers=1)
    assert not (tmp_path / "runs").exists()
    assert shunter.sweep(**axes, drop_unfit=True, workers=1).failed.is_empty()


def test_batches_are_of_about_two_seconds_and_leave_some_for_every_worker():
    made, ground = planned(seeds=500, loads=[])
    queue = running._Queue(keys(made, ground))
    first = queue.batch(2)
    assert len(first.runs) == 1  # how long a run takes is not known yet
    queue.took(first, [{"seconds": 0.02}])
    sizes = []
    while len(queue):
        sizes.append(len(queue.batch(2).runs))
    assert max(sizes) == 99  # times are rounded up
    assert sum(sizes) == len(made.runs) - 1
    assert sizes[-4:] == [1, 1, 1, 1]


def test_runs_of_single_settings_share_a_batch():
    """A sweep over settings has one run of each kind; they are not handed out one by one."""
    policies = [{"policy": "dally", "range": {"lease": {"low": 600, "high": 9000, "steps": 200}}}]
    made, ground = planned(policies=policies, seeds=1, loads=[])
    queue = running._Queue(keys(made, ground))
    queue.took(queue.batch(2), [{"seconds": 0.01}])
    assert len(queue.batch(2).runs) > 20


def test_of_a_key_the_last_success_counts(tmp_path):
    kept = Store.open(tmp_path / "runs", "v")
    row = {"key": "k", "policy": "fifo", "seed": 0}
    kept.add([row | {"begun": 1.0, "jct_s.mean": 5.0}])
    kept.add([row | {"begun": 2.0, "error": "no"}, {"key": "other", "begun": 3.0, "error": "no"}])
    kept.add([{"key": "other", "begun": 4.0, "jct_s.mean": 7.0}])
    found = {row["key"]: row for row in kept.read().iter_rows(named=True)}
    assert (found["k"]["jct_s.mean"], found["k"]["error"]) == (5.0, None)
    assert (found["other"]["jct_s.mean"], found["other"]["error"]) == (7.0, None)


def test_many_small_files_are_joined_and_nothing_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SETTLED_FILES", 5)
    kept = Store.open(tmp_path / "runs", "v")
    for number in range(12):
        kept.add([{"key": f"{number:032x}", "begun": float(number), "jct_s.mean": 1.0 * number, "measures.mine": 2.0}])
    before = kept.read()
    kept.settle()
    assert len(kept.files()) == 1
    assert kept.read().equals(before)


def test_half_written_files_are_never_seen(tmp_path, monkeypatch):
    kept = Store.open(tmp_path / "runs", "v")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(RunError, match="No space left on device; all runs before are kept"):
            kept.add([{"key": "k", "begun": 1.0}])
    assert kept.read().is_empty()
    assert list((tmp_path / "runs" / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda path: path.write_bytes(b"no parquet"), "is no file of runs"),
        (lambda path: pl.DataFrame({"key": [1]}).write_parquet(path), "must be String"),
        (lambda path: frame_of([{"key": "k"}]).with_columns(evil=1).write_parquet(path), "must be absent"),
        (lambda path: frame_of([{"key": "k"}]).drop("policy").write_parquet(path), "column 'policy' is missing"),
    ],
)
def test_files_that_are_no_runs_are_refused_by_name(tmp_path, content, message):
    kept = Store.open(tmp_path / "runs", "v")
    content(tmp_path / "runs" / "runs" / "bad.parquet")
    with pytest.raises(RunError, match=message) as caught:
        kept.read()
    assert "bad.parquet" in str(caught.value)


def test_a_store_of_another_format_or_version_is_refused(tmp_path):
    _, ground = planned()
    kept = Store.open(tmp_path / "runs", ground.version)
    kept.add([{"key": "k", "version": "0.0.9+abc", "begun": 1.0}])
    with pytest.raises(RunError, match=r"has runs by shunter 0\.0\.9\+abc.*--any-version"):
        running.check_version(kept, ground.version, any_version=False)
    running.check_version(kept, ground.version, any_version=True)
    (tmp_path / "runs" / "store.toml").write_text('format = 99\nversion = "9"\n')
    with pytest.raises(RunError, match="format 99 was written by shunter 9; this one reads format 1"):
        Store.existing(tmp_path / "runs")


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("x")
    with pytest.raises(RunError, match="is not empty and no store"):
        Store.open(tmp_path, "v")
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_worker_with_another_version_is_refused():
    made, ground = planned()
    other = dataclasses.replace(ground, version="0.0.9+abc")
    with pytest.raises(work.OtherVersionError, match="install the same version there"):
        work.work(work.SweepRunner(other), work.Batch(1, made.runs[:1], ("k",)))


def test_places_are_forgotten_when_there_are_many():
    made, ground = planned(loads=[0.1 * number for number in range(1, 9)], policies=["fifo"], seeds=1)
    places = Places(ground)
    for place in made.places:
        places.policy(place, "fifo")
    assert len(places._setups) == Places.KEPT
    assert len(places._policies) == Places.KEPT


def test_traces_may_be_objects():
    jobs = shunter.Trace.of("two", ["a", "b"], submit=[0, 0], duration=[90_000, 10_000], gpus=[1000, 1000])
    found = shunter.sweep(traces=[jobs], clusters=["1x1"], policies=["fifo", "sjf:estimate=oracle"], workers=1)
    assert dict(found.runs.select("policy", "jct_s.mean").iter_rows()) == {"fifo": 95.0, "sjf:estimate=oracle": 55.0}


def test_an_engine_is_chosen_by_what_the_user_says():
    for dask, message in (("local:0", "local:N"), ("host", "tcp://host:8786"), ("local:x", "local:N")):
        with pytest.raises(RunError, match=message):
            opener(dask)
    with pytest.raises(RunError, match="--workers is about processes"):
        opener("local:2", 3)


def test_checking_names_the_place(tmp_path):
    made, ground = planned(clusters=["1x8", "1x1"], loads=[])
    with pytest.raises(InputError, match="cluster 1x1"):
        checked(made, ground)


def test_traces_that_together_are_too_large_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(places, "most_loaded", lambda: 100 * places.JOB_BYTES)
    monkeypatch.setattr(places, "read_trace", None)
    with pytest.raises(RunError, match="have 120 jobs or more together, and this machine has memory for 100; split"):
        planned(traces=["synthetic:jobs=60,gpus=8", "synthetic:jobs=60,gpus=8,seed=1"])


def test_files_that_together_are_too_large_are_refused(monkeypatch):
    many = [shunter.Trace.of(name, list("abc"), submit=[0] * 3, duration=[9] * 3, gpus=[1000] * 3) for name in "xyz"]
    monkeypatch.setattr(places, "most_loaded", lambda: 5 * places.JOB_BYTES)
    with pytest.raises(RunError, match="have 6 jobs or more together"):
        shunter.sweep(traces=many, clusters=["1x1"], policies=["fifo"])


def test_an_estimate_counts_runs_drawing_and_workers():
    made, ground = planned()
    keys_ = running.keys_of(made, ground)
    whole = estimate(made, keys_, set(), ground, 3, lambda done, total: None)
    assert (whole.runs, whole.kinds, whole.starting_s) == (18, 6, 3 * START_S)
    assert whole.cpu_s == whole.simulating_s + whole.drawing_s + whole.starting_s
    assert min(whole.simulating_s, whole.drawing_s) > 0
    recorded = {key for key, run in zip(keys_, made.runs, strict=True) if run.seed}
    rest = estimate(made, keys_, recorded, ground, 50, lambda done, total: None)
    assert (rest.runs, rest.drawing_s, rest.starting_s) == (6, 0.0, 6 * START_S)  # seed 0 is there; no idle workers
    assert estimate(made, keys_, set(keys_), ground, 3, lambda done, total: None).cpu_s == 0


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("swept") / "runs"
    more = [{"trace": "synthetic:jobs=50,gpus=8", "name": "fifty"}]
    shunter.sweep(**{**AXES, "traces": [*AXES["traces"], *more], "clusters": ["1x8", "2x8"]}, out=out, workers=1)
    return out


@pytest.mark.parametrize(
    ("options", "runs", "places_"),
    [
        ([], 72, 8),
        (["--load", "1.2"], 36, 4),
        (["--load", "1.2", "--load", "0.8"], 72, 8),
        (["--trace", "fif*", "--cluster", "2x8"], 18, 2),
        (["-c", "1x8", "-p", "saf*", "--load", "0.8", "--trace", "*jobs=60*"], 6, 1),
    ],
)
def test_runs_are_shown_by_trace_cluster_load_and_policy(swept, options, runs, places_):
    done = CliRunner().invoke(app, ["sweep", "show", str(swept), "--json", *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["runs"], found["places"]) == (runs, places_)


def test_runs_are_shown_by_every_axis_of_a_place(tmp_path):
    axes = {"traces": ["synthetic:jobs=30,gpus=8"], "clusters": ["1x8"], "policies": ["fifo", "las"]}
    shunter.sweep(**axes, checkpointable=["none", "50%"], overheads=["0", "60,60"], out=tmp_path / "runs", workers=1)
    options = ["--checkpointable", "50%", "--overhead", "60*", "--window", "", "--network", ""]
    done = CliRunner().invoke(app, ["sweep", "show", str(tmp_path / "runs"), "--json", *options])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["runs"] == 2


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("'25%'", "checkpointable must be a valid list, got '25%'; write ['25%']"),
        ("[0.25]", "checkpointable, value 1 must be a valid string, got 0.25"),
        ("['25']", "cluster 1x8, checkpointable 25: checkpointable '25': must be all, none, a share such as 25%"),
    ],
)
def test_a_bad_choice_of_jobs_to_stop_is_refused_with_its_place_and_no_other_remedy(tmp_path, value, message):
    file = tmp_path / "s.toml"
    file.write_text(
        f"traces = ['synthetic:jobs=9,gpus=8']\nclusters = ['1x8']\npolicies = ['fifo']\ncheckpointable = {value}\n"
    )
    done = CliRunner().invoke(app, ["sweep", "plan", str(file)])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert "drop_unfit" not in done.output
    assert "--checkpointable" not in done.output


def test_a_filter_that_nothing_agrees_with_names_what_is_there(swept):
    done = CliRunner().invoke(app, ["sweep", "show", str(swept), "--load", "3"])
    assert done.exit_code == 2
    assert "has no run with load 3.0; it has 0.8, 1.2" in " ".join(done.output.split())
