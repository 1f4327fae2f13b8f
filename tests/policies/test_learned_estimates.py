"""Policies whose estimates are learned: from what had ended by then, and from nothing else."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from shunter import extras, registry, simulation, traces
from shunter.cli.main import app
from shunter.errors import InputError, TraceError
from shunter.model import GPU, Trace
from shunter.predictors.calibrating import NAMES as QUANTILES
from shunter.predictors.lessons import TRUTH, lessons_for, requests_of, without_truth
from shunter.predictors.noise import noisy_times
from shunter.setup import set_up
from shunter.sim import Simulator
from shunter.traces.synthetic import synthetic

DAY = 86_400_000
LEARNED = ["rolling", "gbm", "blend"]


def with_habits(jobs=1500, seed=0):
    """Users who each have a run time of their own, some of it by chance; seven days."""
    draws = np.random.default_rng(seed)
    user = draws.integers(8, size=jobs)
    duration = np.exp(np.log(30) * 0.5 + user + 0.1 * draws.standard_normal(jobs)) * 1000
    return Trace.of(
        "habits",
        [str(job) for job in range(jobs)],
        submit=np.sort(draws.integers(7 * DAY, size=jobs)),
        duration=duration.astype(np.int64),
        gpus=draws.choice([1, 2, 4], jobs) * GPU,
        user=user,
        users=tuple("abcdefgh"),
    )


def estimates(memory):
    return memory.form.memory.estimate / 1000


@pytest.mark.parametrize("estimate", LEARNED)
def test_after_a_history_estimates_are_near_the_truth(estimate):
    setup = set_up(with_habits(), "1x8", since="+5")
    policy = registry.policy(f"qssf:estimate={estimate}")
    simulator = Simulator(setup.trace, setup.cluster)
    memory = simulator.run(policy, memory=simulation.taught(policy, setup, setup.trace))
    error = np.abs(np.log(estimates(memory) / (setup.trace.duration / 1000)))
    assert error.mean() < 0.15


def test_without_history_it_learns_on_the_way():
    """The first day is guessed, then models are fitted to what ended."""
    trace = with_habits()
    simulator = Simulator(trace, set_up(trace, "1x8").cluster)
    memory = simulator.run(registry.policy("qssf:estimate=gbm,refit=1"))
    error = np.abs(np.log(estimates(memory) / (trace.duration / 1000)))
    assert memory.lessons.fitted is not None
    assert error[trace.submit > 3 * DAY].mean() < 0.2 < error[:20].mean()


@pytest.mark.parametrize("estimate", [*LEARNED, "gbm,quantile=p75"])
def test_the_compiled_loop_and_drive_agree(estimate):
    setup = set_up(with_habits(600), "1x8", since="+2")
    policy = registry.policy(f"qssf:estimate={estimate},refit=1")
    digests = set()
    for compiled in (True, False):
        simulator = Simulator(setup.trace, setup.cluster)
        simulator.run(policy, memory=simulation.taught(policy, setup, setup.trace), compiled=compiled)
        digests.add(simulator.digest)
    assert len(digests) == 1


@pytest.mark.parametrize("quantile", ["none", "p90"])
def test_what_is_to_come_changes_nothing_before(quantile):
    """Jobs that end after some time take ten times as long: estimates of those that came before don't change."""
    setup, cut = set_up(with_habits(800), "64x8", since="+3"), 5 * DAY
    later = np.where(setup.trace.submit + setup.trace.duration > cut, setup.trace.duration * 10, setup.trace.duration)
    found = []
    for duration in (setup.trace.duration, later):
        trace = setup.trace.select(np.arange(len(setup.trace)))
        object.__setattr__(trace, "duration", duration)
        policy = registry.policy(f"qssf:estimate=gbm,refit=2,quantile={quantile}")
        memory = Simulator(trace, setup.cluster).run(policy, memory=simulation.taught(policy, setup, trace))
        found.append(estimates(memory))
    early = setup.trace.submit < cut
    assert (found[0][early] == found[1][early]).all()
    assert (found[0][~early] != found[1][~early]).any()


