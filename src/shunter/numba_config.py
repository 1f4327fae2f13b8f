"""Numba without settings that others could have put into the current folder, and without SciPy.

Where PyYAML is installed, numba reads ``.numba_config.yaml`` of the current folder, when it is imported and when it
compiles. Shunter, run in a folder of others, would get their settings. Environment variables (``NUMBA_...``) work as
ever. Modules that import numba import this one first.

Where SciPy is installed, numba imports its linear algebra to see whether it is there, which takes an eighth of a second
in every process. No kernel needs it. A function of others that multiplies matrices imports it when it is compiled.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from typing import Any, cast


def _imported() -> Any:
    """Numba's settings, read while it believes that PyYAML is not installed."""
    if found := sys.modules.get("numba.core.config"):
        return found
    modules = cast("dict[str, Any]", sys.modules)
    before = modules.pop("yaml", None)
    modules["yaml"] = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it would advise to install it
            return importlib.import_module("numba.core.config")
    finally:
        del modules["yaml"]
        if before is not None:
            modules["yaml"] = before


def _without_scipy() -> None:
    """Let numba believe that SciPy's linear algebra is there, if SciPy is, when it looks."""
    if "numba.np.arraymath" in sys.modules:
        return
    linalg: Any = importlib.import_module("numba.np.linalg")
    if importlib.util.find_spec("scipy") is None:
        return
    ask = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        importlib.import_module("numba.np.arraymath")  # it asks once
    finally:
        linalg.ensure_blas = ask


_imported()._config_fname = os.devnull  # noqa: SLF001 it has no other switch; this is no regular file, so it is not read
_without_scipy()
