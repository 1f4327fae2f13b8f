"""Where a job goes: one small kernel per placement rule, found by its file's name.

A rule is a function ``place(usable, total, order, gpus, draw, nodes, counts) -> int``: given how many GPUs each node
can offer (0 where the job may not go), how many it has in all, and the nodes' indices with the largest first, it fills
in the nodes it chooses and how many GPUs on each, and returns how many nodes that are; 0 declines.  For a job that
wants a share of one GPU the same function is asked with GPUs in the place of nodes and thousandths of a GPU.

Third parties add rules as plain functions: by the entry point group ``shunter.placers``, or by dotted path
(``placement=mylab.rules.tight``).
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any, cast

from shunter import extensions
from shunter.compiled import pointer
from shunter.errors import PolicyError
from shunter.world import signatures

GROUP = "shunter.placers"  # entry points of third parties
# Rules that put a job on one node if any node could ever hold it, and a larger one on idle nodes and one more.
TOGETHER = ("consolidate", "first-fit", "tight")
# Rules that get, in place of a random number, how many GPUs the next waiting job wants; 0: none waits.
AHEAD = ("weighed-ahead", "weighed-artifact")


def names() -> tuple[str, ...]:
    """Every placement rule."""
    modules = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    return tuple(sorted({*(name.replace("_", "-") for name in modules), *extensions.offered(GROUP)}))


def rule(name: str) -> Callable[..., int]:
    """The function behind a name or a dotted path."""
    ours = f"shunter.placers.{name.replace('-', '_')}"
    if "." in name:
        found = extensions.by_path(name, "placement", PolicyError)
    elif importlib.util.find_spec(ours) is not None:
        found = importlib.import_module(ours).place
    else:
        found = extensions.entry(GROUP, name, PolicyError)
    if not callable(found):
        raise PolicyError(f"placement '{name}' is no function; give a name ({', '.join(names())}) or a dotted path")
    return cast("Callable[..., int]", found)


@cache
def kernel_of(name: str) -> Any:
    """The compiled rule, to be handed to a kernel."""
    return pointer(rule(name), signatures()["place"])
