"""Our best policy: what it is where no job, some, or all may be stopped."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import shunter
from shunter import registry
from shunter.policies.express import Express
from shunter.policies.gittins import Gittins
from shunter.traces.synthetic import synthetic


def limited():
    trace = synthetic(800, seed=3, gpus=32, load=1.2)
    return dataclasses.replace(trace, limit=np.maximum(trace.duration * (1 + np.arange(len(trace)) % 3), 1))


@pytest.mark.parametrize("estimate", ["auto", "history", "rolling"])
@pytest.mark.parametrize("overhead", [0, "30,30"])
def test_without_stops_it_is_saf_with_its_settings(estimate, overhead):
    """The same schedule to the digest where no job can be stopped, and another where some can."""
    best, trace = Express(estimate=estimate), limited()
    found = [
        shunter.simulate(trace, "4x8", policy, overhead=overhead, checkpointable=which).digest
        for policy, which in ((best.without_stops, ""), (best, "none"), (best, "50%"))
    ]
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_it_is_gittins_where_jobs_may_be_stopped():
    assert vars(Express()) == vars(Gittins())
    found = {shunter.simulate(limited(), "4x8", name, checkpointable="50%").digest for name in ("express", "gittins")}
    assert len(found) == 1


def test_its_names():
    assert registry.text(Express()) == "express"
    assert registry.text(Express().without_stops) == "saf:backfill=easy,placement=tight"


def test_the_more_jobs_may_be_stopped_the_shorter_are_waits():
    trace = "synthetic:jobs=3000,gpus=64,load=1.1,seed=1"
    waits = [
        shunter.simulate(trace, "8x8", "express", checkpointable=which).summary["wait_s"]["mean"]
        for which in ("none", "50%", "all")
    ]
    assert waits[2] < waits[1] < waits[0]
