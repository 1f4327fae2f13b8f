"""Traces with something in every column, for tests of what must keep them whole."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from shunter.model import GPU, Trace

NAMES = ("ann", "bob", 'c,"d"', "e f", "ü\nx")


@st.composite
def traces(draw: st.DrawFn, max_jobs: int = 12, prefix: str = "") -> Trace:
    """Small traces, crowded with ties, of any columns."""
    jobs = draw(st.integers(1, max_jobs))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    dated = draw(st.booleans())
    given: dict[str, Any] = {"submit": random.integers(0, 20_000, jobs) + (1_600_000_000_123 if dated else 0)}
    for name, about in Trace.columns().items():
        if name in given or (name not in ("duration", "gpus") and draw(st.booleans())):
            continue
        if name == "after":
            given[name] = np.where(random.random(jobs) < 0.5, np.arange(jobs) - 1, -1)  # -1 for the first
        elif name == "gpus":
            given[name] = random.choice([1, 250, 1000, 8000], jobs)
        elif name in ("min_gpus", "max_gpus"):  # columns that come after gpus, which must be in the range
            whole = given["gpus"] // GPU
            wide = np.where(name == "min_gpus", 1, 2 * whole)
            given[name] = np.where((random.random(jobs) < 0.3) | (whole == 0), 0, wide)
        elif name in ("min_cpus", "max_cpus", "min_mem_gib", "max_mem_gib"):  # of an instance, which must be in it
            end, _, what = name.partition("_")
            each = -(-given.get(what, np.zeros(jobs, np.int64)) // np.maximum(given["gpus"] // GPU, 1))
            given[name] = np.where(random.random(jobs) < 0.3, 0, each if end == "min" else np.minimum(2 * each, 10**9))
        elif name == "servers":
            many = (given["gpus"] >= 2 * GPU) & (given.get("min_gpus", np.zeros(jobs, np.int64)) != 1)
            given[name] = np.where(many, random.integers(0, 3, jobs), 0)
        elif about.scale:
            high = int(min(about.high * about.scale, 10**9 if name == "duration" else 10**12))
            given[name] = np.where(random.random(jobs) < 0.3, about.default, random.integers(0, high, jobs))
        else:
            given[name] = random.integers(-1, len(NAMES), jobs)
            given[Trace.names_of(name)] = NAMES
    return Trace.of(f"made-{prefix}", [f"{prefix}{number}" for number in range(jobs)], **given)
