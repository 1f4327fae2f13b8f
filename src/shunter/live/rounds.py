"""One round of a controller, from top to bottom, and round after round."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from shunter.drive import decide
from shunter.errors import LiveError, ShunterError
from shunter.live.backend import LiveBackend
from shunter.live.controller import Controller, RoundResult
from shunter.live.journal import DONE, INTENT, STOP
from shunter.live.journal_file import JournalError
from shunter.live.levers import STRANDING
from shunter.live.manager import Presence, UnreachableError
from shunter.live.releasing import release
from shunter.live.rivals import rivals
from shunter.live.snapshot import Snapshot
from shunter.live.sources import PolicySource, source_of
from shunter.live.switching import BAD_DATA, PolicyInForce, PolicySwitch
from shunter.live.watchdog import ensure
from shunter.model import View
from shunter.protocols import Policy
from shunter.texts import counted

Observe = Callable[[RoundResult], None]


@dataclass
class Rounds:
    """A policy on a live cluster; ``on_silence`` gets the reason of each round that could not be finished."""

    policy: Policy | PolicySource
    backend: LiveBackend
    controller: Controller
    authority: Authority | None = None  # None: it changes nothing, and needs none
    observers: Sequence[Observe] = ()
    on_silence: Callable[[LiveError], None] = lambda _: None
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Refuse a policy that can't run on a live cluster."""
        self.in_force = PolicyInForce(source_of(self.policy), self.backend, self.controller)
        self._switch: PolicySwitch | None = None
        self._decided = False  # at least once

    def run(self, count: int = 0) -> None:
        """Run rounds until stopped, or up to a number; a round is never left halfway."""
        done = 0
        while not self.stop.is_set() and not (count and done >= count):
            done += self.round()

    def round(self) -> bool:
        """One round; False: there was nothing to decide on, because the cluster did not answer or is another now."""
        view = self._look()  # poll the resource manager; a replica shows what it says as a cluster that stands still
        if view is None:
            return False
        switching = self.in_force
        try:
            self._switch = switching.consider(self.backend.current) or self._switch  # another policy may take over
            decide(self.backend, switching.policy, view, switching.memory)  # it plans on paper until its plan is empty
        except (ShunterError, *BAD_DATA) as problem:
            undone = switching.undo(problem)
            if isinstance(problem, ShunterError) and undone is None and not self._decided:
                raise  # it has never worked
            self.backend.forget_plan()
            self._failed("a decision", problem)
            self._switch = undone or self._switch
            return False
        self._decided = True
        wanted = self.backend.wanted()  # the order of the queue, what should start and where, what should stop
        try:
            if self.authority is not None:
                self.authority.check(wanted.snapshot)  # handed back, or another controller acts: change nothing
            result = self.controller.act_on(wanted)  # reconcile, find orders, write them down, carry them out
            result.policy, result.switch, result.remark = switching.text, self._switch, switching.source.remark
            switching.round_over()
        except LiveError as problem:
            self._silence(problem)
            return True
        except BAD_DATA as problem:
            self._report("what follows a decision", problem)
            return True
        self._switch = None  # it is in the result
        for observe in self.observers:  # watchdog and guard first, then output, metrics and audit log
            self._show(observe, result)
        return True

    def _show(self, observe: Observe, result: RoundResult) -> None:
        """Let one see a round: if it fails, the others see it all the same, and each sees it once."""
        try:
            observe(result)
        except LiveError as problem:
            self._silence(problem)
        except (ShunterError, *BAD_DATA, OSError) as problem:
            self._report("what follows a round", problem)

    def _silence(self, problem: LiveError) -> None:
        """Report it where that is possible: a full disk behind the output must not end the controller."""
        with suppress(OSError):
            self.on_silence(problem)

    def _look(self) -> View | None:
        """Wait until it is time, and look; None: stopped, no answer, or other machines than before."""
        try:
            if not self.backend.wait(self.stop):
                return None
            if "requeue" in self.controller.levers:
                self.backend.stops_left = self.controller.stops_left()
            view = self.backend.look()
        except ShunterError as problem:
            if not self.backend.number and not isinstance(problem, UnreachableError):
                raise  # it has never worked
            self.backend.rest()
            self._silence(problem if isinstance(problem, LiveError) else LiveError(f"a look failed: {problem}"))
            return None
        except BAD_DATA as problem:
            self._failed("a look", problem)
            return None
        if view is None:
            self._begin_again()
        return view

    def _failed(self, what: str, problem: Exception) -> None:
        """Report what no one foresaw, and wait: one odd job must not end the controller for all others."""
        self.backend.rest()
        self._report(what, problem)

    def _report(self, what: str, problem: Exception) -> None:
        where = traceback.extract_tb(problem.__traceback__)[-1]
        kind = type(problem).__name__
        self._silence(LiveError(f"{what} failed: {kind} at {Path(where.filename).name}:{where.lineno}: {problem}"))

    def _begin_again(self) -> None:
        """The machines are others than before: the policy goes on with what it remembers."""
        self.in_force.start_again()  # first: it must not go on with what it remembers of other machines
        cluster = self.backend.cluster
        try:
            self.controller.note(
                "machines", f"{counted(cluster.nodes, 'node')} with {counted(cluster.gpus, 'GPU')} from now on"
            )
        except JournalError as problem:
            self._silence(problem)


class Authority:
    """Whether a controller may change jobs: not while they are handed back, nor while another controller does."""

    def __init__(self, controller: Controller, presence: Presence) -> None:
        self.controller, self.presence = controller, presence
        self._why = ""

    def check(self, snapshot: Snapshot) -> None:
        """Pause the controller, or let it go on.

        What is in force is given back: the one that handed back may have been killed, or had no answer.
        """
        controller, book = self.controller, self.controller.journal
        controller.unsure, controller.outdated = "", False
        try:
            before, self._why = self._why, book.handed_back() or self._gives_way(snapshot)
            controller.paused = self._why if self._why or before else controller.paused
        except LiveError as error:
            controller.unsure = f"can't tell whether another controller acts, so nothing is changed: {error}"
        if book.handed_back():
            self.presence.remove()
            if book.acts(INTENT, DONE):
                controller.outdated = True
                release(controller.manager, book, snapshot)

    def _gives_way(self, snapshot: Snapshot) -> str:
        """Why nothing is changed while another controller has changed the same queue; "": none has."""
        book = self.controller.journal
        found = rivals(snapshot, book.id)
        if not found.jobs:
            if why := self.presence.rival():
                book.note(STOP, why)
            return why
        if not found.yields(book.id):
            return f"{found}; waiting until that one has given way"
        why = (
            f"{found}. One cluster has one controller: end one of the two; if that one is gone for good, give its jobs"
            " back with 'shunter slurm release --from-marks'; then 'shunter slurm resume'"
        )
        book.note(STOP, why)
        return why


class WatchdogKeeper:
    """Keeps a watchdog while a lever is on that could strand a job; without one, these levers are put away."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        if controller.levers & set(STRANDING):
            ensure(controller.journal.path, controller.manager)

    def seen(self, result: RoundResult) -> None:
        """A round is over."""
        controller, book = self.controller, self.controller.journal
        if not controller.levers & set(STRANDING):
            return
        try:
            ensure(book.path, controller.manager)
        except LiveError as problem:
            controller.levers -= set(STRANDING)
            book.note("watchdog", f"{problem}; {', '.join(STRANDING)} are put away")
            release(controller.manager, book, result.round.snapshot, STRANDING)
