"""How settings of ``shunter reproduce qoredl`` were chosen: ``python -m benchmarks.qoredl_search [POLICY ...]``.

Eight settings of each policy, and 81 of ``pedf``, the best rival (``design.SEARCHED``), on all testbeds and loads, with
seeds that are not judged. All are run on the first two seeds, and the best three of each policy on all five. The one
that meets most deadlines is chosen. Our own policy is not searched here: it is judged with its defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product

import numpy as np

from shunter.reproduce.qoredl.design import LOADS, SEARCH_SEEDS, SEARCHED, TESTBEDS, Variant
from shunter.reproduce.qoredl.study import one_run

FIRST, BEST = 2, 3  # seeds of the first stage; settings in the second
Tried = tuple[str, float, float]  # a policy, its share of deadlines met, its moves a job


def tried(policy: str, seeds: Sequence[int]) -> Tried:
    """The means of a policy over testbeds, loads and seeds."""
    runs = [one_run(Variant(policy), *case) for case in product(TESTBEDS, LOADS, seeds)]
    return policy, float(np.mean([run["met"] for run in runs])), float(np.mean([run["moves"] for run in runs]))


def ranked(policies: Sequence[str], seeds: Sequence[int]) -> list[Tried]:
    """The best first; of equals the one named first."""
    return sorted((tried(policy, seeds) for policy in policies), key=lambda each: -each[1])


def main(labels: Sequence[str]) -> None:
    """Print both stages."""
    for label in labels or SEARCHED:
        first = ranked(SEARCHED[label], SEARCH_SEEDS[:FIRST])
        second = ranked([policy for policy, *_ in first[:BEST]], SEARCH_SEEDS)
        for stage, rows in (("two seeds", first), ("all", second)):
            for policy, met, moves in rows:
                sys.stdout.write(f"| {label} | {stage} | `{policy}` | {met:.1%} | {moves:.2f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
