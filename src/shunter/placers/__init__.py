"""Where a job goes: one small kernel per placement rule, found by its file's name.

A rule is a function ``place(usable, total, order, gpus, draw, nodes, counts) -> int``: given how many GPUs each node
can offer (0 where the job may not go), how many it has in all, and the nodes' indices with the largest first, it fills
in the nodes it chooses and how many GPUs on each, and returns how many nodes that are; 0 declines.  For a job that
wants a share of one GPU the same function is asked with GPUs in the place of nodes and thousandths of a GPU.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

from shunter.compiled import pointer
from shunter.world import signatures

TOGETHER = ("consolidate", "first-fit")  # rules that put a job on one node if any node could ever hold it


def names() -> tuple[str, ...]:
    """Every placement rule."""
    modules = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    return tuple(sorted(name.replace("_", "-") for name in modules))


@cache
def kernel_of(name: str) -> Any:
    """The compiled rule, to be handed to a kernel."""
    module = importlib.import_module(f"shunter.placers.{name.replace('-', '_')}")
    return pointer(module.place, signatures()["place"])
