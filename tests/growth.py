"""How work grows with its size: in processor time, which others on the machine don't change much."""

import time
from collections.abc import Callable
from typing import Any

# For sixteen times the input, where linear work takes 16 times as long (caches and other processes make it up to 40)
# and quadratic work 256 times.
FAR_BELOW_QUADRATIC = 100


def growth(work: Callable[[Any], object], small: Any, large: Any, times: int = 3) -> float:
    """How many times as long the large input takes as the small one; the quickest of several goes each."""

    def quickest(given: Any) -> float:
        found = []
        for _ in range(times):
            begun = time.process_time()
            work(given)
            found.append(time.process_time() - begun)
        return min(found)

    quickest(small)  # what is done once
    return quickest(large) / max(quickest(small), 1e-4)
