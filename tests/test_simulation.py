"""One run: what comes out, what is kept, and that it can be had again."""

from __future__ import annotations

import json

import numba
import numpy as np
import polars as pl
import pytest

import shunter
from shunter import run_folder, simulation
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import NetworkError, RunError, TraceError
from shunter.experiment import override, read
from shunter.model import GPU, Trace
from shunter.setup import NETWORKS, data_of, read_trace, set_up

SUMMARY_KEYS = [
    "policy",
    "oracle",
    "estimate",
    "seed",
    "jobs",
    "finished",
    "jct_s",
    "wait_s",
    "recorded_wait_s",
    "bsld",
    "rho",
    "communication_s",
    "makespan_s",
    "utilization",
    "fragmentation",
    "preemptions",
    "lost_gpu_hours",
    "gpu_hours",
    "by_size",
    "by_vc",
    "fairness",
    "tiers",
    "remarks",
    "digest",
    "elapsed_s",
    "jobs_per_s",
]
TABLES = {"jobs.parquet", "series.parquet", "events.parquet"}
FILES = {"experiment.toml", "summary.json", "digest"} | TABLES
CSV = "job_id,submit,duration,gpus,user,vc\na,0,100,2,ann,\nb,10,50,2,bob,\nc,20,10,1,ann,\n"


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(CSV)
    return path


def a_trace(jobs=4, gpus=1, apart=5_000):
    gpus = np.full(jobs, gpus * GPU)
    return Trace.of(
        "t", [f"j{i}" for i in range(jobs)], submit=np.arange(jobs) * apart, duration=np.full(jobs, 9_000), gpus=gpus
    )


def test_a_run_worked_out_by_hand(csv):
    result = shunter.simulate(csv, "1x2", "fifo")
    assert list(result.summary) == SUMMARY_KEYS
    assert list(result.summary["jct_s"]) == ["mean", "p50", "p90", "p95", "p99", "max"]
    jobs = result.jobs
    assert jobs.columns == [
        "job_id",
        "user",
        "vc",
        "gpu_type",
        "job_name",
        "model",
        "after",
        "gpus",
        "limit",
        "deadline",
        "submit",
        "start",
        "end",
        "wait",
        "run",
        "lost",
        "communication",
        "jct",
        "rho",
        "state",
        "preemptions",
        "attempts",
        "nodes",
    ]
    assert jobs["start"].to_list() == [0, 100, 150]
    assert jobs["wait"].to_list() == [0, 90, 130]
    assert jobs["jct"].to_list() == [100, 140, 140]
    assert jobs["nodes"].to_list() == [[0], [0], [0]]
    assert (jobs["user"].to_list(), jobs["state"].to_list()) == (["ann", "bob", "ann"], ["done"] * 3)
    assert result.summary["jct_s"]["mean"] == 380 / 3
    assert result.summary["utilization"] == pytest.approx(310 / 320)
    assert result.summary["fairness"]["over"] == "users"
    assert result.summary["elapsed_s"] == result.elapsed_s
    assert result.series["busy_gpus"].to_list()[-1] == 0
    assert result.series["queue"].max() == 2


@pytest.mark.parametrize("kind", ["path", "text", "trace", "frame"])
def test_a_trace_may_come_in_every_form(csv, kind):
    forms = {"path": csv, "text": str(csv), "trace": shunter.read_trace(csv), "frame": pl.read_csv(csv)}
    policy = shunter.policy("fifo")
    result = shunter.simulate(forms[kind], Cluster("c", (NodeGroup(1, 2),)), policy)
    assert result.digest == shunter.simulate(csv, "1x2", "fifo").digest


