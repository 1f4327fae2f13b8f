"""Randomness that is the same on every machine: one seed, one named stream per use."""

from __future__ import annotations

import zlib

import numpy as np

from shunter.errors import RunError


def check_seed(seed: int) -> int:
    """The seed, if it is one that every part can use and that a saved run can name again."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**31:
        raise RunError(f"seed must be a whole number from 0 to {2**31 - 1}, got {seed}")
    return int(seed)


def rng(seed: int, stream: str) -> np.random.Generator:
    """An independent generator for ``stream``; streams never share draws, whatever order they are made in."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(stream.encode())]))
