"""A reproduction that was stopped goes on, and a repeated one runs nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from shunter import simulation
from shunter.reproduce import trials
from shunter.reproduce.numbers import waiting
from shunter.reproduce.trials import TrialCase, TrialExtras, run_cases
from shunter.setup import set_up

SMALL = """
import sys
from shunter.cli.main import main
from shunter.reproduce import standin
standin.JOBS = 400
sys.argv = ["shunter", "reproduce", "qssf", "--data", "venus", "--repeat", "2", "--workers", "1", "--json"]
main()
"""


def stored_keys(folder):
    """The keys of all runs that were kept there, as often as they were kept."""
    return [key for file in Path(folder).rglob("*.parquet") for key in pl.read_parquet(file, columns=["key"])["key"]]


def test_a_killed_reproduction_does_only_the_rest(tmp_path):
    command = [sys.executable, "-c", SMALL]
    caches = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "SHUNTER_DATA": str(tmp_path / "nothing")}

    def environment(runs):
        return {**os.environ, **caches, "SHUNTER_RUNS": str(tmp_path / runs)}

    whole = subprocess.run(command, env=environment("undisturbed"), capture_output=True, check=True)
    total = len(stored_keys(tmp_path / "undisturbed"))

    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    stopped = subprocess.Popen(command, env=environment("killed"), **output)
    while len(stored_keys(tmp_path / "killed")) < 2:
        assert stopped.poll() is None
        time.sleep(0.01)
    stopped.send_signal(signal.SIGKILL)
    assert stopped.wait() == -signal.SIGKILL
    assert 2 <= len(stored_keys(tmp_path / "killed")) < total
    done = subprocess.run(command, env=environment("killed"), capture_output=True, check=True)
    assert json.loads(done.stdout) == json.loads(whole.stdout)
    keys = stored_keys(tmp_path / "killed")
    assert len(keys) == len(set(keys)) == total


def test_a_repeated_one_runs_nothing_and_gives_the_same(monkeypatch):
    setup = set_up("synthetic:jobs=200,gpus=128,load=1.5", "dally-2rack", network="dally")
    cases = [TrialCase("made", "", policy) for policy in ("fifo", "dally")]
    extras = TrialExtras(course=lambda case: True, reasons=lambda case: True)

    def found():
        return run_cases({"made": setup}, cases, 2, watch=extras, workers=1, more=waiting)

    run = simulation.run(setup, "dally")
    first = found()
    monkeypatch.setattr(trials.simulation, "run", None)
    again = found()
    assert first.table.equals(again.table)
    for case in cases:
        for mine, other in zip(first.outcomes[case], again.outcomes[case], strict=True):
            assert mine.numbers == other.numbers
            assert (mine.jct == other.jct).all()
            assert (mine.course is None) == (other.course is None)
    mine, other = (found.outcomes[cases[1]][0].course for found in (first, again))
    assert all(np.array_equal(getattr(mine, name), getattr(other, name)) for name in ("time", "busy", "remaining"))
    assert mine.timers.equals(other.timers)
    assert mine.timers.drop("time").equals(run.timers.drop("time"))
    assert mine.timers["time"].to_list() == (run.timers["time"] - run.trace.submit[0] / 1000).to_list()


def on_dask(result):
    """Whether a run is made by a worker of a Dask cluster."""
    from distributed import get_worker

    try:
        return {"on_dask": float(bool(get_worker().address))}
    except ValueError:
        return {"on_dask": 0.0}


def test_a_reproduction_runs_on_a_dask_cluster_and_keeps_its_runs(monkeypatch):
    pytest.importorskip("distributed", reason="no distributed; ./scripts/install all,dev has it")
    pytest.importorskip("cryptography", reason="no cryptography; ./scripts/install all,dev has it")
    setup = set_up("synthetic:jobs=100,gpus=16,load=1.2", "2x8")
    cases = [TrialCase("made", "", policy) for policy in ("fifo", "saf")]
    here = run_cases({"made": setup}, cases, 2, workers=1)
    there = run_cases({"made": setup}, cases, 2, more=on_dask, dask="local:1")
    assert there.table["on_dask"].to_list() == [1.0] * 4
    assert there.table["digest"].to_list() == here.table["digest"].to_list()
    monkeypatch.setattr(trials.simulation, "run", None)
    again = run_cases({"made": setup}, cases, 2, more=on_dask, workers=1)
    assert again.table.equals(there.table)


def test_what_differs_is_another_run():
    """What is watched, what is found, the seed and the costs of a stop are part of what a run is known by."""
    setup = set_up("synthetic:jobs=30,gpus=16", "2x8")
    place = TrialCase("made", "", "")
    plain = trials.TrialRunner({place: setup}, trials.nothing_more, "1")
    case = TrialCase("made", "", "fifo")
    trial = trials.Trial(case, 0, 0, course=False, reasons=False)
    others = [
        plain.key(trials.Trial(case, 1, 0, course=False, reasons=False)),
        plain.key(trials.Trial(case, 0, 1, course=False, reasons=False)),
        plain.key(trials.Trial(case, 0, 0, course=True, reasons=False)),
        plain.key(trials.Trial(case, 0, 0, course=False, reasons=True)),
        plain.key(trials.Trial(case, 0, 0, course=False, reasons=False, starts=True)),
        plain.key(trials.Trial(TrialCase("made", "", "lifo"), 0, 0, course=False, reasons=False)),
        trials.TrialRunner({place: setup}, waiting, "1").key(trial),
        trials.TrialRunner({place: setup.with_overhead("1,2")}, trials.nothing_more, "1").key(trial),
    ]
    assert len({plain.key(trial), *others}) == 9
    assert plain.key(trial) == trials.TrialRunner({place: setup}, trials.nothing_more, "1").key(trial)
