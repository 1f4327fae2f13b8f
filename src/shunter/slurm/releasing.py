"""The way back: undoing what was done to waiting jobs, so that Slurm goes on by its own rules.

Kept apart from the controller because the watchdog uses it too, and must need as little as it can.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shunter.slurm.client import Client, DeclinedError
from shunter.slurm.hostlist import expand
from shunter.slurm.journal import ABANDONED, DONE, INTENT, UNDONE, Act, Journal
from shunter.slurm.journal_file import JournalError
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
    found = _Undoing(client, journal, snapshot)
    try:
        for act in journal.acts(INTENT, DONE):
            if levers is None or act.order.lever in levers:
                found.undo(act)
    finally:  # also if Slurm stops answering halfway
        found.note()
    return found.undone, found.problems


class _Undoing:
    """Acts undone one by one, and what came of it."""

    def __init__(self, client: Client, journal: Journal, snapshot: Snapshot) -> None:
        self.client, self.journal, self.unread = client, journal, snapshot.unread
        self.waiting = {job.handle: job for job in snapshot.jobs if job.state == "PENDING"}
        running = [job for job in snapshot.jobs if job.runs]  # may be queued again, as nice as they are
        self.running = {name: job for job in running for name in (job.whole, job.handle)}
        self.alone = journal.left_alone()
        self.settled: list[tuple[Act, str, str]] = []
        self.undone = 0
        self.problems: list[str] = []

    def note(self) -> None:
        """Write down what was done."""
        try:
            for act, state, note in self.settled:
                self.journal.settle(act, state, note)
            self.journal.tell("release", f"{self.undone} undone" + "".join(f"; {each}" for each in self.problems))
        except JournalError as error:
            self.problems.append(f"{self.undone} changes are undone, but this is not noted: {error}; run this again")

    def undo(self, act: Act) -> None:
        """Undo one, if it still matters."""
        order = self.journal.original(act.order)
        if order.handle in self.unread:
            self.problems.append(f"job {order.handle}: what Slurm says of it can't be read; run this again")
            return
        job = self.waiting.get(order.handle) or (self.running.get(order.handle) if order.lever == "nice" else None)
        if job is None or order.handle in self.alone or (act.state == INTENT and not was_done(order, job)):
            state = UNDONE if act.state == DONE else ABANDONED
            self.settled.append((act, state, "released; it waits no longer or is not ours"))
            return
        try:
            pull(self.client, order.undoing())
        except DeclinedError as error:
            if GONE.search(str(error)):
                self.settled.append((act, UNDONE, f"released; {error}"))
            else:  # it must be tried again
                self.problems.append(f"job {order.handle}, {order.lever}: {error}")
        else:
            self.settled.append((act, UNDONE, "released"))
            self.undone += 1
