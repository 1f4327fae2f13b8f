"""Libraries that only some parts need, and the message if one is missing."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from shunter.errors import InputError

CHECKOUT = Path(__file__).parents[2]  # where the sources are, if they are a clone of the repository
EXTRAS = {  # which extra has it
    "lightgbm": "ml",
    "interpret.glassbox": "ml",
    "sklearn.tree": "ml",
    "python_calamine": "xlsx",
    "distributed": "dask",
    "cryptography": "dask",
    "matplotlib": "figures",
    "torch": "rl",
    "gymnasium": "rl",
    "fastapi": "web",
    "uvicorn": "web",
    "jinja2": "web",
    "optuna": "search",
    "cmaes": "search",
    "xgboost": "xgboost",
    "causallearn": "causal",
    "causallearn.search.ConstraintBased.FCI": "causal",
}


class MissingError(InputError):
    """An optional library is not installed."""


def load(module: str, what: str) -> Any:
    """A module of an optional library; ``what`` needs it, and is named where it is missing."""
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: a library of the system is missing, such as libgomp
        raise MissingError(f"{what} needs {module.partition('.')[0]} ({error}); {remedy(module)}") from None


def require(module: str, what: str) -> None:
    """Refuse what needs an optional library that is missing, without importing it where it is there."""
    if not is_there(module):
        load(module, what)


def is_there(module: str) -> bool:
    """Whether an optional library is installed, without importing it."""
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def remedy(module: str) -> str:
    """The command that installs what is missing."""
    if module not in EXTRAS:
        return f"install it with: pip install {module}"
    extra = EXTRAS[module]
    if (CHECKOUT / "scripts" / "install").is_file():
        return f"install it with: ./scripts/install {extra} (in {CHECKOUT})"
    return f"install it with: pip install 'shunter[{extra}]'"
