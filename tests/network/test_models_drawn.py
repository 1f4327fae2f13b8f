"""Models for jobs without one."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import shunter
from shunter import simulation
from shunter.cli.main import app
from shunter.errors import RunError
from shunter.model import GPU, Trace
from shunter.network.model_assignment import DRAWN, with_models
from shunter.setup import set_up

RUN = ["simulate", "synthetic:jobs=200,gpus=128", "-c", "dally-2rack", "-p", "fifo:placement=spread", "--json"]


def a_trace(jobs=3000):
    model = np.where(np.arange(jobs) % 3 == 0, 0, -1)
    return Trace.of("t", [str(i) for i in range(jobs)], submit=np.arange(jobs), duration=np.full(jobs, 9), model=model,
                    gpus=np.full(jobs, GPU), models=("gpt2",))  # fmt: skip


def test_own_models_stay_and_the_others_are_drawn_evenly():
    found = with_models(a_trace(), 1)
    names = np.array(found.models)[found.model]
    assert (names[::3] == "gpt2").all()
    drawn, counts = np.unique(np.delete(names, np.arange(0, 3000, 3)), return_counts=True)
    assert sorted(drawn) == sorted(DRAWN)
    assert counts.min() > 0.8 * counts.mean()
    assert "2,000 jobs name no model" in found.remarks[-1]


def test_the_seed_alone_decides():
    assert with_models(a_trace(), 1).digest == with_models(a_trace(), 1).digest
    assert with_models(a_trace(), 1).digest != with_models(a_trace(), 2).digest


def test_the_option_makes_spread_jobs_slower_and_is_recorded(tmp_path):
    both = [set_up(RUN[1], "dally-2rack", network=network) for network in ("", "profiled")]
    free, slowed = (simulation.run(setup, "fifo:placement=spread") for setup in both)
    assert slowed.summary["jct_s"]["mean"] > free.summary["jct_s"]["mean"]
    assert any("network model, calibration profiled" in remark for remark in slowed.summary["remarks"])
    slowed.save(tmp_path / "run")
    again = CliRunner().invoke(app, ["simulate", str(tmp_path / "run" / "experiment.toml"), "--json"])
    assert f'"digest": "{slowed.digest}"' in again.stdout
    assert CliRunner().invoke(app, [*RUN, "--network", "profiled"]).stdout.count(slowed.digest) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*RUN, "--network", "profild"], "there is no network 'profild'; did you mean 'profiled'?"),
        ([*RUN[:2], "-c", "16x8", "-p", "fifo", "--network", "dally"], "cluster '16x8': must have three tiers"),
    ],
)
def test_bad_input_is_a_message(arguments, message):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_an_unknown_network_is_named():
    trace = Trace.of("t", ["a"], submit=[0], duration=[9], gpus=[2 * GPU], model=[0], models=("resnet51",))
    with pytest.raises(RunError, match="no network 'x'"):
        set_up(trace, "dally-2rack", network="x")
    assert shunter.simulate(trace, "dally-2rack", "fifo").summary["finished"] == 1
