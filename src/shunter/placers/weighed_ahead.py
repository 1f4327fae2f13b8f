"""As ``weighed``, with the next waiting job in view: RLTune's MILP with all of its terms."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.placers.weighed import cheapest
from shunter.world import I64


@kernel
def place(usable: I64, total: I64, order: I64, gpus: int, following: int, nodes: I64, counts: I64) -> int:
    """Consolidate, pack or spread; a node that still holds the next job, of ``following`` GPUs, makes it cheaper."""
    return int(cheapest(usable, total, order, gpus, following, True, nodes, counts))
