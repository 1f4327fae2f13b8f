"""What several placement rules do with nodes."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.world import I64


@kernel
def is_taken(nodes: I64, used: int, node: int) -> bool:
    """Whether a node is among those chosen so far."""
    taken = False
    for i in range(used):
        taken = taken or nodes[i] == node
    return taken


@kernel
def freest(usable: I64, nodes: I64, used: int) -> int:
    """The node with the most free GPUs, ties to the lowest index, that isn't chosen yet; -1 if none has any."""
    best = -1
    for node in range(len(usable)):
        better = usable[node] > 0 and (best < 0 or usable[node] > usable[best])
        if better and not is_taken(nodes, used, node):
            best = node
    return best


@kernel
def tightest(usable: I64, gpus: int, nodes: I64, used: int) -> int:
    """The node with the least sufficient free GPUs, ties to the lowest index, that isn't chosen yet; -1 if none has."""
    best = -1
    for node in range(len(usable)):
        if usable[node] >= gpus and (best < 0 or usable[node] < usable[best]) and not is_taken(nodes, used, node):
            best = node
            if usable[node] == gpus:
                break
    return best


@kernel
def on_few_nodes(usable: I64, total: I64, order: I64, gpus: int, nodes: I64, counts: I64, tight: bool) -> int:
    """One node, best fit; a job larger than any node takes idle nodes, the largest first, and one for its remainder.

    The remainder goes where it fits best (``tight``), or on the node with the most free GPUs.
    """
    most, largest, idle = 0, 0, 0
    for node in range(len(usable)):
        most = max(most, usable[node])
        largest = max(largest, total[node])
        idle += total[node] if usable[node] == total[node] else 0
    if most >= gpus:
        nodes[0], counts[0] = tightest(usable, gpus, nodes, 0), gpus
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
    last = tightest(usable, need, nodes, used) if tight else freest(usable, nodes, used)
    if last < 0 or usable[last] < need:
        return 0
    nodes[used], counts[used] = last, need
    return used + 1