def test_a_quantile_is_what_such_jobs_stay_below():
    """Quantiles in their order, and about so many jobs below each."""
    setup, found = set_up(with_habits(), "64x8", since="+4"), {}
    for quantile in QUANTILES:
        policy = registry.policy(f"sjf:estimate=gbm,quantile={quantile}")
        memory = Simulator(setup.trace, setup.cluster).run(policy, memory=simulation.taught(policy, setup, setup.trace))
        found[quantile] = estimates(memory)
    assert (np.diff(list(found.values()), axis=0) >= 0).all()
    below = [(setup.trace.duration / 1000 <= each).mean() for each in found.values()]
    assert below == pytest.approx([0.1, 0.5, 0.75, 0.9], abs=0.07)


def test_tables_say_which_quantile_it_is():
    assert registry.policy("sjf:estimate=gbm,quantile=p90").estimate_source(with_habits(5)) == "gbm p90"
    assert registry.policy("sjf:estimate=gbm").estimate_source(with_habits(5)) == "gbm"


def test_a_quantile_without_a_model_does_nothing():
    assert registry.policy("sjf:quantile=p90").remarks(with_habits(5)) == [
        "quantile does nothing without a learned estimate"
    ]


def test_lessons_hold_no_truth():
    trace = with_habits(300)
    lessons = lessons_for("history", trace, None)
    assert all((getattr(lessons.jobs, name) == Trace.columns()[name].default).all() for name in TRUTH)


def test_requests_are_what_the_trace_asks_for():
    trace = synthetic(jobs=50, gpus=16)
    view = next(iter(Simulator(trace, set_up(trace, "4x8").cluster)))
    found, wanted = requests_of(view), without_truth(trace)
    for column in ("submit", "gpus", "user", "limit", "job_name", "account"):
        assert (getattr(found, column) == getattr(wanted, column)).all()


def test_noise_is_as_in_the_artifact():
    """A tenth of the times is off by at most a tenth, a fifth by 50 to 100 %, another fifth by up to tenfold."""
    off = np.abs(noisy_times(np.full(200_000, 1e9), 3) / 1e9 - 1)
    shares = [(off <= edge).mean() for edge in (0.1, 0.5, 1.0, 10.0, 100.0)]
    assert shares == pytest.approx([0.1, 0.5, 0.7, 0.9, 1.0], abs=0.005)
    assert (noisy_times(np.full(1000, 1e6), 3) == noisy_times(np.full(1000, 1e6), 3)).all()


def test_a_noisy_estimate_makes_an_oracle():
    assert registry.policy("qssf:estimate=noisy").needs == {"duration"}
    assert registry.policy("qssf").needs == frozenset()


def test_a_window_keeps_what_was_before_as_history():
    trace = with_habits(400)
    setup = set_up(trace, "1x8", since="+2", until="+4")
    assert len(setup.history) == (trace.submit < trace.submit[0] + 2 * DAY).sum()
    assert setup.trace.submit.min() >= trace.submit[0] + 2 * DAY
    assert setup.trace.submit.max() < trace.submit[0] + 4 * DAY
    assert "only jobs submitted from +2 on and before +4" in setup.remarks


@pytest.mark.parametrize(("since", "until", "why"), [("+4", "+2", "must come after"), ("+99", "", "no job of trace")])
def test_windows_that_hold_nothing(since, until, why):
    with pytest.raises(TraceError, match=why):
        set_up(with_habits(50), "1x8", since=since, until=until)


def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    monkeypatch.setattr(extras, "is_there", lambda module: False)
    with pytest.raises(InputError, match=r"lightgbm .*scripts/install ml"):
        simulation.run(set_up(with_habits(50), "1x8"), "qssf")


def test_the_command_line_says_what_it_learns_from(tmp_path):
    """Without a past it learns on the way, with one before; both are said, and neither is part of the JSON."""
    traces.write(with_habits(300), tmp_path / "jobs.csv")
    command = ["simulate", str(tmp_path / "jobs.csv"), "-c", "1x8", "-p", "qssf:estimate=rolling", "--json"]
    without = CliRunner().invoke(app, command)
    assert "learns during the run" in without.stderr
    after = CliRunner().invoke(app, [*command, "--since", "+5"])
    assert "learns during the run" not in after.stderr
    assert json.loads(after.stdout)["jobs"] < json.loads(without.stdout)["jobs"] == 300
