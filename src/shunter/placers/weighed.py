"""The best of three layouts by what each leaves behind: RLTune's MILP for one job, solved by trying all three."""

from __future__ import annotations

from shunter.compiled import kernel
from shunter.placers._nodes import freest, is_taken, on_few_nodes, tightest
from shunter.placers.spread import place as spread
from shunter.world import I64

# RLTune's weights are 1 for a partly used node, 0.3 for each GPU of the gap, and -0.5 for a node that holds the next
# job. Here they are integers, and the gap is in eighths of the largest node: the same on nodes of 8 GPUs, and right for
# shares of a GPU too, in thousandths.
PARTLY, GAP, FITS = 10, 24, 5
LAYOUTS = 3  # consolidate, pack, spread


@kernel
def place(usable: I64, total: I64, order: I64, gpus: int, draw: int, nodes: I64, counts: I64) -> int:
    """Consolidate, pack or spread: the one with the fewest partly used nodes and the smallest gap.

    The gap is between the most and the fewest free GPUs of a node.  Of equals, the first of the three is chosen.
    """
    return int(cheapest(usable, total, order, gpus, 0, True, nodes, counts))


@kernel
def cheapest(
    usable: I64, total: I64, order: I64, gpus: int, following: int, counted: bool, nodes: I64, counts: I64
) -> int:
    """Fill in the cheapest layout; ``following`` and ``counted`` as for ``cost_of``."""
    best, least = -1, 0
    for layout in range(LAYOUTS):
        used = lay_out(layout, usable, total, order, gpus, nodes, counts)
        if used > 0:
            cost = cost_of(usable, total, nodes, counts, used, following, counted)
            if best < 0 or cost < least:
                best, least = layout, cost
    return int(lay_out(best, usable, total, order, gpus, nodes, counts)) if best >= 0 else 0


@kernel
def lay_out(layout: int, usable: I64, total: I64, order: I64, gpus: int, nodes: I64, counts: I64) -> int:
    """Fill in one of the layouts; packing and spreading take at most one node more than the job needs."""
    if layout == 0:
        return int(on_few_nodes(usable, total, order, gpus, nodes, counts, False))
    largest = 1
    for node in range(len(total)):
        largest = max(largest, total[node])
    most = (gpus + largest - 1) // largest + 1
    used = (
        pack(usable, total, gpus, nodes, counts)
        if layout == 1
        else spread(usable, total, order, gpus, 0, nodes, counts)
    )
    return int(used) if used <= most else 0


@kernel
def pack(usable: I64, total: I64, gpus: int, nodes: I64, counts: I64) -> int:
    """Fill partly used nodes, the freest first, then idle ones; the last part goes where it fits best."""
    used, need = 0, gpus
    while need > 0:
        node = tightest(usable, need, nodes, used)
        if node < 0:
            node = freest_partly_used(usable, total, nodes, used)
        if node < 0:
            node = freest(usable, nodes, used)
        if node < 0:
            return 0
        nodes[used], counts[used] = node, min(need, usable[node])
        need -= counts[used]
        used += 1
    return used


@kernel
def freest_partly_used(usable: I64, total: I64, nodes: I64, used: int) -> int:
    """The partly used node with the most free GPUs, ties to the lowest index, that isn't chosen yet; -1 if none is."""
    best = -1
    for node in range(len(usable)):
        better = 0 < usable[node] < total[node] and (best < 0 or usable[node] > usable[best])
        if better and not is_taken(nodes, used, node):
            best = node
    return best


@kernel
def cost_of(usable: I64, total: I64, nodes: I64, counts: I64, used: int, following: int, counted: bool) -> int:
    """What a layout leaves behind: partly used nodes (if ``counted``), the gap, and nodes that hold the following job.

    ``following``: its GPUs; 0: there is none.
    """
    partly, largest, most, least, fitting = 0, 0, -1, -1, 0
    for node in range(len(usable)):
        if total[node] > 0:
            free = usable[node]
            for i in range(used):
                free -= counts[i] if nodes[i] == node else 0
            partly += 1 if counted and 0 < free < total[node] else 0
            fitting += 1 if 0 < following <= free else 0
            largest = max(largest, total[node])
            most = max(most, free)
            least = free if least < 0 else min(least, free)
    return int((PARTLY * partly - FITS * fitting) * largest + GAP * (most - least))
