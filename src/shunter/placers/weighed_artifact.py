"""As ``weighed_ahead``, with the objective as published: nothing sets the flags of partly used nodes to 1."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.placers.weighed import cheapest
from shunter.world import I64


@kernel
def place(usable: I64, total: I64, order: I64, gpus: int, following: int, nodes: I64, counts: I64) -> int:
    """Consolidate, pack or spread, by the gap and by the nodes that still hold the next job, of ``following`` GPUs."""
    return int(cheapest(usable, total, order, gpus, following, False, nodes, counts))
