"""Shunter: schedules deep-learning jobs on GPU clusters.

The public names; each is imported when it is first used, so that ``import shunter`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shunter.cluster import Cluster
    from shunter.comparison import Comparison, compare
    from shunter.errors import InputError, ShunterError
    from shunter.model import Trace
    from shunter.registry import policy
    from shunter.run_folder import Run
    from shunter.run_folder import load as load_run
    from shunter.simulation import Result, simulate
    from shunter.traces import read as read_trace
    from shunter.traces import write as write_trace

__version__ = "0.1.0"

__all__ = [
    "Cluster",
    "Comparison",
    "InputError",
    "Result",
    "Run",
    "ShunterError",
    "Trace",
    "__version__",
    "compare",
    "load_run",
    "policy",
    "read_trace",
    "simulate",
    "write_trace",
]

_HOMES = {
    "Cluster": ("shunter.cluster", "Cluster"),
    "Comparison": ("shunter.comparison", "Comparison"),
    "InputError": ("shunter.errors", "InputError"),
    "Result": ("shunter.simulation", "Result"),
    "Run": ("shunter.run_folder", "Run"),
    "ShunterError": ("shunter.errors", "ShunterError"),
    "Trace": ("shunter.model", "Trace"),
    "compare": ("shunter.comparison", "compare"),
    "load_run": ("shunter.run_folder", "load"),
    "policy": ("shunter.registry", "policy"),
    "read_trace": ("shunter.traces", "read"),
    "simulate": ("shunter.simulation", "simulate"),
    "write_trace": ("shunter.traces", "write"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'shunter' has no attribute '{name}'")
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
