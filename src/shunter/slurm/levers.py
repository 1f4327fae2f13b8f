"""How Slurm's commands change a job, show that it is changed, and give it back what it had.

A lever and its mark (see ``marks``) are set by one command, so Slurm never has one without the other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from shunter.live.levers import Order
from shunter.live.manager import Command
from shunter.live.marks import Mark
from shunter.live.snapshot import LiveJob, size_in
from shunter.slurm.client import Client
from shunter.slurm.hostlist import expand
from shunter.slurm.marks import SIZE, marked, unmarked

ATTRIBUTES = {"nice": "nice", "priority": "priority", "pin": "ReqNodeList", "shard": "TresPerNode"}
SIZES = {"job": "TresPerJob", "node": "TresPerNode"}  # lever resize: the attribute by how the job asks for GPUs
SIGNAL = "USR1"
MOST_NICE = 2_147_483_645
MOST_PRIORITY = 2**32 - 100  # Slurm's largest numbers mean something else
SHARDS = re.compile(r"(gres[:/]shard[:=])(\d+)")
LONGEST_NAME = 100_000  # characters; the kernel takes 131,071 in one argument


def commands(order: Order) -> tuple[Command, ...]:
    """The exact commands that carry out an order."""
    target = order.target or order.handle
    if order.lever == "requeue":
        return (("scontrol", "requeue", target),)
    if order.lever == "signal":  # to the batch script and all steps
        return (("scancel", f"--signal={SIGNAL}", "--full", target),)
    if order.lever == "priority" and order.gives_back:
        nice = {"nice": order.before.partition(":")[2]}
        return ("scontrol", "release", target), update(target, nice, order.annotation, annotated(order))
    return (update(target, {order.lever: order.value}, order.annotation, annotated(order)),)


def annotated(order: Order) -> str:
    """The AdminComment that goes with an order: a mark comes, or goes; a priority ends what we did to the nice."""
    if not order.journal:
        return order.annotation
    if order.gives_back:
        return unmarked(order.annotation, (order.lever,))
    comment = unmarked(order.annotation, ("nice",)) if order.lever == "priority" else order.annotation
    return marked(comment, Mark(order.journal, order.lever, order.before, order.value))


def update(target: str, values: Mapping[str, str], comment: str = "", then: str = "") -> Command:
    """Several attributes of one record, in one request; each value is a single argument, whatever it contains.

    The AdminComment is written only if it is to be another one than before.
    """
    changes = [_change(lever, value) for lever, value in values.items()]
    return "scontrol", "update", f"jobid={target}", *changes, *(() if comment == then else (f"admincomment={then}",))


def _change(lever: str, value: str) -> str:
    if lever != "resize":
        return f"{ATTRIBUTES[lever]}={value}"
    how, _, wanted = value.partition(":")
    return f"{SIZES[how]}={wanted}"


def sized(job: LiveJob, gpus: int) -> str:
    """What a job would ask for with so many GPUs; "": its request is not of a kind that can be changed."""
    if not re.fullmatch(SIZE, job.sizing, re.ASCII) or gpus < 1:
        return ""
    return job.sizing.removesuffix(str(size_in(job.sizing))) + str(gpus)


def undoing(
    job: LiveJob, before: Mapping[str, str], target: str = "", without: Collection[str] = ()
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
    then = unmarked(job.annotation, {*before, *without})
    return (*commands, update(target, values, job.annotation, then))


def unmarking(job: LiveJob, levers: Collection[str], target: str = "") -> tuple[Command, ...]:
    """The exact commands that remove marks of values that others have changed since.

    Setting a priority had cleared the job's nice, which comes back; where an administrator has set another priority
    outright, Slurm ignores that.
    """
    lost = {lever: mark.before.partition(":")[2] for lever, mark in job.marked.items()}
    values = {"nice": lost["priority"]} if "priority" in levers and "priority" in lost else {}
    return (update(target or job.target, values, job.annotation, unmarked(job.annotation, levers)),)


def shows(lever: str, value: str, job: LiveJob) -> bool:
    """Whether a job has this value of a lever."""
    if lever == "pin":
        return set(expand(job.wanted_nodes)) == set(expand(value))
    found = {"nice": str(job.nice), "priority": str(job.priority), "resize": job.sizing, "shard": job.per_node}
    return found.get(lever) == value


def held_now(client: Client, target: str) -> bool:
    """Whether a record is held by now: releasing it would undo that."""
    job = re.sub(r"_\[(\d+).*", r"_\1", target)  # any one task of those that are one record
    found = client.run("squeue", "--noheader", f"--jobs={job}", "--states=PENDING", "--format=%Q")
    return "0" in found.split()


def targets(jobs: Sequence[LiveJob]) -> list[str]:
    """What scontrol changes all of these by: one name, or several where one would be too long for a command."""
    if len(jobs) == 1 and len(jobs[0].target) <= LONGEST_NAME:
        return [jobs[0].target]
    found: list[list[str]] = [[]]
    length = 0
    for piece in (piece for job in jobs for piece in (job.tasks or job.id.partition("_")[2]).split(",")):
        if length + len(piece) > LONGEST_NAME:
            found.append([])
            length = 0
        found[-1].append(piece)
        length += len(piece) + 1
    return [f"{jobs[0].whole}_[{','.join(pieces)}]" for pieces in found]


def half_share(job: LiveJob) -> str:
    """Half the shards that a job asks for; "": it asks for none or one, and Slurm makes none of whole GPUs."""
    asked = SHARDS.fullmatch(job.per_node)
    return f"{asked[1]}{int(asked[2]) // 2}" if asked is not None and int(asked[2]) >= 2 else ""
