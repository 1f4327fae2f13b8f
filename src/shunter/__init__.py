"""Shunter: schedules deep-learning jobs on GPU clusters.

These are the public names; everything else is private. Each is imported when it is first used, so that
``import shunter`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shunter.cluster import Cluster
    from shunter.comparison import Comparison, compare
    from shunter.errors import InputError, ShunterError
    from shunter.model import (
        Assign,
        Migrate,
        Plan,
        Power,
        Preempt,
        Reason,
        Refusal,
        Resize,
        Start,
        Timer,
        Trace,
        View,
    )
    from shunter.policies import Ordering
    from shunter.protocols import Backend, Policy
    from shunter.registry import policy
    from shunter.run_folder import Run
    from shunter.run_folder import load as load_run
    from shunter.sim import Scenario, Simulator
    from shunter.simulation import Result, simulate
    from shunter.sweeps.sweep import Sweep, sweep
    from shunter.traces import read as read_trace
    from shunter.traces import write as write_trace
    from shunter.tuning.outcome import Tuning
    from shunter.tuning.tuning import tune

__version__ = "0.1.0"

__all__ = [
    "Assign",
    "Backend",
    "Cluster",
    "Comparison",
    "InputError",
    "Migrate",
    "Ordering",
    "Plan",
    "Policy",
    "Power",
    "Preempt",
    "Reason",
    "Refusal",
    "Resize",
    "Result",
    "Run",
    "Scenario",
    "ShunterError",
    "Simulator",
    "Start",
    "Sweep",
    "Timer",
    "Trace",
    "Tuning",
    "View",
    "__version__",
    "compare",
    "load_run",
    "policy",
    "read_trace",
    "simulate",
    "sweep",
    "tune",
    "write_trace",
]

_HOMES = {  # the module of each name
    "shunter.cluster": ("Cluster",),
    "shunter.comparison": ("Comparison", "compare"),
    "shunter.errors": ("InputError", "ShunterError"),
    "shunter.run_folder": ("Run",),
    "shunter.model": (
        *("Trace", "View", "Plan", "Reason", "Refusal"),
        *("Start", "Preempt", "Migrate", "Resize", "Power", "Assign", "Timer"),
    ),
    "shunter.policies": ("Ordering",),
    "shunter.protocols": ("Backend", "Policy"),
    "shunter.registry": ("policy",),
    "shunter.simulation": ("Result", "simulate"),
    "shunter.sim": ("Scenario", "Simulator"),
    "shunter.sweeps.sweep": ("Sweep", "sweep"),
    "shunter.tuning.outcome": ("Tuning",),
    "shunter.tuning.tuning": ("tune",),
}
_HOME = {name: (module, name) for module, names in _HOMES.items() for name in names} | {
    "load_run": ("shunter.run_folder", "load"),
    "read_trace": ("shunter.traces", "read"),
    "write_trace": ("shunter.traces", "write"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'shunter' has no attribute '{name}'")
    module, attribute = _HOME[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
