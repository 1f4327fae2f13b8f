"""Most free first: even load, at the price of fragments."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.placers._nodes import freest
from shunter.world import I64


@kernel
def place(usable: I64, total: I64, order: I64, gpus: int, draw: int, nodes: I64, counts: I64) -> int:
    """The node with the most free GPUs (ties: lowest index), and the next such one for what it can't hold."""
    free = 0
    for node in range(len(usable)):
        free += usable[node]
    if free < gpus:
        return 0
    used, need = 0, gpus
    while need > 0:
        best = freest(usable, nodes, used)
        nodes[used], counts[used] = best, min(need, usable[best])
        need -= counts[used]
        used += 1
    return used