def test_a_saved_run_is_complete_and_runs_again(csv, tmp_path):
    result = shunter.simulate(csv, "1x2", "fifo", seed=3)
    folder = result.save(tmp_path / "deep" / "run")
    assert {path.name for path in folder.iterdir()} == FILES
    assert json.loads((folder / "summary.json").read_text()) == result.summary
    assert pl.read_parquet(folder / "jobs.parquet").equals(result.jobs)
    assert (folder / "digest").read_text() == result.digest + "\n"
    record = read(folder / "experiment.toml")
    assert {"numpy", "numba", "llvmlite", "polars", "pyarrow", "python", "sources"} <= set(record.versions)
    assert record.versions["numba"] == numba.__version__
    assert shunter.load_run(folder).versions == {"shunter": shunter.__version__, **record.versions}
    assert simulation.rerun(read(folder / "experiment.toml")).digest == result.digest


def test_a_trace_that_has_changed_is_refused_unless_wanted(csv, tmp_path):
    record = read(shunter.simulate(csv, "1x2", "fifo").save(tmp_path / "run") / "experiment.toml")
    csv.write_text(CSV.replace("100", "101"))
    with pytest.raises(RunError, match=r"is not the trace of the experiment any longer.*--set trace\.digest="):
        simulation.rerun(record)
    assert simulation.rerun(override(record, ["trace.digest="])).summary["finished"] == 3


def test_a_models_file_that_has_changed_is_refused_unless_wanted(csv, tmp_path):
    models = tmp_path / "models.toml"
    layer = '[[model.layer]]\nname = "all"\ngradient_bytes = 5_000_000\nforward_us = 1500.0\n'
    models.write_text(f'[[model]]\nname = "mine"\n{layer}')
    chosen = set_up(csv, "1x2", network="profiled", models=str(models))
    record = simulation.run(chosen, "fifo").experiment
    assert list(record.data) == [str(models)]
    assert simulation.rerun(record).experiment == record
    models.write_text(models.read_text().replace("1500", "1600"))
    with pytest.raises(RunError, match=r"models\.toml: is not the file of the experiment any longer.*--set data="):
        simulation.rerun(record)
    assert simulation.rerun(override(record, ["data="])).summary["finished"] == 3


def test_layer_files_and_measurements_are_recorded(csv, tmp_path, monkeypatch):
    layers = tmp_path / "data" / "dally" / "layers"
    layers.mkdir(parents=True)
    (layers / "other.tsv").write_text("")
    monkeypatch.setenv("SHUNTER_DATA", str(tmp_path / "data"))
    on_paper = set_up(csv, "1x2", network="paper")
    assert set(data_of(on_paper, shunter.policy("fifo"))) == {"layers/other.tsv"}
    plain = set_up(csv, "1x2")
    assert data_of(plain, shunter.policy("fifo")) == {}
    assert "measured/time-slice/pairs.csv" in data_of(plain, shunter.policy("lucid"))


