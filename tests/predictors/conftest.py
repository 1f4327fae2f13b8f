"""What the tests of predictors share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shunter.model import Trace
from shunter.seeding import rng


def _habits(jobs: int, seed: int = 0, users: int = 12) -> Trace:
    """Jobs of users who each have three kinds of jobs, which take their time, give or take some."""
    draw = rng(seed, "habits")
    user, kind = draw.integers(0, users, jobs), draw.integers(0, 3, jobs)
    typical = draw.uniform(3, 9, (users, 3))[user, kind]
    limits = np.array([3_600, 86_400, 864_000])
    return Trace.of(
        "habits",
        [str(job) for job in range(jobs)],
        submit=1_530_000_000_000 + np.cumsum(draw.exponential(300_000, jobs)).astype(np.int64),
        duration=(1000 * np.exp(typical + draw.normal(0, 0.4, jobs))).astype(np.int64),
        gpus=1000 * 2 ** draw.integers(0, 4, (users, 3))[user, kind],
        user=user,
        limit=1000 * limits[kind],
        users=tuple(f"user{code}" for code in range(users)),
    )


@pytest.fixture(scope="session")
def habits() -> Callable[..., Trace]:
    """Makes traces in which there is something to learn."""
    return _habits
