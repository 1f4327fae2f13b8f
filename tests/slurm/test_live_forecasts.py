"""Forecasts on a real Slurm beside its own estimates; the benchmark is run for some seconds."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shunter.live.snapshot import Snapshot

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import live_forecasts


@pytest.fixture
def recorded(lab, monkeypatch) -> list[Snapshot]:
    monkeypatch.setattr(live_forecasts, "EVERY_S", 1.0)
    monkeypatch.setattr(live_forecasts, "LOAD", 6.0)  # so that a queue is there at once
    return live_forecasts.record(lab, 6)


@pytest.mark.slow  # how many jobs have an estimate depends on how busy the machine is
def test_forecasts_are_nearer_than_slurms_estimates(recorded):
    questions, estimates = live_forecasts.ask(recorded)
    truth = (questions.start - questions.moment) / 1000
    has = np.isfinite(estimates)
    assert has.sum() > 20
    ours = live_forecasts.rolled(questions.rows)[:, 0]
    assert np.median(np.abs(ours - truth)[has]) < np.median(np.abs(estimates - truth)[has])
    text = live_forecasts.report(questions, estimates)
    assert all(name in text for name in ("squeue --start", "roll-forward", "combined"))
    known, _ = live_forecasts.ask([*recorded[:4], with_other_ends(recorded)])
    early = questions.moment < recorded[4].now
    assert (np.nan_to_num(known.rows[known.moment < recorded[4].now]) == np.nan_to_num(questions.rows[early])).all()


def with_other_ends(recorded: list[Snapshot]) -> Snapshot:
    """The last moment, with starts and ends that are not the real ones."""
    last = recorded[-1]
    jobs = tuple(replace(job, start=job.start + 5000, end=job.end + 9000) for job in last.jobs)
    return replace(last, jobs=jobs)
