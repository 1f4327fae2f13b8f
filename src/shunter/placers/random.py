"""A node at random, the same for the same seed."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.draws import next_draw
from shunter.placers._nodes import is_taken
from shunter.world import I64


@kernel
def pick(usable: I64, nodes: I64, used: int, at_least: int, draw: int) -> int:
    """The node at position ``draw`` (counted round) among those with enough that aren't taken; -1: none."""
    fitting = 0
    for turn in range(2):
        wanted = draw % fitting if turn == 1 else -1
        seen = 0
        for node in range(len(usable)):
            if usable[node] >= at_least and not is_taken(nodes, used, node):
                if seen == wanted:
                    return node
                seen += 1
        fitting = seen
        if fitting == 0:
            return -1
    return -1


@kernel
def place(usable: I64, total: I64, order: I64, gpus: int, draw: int, nodes: I64, counts: I64) -> int:
    """A random node with enough free GPUs; a job larger than any node takes random idle nodes of the largest size."""
    largest = 0
    for node in range(len(total)):
        largest = max(largest, total[node])
    used, need = 0, gpus
    while need > 0:
        amount = min(need, largest)
        node = pick(usable, nodes, used, amount, draw)
        if node < 0:
            return 0
        nodes[used], counts[used] = node, amount
        used += 1
        need -= amount
        draw = next_draw(draw)
    return used
