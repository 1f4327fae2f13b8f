"""What parts of a search save: ``python -m benchmarks.searching TRACE CLUSTER SINCE UNTIL [POLICY]``.

A policy runs with settings that adapt every hour to the true next hour, once for each way of searching.  Printed are
evaluations, seconds and the mean JCT, beside the plain search.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import Any

import numpy as np

from shunter.adapting.controller import AdaptedRun
from shunter.adapting.study import OPTIMAL, Adapting, AdaptingOptions
from shunter.clusters.stop_costs import USUAL
from shunter.setup import Setup, set_up

BUDGET = 20
WAYS: dict[str, dict[str, Any]] = {  # what differs from the plain search
    "random": {},
    "random, a quarter of the evaluations": {"budget": BUDGET // 4},
    "random, causal model": {"causal": "layers"},
    "bluefin": {"method": "bluefin"},
    "bluefin, causal model": {"method": "bluefin", "causal": "layers"},
    "bluefin-one": {"method": "bluefin-one"},
    "random, two threads": {"threads": 2},
}


def _timed(setup: Setup, options: AdaptingOptions) -> tuple[AdaptedRun, float, float]:
    """A run, and its seconds by the clock and of CPU time."""
    work = Adapting(setup, options)
    begun, cpu = time.perf_counter(), time.process_time()
    run = work.adapted(OPTIMAL, work.given)
    return run, time.perf_counter() - begun, time.process_time() - cpu


def main(source: str, machines: str, since: str, until: str, policy: str = "tiresias") -> None:
    """Print a row per way of searching."""
    setup = set_up(source, machines, since=since, until=until, overhead=USUAL)
    print(f"{len(setup.trace):,} jobs, {policy}, {BUDGET} evaluations every hour, true next hour")  # noqa: T201
    print(f"{'search':40}{'evaluations':>12}{'CPU s':>8}{'wall s':>8}{'mean JCT h':>12}{'not run':>9}")  # noqa: T201
    _timed(setup, AdaptingOptions(policy, 2))  # kernels are compiled
    for name, more in WAYS.items():
        run, wall, cpu = _timed(setup, dataclasses.replace(AdaptingOptions(policy, BUDGET), **more))
        rejected = sum(reason.startswith("rejected") for each in run.searches for reason in each.reasons)
        hours = float(np.nanmean(run.jct)) / 3600
        print(f"{name:40}{run.evaluations:12,}{cpu:8.1f}{wall:8.1f}{hours:12.3f}{rejected:9,}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:6])
