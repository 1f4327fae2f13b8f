"""What can be changed about a job in Slurm from outside, how, and how it is undone.

nice      the default: Slurm goes on making priorities, ours is added.  Strands nobody.
priority  sets it outright: Slurm no longer ages the job; undone by holding and releasing it.
pin       the nodes that a waiting job must have.  Could strand it, so the watchdog lifts it.
requeue   stops a running job that has agreed to it, and queues it again.  Can't be undone.
shard     lets a waiting job that asked for all shards of a GPU (gres/shard) share it: half of them are enough.
"""

from __future__ import annotations

from dataclasses import dataclass

from shunter.errors import SlurmError, did_you_mean
from shunter.slurm.client import Client

LEVERS = ("nice", "priority", "pin", "requeue", "shard")
STRANDING = ("pin", "shard")  # a job could wait for ever if nobody undid it
MOST_NICE = 2_147_483_645
Command = tuple[str, ...]


@dataclass(frozen=True)
class Order:
    """One change to one job."""

    handle: str  # the job as scontrol knows it
    lever: str
    value: str
    before: str  # what was there, for undoing and for seeing whether it was done; of a priority with its nice: 59:0
    why: str = ""

    def commands(self) -> tuple[Command, ...]:
        """The exact commands that do it."""
        if self.lever == "requeue":
            return (("scontrol", "requeue", self.handle),)
        return (update(self.handle, self.lever, self.value),)

    def undoing(self) -> tuple[Command, ...]:
        """The exact commands that undo it."""
        if self.lever == "requeue":
            return ()
        if self.lever == "priority":  # Slurm takes priorities back only from a job that was held
            nice = update(self.handle, "nice", self.before.partition(":")[2])
            return ("scontrol", "hold", self.handle), ("scontrol", "release", self.handle), nice
        return (update(self.handle, self.lever, self.before),)


def update(handle: str, lever: str, value: str) -> Command:
    """One attribute of one job; the value is a single argument, whatever it contains."""
    names = {"nice": "nice", "priority": "priority", "pin": "ReqNodeList", "shard": "TresPerNode"}
    return "scontrol", "update", f"jobid={handle}", f"{names[lever]}={value}"


def pull(client: Client, commands: tuple[Command, ...]) -> None:
    """Run commands one after the other."""
    for program, *arguments in commands:
        client.run(program, *arguments)


def levers_from(text: str) -> frozenset[str]:
    """``nice,pin`` as levers; an order needs nice or priority."""
    found = frozenset(filter(None, (name.strip() for name in text.split(","))))
    for name in found - set(LEVERS):
        raise SlurmError(f"there is no lever '{name}'; {did_you_mean(name, LEVERS)}")
    if {"nice", "priority"} <= found:
        raise SlurmError("levers nice and priority exclude each other: setting a priority clears nice; choose one")
    return found
