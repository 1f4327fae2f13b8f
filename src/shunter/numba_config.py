"""Numba without settings that others could have put into the current folder.

Where PyYAML is installed, numba reads ``.numba_config.yaml`` of the current folder, when it is imported and when it
compiles. Shunter, run in a folder of others, would get their settings. Environment variables (``NUMBA_...``) work as
ever. Modules that import numba import this one first.
"""

from __future__ import annotations

import importlib
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


_imported()._config_fname = os.devnull  # noqa: SLF001 it has no other switch; this is no regular file, so it is not read
