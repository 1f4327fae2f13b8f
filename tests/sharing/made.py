"""Tables for tests."""

from __future__ import annotations

import numpy as np

from shunter.sharing.profiles import Profiles


def profiles(gpu, mem=None, pair=None, mib=None, models=None):
    """Workloads with these utilisations, and these speeds in pairs."""
    n = len(gpu)
    names = tuple(f"w{i}-b1" for i in range(n))
    gpu, mem = np.asarray(gpu, float), np.asarray(gpu if mem is None else mem, float)
    return Profiles(
        names,
        tuple(models or names),
        np.ones(n),
        gpu,
        mem,
        np.full(n, 1000.0) if mib is None else np.asarray(mib, float),
        np.full((n, n), np.nan) if pair is None else np.asarray(pair, float),
        np.zeros(n),
        {"gpu": "made up"},
    )
