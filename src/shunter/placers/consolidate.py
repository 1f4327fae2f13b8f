"""Fewest nodes, best fit: what Lucid, Helios and most GPU clusters do by default."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.placers._nodes import freest
from shunter.world import I64


@kernel
def place(usable: I64, total: I64, order: I64, gpus: int, draw: int, nodes: I64, counts: I64) -> int:
    """One node with the least sufficient free GPUs; a job larger than any node takes idle nodes, the largest first.

    What is left of such a job goes on the node with the most free GPUs.  Ties go to the lowest index.
    """
    best, largest = -1, 0
    for node in range(len(usable)):
        largest = max(largest, total[node])
        if usable[node] >= gpus and (best < 0 or usable[node] < usable[best]):
            best = node
    if best >= 0:
        nodes[0], counts[0] = best, gpus
        return 1
    if gpus <= largest:
        return 0
    used, need = 0, gpus
    for i in range(len(order)):
        node = order[i]
        if total[node] > 0 and usable[node] == total[node] and total[node] <= need:
            nodes[used], counts[used] = node, total[node]
            used += 1
            need -= total[node]
    if need == 0:
        return used
    best = freest(usable, nodes, used)
    if best < 0 or usable[best] < need:
        return 0
    nodes[used], counts[used] = best, need
    return used + 1
