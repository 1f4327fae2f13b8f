"""Histories of which the truth is known: the simulator wrote them, with what is then to be inferred."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np

from shunter import registry
from shunter import world as w
from shunter.advice import advising, present
from shunter.advice.candidates import site_of
from shunter.setup import read_trace, set_up
from shunter.sim import Scenario, Simulator
from shunter.simulation import resolve

BASE = "fifo:backfill=easy"
NAMED = resolve(BASE)
DAY = 86_400_000


@cache
def jobs(text="jobs=6000,gpus=64,load=0.9,seed=1", most=None):
    trace = read_trace(f"synthetic:{text}")
    return trace if most is None else dataclasses.replace(trace, gpus=np.minimum(trace.gpus, 1000 * most))


def recorded(trace, cluster, scenario=None):
    """The trace with the waits that it has on this cluster."""
    run = Simulator(trace, set_up(trace, cluster).cluster, scenario=scenario or Scenario())
    run.run(registry.policy(BASE))
    return dataclasses.replace(trace, recorded_wait=run.world.jobs[w.WAITED].copy())


def site_shown(trace, cluster):
    """What the record shows, with this cluster file."""
    setup, stated = present.read(trace, cluster, [NAMED.policy])
    return present.present(setup, stated, present.replay(setup, NAMED))


def judged(site, days=5):
    """The judgement of its replay."""
    question = advising.Question(NAMED, site_of(NAMED.policy), days=days)
    return advising.replayed(site, question, int(site.trace.submit.max()) - days * DAY)[0]
