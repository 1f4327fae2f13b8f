"""Jobs of a mix on a real cluster, and what the controller costs them."""

from __future__ import annotations

import numpy as np
import pytest

from shunter.errors import LiveError
from shunter.reproduce.slurm import design, live
from shunter.reproduce.slurm.live import controlled, fresh_lab, level, play, warm_up
from shunter.slurm.lab import Lab

LOSS = 0.15


def test_jobs_run_as_long_as_they_say_and_no_gpu_twice(lab):
    jobs = design.mix(12, 0, longest_s=1.5)
    seen = []
    found = play(lab, jobs, seen.append)
    assert found.end - found.start == pytest.approx([job.run_s for job in jobs], abs=0.3)
    assert (found.wait > 0).all()
    assert seen[-1] == 12
    for kind, most in (("p100", 12), ("k80", 8), ("m40", 2)):  # those of the fixture
        ours = [at for at, job in enumerate(jobs) if job.kind == kind]
        for at in ours:
            beside = [i for i in ours if found.start[i] <= found.start[at] < found.end[i]]
            assert found.gpus[beside].sum() <= most


def test_how_long_a_gpu_stands_free_between_two_jobs(lab):
    lab.run("scontrol", "update", "nodename=m40-2", "state=drain", "reason=test")  # one M40, as in the experiment
    assert 0 < warm_up(lab) < 3


def test_a_run_begins_with_a_period(lab_with_database, monkeypatch):
    monkeypatch.setattr(live, "PERIOD_MIN", 0)
    monkeypatch.setattr(live, "SLACK_S", 0.3)  # its own is 5 minutes
    with pytest.raises(LiveError, match="must compute priorities again"):
        level(lab_with_database)


@pytest.mark.slow
@pytest.mark.skipif(bool(Lab.missing(database=True)), reason=Lab.missing(database=True) or "-")
def test_200_short_jobs_lose_little_through_the_controller():
    jobs = design.mix(200, 0, longest_s=5)
    with fresh_lab() as lab:
        warm_up(lab)
        plain = play(lab, jobs)
    with fresh_lab() as lab, controlled(lab, "multifactor:backfill=easy", 1.0):
        warm_up(lab)
        ours = play(lab, jobs)
    spans = [found.measures()["makespan_s"] for found in (plain, ours)]
    assert np.isfinite(spans).all()
    assert spans[1] <= (1 + LOSS) * spans[0]
