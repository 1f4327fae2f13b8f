"""The first node that suffices."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.world import I64


@kernel
def place(usable: I64, total: I64, order: I64, gpus: int, draw: int, nodes: I64, counts: I64) -> int:
    """The node of lowest index with enough free GPUs; a job larger than any node takes idle nodes by index.

    What is left of such a job goes on the first further node that has enough.
    """
    largest = 0
    for node in range(len(usable)):
        largest = max(largest, total[node])
        if usable[node] >= gpus:
            nodes[0], counts[0] = node, gpus
            return 1
    if gpus <= largest:
        return 0
    used, need = 0, gpus
    for node in range(len(usable)):
        if total[node] > 0 and usable[node] == total[node] and total[node] <= need:
            nodes[used], counts[used] = node, total[node]
            used += 1
            need -= total[node]
    if need == 0:
        return used
    taken = 0  # nodes were taken in ascending order
    for node in range(len(usable)):
        if taken < used and nodes[taken] == node:
            taken += 1
        elif usable[node] >= need:
            nodes[used], counts[used] = node, need
            return used + 1
    return 0
