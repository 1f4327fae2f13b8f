"""What can be changed about a job in Slurm from outside, how, and how it is undone.

nice      the default: Slurm goes on making priorities, ours is added.  Strands no job.
priority  sets it outright: Slurm no longer ages the job, and clears its nice.
pin       the nodes that a waiting job must have.  Could strand it, so the watchdog lifts it.
requeue   stops a running job that has agreed to it, and queues it again.  Can't be undone.
shard     lets a waiting job that asked for all shards of a GPU (gres/shard) share it: half of them are enough.

A lever and its mark (see ``marks``) are set by one command, so Slurm never has one without the other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from shunter.errors import SlurmError, did_you_mean
from shunter.slurm.client import Client
from shunter.slurm.hostlist import expand
from shunter.slurm.marks import Mark, marked, marks_in, unmarked
from shunter.slurm.snapshot import Job

LEVERS = ("nice", "priority", "pin", "requeue", "shard")
STRANDING = ("pin", "shard")  # a job could wait for ever with it; Slurm changes these of waiting jobs only
ATTRIBUTES = {"nice": "nice", "priority": "priority", "pin": "ReqNodeList", "shard": "TresPerNode"}
MOST_NICE = 2_147_483_645
Command = tuple[str, ...]


@dataclass(frozen=True)
class Order:
    """One change to one job."""

    handle: str  # the job as the journal names it
    lever: str
    value: str
    before: (
        str  # the job's own value, before our first change; of a priority with its nice: 59:0; of a requeue: Restarts
    )
    why: str = ""
    target: str = ""  # the record that scontrol changes; "": the handle
    comment: str = ""  # the AdminComment that it had
    journal: str = ""  # whose mark is set with it; "": none
    raises: bool | None = None  # whether it puts the job before others; None: it is not about the order of the queue

    def commands(self) -> tuple[Command, ...]:
        """The exact commands that do it."""
        target = self.target or self.handle
        if self.lever == "requeue":
            return (("scontrol", "requeue", target),)
        if self.lever == "priority" and self.gives_back:
            nice = {"nice": self.before.partition(":")[2]}
            return ("scontrol", "release", target), update(target, nice, self.comment, self.marked())
        return (update(target, {self.lever: self.value}, self.comment, self.marked()),)

    @property
    def gives_back(self) -> bool:
        """Whether it gives a job its own value back."""
        return self.value == self.before and self.lever != "requeue"

    def marked(self) -> str:
        """The AdminComment that goes with it: a mark comes, or goes; a priority ends what we did to the nice."""
        if not self.journal:
            return self.comment
        if self.gives_back:
            return unmarked(self.comment, (self.lever,))
        comment = unmarked(self.comment, ("nice",)) if self.lever == "priority" else self.comment
        return marked(comment, Mark(self.journal, self.lever, self.before, self.value))


def update(target: str, values: Mapping[str, str], comment: str = "", then: str = "") -> Command:
    """Several attributes of one record, in one request; each value is a single argument, whatever it contains.

    The AdminComment is written only if it is to be another one than before.
    """
    changes = [f"{ATTRIBUTES[lever]}={value}" for lever, value in values.items()]
    return "scontrol", "update", f"jobid={target}", *changes, *(() if comment == then else (f"admincomment={then}",))


def undoing(
    job: Job, before: Mapping[str, str], target: str = "", without: Collection[str] = ()
) -> tuple[Command, ...]:
    """The exact commands that give a job its own values back, by lever, and remove their marks and those ``without``.

    Slurm computes a priority again when the job is released, which needs no hold before; a job that its user or an
    administrator holds stays held, and has lost the priority that was set outright already.
    """
    target = target or job.target
    values = {lever: value for lever, value in before.items() if lever != "priority"}
    commands: list[Command] = []
    if "priority" in before:
        values["nice"] = before["priority"].partition(":")[2]
        if not job.held:
            commands.append(("scontrol", "release", target))
    then = unmarked(job.admin_comment, {*before, *without})
    return (*commands, update(target, values, job.admin_comment, then))


def unmarking(job: Job, levers: Collection[str], target: str = "") -> tuple[Command, ...]:
    """The exact commands that remove marks of values that others have changed since.

    Setting a priority had cleared the job's nice, which comes back; where an administrator has set another priority
    outright, Slurm ignores that.
    """
    lost = {lever: mark.before.partition(":")[2] for lever, mark in marks_in(job.admin_comment).items()}
    values = {"nice": lost["priority"]} if "priority" in levers and "priority" in lost else {}
    return (update(target or job.target, values, job.admin_comment, unmarked(job.admin_comment, levers)),)


def chained(orders: Iterable[Order]) -> list[Order]:
    """Orders as they follow each other: a job may get several, and each adds its mark to those before."""
    comments: dict[str, str] = {}
    found: list[Order] = []
    for order in orders:
        found.append(replace(order, comment=comments.get(order.handle, order.comment)))
        comments[order.handle] = found[-1].marked()
    return found


def shows(lever: str, value: str, job: Job) -> bool:
    """Whether a job has this value of a lever."""
    if lever == "pin":
        return set(expand(job.wanted_nodes)) == set(expand(value))
    found = {"nice": str(job.nice), "priority": str(job.priority), "shard": job.per_node}
    return found.get(lever) == value


def was_done(order: Order, job: Job) -> bool:
    """Whether an order shows in the job."""
    if order.gives_back and order.lever == "priority":  # Slurm computes it all the time; its nice comes back last
        return "priority" not in marks_in(job.admin_comment) and str(job.nice) == order.before.partition(":")[2]
    return job.restarts > int(order.before) if order.lever == "requeue" else shows(order.lever, order.value, job)


def held_now(client: Client, target: str) -> bool:
    """Whether somebody holds a record by now: releasing it would undo that."""
    job = re.sub(r"_\[(\d+).*", r"_\1", target)  # any one task of those that are one record
    found = client.run("squeue", "--noheader", f"--jobs={job}", "--states=PENDING", "--format=%Q")
    return "0" in found.split()


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
