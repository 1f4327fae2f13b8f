"""Iteration times, peaks, and what a module computes."""

from __future__ import annotations

import numpy as np
import pytest

from shunter.errors import ModelError
from shunter.predictors import iteration_time, peaks
from shunter.predictors.splitting import BY_MODEL, RANDOM, folds
from shunter.seeding import rng

EXPONENTS = (-0.7, -0.2)


def measured(models=30, configurations=4, repeats=4, noise=0.02):
    """Models whose speeds have nothing to do with their sizes; more CPUs and memory help alike."""
    draw = rng(0, "measured")
    base = np.exp(draw.normal(3, 1, models))
    model = np.repeat(np.arange(models), configurations * repeats)
    resources = np.repeat(draw.uniform(0.5, 2, (models * configurations, 2)), repeats, axis=0)
    seconds = base[model] * np.prod(resources**EXPONENTS, axis=1) * np.exp(draw.normal(0, noise, len(model)))
    sizes = draw.integers(1, 10**6, (models, 3)).astype(float)[model]
    names = (*iteration_time.FEATURES, iteration_time.TARGET)
    return dict(zip(names, np.column_stack((sizes, resources, seconds)).T, strict=True))


def test_random_rows_flatter_a_model_that_can_only_remember():
    pytest.importorskip("sklearn", reason="no scikit-learn; ./scripts/install all,dev has it")
    found = iteration_time.judge(iteration_time.TimeTable.of(measured()), ["forest", "scaled"], lambda *_: None)
    (random_forest, _), (by_model_forest, scaled) = (split["models"] for split in found["splits"])
    assert found["groups"] == 30
    assert found["configurations"] == 120
    assert random_forest["r2"] > 0.85
    assert by_model_forest["r2"] < 0.3
    assert scaled["r2"] > 0.95


def test_one_measurement_scales_by_the_powers_that_other_models_have():
    table = iteration_time.TimeTable.of(measured(noise=0.0))
    logs = np.log(table.rows[:, 3:])
    found = iteration_time.ratio_exponents(logs, np.log(table.seconds), table.model)
    assert found == pytest.approx(EXPONENTS)
    assert iteration_time.scaled_time(10.0, (1.0, 1.0), (2.0, 1.0), found) == pytest.approx(10 * 2**-0.7)


def test_a_model_with_one_configuration_has_nothing_to_scale():
    numbers = {name: values[:60] for name, values in measured(models=60, configurations=1, repeats=1).items()}
    found = iteration_time.judge(iteration_time.TimeTable.of(numbers), ["scaled"], lambda *_: None)
    assert found["splits"][1]["models"] == [{"model": "scaled", "rows": 0, "r2": None, "median_ape": None}]


@pytest.mark.parametrize("split", [RANDOM, BY_MODEL])
def test_folds_have_every_row_once_and_keep_groups_whole(split):
    groups = rng(1, "groups").integers(0, 9, 200)
    parts = list(folds(groups, split))
    assert sorted(np.concatenate(parts).tolist()) == list(range(200))
    if split == BY_MODEL:
        assert sum(len(np.unique(groups[part])) for part in parts) == 9


def test_bad_tables_are_refused_by_name():
    numbers = measured()
    with pytest.raises(ModelError, match="measurement 3 must have numbers above 0"):
        iteration_time.TimeTable.of(numbers | {"batch": np.where(np.arange(len(numbers["batch"])) == 2, 0, 1.0)})
    with pytest.raises(ModelError, match="at least 50"):
        iteration_time.TimeTable.of({name: values[:5] for name, values in numbers.items()})
    with pytest.raises(ModelError, match=r"unknown model 'frost'.*forest"):
        iteration_time.judge(iteration_time.TimeTable.of(numbers), ["frost"], lambda *_: None)


def test_peaks_are_learned_from_what_is_known_before_a_job_runs():
    pytest.importorskip("lightgbm", reason="no lightgbm; ./scripts/install all,dev has it")
    draw = rng(2, "peaks")
    batch = draw.integers(8, 512, 300).astype(float)
    model = draw.integers(0, 20, 300)
    numbers = {"batch": batch, "peak_mem": 3 * batch + 100, "speed": 1 / batch}
    table = peaks.PeakTable.of(numbers, {"model": [f"m{each}" for each in model]})
    assert table.features == ("batch",)  # the speed is known only afterwards
    found = peaks.judge(table, ["median", "gbm"], lambda *_: None)
    median, gbm = found["splits"][1]["models"]
    assert median["r2"] < 0.1
    assert gbm["r2"] > 0.9


def test_peaks_without_labels_or_models_are_refused():
    some = np.arange(1.0, 41.0)
    with pytest.raises(ModelError, match=r"needs a column peak_\.\.\."):
        peaks.PeakTable.of({"batch": some}, {"model": ["a"] * 40})
    with pytest.raises(ModelError, match="needs a column model, or flops and params"):
        peaks.PeakTable.of({"batch": some, "peak_mem": some}, {})


def test_a_module_is_counted_and_left_as_it_was():
    torch = pytest.importorskip("torch", reason="no torch; ./scripts/install rl has it")
    from shunter.predictors.module_cost import module_cost

    module = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.BatchNorm1d(20), torch.nn.Linear(20, 3))
    module.train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    found = module_cost(module, torch.ones(4, 10))
    assert found == (2 * 4 * (10 * 20 + 20 * 3), (10 * 20 + 20) + 2 * 20 + (20 * 3 + 3))
    assert module_cost(module, torch.ones(4, 10), backward=True).flops > 2 * found.flops
    assert module.training
    assert all(weight.grad is None for weight in module.parameters())
    assert all((before[name] == value).all() for name, value in module.state_dict().items())
    with pytest.raises(ModelError, match="got int"):
        module_cost(3)
