"""Fewest nodes, best fit: what Lucid, Helios and most GPU clusters do by default."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.placers._nodes import freest
from shunter.world import I64


@kernel
def tightest(usable: I64, gpus: int) -> int:
    """The node with the least sufficient free GPUs, ties to the lowest index; there must be one."""
    best = -1
    for node in range(len(usable)):
        if usable[node] >= gpus and (best < 0 or usable[node] < usable[best]):
            best = node
            if usable[node] == gpus:
                break
    return best


@kernel
def place(usable: I64, total: I64, order: I64, gpus: int, draw: int, nodes: I64, counts: I64) -> int:
    """One node with the least sufficient free GPUs; a job larger than any node takes idle nodes, the largest first.

    What is left of such a job goes on the node with the most free GPUs.  Ties go to the lowest index.
    """
    most, largest, idle = 0, 0, 0
    for node in range(len(usable)):
        most = max(most, usable[node])
        largest = max(largest, total[node])
        idle += total[node] if usable[node] == total[node] else 0
    if most >= gpus:
        nodes[0], counts[0] = tightest(usable, gpus), gpus
        return 1
    if gpus <= largest or gpus > idle + most:
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
