"""Whether fixed settings were searched long enough: ``python -m benchmarks.fixed_search DATA POLICY [EVALUATIONS]``.

``reproduce autosched`` ends its search for fixed settings once a round of evaluations hardly gains anything.  Here such
a search, on the same two weeks, in hindsight and begun with the settings as given, goes on to the last of the
EVALUATIONS (2,000).
"""

from __future__ import annotations

import sys
from functools import partial

from benchmarks.adapting_cost import adapting, timed
from shunter.adapting.searching import ENOUGH, search_whole

EVALUATIONS = 2_000


def main(data: str, policy: str, evaluations: str = str(EVALUATIONS)) -> None:
    """Search until it ends by itself, and to the end."""
    work = adapting(data, policy)
    for name, enough in (("ends by itself", ENOUGH), ("goes on", -1.0)):
        start = work.simulator(), work.memory(work.given), work.space, work.given
        took, found = timed(partial(search_whole, *start, int(evaluations), enough))
        reached = f"mean JCT {found.value:,.0f} s"
        if work.space.objective == "rho":
            reached = f"rho of at most 1: {1 - found.value:.2%}"
        print(f"{name:16}{found.evaluations:7,} evaluations{took:8.0f} s of CPU  {reached}  {found.policy}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
