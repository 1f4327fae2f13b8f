"""The changes that can be made to a job, as data.

nice      the default: the resource manager goes on making priorities, ours is added.  Strands no job.
priority  sets it outright: the job no longer ages, and its nice is cleared.
pin       the nodes that a waiting job must have.  Could strand it, so the watchdog lifts it.
requeue   stops a running job that has agreed to it, and queues it again.  Can't be undone.
resize    the number of GPUs of a waiting job that has agreed to it, within its own request.  Strands no job.
signal    asks a running job that has agreed to be resized to save its work and queue itself again.  Can't be undone;
          it comes with resize.
shard     lets a waiting job that asked for all shards of a GPU share it: half of them are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shunter.errors import LiveError, did_you_mean

if TYPE_CHECKING:
    from shunter.live.manager import ResourceManager
    from shunter.live.snapshot import LiveJob

LEVERS = ("nice", "priority", "pin", "requeue", "resize", "shard", "signal")
CHOOSABLE = tuple(lever for lever in LEVERS if lever != "signal")
STOPPING = ("requeue", "signal")  # levers that end a run of a job
STRANDING = ("pin", "shard")  # a job could wait for ever with it; these can be changed of waiting jobs only
VALUES = (
    "nice",
    "priority",
    "pin",
    "resize",
    "shard",
)  # levers that set a value of the job, which it can be given back


@dataclass(frozen=True)
class Order:
    """One change to one job."""

    handle: str  # the job as the journal names it
    lever: str
    value: str
    before: str  # its own value, before our first change; of a priority with its nice: 59:0; of a stop: its restarts
    why: str = ""
    target: str = ""  # the record that is changed; "": the handle
    annotation: str = ""  # the job's, as it was
    journal: str = ""  # whose mark is set with it; "": none
    raises: bool | None = None  # whether it puts the job before others; None: it is not about the order of the queue

    @property
    def gives_back(self) -> bool:
        """Whether it gives a job its own value back."""
        return self.value == self.before and self.lever not in STOPPING


def chained(orders: Iterable[Order], annotated: Callable[[Order], str]) -> list[Order]:
    """Orders as they follow each other: a job may get several, and each adds its mark to those before."""
    annotations: dict[str, str] = {}
    found: list[Order] = []
    for order in orders:
        found.append(replace(order, annotation=annotations.get(order.handle, order.annotation)))
        annotations[order.handle] = annotated(found[-1])
    return found


def was_done(manager: ResourceManager, order: Order, job: LiveJob) -> bool:
    """Whether an order shows in the job."""
    if order.gives_back and order.lever == "priority":  # it is computed all the time; its nice comes back last
        return "priority" not in job.marked and str(job.nice) == order.before.partition(":")[2]
    if order.lever in STOPPING:
        return job.restarts > int(order.before)
    return manager.shows(order.lever, order.value, job)


def levers_from(text: str) -> frozenset[str]:
    """``nice,pin`` as levers; an order needs nice or priority."""
    found = frozenset(filter(None, (name.strip() for name in text.split(","))))
    for name in found - set(CHOOSABLE):
        raise LiveError(f"there is no lever '{name}'; {did_you_mean(name, CHOOSABLE)}")
    if {"nice", "priority"} <= found:
        raise LiveError("levers nice and priority exclude each other: setting a priority clears nice; choose one")
    if "resize" in found and "requeue" not in found:
        raise LiveError("lever resize needs requeue: a running job is stopped to be resized; give both")
    return found
