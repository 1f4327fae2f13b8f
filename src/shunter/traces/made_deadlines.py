"""Made-up deadlines and ranges of GPUs for jobs that have none, so that ``edf`` or ``elastic`` can be tried on them.

Deadlines are as in the generator of Qore-DL's authors, counted from the run time that a user declares. Users declare
more than jobs need.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from shunter.errors import TraceError
from shunter.model import GPU, Trace

SLACK = (0.66, 2.44)  # a deadline is this many times the declared run time ...
GRACE_S = 750.0  # ... and this much later
OVERSTATED = (1.0, 2.0)  # declared over true run time
NARROWEST, WIDEST = 0.5, 2  # GPUs of a job that can be resized, in times of those it asks for


def with_deadlines(trace: Trace, draw: np.random.Generator, deadlines: float, elastic: float) -> Trace:
    """The same jobs; of these shares some have a deadline, and some may have half to twice the GPUs they ask for."""
    for name, share in (("deadlines", deadlines), ("elastic", elastic)):
        if not 0 <= share <= 1:
            raise TraceError(f"{name} must be a share of the jobs, from 0 to 1, got {share:g}")
    if trace.deadline.any() or trace.declared.any() or trace.min_gpus.any():
        raise TraceError(f"trace '{trace.name}' has deadlines, declared times or ranges of its own; nothing is made up")
    jobs, asked = len(trace), trace.gpus // GPU
    declared = np.rint(trace.duration * draw.uniform(*OVERSTATED, jobs)).astype(np.int64)
    deadline = np.rint(declared * draw.uniform(*SLACK, jobs) + GRACE_S * 1000).astype(np.int64)
    dated, resized = draw.random(jobs) < deadlines, draw.random(jobs) < elastic
    least, most = np.maximum((asked * NARROWEST).astype(np.int64), 1), WIDEST * np.maximum(asked, 1)
    return dataclasses.replace(
        trace, declared=declared, deadline=deadline * dated, min_gpus=least * resized, max_gpus=most * resized
    )
