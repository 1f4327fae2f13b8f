"""Full parts of the event log come back as they were, whatever their values."""

from __future__ import annotations

import numpy as np
import pytest

from shunter import world as w
from shunter.sim.log_chunk import LogChunk


@pytest.mark.parametrize("rows", [0, 1, 1000])
@pytest.mark.parametrize("highest", [1, 300, 70_000, 2**33, w.NEVER])
def test_rows_come_back_as_they_were(rows, highest):
    log = np.random.default_rng(0).integers(-3, highest, (rows, 5))
    again = LogChunk.of(log).rows()
    assert again.dtype == log.dtype
    assert again.shape == log.shape
    assert (again == log).all()


def test_a_chunk_is_a_copy_that_takes_less_memory():
    log = np.tile(np.array([[1_500_000_000_000, 2, 70_000, 3, 8_000]]), (100, 1))
    log[:, 0] += np.arange(100) * 60_000
    log[:, 2] -= np.arange(100) * 600
    chunk, before = LogChunk.of(log), log.copy()
    log[:] = 0
    assert (chunk.rows() == before).all()
    assert sum(values.nbytes for values in chunk.above) <= before.nbytes / 3
