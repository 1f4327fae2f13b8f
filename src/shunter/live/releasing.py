"""The way back: undoes changes of jobs, so that the manager continues with its own rules.

The marks on the jobs say what each had before; the journal has it for jobs whose mark was removed.
Kept apart from the controller because the watchdog uses it too, and must need as little as it can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from shunter.live.journal import ABANDONED, DONE, INTENT, UNDONE, UNMARKED, Act, Journal
from shunter.live.journal_file import JournalError
from shunter.live.levers import LEVERS, STOPPING, was_done
from shunter.live.manager import DeclinedError, GoneError, ResourceManager
from shunter.live.snapshot import LiveJob, Snapshot

FIXED = {
    "pin": "the nodes that it must have",
    "resize": "the GPUs that it asks for",
    "shard": "the shards that it asks for",
}


def release(
    manager: ResourceManager,
    journal: Journal,
    snapshot: Snapshot,
    levers: Sequence[str] | None = None,
    *,
    own: bool = True,
) -> tuple[int, list[str]]:
    """Undo every lever, or these, and give the jobs back to the manager: how many, and what could not be undone.

    With ``own``, changes of other journals stay. All is undone before any of it is written down: a journal that a
    hung controller has locked must not keep jobs from being freed, and undoing twice does no harm.
    """
    found = _Undoing(manager, journal, LEVERS if levers is None else levers, own)
    try:
        for jobs in together(job for job in records(snapshot) if not job.over):
            found.undo(jobs)
        found.close(snapshot.unread)
    finally:  # also if the manager stops answering halfway
        found.note()
    return found.undone, found.problems


def records(snapshot: Snapshot) -> list[LiveJob]:
    """One job for each record: all tasks of a waiting array are one, and all parts of a heterogeneous job."""
    return list({job.target: job for job in reversed(snapshot.jobs)}.values())


def together(jobs: Iterable[LiveJob]) -> list[list[LiveJob]]:
    """Tasks of an array that are the same for us, so that one command can undo them all; of others each one."""
    found: dict[tuple[object, ...], list[LiveJob]] = {}
    for job in jobs:
        key: tuple[object, ...] = (job.target,)
        if job.annotation and "_" in job.id:
            priority = job.priority if "priority" in job.marked else job.held
            key = (
                job.whole,
                job.state,
                job.annotation,
                job.nice,
                job.wanted_nodes,
                job.per_node,
                job.per_job,
                priority,
            )
        found.setdefault(key, []).append(job)
    return list(found.values())


class _Undoing:
    """Jobs given back one by one, with the results."""

    def __init__(self, manager: ResourceManager, journal: Journal, levers: Collection[str], own: bool) -> None:
        self.manager, self.journal, self.levers, self.own = manager, journal, levers, journal.id if own else ""
        self.acts: dict[tuple[str, str], list[Act]] = {}
        for act in journal.acts(INTENT, DONE):
            if act.order.lever in levers:
                self.acts.setdefault((act.order.handle, act.order.lever), []).append(act)
        self.known = dict(self.acts)
        self.alone = journal.left_alone()
        self.settled: list[tuple[Act, str, str]] = []
        self.undone = 0
        self.problems: list[str] = []

    def note(self) -> None:
        """Write down what was done."""
        try:
            for act, state, note in self.settled:
                self.journal.settle(act, state, note)
            if self.settled:  # else a controller that is paused would say so in every round
                self.journal.keep_copy()
                self.journal.note("release", f"{self.undone} undone" + "".join(f"; {each}" for each in self.problems))
        except JournalError as error:
            self.problems.append(f"what was undone ({self.undone}) is not noted: {error}; run this again")

    def undo(self, jobs: Sequence[LiveJob]) -> None:
        """Give jobs that are alike for us what they had, in one request."""
        job, names = jobs[0], self.manager.targets(jobs)
        name = names[0] if len(names) == 1 else f"{job.whole} ({len(jobs)} records of its tasks)"
        ours, others = self._ours(job)
        fixed = {lever for lever in ours if lever in FIXED and job.state != "PENDING"}
        self.problems += [
            f"job {name}: {self.manager.name} changes {FIXED[lever]} only while it waits" for lever in sorted(fixed)
        ]
        now = {lever: before for lever, before in ours.items() if lever not in fixed}
        left, note = fixed, "released"
        try:
            for each in names if others else ():
                self.manager.unmark(job, others, each)
            if "priority" in now and not job.held and self.manager.held(job.target):
                raise DeclinedError("it has just been held; run this again")
            for each in names if now else ():
                self.manager.give_back(job, now, each, without=others)
            self.undone += len(now) * len(jobs)
        except DeclinedError as error:
            note = f"released; {error}"
            if not isinstance(error, GoneError):
                self.problems.append(f"job {name}, {', '.join([*now, *others])}: {error}")
                left = left | now.keys() | others
        for record in jobs:
            for lever in set(self.levers) - left:
                self._settle((record.handle, lever), note)
            for lever in left:
                self.acts.pop((record.handle, lever), None)  # it must be tried again

    def _ours(self, job: LiveJob) -> tuple[dict[str, str], set[str]]:
        """The job's own values of what it has of us, by lever; and the levers that others have changed since."""
        marks = {lever: mark for lever, mark in job.marked.items() if lever in self.levers}
        marks = {lever: mark for lever, mark in marks.items() if self.own in ("", mark.journal)}
        kept = {lever for lever, mark in marks.items() if self.manager.shows(lever, mark.value, job)}
        kept |= {"priority"} & marks.keys() if job.held else set()  # the nice is still to be given back
        ours = {lever: marks[lever].before for lever in kept}
        for lever in set(self.levers) - kept - {*STOPPING} if job.handle not in self.alone else ():
            ours |= self._unmarked(job, lever)  # someone may have removed a mark, or written an older one
        return ours, marks.keys() - ours.keys()

    def _unmarked(self, job: LiveJob, lever: str) -> dict[str, str]:
        """The same of a lever without a mark, as the journal knows it; the task of an array may have it of that."""
        own, array = (self.known.get((handle, lever), []) for handle in (job.handle, job.whole))
        acts = [*(act for act in array if act.note == UNMARKED), *own]
        ours = [act.order.before for act in acts if not act.order.gives_back and was_done(self.manager, act.order, job)]
        return {lever: ours[-1]} if ours else {}

    def _settle(self, key: tuple[str, str], note: str) -> None:
        for act in self.acts.pop(key, ()):
            self.settled.append((act, UNDONE if act.state == DONE else ABANDONED, note))

    def close(self, unread: Collection[str]) -> None:
        """Acts of jobs that are gone are over; of jobs that could not be read nothing is known."""
        for handle, lever in list(self.acts):
            if handle.partition("_")[0] in unread:
                self.problems.append(f"job {handle}: its record can't be read; run this again")
            else:
                self._settle((handle, lever), "released; it is gone")
