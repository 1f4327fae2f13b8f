"""Synthetic twins: synthetic traces that behave like a published one, or like a user's own without its names."""

from __future__ import annotations

import dataclasses

from shunter.model import Trace
from shunter.traces.twins.arrivals import rearranged, stretched
from shunter.traces.twins.making import for_plain_cluster, make
from shunter.traces.twins.profile import load as load_profile
from shunter.traces.twins.profile import names
from shunter.traces.twins.profile_fitting import apart, fit, left_out

__all__ = ["names", "rearranged", "stretched", "twin", "twin_of"]


def twin(like: str, jobs: int = 5000, seed: int = 0, load: float | None = None, gpus: int | None = None) -> Trace:
    """A trace like the published one of that name; with ``gpus``, one for a plain cluster of that size."""
    profile = load_profile(like)
    return make(profile if gpus is None else for_plain_cluster(profile, gpus), jobs, seed, load)


def twin_of(
    trace: Trace, jobs: int | None = None, seed: int = 0, load: float | None = None, gpus: int | None = None
) -> Trace:
    """A trace like this one, by default of as many jobs, with none of its names but those of GPU types."""
    made = apart(make(fit(trace), len(trace) if jobs is None else jobs, seed, load, gpus), trace)
    missing = left_out(trace)
    remark = f"a twin does not have these columns of the trace: {', '.join(missing)}"
    return dataclasses.replace(made, remarks=(remark,) if missing else ())
