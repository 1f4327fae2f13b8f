"""Fewest nodes, best fit: what Lucid, Helios and most GPU clusters do by default."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.placers._nodes import on_few_nodes
from shunter.world import I64


@kernel
def place(usable: I64, total: I64, order: I64, gpus: int, draw: int, nodes: I64, counts: I64) -> int:
    """One node with the least sufficient free GPUs; a job larger than any node takes idle nodes, the largest first.

    What is left of such a job goes on the node with the most free GPUs.  Ties go to the lowest index.
    """
    return int(on_few_nodes(usable, total, order, gpus, nodes, counts, False))
