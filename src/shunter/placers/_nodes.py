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
