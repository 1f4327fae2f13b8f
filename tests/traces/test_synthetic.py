"""The synthetic trace."""

from __future__ import annotations

import numpy as np
import pytest

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.traces.synthetic import synthetic


def offered(trace: Trace, gpus: int) -> float:
    span = int(trace.submit[-1] - trace.submit[0])
    return float((trace.gpus / 1000 * trace.duration).sum() / (span * gpus))


@pytest.mark.parametrize(("jobs", "gpus", "load"), [(5000, 128, 0.9), (100, 8, 0.5), (20_000, 1024, 1.2), (2, 4, 1.0)])
def test_load_is_as_asked_and_every_job_fits(jobs: int, gpus: int, load: float) -> None:
    trace = synthetic(jobs, seed=3, gpus=gpus, load=load)
    assert len(trace) == jobs
    assert offered(trace, gpus) == pytest.approx(load, rel=1e-6)
    assert trace.gpus.max() <= gpus * 1000
    assert (trace.duration > 0).all()


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    assert synthetic(500, seed=1).digest == synthetic(500, seed=1).digest
    assert synthetic(500, seed=1).digest != synthetic(500, seed=2).digest


def test_it_has_the_shape_of_the_published_traces() -> None:
    trace = synthetic(50_000, seed=0)
    shares = {int(size): float((trace.gpus == size * 1000).mean()) for size in (1, 2, 4, 8, 16, 32)}
    assert sum(shares.values()) == pytest.approx(1)
    assert 0.5 < shares[1] < 0.75
    assert 0.1 < shares[8] < 0.2
    assert shares[32] > 0.005
    median, p95 = np.percentile(trace.duration, [50, 95]) / 1000
    assert 200 < median < 1500
    assert p95 > 10 * median
    big, small = trace.gpus >= 16_000, trace.gpus == 1000
    assert np.median(trace.duration[big]) > 1.5 * np.median(trace.duration[small])
    hour = trace.submit // 3_600_000 % 24
    assert ((hour >= 14) & (hour < 18)).mean() > 4 * ((hour >= 4) & (hour < 8)).mean()
    busiest = np.sort(np.bincount(trace.user))[::-1]
    assert busiest[:5].sum() > 0.4 * len(trace)


def test_a_users_past_says_something_about_the_future() -> None:
    trace = synthetic(5000, seed=0)
    seconds = trace.duration / 1000
    own, every = [], []
    for user in range(len(trace.users)):
        mine = seconds[trace.user == user]
        last_two = (mine[1:-1] + mine[:-2]) / 2
        own += np.abs(np.log(last_two / mine[2:])).tolist()
        every += np.abs(np.log(seconds.mean() / mine[2:])).tolist()
    assert np.mean(own) < 0.5 * np.mean(every)


@pytest.mark.parametrize(
    "wrong", [{"jobs": 0}, {"seed": -1}, {"gpus": -1}, {"load": 0.0}, {"load": float("nan")}, {"load": float("inf")}]
)
def test_wrong_settings_are_reported(wrong: dict[str, float]) -> None:
    with pytest.raises(TraceError, match=next(iter(wrong))):
        synthetic(**wrong)  # type: ignore[arg-type]
