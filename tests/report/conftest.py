"""A run in which jobs were profiled and shared GPUs."""

from __future__ import annotations

import pytest

import shunter


@pytest.fixture(scope="session")
def packed():
    """Lucid on a few hundred jobs, with estimates from rolling means."""
    return shunter.simulate(
        "synthetic:jobs=400,seed=3,gpus=64,load=1.3",
        "8x8",
        "lucid:estimate=rolling,profile_when=always,profile_time=200,pack_when=always,capacity=2",
    )
