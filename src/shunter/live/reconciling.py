"""The journal's state of jobs compared with the manager's: what is ours, changed by others, or gone.

A change that shows in a job together with its mark is ours, whatever the journal knows: its command may have reached
the manager after its controller was killed or gave up, or the manager may have gone back to an older state.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from shunter.live.journal import ABANDONED, DONE, FAILED, GUARD, INTENT, LANDING_S, STOP, UNDONE, UNMARKED, Act, Journal
from shunter.live.levers import STRANDING, VALUES, Order, was_done
from shunter.live.manager import DeclinedError, ResourceManager, UnreachableError
from shunter.live.marks import Mark
from shunter.live.releasing import records
from shunter.live.snapshot import LiveJob, Snapshot

BOOT_S = 1.0  # the manager says in which second it was started, not when in that second
Force = Mapping[tuple[str, str], Act]


class Reconciler:
    """Keeps the journal true from look to look."""

    def __init__(self, manager: ResourceManager, journal: Journal) -> None:
        self.manager, self.journal = manager, journal
        self._nice: dict[str, int] = {}  # of waiting jobs that we have not touched, when last seen
        self._outright: dict[str, int] = {}  # waiting jobs whose priority the manager does not compute
        self._missed: dict[int, float] = {}  # acts that did not show, and since when
        self._may_change = True
        self.corrected: set[str] = set()  # jobs that were changed since the look: what it shows of them is outdated

    def reconcile(self, snapshot: Snapshot, refused: Collection[str], may_change: bool = True) -> dict[str, str]:
        """Settle what is over, adopt what is ours, and find the jobs that others have changed: leave these alone.

        Without ``may_change`` (the look is old, or another controller may be at work) no job is changed: marks that
        are no longer true go in a later round.
        """
        self.corrected, self._may_change = set(), may_change
        self._recover(snapshot)
        present = {job.handle: job for job in records(snapshot) if not job.over}
        self._outright = self._set_outright(present)
        force = self._adopted(present, snapshot.now)
        touched = {handle for handle, _ in force}
        noticed = self._set_by_hand(present, touched) | self._made_nice(present, touched, refused)
        for (handle, lever), act in force.items():
            if handle not in present and not _unread(handle, snapshot):
                self.journal.settle(act, UNDONE, f"it is gone, and its {lever} with it")
        unknown = {act.order.handle for act in self.journal.acts(INTENT)}
        for job in present.values():
            if (job.marks or job.handle in touched) and job.handle not in unknown:
                noticed |= self._changed(job, force, snapshot.now)
        for handle, why in noticed.items():
            self.journal.leave_alone(handle, why)
        return noticed

    # -- what is ours

    def _recover(self, snapshot: Snapshot) -> None:
        """Acts with an unknown result: check what they did, and never repeat them."""
        present = {job.handle: job for job in snapshot.jobs}
        open_acts = self.journal.acts(INTENT)
        self._missed = {act.id: self._missed[act.id] for act in open_acts if act.id in self._missed}
        for act in open_acts:
            if _later(act, snapshot.now) or _unread(act.order.handle, snapshot):
                continue
            job = present.get(act.order.handle)
            if job is not None and was_done(self.manager, act.order, job):
                self.journal.settle(act, DONE, "seen after it was interrupted")
                if act.order.gives_back:
                    self.journal.settle(act, UNDONE, "seen after it was interrupted")
            elif job is None or job.over or self._will_not_land(act):
                asked = (
                    act.order.lever == "signal"
                )  # no job shows whether it heard that: it counts, and is not repeated
                words = "it may have been sent" if asked else "seen after it was interrupted"
                self.journal.settle(act, DONE if asked else ABANDONED, words)

    def _will_not_land(self, act: Act) -> bool:
        """Whether a command that did not show can be given up: until then its job is not changed."""
        since = self._missed.setdefault(act.id, time.monotonic())
        return time.monotonic() - since > LANDING_S

    def _adopted(self, present: Mapping[str, LiveJob], now: int) -> Force:
        """What is in force, with what marks show and the journal does not know."""
        force, found = self.journal.in_force(), []
        for job in present.values():
            for lever, mark in self._ours(job).items():
                act = force.get((job.handle, lever))
                newer = act is not None and _later(act, now)
                if (
                    self.manager.shows(lever, mark.value, job)
                    and not newer
                    and (act is None or act.order.value != mark.value)
                ):
                    found.append(Order(job.handle, lever, mark.value, mark.before, f"marked by journal {mark.journal}"))
        found += self._remembered(present, force)
        if not found:
            return force
        self.journal.adopt(found)
        return self.journal.in_force()

    def _remembered(self, present: Mapping[str, LiveJob], force: Force) -> list[Order]:
        """What shows in jobs without a mark and was given up before it was done; and what tasks have of their array."""
        found = {}
        for act in self.journal.acts(ABANDONED, DONE):
            order = act.order
            heirs = [order.handle] if act.state == ABANDONED else self._tasks(present, act)
            for handle in heirs if order.lever in VALUES and not order.gives_back else ():
                job = present.get(handle)
                if job is None or (handle, order.lever) in force or job.marked:
                    continue  # gone, or known: marks say all
                computed = order.lever == "priority" and handle not in self._outright  # it has this value by chance
                if self.manager.shows(order.lever, order.value, job) and not computed:
                    found[handle, order.lever] = replace(order, handle=handle)
        return list(found.values())

    def _tasks(self, present: Mapping[str, LiveJob], act: Act) -> list[str]:
        """Tasks that have left an array which was changed without a mark: they took the change with them."""
        if act.note != UNMARKED or "_" in act.order.handle:
            return []
        return [handle for handle in present if handle.startswith(f"{act.order.handle}_")]

    def _ours(self, job: LiveJob) -> dict[str, Mark]:
        """The marks of our own journal; of any on a job that was queued again: its controller may be long gone."""
        marks = job.marked
        return {lever: mark for lever, mark in marks.items() if job.restarts or mark.journal == self.journal.id}

    # -- what others did

    def _changed(self, job: LiveJob, force: Force, now: int) -> dict[str, str]:
        """What others have changed of what a job had of us; its marks go."""
        lost = [
            claim for claim in self._claims(job, force, now) if not self.manager.shows(claim.lever, claim.value, job)
        ]
        marked = {claim.lever for claim in lost if claim.marked}
        if not self._correct(job, marked, lost):
            return {}  # it is tried again
        noticed = {}
        for claim in lost:
            pardon = self._pardon(claim, job, force)
            if claim.act is not None:
                self.journal.settle(claim.act, UNDONE, pardon or changed_by_others(claim, job))
            if not pardon:
                noticed[job.handle] = changed_by_others(claim, job)
        return noticed

    def _claims(self, job: LiveJob, force: Force, now: int) -> list[ClaimedValue]:
        """What its marks and the journal say, without what was done after the look."""
        found, marks = [], self._ours(job)
        for lever in VALUES:
            act, mark = force.get((job.handle, lever)), marks.get(lever)
            if act is not None and _later(act, now):
                continue
            said = mark or (act.order if act is not None else None)
            known = act is not None and self.manager.shows(
                lever, act.order.value, job
            )  # another process may have written an older mark
            if said is not None and not known:
                found.append(ClaimedValue(lever, said.value, said.before, act, mark is not None))
        return found

    def _correct(self, job: LiveJob, marked: Collection[str], lost: Collection[ClaimedValue]) -> bool:
        """Remove marks that are no longer true, and give back the nice that a lost priority cleared; False: not yet.

        The nice is an intent first: its command may land after this controller was killed and the next has set another.
        """
        back = _given_back(job, lost)
        if not marked and back is None:
            return True
        if not self._may_change or (back is not None and self.journal.handed_back()):
            return False
        self.corrected.add(job.handle)
        acts = self.journal.intend(0, [back]) if back is not None else []
        try:
            if marked:
                self.manager.unmark(job, marked)
            elif back is not None:
                own = back.before.partition(":")[2]
                self.manager.carry_out(Order(job.handle, "nice", own, own, target=job.target))
        except DeclinedError as error:
            self._settled(acts, FAILED, str(error))
            return False
        self._settled(acts, UNDONE, "its own nice is back")
        return True

    def _settled(self, acts: Collection[Act], state: str, note: str) -> None:
        for act in acts:
            self.journal.settle(act, state, note)

    def _pardon(self, claim: ClaimedValue, job: LiveJob, force: Force) -> str:
        """Why a value is no longer there although no one set another; "": someone did."""
        if claim.lever == "priority" and job.handle not in self._outright:
            return "it is computed again: the job was held, or released halfway"
        if claim.lever == "nice" and (job.handle, "priority") in force:
            return "a priority of ours has taken its place"
        if claim.lever in STRANDING and job.runs:
            return "it runs without it"
        given_back = claim.lever in STRANDING or self._handed_back_since(claim.act)  # by a watchdog, or by release
        if given_back and self.manager.shows(claim.lever, claim.own, job):
            return "it has its own value again: it may have been given back without a note"
        if claim.act is not None and not claim.marked and claim.act.at < self.manager.boot_time() + BOOT_S:
            return f"{self.manager.name} was restarted and has forgotten it"
        return ""

    def _handed_back_since(self, act: Act | None) -> bool:
        """Whether the jobs were handed back after an act: the process may have been killed before noting it."""
        last = self.journal.last_event(GUARD, STOP)
        return act is not None and last is not None and act.at < last[0]

    def _set_outright(self, present: Mapping[str, LiveJob]) -> dict[str, int]:
        """Waiting jobs whose priority someone has set; none if the manager does not answer: then nothing is done."""
        try:
            found = self.manager.set_by_hand()
        except UnreachableError:
            return {}
        handles = {job.number: handle for handle, job in present.items()}
        return {handles.get(number, number): priority for number, priority in found.items()}

    def _set_by_hand(self, present: Mapping[str, LiveJob], touched: set[str]) -> dict[str, str]:
        """Jobs that we did not touch and an administrator did."""
        known = touched | set(self.journal.left_alone())
        known |= {handle for handle, job in present.items() if job.marked}  # it was a controller
        tried = {(act.order.handle, act.order.value) for act in self.journal.acts(lever="priority")}
        return {
            handle: f"someone set its priority to {priority}"
            for handle, priority in self._outright.items()
            if handle not in known and (handle, str(priority)) not in tried  # one of ours may have come late
        }

    def _made_nice(self, present: Mapping[str, LiveJob], touched: set[str], refused: Collection[str]) -> dict[str, str]:
        """Waiting jobs that no controller has touched and whose nice is another than when last seen."""
        waiting = {handle: job for handle, job in present.items() if job.state == "PENDING" and handle not in touched}
        unmarked = {handle: job.nice for handle, job in waiting.items() if not job.marked}
        before, self._nice = self._nice, unmarked
        tried = {act.order.handle for act in self.journal.acts(INTENT)} | set(refused)
        return {
            handle: f"someone set its nice to {nice}; it was {before[handle]}"
            for handle, nice in self._nice.items()
            if before.get(handle, nice) != nice and handle not in tried
        }


@dataclass(frozen=True)
class ClaimedValue:
    """A value that a job should have of us."""

    lever: str
    value: str
    own: str  # what it had before
    act: Act | None  # None: the journal does not know of it
    marked: bool


def _given_back(job: LiveJob, lost: Collection[ClaimedValue]) -> Order | None:
    """What ends a priority of ours that is lost: the job's own nice, which it had cleared, comes back."""
    claim = next((claim for claim in lost if claim.lever == "priority"), None)
    if claim is None or not (claim.marked or (job.nice == 0 and claim.own.partition(":")[2] != "0")):
        return None
    return Order(job.handle, "priority", claim.own, claim.own, "it is lost: its own nice comes back", job.target)


def changed_by_others(claim: ClaimedValue, job: LiveJob) -> str:
    """How someone else changed a value of ours, in words."""
    if claim.lever == "pin":
        return f"someone chose its nodes: {job.wanted_nodes or 'any'}"
    if claim.lever == "nice" and job.nice == 0:  # the manager clears it when a priority is set, and keeps it clear
        return f"someone set its priority to {job.priority}"
    now = {"nice": str(job.nice), "priority": str(job.priority), "resize": job.sizing}
    found = now.get(claim.lever, job.per_node)
    return f"someone set its {claim.lever} to {found}; it was {claim.value} by us"


def _later(act: Act, now: int) -> bool:
    """Whether an act came after a look (ms); one of a time to come is an old one: the clock was set back since."""
    return now < 1000 * act.at <= 1000 * time.time()


def _unread(handle: str, snapshot: Snapshot) -> bool:
    """Whether the manager's record of a job could not be parsed: its state is unknown."""
    return handle.partition("_")[0] in snapshot.unread
