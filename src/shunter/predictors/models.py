"""The duration models by name."""

from __future__ import annotations

from shunter import extensions
from shunter.errors import ModelError, did_you_mean
from shunter.params import build, named
from shunter.predictors.blend import Blend
from shunter.predictors.ebm import Ebm
from shunter.predictors.fitting import Model
from shunter.predictors.gbm import Gbm
from shunter.predictors.history import History

GROUP = "shunter.models"  # entry points of third parties
MODELS: dict[str, type[Model]] = {cls.name: cls for cls in (History, Gbm, Ebm, Blend)}


def model(text: str) -> Model:
    """The model that a text like ``gbm:rounds=200`` names; a dotted path or an entry point names a third party's."""
    name, values = named(text, "model", ModelError)
    return build(_class(name), name, values, "model", ModelError)


def _class(name: str) -> type[Model]:
    if name in MODELS:
        return MODELS[name]
    found = extensions.by_path(name, "model", ModelError) if "." in name else extensions.entry(GROUP, name, ModelError)
    if found is None and "." not in name:
        raise ModelError(f"there is no model '{name}'; {did_you_mean(name, (*MODELS, *extensions.offered(GROUP)))}")
    if not (isinstance(found, type) and issubclass(found, Model)):
        raise ModelError(f"model '{name}' must be a class that inherits shunter.predictors.fitting.Model")
    if found.__abstractmethods__:
        raise ModelError(f"model '{name}' lacks '{min(found.__abstractmethods__)}'; implement it")
    return found
