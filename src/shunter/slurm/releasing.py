"""The way back: undoing what was done to waiting jobs, so that Slurm goes on by its own rules.

Kept apart from the controller because the watchdog uses it too, and must need as little as it can.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shunter.slurm.client import Client, DeclinedError
from shunter.slurm.hostlist import expand
from shunter.slurm.journal import ABANDONED, DONE, INTENT, UNDONE, Act, Journal
from shunter.slurm.levers import Order, pull
from shunter.slurm.snapshot import Job, Snapshot

GONE = re.compile(r"invalid job id|already (?:finished|compl)|no longer pending|not pending", re.IGNORECASE)


def was_done(order: Order, job: Job) -> bool:
    """Whether an order shows in the job."""
    shows = {
        "nice": str(job.nice) == order.value,
        "priority": str(job.priority) == order.value,
        "pin": set(expand(job.wanted_nodes)) == set(expand(order.value)),
        "shard": job.per_node == order.value,
    }
    return shows[order.lever] if order.lever in shows else job.restarts > int(order.before)


def release(
    client: Client, journal: Journal, snapshot: Snapshot, levers: Sequence[str] | None = None
) -> tuple[int, list[str]]:
    """Undo every lever, or these, and give the jobs back to Slurm: how many, and what could not be undone.

    All is undone before any of it is written down: a journal that a hung controller has locked must not keep jobs from
    being freed, and undoing twice does no harm.
    """
    waiting = {job.handle: job for job in snapshot.jobs if job.state == "PENDING"}
    running = {job.whole: job for job in snapshot.jobs if job.runs}  # they may be queued again, as nice as they are
    alone = journal.left_alone()
    settled: list[tuple[Act, str, str]] = []
    undone, problems = 0, []
    for act in journal.acts(INTENT, DONE):
        order = journal.original(act.order)
        if levers is not None and order.lever not in levers:
            continue
        if order.handle in snapshot.unread:
            problems.append(f"job {order.handle}: what Slurm says of it can't be read; it must be tried again")
            continue
        job = waiting.get(order.handle) or (running.get(order.handle) if order.lever == "nice" else None)
        if job is None or order.handle in alone or (act.state == INTENT and not was_done(order, job)):
            state = UNDONE if act.state == DONE else ABANDONED
            settled.append((act, state, "released; it waits no longer or is not ours"))
            continue
        try:
            pull(client, order.undoing())
        except DeclinedError as error:
            problems.append(f"job {order.handle}: {error}")
            if GONE.search(str(error)):  # else it must be tried again
                settled.append((act, UNDONE, f"released; {error}"))
        else:
            settled.append((act, UNDONE, "released"))
            undone += 1
    for act, state, note in settled:
        journal.settle(act, state, note)
    journal.tell("release", f"{undone} undone")
    return undone, problems
