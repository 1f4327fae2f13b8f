"""No placement: GPUs are only counted, as in the simulators that ignore nodes."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.world import I64


@kernel
def place(usable: I64, total: I64, order: I64, gpus: int, draw: int, nodes: I64, counts: I64) -> int:
    """Any free GPUs, the lowest node index first."""
    used, need = 0, gpus
    for node in range(len(usable)):
        if usable[node] > 0 and need > 0:
            nodes[used], counts[used] = node, min(need, usable[node])
            need -= counts[used]
            used += 1
    return used if need == 0 else 0
