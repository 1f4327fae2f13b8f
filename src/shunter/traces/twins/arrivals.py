"""The arrivals of a twin, and other arrivals for any trace."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from shunter.errors import TraceError
from shunter.model import GPU, Trace
from shunter.seeding import rng
from shunter.traces.twins.profile import Arrivals
from shunter.traces.twins.quantiles import even
from shunter.world import F64, I64

HOUR_MS, WEEK_H = 3_600_000, 168
MONDAY_H = 96  # from 1970-01-01, a Thursday, to the first Monday


def rhythmic(how: Arrivals, joined: NDArray[np.bool_], span: int, seed: int) -> I64:
    """Ascending times over ``span`` ms, in whole seconds; a joined job comes together with the one before.

    Every hour gets its jobs in number, so that the profile of the day and the week comes out whatever the surges
    are; bursts are laid within the hour.
    """
    draw = rng(seed, "twin.arrivals")
    jobs = len(joined)
    expected = np.cumsum(_hours(how, span, draw))
    hour = np.searchsorted(expected, even(jobs) * expected[-1])
    gaps = np.where(joined, 0.0, draw.lognormal(0, how.burst, jobs))
    place = np.cumsum(gaps)
    first = np.flatnonzero(np.diff(hour, prepend=-1))
    before = np.append(0.0, place)[first]  # the sum of gaps at the start of each hour that has jobs
    after = np.append(place[first[1:] - 1], place[-1]) + draw.lognormal(0, how.burst, len(first))
    count = np.diff(np.append(first, jobs))
    within = (place - np.repeat(before, count)) / np.repeat(after - before, count)
    seconds: I64 = np.floor((hour + within) * 3600).astype(np.int64)
    seconds = np.minimum(seconds, span // 1000)
    seconds[0], seconds[-1] = 0, span // 1000  # so that the load between the first and the last is as wanted
    return how.start + seconds * 1000


def _hours(how: Arrivals, span: int, draw: np.random.Generator) -> F64:
    """What to expect of each hour of the span: the rhythm with surges, which keep its sums by hour and weekday."""
    hours = np.arange(-(-span // HOUR_MS) or 1)
    of_week = (how.start // HOUR_MS - MONDAY_H + hours) % WEEK_H
    rhythm = how.week[of_week]
    if hours[-1]:
        rhythm[-1] *= (span - hours[-1] * HOUR_MS) / HOUR_MS  # the last hour may be cut short
    days = draw.lognormal(0, how.day_surge, hours[-1] // 24 + 1)
    rate: F64 = rhythm * days[hours // 24] * draw.lognormal(0, how.hour_surge, len(hours))
    rate[_paused(how, len(hours), draw)] = 0
    for _ in range(8):
        for group in (of_week // 24, of_week % 24):
            wanted, got = np.bincount(group, rhythm), np.bincount(group, rate)
            rate *= np.divide(wanted, got, out=np.ones_like(got), where=got > 0)[group]
    return rate


def _paused(how: Arrivals, hours: int, draw: np.random.Generator) -> I64:
    """The hours in which nothing comes: maintenance, holidays and quiet nights."""
    count = round(how.pauses_per_week * hours / WEEK_H)
    begin = ((np.arange(count) + draw.random(count)) * hours / max(count, 1)).astype(np.int64)
    length = np.rint(-how.pause_hours * np.log(draw.permutation(even(count)))).astype(np.int64)
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    paused: I64 = np.minimum(np.repeat(begin, length) + within, hours - 1)
    return paused


def rearranged(trace: Trace, how: str, seed: int = 0) -> Trace:
    """The same jobs with other arrivals: ``batch``, all with the first; ``poisson``, at random over the same span."""
    first, last = int(trace.submit[0]), int(trace.submit[-1])
    if how == "batch":
        submit = np.full(len(trace), first)
    elif how == "poisson":
        gaps = rng(seed, "twin.poisson").exponential(size=len(trace))
        gaps[0] = 0
        place = np.cumsum(gaps)
        submit = first + np.rint(place / (place[-1] or 1.0) * (last - first)).astype(np.int64)
    else:
        raise TraceError(f"arrivals must be batch or poisson, got '{how}'")
    return dataclasses.replace(trace, submit=submit)


def stretched(trace: Trace, load: float, gpus: int) -> Trace:
    """The same jobs, their gaps all made longer or shorter until they ask for ``load`` of what ``gpus`` GPUs offer."""
    first, span = int(trace.submit[0]), int(trace.submit[-1] - trace.submit[0])
    if not span:
        raise TraceError(f"trace '{trace.name}': all jobs arrive at once, so there is no load to scale; drop --load")
    wanted = span_for(trace.gpus, trace.duration, load, gpus)
    submit = first + np.rint((trace.submit - first) * (wanted / span)).astype(np.int64)
    return dataclasses.replace(trace, submit=submit)


def span_for(size: I64, duration: I64, load: float, gpus: int) -> int:
    """The span in ms over which these jobs ask for ``load`` of what ``gpus`` GPUs offer."""
    return round(float((size / GPU * duration).sum()) / (gpus * load))