def test_the_code_of_a_policy_of_ones_own_is_recorded(csv, tmp_path, monkeypatch):
    code = "from dataclasses import dataclass\nfrom shunter import Ordering\n\n\n@dataclass(frozen=True)\n"
    code += "class Mine(Ordering):\n    @staticmethod\n    def key(job, p):\n        return job.submit\n"
    (tmp_path / "policy_of_my_own.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    mine = shunter.policy("policy_of_my_own.Mine")
    before = data_of(set_up(csv, "1x2"), mine)
    assert list(before) == ["policy_of_my_own"]
    (tmp_path / "policy_of_my_own.py").write_text(code.replace("job.submit", "-job.submit"))
    assert data_of(set_up(csv, "1x2"), mine) != before


def test_the_code_of_a_placement_and_a_model_of_ones_own_is_recorded(csv, tmp_path, monkeypatch):
    for name in ("placement_of_my_own", "model_of_my_own"):
        (tmp_path / f"{name}.py").write_text(
            "def place(usable, total, order, gpus, draw, nodes, counts):\n    return 0\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    mine = shunter.policy("sjf:placement=placement_of_my_own.place,estimate=model_of_my_own.Model")
    assert set(data_of(set_up(csv, "1x2"), mine)) == {"placement_of_my_own", "model_of_my_own"}


def test_what_is_there_is_not_overwritten(csv, tmp_path):
    result, folder = shunter.simulate(csv, "1x2", "fifo"), tmp_path / "run"
    result.save(folder)
    (folder / "mine").write_text("x")
    with pytest.raises(RunError, match="exists already"):
        result.save(folder)
    assert (folder / "mine").exists()
    result.save(folder, force=True)
    assert {path.name for path in folder.iterdir()} == FILES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv", "run"]


def test_force_replaces_nothing_but_runs(csv, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("x")
    with pytest.raises(RunError, match="is not a run of shunter"):
        shunter.simulate(csv, "1x2", "fifo").save(tmp_path / "thesis", force=True)
    assert (tmp_path / "thesis" / "chapter").exists()


def test_an_interrupted_save_leaves_nothing(csv, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.DataFrame, "write_parquet", interrupt)
    with pytest.raises(KeyboardInterrupt):
        shunter.simulate(csv, "1x2", "fifo").save(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.csv"]


def test_a_place_that_cannot_be_written_is_said(csv):
    with pytest.raises(RunError, match="can't be written"):
        shunter.simulate(csv, "1x2", "fifo").save(csv / "run")


def test_repeats_move_arrivals_a_little_and_nothing_else():
    setup = set_up(a_trace(jobs=50), "1x8")
    assert setup.repeat(seed=0, repeat=0) is setup.trace
    moved = setup.repeat(seed=0, repeat=1)
    place = {job: row for row, job in enumerate(moved.job_id)}
    shift = moved.submit[[place[job] for job in setup.trace.job_id]] - setup.trace.submit
    assert abs(shift).max() <= 30_000
    assert len(set(shift)) > 20
    assert (np.diff(moved.submit) >= 0).all()
    assert moved.submit[0] >= setup.trace.submit[0]
    assert moved.digest == setup.repeat(seed=0, repeat=1).digest != setup.repeat(seed=0, repeat=2).digest


def test_repeats_of_a_synthetic_trace_are_other_traces():
    setup = set_up("synthetic:jobs=50,seed=3", "16x8")
    assert setup.repeat(0, 2).digest == read_trace("synthetic:jobs=50,seed=5").digest


@pytest.mark.parametrize("text", ["synthetic:jobs", "synthetic:jobs=x", "synthetic:job=5", "synthetic:jobs=-1"])
def test_a_wrong_synthetic_text_is_said(text):
    with pytest.raises(TraceError, match="synthetic"):
        read_trace(text)


def test_jobs_that_can_never_fit_are_left_out_when_wanted():
    trace = a_trace(jobs=4)
    gpus = trace.gpus.copy()
    gpus[1] = 99 * GPU
    trace = Trace.of("t", list(trace.job_id), submit=trace.submit, duration=trace.duration, gpus=gpus)
    with pytest.raises(shunter.InputError, match=r"j1(.|\n)*--drop-unfit"):
        shunter.simulate(trace, "1x8", "fifo")
    setup = set_up(trace, "1x8", must_fit=["fifo"])
    assert (setup.dropped, list(setup.trace.job_id)) == (1, ["j0", "j2", "j3"])
    assert simulation.run(setup, "fifo").experiment.drop_unfit
    with pytest.raises(TraceError, match="no job"):
        set_up(a_trace(gpus=99), "1x8", must_fit=["fifo"])


def test_a_recorded_setup_needs_a_trace_and_a_policy():
    for setting, says in (
        ("trace.path=", r"no trace\.path"),
        ("policy=", "no policy"),
        ("repeat=-1", "repeat must be >= 0"),
    ):
        record = set_up("synthetic:jobs=5", "16x8").experiment("fifo", 0)
        with pytest.raises(RunError, match=says):
            simulation.rerun(override(record, [setting]))


def test_a_job_that_never_fits_is_named_with_file_and_line(tmp_path):
    (tmp_path / "jobs.csv").write_text("job_id,submit,duration,gpus\nsmall,5,1,1\nhuge,0,1,99\n")
    with pytest.raises(TraceError, match=r"jobs\.csv line 3: job 'huge' \(99 GPUs\) can never run"):
        shunter.simulate(tmp_path / "jobs.csv", "1x8", "fifo")


def test_a_saved_run_is_read_back(csv, tmp_path):
    result = shunter.simulate(csv, "1x2", "fifo")
    result.save(tmp_path / "run")
    run = run_folder.load(tmp_path / "run")
    assert (run.experiment, run.summary, run.cluster) == (result.experiment, result.summary, result.cluster)
    assert run.jobs.equals(result.jobs)
    assert run.series.equals(result.series)
    assert np.array_equal(run.events, result.events)


@pytest.mark.parametrize("name", sorted(TABLES | {"summary.json"}))
def test_a_damaged_run_is_refused(csv, tmp_path, name):
    shunter.simulate(csv, "1x2", "fifo").save(tmp_path / "run")
    (tmp_path / "run" / name).write_text("oops")
    with pytest.raises(RunError, match="is not whole"):
        run_folder.load(tmp_path / "run")


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="is not the folder of a run; shunter simulate --out makes one"):
        run_folder.load(tmp_path)


# ------------------------------------------------------------------------------------------- the network


@pytest.mark.parametrize("network", list(NETWORKS))
def test_communication_is_what_a_run_takes_longer(network):
    trace = Trace.of("t", ["a"], submit=[0], duration=[100_000], gpus=[16 * GPU], model=[0], models=("mobilenetv3",))
    result = simulation.run(set_up(trace, "dally-2rack", network=network), "fifo:placement=spread")
    (job,) = result.jobs.to_dicts()
    assert job["communication"] == pytest.approx(job["run"] - 100, abs=0.002) != 0
    assert result.summary["communication_s"]["mean"] == job["communication"]
    assert any(NETWORKS[network] in remark for remark in result.summary["remarks"])
    assert result.experiment.network == network


def test_contention_is_recorded_and_slows_spread_jobs(tmp_path):
    found = [
        simulation.run(
            set_up("synthetic:jobs=40,gpus=128", "dally-2rack", network="profiled", contention=on),
            "fifo:placement=spread",
        )
        for on in (False, True)
    ]
    free, shared = (result.summary["communication_s"]["mean"] for result in found)
    assert shared > free
    assert "share its links" in " ".join(found[1].summary["remarks"])
    found[1].save(tmp_path / "run")
    again = simulation.rerun(read(tmp_path / "run" / "experiment.toml"))
    assert again.digest == found[1].digest != found[0].digest


@pytest.mark.parametrize(
    ("network", "told"), [("profiled", False), ("paper", True), ("dally", True), ("dally-even", True)]
)
def test_missing_layer_files_are_reported_where_they_matter(network, told, tmp_path, monkeypatch):
    monkeypatch.setenv("SHUNTER_DATA", str(tmp_path))
    remarks = set_up(a_trace(), "dally-2rack", network=network).remarks
    assert ("no layer files" in " ".join(remarks)) == told


def test_without_a_network_there_is_no_communication():
    result = shunter.simulate(a_trace(gpus=16), "dally-2rack", "fifo")
    assert result.summary["communication_s"] is None
    assert result.jobs["communication"].to_list() == [0] * 4


def test_impossible_networks_are_reported():
    with pytest.raises(RunError, match="no network 'daly'; did you mean 'dally'"):
        set_up(a_trace(), "dally-2rack", network="daly")
    with pytest.raises(RunError, match="there is none; give --network"):
        set_up(a_trace(), "dally-2rack", contention=True)
    with pytest.raises(NetworkError, match=r"three tiers.*got 2"):
        set_up(a_trace(), "4x8", network="dally")
