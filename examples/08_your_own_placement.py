"""Choose the nodes of a job by a rule of your own: one plain function, compiled for you.

In a file of its own, ``mylab/rules.py``, it works on the command line too: ``fifo:placement=mylab.rules.emptiest``.
"""

import numpy as np
from numpy.typing import NDArray

import shunter

Ints = NDArray[np.int64]


def emptiest(usable: Ints, total: Ints, order: Ints, gpus: int, draw: int, nodes: Ints, counts: Ints) -> int:
    """The node with the most free GPUs that can hold the whole job; larger jobs take idle nodes.

    ``usable`` and ``total`` have the free GPUs and all GPUs of each node. The rule writes the nodes that it chooses
    into ``nodes`` and the GPUs on each into ``counts``, and returns how many nodes these are; 0 declines.
    """
    best = 0
    for node in range(len(usable)):
        if usable[node] > usable[best]:
            best = node
    if usable[best] >= gpus:
        nodes[0], counts[0] = best, gpus
        return 1
    used, left = 0, gpus
    for node in range(len(usable)):
        if left > 0 and usable[node] == total[node]:
            nodes[used], counts[used] = node, min(total[node], left)
            left -= counts[used]
            used += 1
    return used if left <= 0 else 0


for placement in ("consolidate", "spread", f"{__name__}.emptiest"):
    result = shunter.simulate("synthetic:jobs=300,gpus=32,load=1.1", "4x8", f"fifo:blocking=skip,placement={placement}")
    wait = result.summary["wait_s"]["mean"]
    print(f"{placement.rpartition('.')[2]:>12}: mean wait {wait / 3600:.2f} h")
