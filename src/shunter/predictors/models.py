"""The duration models by name."""

from __future__ import annotations

from shunter.errors import ModelError, did_you_mean
from shunter.params import build, named
from shunter.predictors.blend import Blend
from shunter.predictors.ebm import Ebm
from shunter.predictors.fitting import Model
from shunter.predictors.gbm import Gbm
from shunter.predictors.history import History

MODELS: dict[str, type[Model]] = {cls.name: cls for cls in (History, Gbm, Ebm, Blend)}


def model(text: str) -> Model:
    """The model that a text like ``gbm:rounds=200`` names."""
    name, values = named(text, "model", ModelError)
    if name not in MODELS:
        raise ModelError(f"there is no model '{name}'; {did_you_mean(name, MODELS)}")
    return build(MODELS[name], name, values, "model", ModelError)
