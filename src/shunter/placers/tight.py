"""Fewest nodes, best fit, for the remainder of large jobs too."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.placers._nodes import on_few_nodes
from shunter.world import I64


@kernel
def place(usable: I64, total: I64, order: I64, gpus: int, draw: int, nodes: I64, counts: I64) -> int:
    """As ``consolidate``, but the remainder of a job larger than any node goes where it fits best.

    A remainder on the node with the most free GPUs often breaks an idle node, for which the next large job waits.
    """
    return int(on_few_nodes(usable, total, order, gpus, nodes, counts, True))
