"""Which jobs may be stopped: the column in files, and the choice that takes its place."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import shunter
from shunter import traces
from shunter.errors import TraceError
from shunter.experiment import read
from shunter.setup import set_up
from shunter.traces.checkpointable import with_checkpointable
from shunter.traces.synthetic import synthetic

CSV = """job_id,submit,duration,gpus,checkpointable,stop_cost,start_cost,saves_on_stop
a,0,10,1,true,,,
b,1,10,1,No,1.5,,false
c,2,10,1,0,0,60,1
d,3,10,1,,,,
"""
JSONL = '{"submitted": 0, "runtime": 10, "num_gpus": 1, "checkpointable": false}\n' * 2


def written(tmp_path, text, name="jobs.csv"):
    (tmp_path / name).write_text(text)
    return traces.read(tmp_path / name)


@pytest.mark.parametrize("name", ["jobs.csv", "jobs.parquet", "jobs.csv.gz"])
def test_columns_are_read_and_written(tmp_path, name):
    trace = written(tmp_path, CSV)
    assert trace.checkpointable.tolist() == [1, 0, 0, 1]
    assert trace.stop_cost.tolist() == [-1, 1500, 0, -1]
    assert trace.start_cost.tolist() == [-1, -1, 60_000, -1]
    assert trace.saves_on_stop.tolist() == [1, 0, 1, 1]
    traces.write(trace, tmp_path / f"again-{name}")
    assert traces.read(tmp_path / f"again-{name}").digest == trace.digest


def test_any_table_may_have_them(tmp_path):
    assert written(tmp_path, JSONL, "jobs.jsonl").checkpointable.tolist() == [0, 0]


def test_a_trace_without_them_has_the_digest_that_it_had(tmp_path):
    assert written(tmp_path, "job_id,submit,duration,gpus\na,0,10,1\n").digest == "0b600767d9790e55"


def test_what_is_neither_yes_nor_no_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"line 2: checkpointable must be a whole number from 0 to 1.*got 'maybe'"):
        written(tmp_path, "job_id,submit,duration,gpus,checkpointable\na,0,10,1,maybe\n")


@pytest.fixture(scope="module")
def jobs():
    return synthetic(2000, seed=1, gpus=64, load=1.0)


@pytest.mark.parametrize("share", [0, 10, 25, 50, 100])
def test_a_share_is_drawn_by_user(jobs, share):
    may = with_checkpointable(jobs, f"{share}%").checkpointable > 0
    assert may.mean() == pytest.approx(share / 100, abs=0.02)
    assert not set(jobs.user[may]) & set(jobs.user[~may])


def test_a_share_of_jobs_without_users_is_exact(jobs):
    alone = dataclasses.replace(jobs, user=np.full(len(jobs), -1), users=())
    assert with_checkpointable(alone, "25%").checkpointable.sum() == 500


def test_seeds_and_repeats_draw_others(jobs):
    drawn = [with_checkpointable(jobs, text, at).checkpointable for text, at in (("25%", 0), ("25%,seed=1", 0))]
    assert (drawn[0] != drawn[1]).any()
    assert (with_checkpointable(jobs, "25%", 1).checkpointable == drawn[1]).all()


def test_users_can_be_named(jobs):
    first = jobs.users[0]
    assert (with_checkpointable(jobs, f"user:{first}").checkpointable == (jobs.user == 0)).all()
    with pytest.raises(TraceError, match="has no user 'nobody'"):
        with_checkpointable(jobs, "user:nobody")


@pytest.mark.parametrize("choice", ["25", "half", "110%", "-1%", "25%,3", "25%,seed=x", "x%"])
def test_what_is_no_choice_is_refused(jobs, choice):
    with pytest.raises(TraceError, match="must be all, none, a share such as 25%"):
        with_checkpointable(jobs, choice)


def test_an_experiment_records_it(tmp_path, jobs):
    result = shunter.simulate("synthetic:jobs=300,gpus=32,load=1.2", "4x8", "srsf", checkpointable="25%,seed=2")
    result.save(tmp_path / "run")
    record = read(tmp_path / "run" / "experiment.toml")
    assert record.checkpointable == "25%,seed=2"
    assert shunter.simulation.rerun(record).digest == result.digest
    assert any("checkpointable (25%,seed=2)" in remark for remark in result.summary["remarks"])


def test_repeats_of_a_setup_keep_the_choice():
    setup = set_up("synthetic:jobs=500,gpus=32,load=1.2", "4x8", checkpointable="none")
    assert not setup.trace.checkpointable.any()
    assert not setup.repeat(0, 1).checkpointable.any()
