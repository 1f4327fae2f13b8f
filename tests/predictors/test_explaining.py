"""Explanations add up to what a model says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shunter import world as w
from shunter.errors import ModelError
from shunter.predictors import explaining as x
from shunter.predictors import features as f
from shunter.predictors.fitted import estimates
from shunter.predictors.fitting import known
from shunter.predictors.models import model


@pytest.fixture(scope="module")
def trace(habits):
    return habits(1_500)


@pytest.fixture(scope="module", params=["gbm:rounds=20,bags=2,objective=l2", "ebm:bags=2", "history"])
def fitted(request, trace):
    for library in ("lightgbm", "interpret"):
        pytest.importorskip(library, reason=f"no {library}; ./scripts/install all,dev has it")
    return model(request.param).fit(known(trace, f.stream(trace), w.NEVER))


def test_the_parts_multiply_to_the_estimate(fitted, trace):
    why = x.reasons(fitted, trace, "1234")
    product = why.recent_s * math.exp(why.base + sum(part.log_factor for part in why.parts))
    expected = why.history_s if fitted.alpha else product
    assert why.estimate_s == pytest.approx(expected)
    assert why.estimate_s == pytest.approx(estimates(fitted, f.stream(trace)[1234:1235])[0])
    assert why.quantiles_s[0] < why.quantiles_s[1] < why.quantiles_s[2]
    assert why.actual_s == trace.duration[1234] / 1000
    sizes = [abs(part.log_factor) for part in why.parts]
    assert sizes == sorted(sizes, reverse=True)


def test_a_job_that_is_not_there(fitted, trace):
    with pytest.raises(ModelError, match="has no job 'x'; its first is '0'"):
        x.reasons(fitted, trace, "x")


def test_shapes_are_what_terms_add(fitted, trace):
    drawn = {shape.term: shape for shape in x.shapes(fitted)}
    if not fitted.terms:
        assert not drawn
        return
    assert set(drawn) == set(fitted.terms)
    row = f.stream(trace)[777]
    _, parts = x.taken_apart(fitted, row)
    for part in parts:
        shape = drawn[part.name]
        assert len(shape.curves) == (1 if len(shape.features) == 1 else len(x._some(np.arange(99))))
        if len(shape.features) == 1 and math.isnan(part.value[0]):
            assert shape.missing == part.log_factor
        elif len(shape.features) == 1:
            (curve,) = shape.curves.values()
            nearest = np.argsort(np.abs(shape.x - part.value[0]))[:2]  # the bin that it is in, or the next
            assert min(np.abs(curve[nearest] - part.log_factor)) < 1e-9
