"""A command parses and resolves each policy once, and fits each model once."""

from __future__ import annotations

from collections import Counter

import pytest
from typer.testing import CliRunner

from shunter import registry, simulation, traces
from shunter.cli.main import app
from shunter.predictors import storing
from shunter.predictors.fitting import Model
from shunter.traces.synthetic import synthetic

SMALL = "synthetic:jobs=300,gpus=16,load=0.9"


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def resolved(monkeypatch):
    """How often each text was made a policy."""
    found, policy = Counter(), registry.policy

    def counted(wanted):
        found.update([wanted] if isinstance(wanted, str) else [])
        return policy(wanted)

    monkeypatch.setattr(registry, "policy", counted)
    return found


@pytest.fixture
def parsed(monkeypatch):
    """How often the settings of each policy were parsed."""
    found, build = Counter(), registry.build

    def counted(cls, name, values):
        settings = ",".join(f"{key}={value}" for key, value in values.items())
        found[f"{name}:{settings}" if settings else name] += 1
        return build(cls, name, values)

    registry._kept.cache_clear()
    monkeypatch.setattr(registry, "build", counted)
    return found


@pytest.fixture
def fitted(monkeypatch):
    """How often a model was fitted, and how often one was looked for in the cache."""
    found, fit, load = Counter(), Model.fit, storing.load

    def counted_fit(model, jobs):
        found["fitted"] += 1
        return fit(model, jobs)

    def counted_load(path):
        found["looked for"] += 1
        return load(path)

    monkeypatch.setattr(Model, "fit", counted_fit)
    monkeypatch.setattr(storing, "load", counted_load)
    return found


@pytest.fixture
def recorded(tmp_path):
    """A trace whose repeats begin when it does; after six days more than a hundred jobs have ended."""
    traces.write(synthetic(300, gpus=16, load=0.9), tmp_path / "jobs.parquet")
    return str(tmp_path / "jobs.parquet")


def shunter(*arguments):
    result = CliRunner().invoke(app, list(arguments), prog_name="shunter")
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize("more", [(), ("--drop-unfit",)])
def test_simulate_resolves_its_policy_once(resolved, more):
    shunter("simulate", SMALL, "-c", "2x8", "-p", "sjf:blocking=skip", "--out", "run", *more)
    assert resolved == {"sjf:blocking=skip": 1}
    resolved.clear()
    shunter("simulate", "run/experiment.toml")
    assert resolved == {"sjf:blocking=skip": 1}


@pytest.mark.parametrize("more", [(), ("--drop-unfit",), ("--repeat", "2")])
def test_compare_resolves_each_policy_once(resolved, more):
    shunter("compare", SMALL, "-c", "2x8", "-p", "fifo", "-p", "sjf:blocking=skip", "--workers", "1", *more)
    assert resolved == {"fifo": 1, "sjf:blocking=skip": 1}


def test_tune_resolves_a_variant_no_more_often_for_more_runs(resolved):
    """Runs of a search are known by the texts of their policies, as those of sweeps are."""
    search = ("tune", SMALL, "-c", "2x8", "-p", "sjf", "--try", "blocking=strict/skip", "--workers", "1")
    shunter(*search)
    once = resolved.copy()
    resolved.clear()
    shunter(*search, "--seed", "1", "--repeat", "4")
    assert sum(resolved.values()) == sum(once.values())  # another variant may be the best, which is judged once more


SWEEP = f"""
traces = ["{SMALL}"]
clusters = ["2x8"]
seeds = 2
drop_unfit = true
policies = ["fifo", "ces:policy=sjf", {{ policy = "saf", grid = {{ blocking = ["strict", "skip"] }} }}]
"""
ONCE = {
    "simulate": (["-p", "sjf:blocking=skip", SMALL, "-c", "2x8", "--drop-unfit"], {"sjf:blocking=skip"}),
    "compare": (
        ["-p", "fifo", "-p", "sjf", "--grid", "blocking=strict,skip", SMALL, "-c", "2x8", "--drop-unfit"],
        {"fifo:blocking=skip", "sjf:blocking=skip"},
    ),
    "tune": (["-p", "sjf", "--try", "blocking=strict/skip", SMALL, "-c", "2x8"], {"sjf:blocking=skip"}),
    "sweep": (["sweep.toml", "--out", "runs"], {"fifo", "sjf", "ces:policy=sjf", "saf:blocking=skip"}),
    "reproduce": (["qssf", "--data", "venus", "--repeat", "1", "--json"], {"sjf:estimate=oracle"}),
}


@pytest.mark.parametrize("command", ONCE)
def test_a_text_is_parsed_once_however_often_a_command_names_it(parsed, command, tmp_path, monkeypatch):
    monkeypatch.setenv("SHUNTER_DATA", str(tmp_path / "nothing"))  # reproduce takes its stand-in
    (tmp_path / "sweep.toml").write_text(SWEEP)
    arguments, wanted = ONCE[command]
    more = () if command == "simulate" else ("--workers", "1")
    shunter(command, *arguments, *more)
    assert wanted <= set(parsed)
    assert set(parsed.values()) == {1}, parsed


def test_a_class_that_is_not_frozen_is_made_each_time(tmp_path, monkeypatch):
    """It may keep what it should not, and another run must not see that."""
    lines = ["class Own:", "    needs = frozenset()", "    def start(self, cluster, previous=None): ..."]
    (tmp_path / "ownlab.py").write_text("\n".join([*lines, "    def decide(self, view, memory): ..."]))
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.policy("fifo") is registry.policy("fifo:")
    assert registry.policy("ownlab.Own") is not registry.policy("ownlab.Own")


def test_energy_resolves_its_policy_once_and_each_that_sleeps(resolved):
    shunter("energy", SMALL, "-c", "2x8", "-p", "sjf:blocking=skip", "--drop-unfit", "--forecast", "last")
    sleeping = {text for text in resolved if text.startswith("ces:")}
    assert len(sleeping) == 1
    assert resolved == {"sjf:blocking=skip": 2} | dict.fromkeys(sleeping, 1)  # the one that sleeps wraps its own


def test_advise_resolves_each_policy_once(resolved, tmp_path):
    run = simulation.simulate("synthetic:jobs=1500,gpus=32,load=0.9,seed=7", "4x8", "fifo:backfill=easy")
    traces.write(run.recorded, tmp_path / "history.parquet")
    resolved.clear()
    more = ("--base", "fifo:backfill=easy", "--days", "2", "--warmup", "1", "-p", "lifo", "--workers", "1")
    shunter("advise", str(tmp_path / "history.parquet"), "-c", "4x8", *more)
    assert {"fifo:backfill=easy", "lifo"} < set(resolved)
    assert set(resolved.values()) == {1}, resolved


@pytest.mark.parametrize("command", [("simulate",), ("compare", "-p", "fifo", "--workers", "1", "--repeat", "2")])
def test_a_model_is_fitted_once_and_not_looked_up_again(fitted, recorded, command):
    name, *more = command
    shunter(name, recorded, "-c", "2x8", "-p", "qssf:estimate=gbm,refit=0", "--since", "+6", *more)
    assert fitted == {"looked for": 1, "fitted": 1}


def test_what_was_learned_gives_the_same_run(recorded):
    setup = simulation.set_up(recorded, "2x8", since="+6")
    named = simulation.resolve("qssf:estimate=gbm")
    taught = named.with_past(simulation.learned_before(named.policy, setup))
    for repeat in (0, 1):
        runs = [simulation.run(setup, each, repeat=repeat) for each in (named, taught)]
        assert runs[0].digest == runs[1].digest
        assert runs[0].experiment == runs[1].experiment
