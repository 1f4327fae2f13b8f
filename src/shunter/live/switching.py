"""The policy in force, and its change in the middle of a controller's life.

Intent first: a switch is in the journal before the new policy decides anything.  The new one takes over the memory of
the old one.  A controller that was killed in between goes on with the new policy, because it may have changed jobs.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass

from shunter.capabilities import Holds, capability
from shunter.errors import PolicyError, ShunterError
from shunter.live.backend import LiveBackend, Round
from shunter.live.controller import Controller, Mode
from shunter.live.journal import ABANDONED, DONE
from shunter.live.journal_file import JournalError
from shunter.live.sources import PolicyChoice, PolicySource
from shunter.live.switch_log import SwitchLog
from shunter.protocols import Memory, Policy
from shunter.registry import text

FAILED = "its first decision failed"
REST_S = 24 * 3600  # until a policy whose first decision failed may be tried again
BAD_DATA = (ArithmeticError, LookupError, MemoryError, ValueError)  # what a job's odd request may lead to


@dataclass(frozen=True)
class PolicySwitch:
    """A change of policy, or one that was refused."""

    before: str
    policy: str
    why: str
    evidence: str = ""
    refused: str = ""  # why the old policy stays; "": it does not


def begun(policy: Policy, backend: LiveBackend) -> Memory:
    """A policy's memory at its first round; refused if it needs what a live cluster does not know, or can't express."""
    _check(policy, backend)
    return policy.start(backend.cluster)


def _check(policy: Policy, backend: LiveBackend) -> None:
    backend.prepare(policy.needs)
    if capability(Holds, policy) is not None:
        raise PolicyError(
            "this policy may let a job wait although there is room for it, but a live cluster takes only an order"
            " and would start the job; run the policy that it wraps"
        )


def first_choice(source: PolicySource, controller: Controller) -> PolicyChoice:
    """The policy of the first round: what the journal has in force, if the source agrees to it."""
    if not source.name or controller.mode is not Mode.ACT:
        return source.begin("", None)
    log = SwitchLog(controller.journal)
    return source.begin("" if log.killed_again() else log.in_force(), log.last_at())


class PolicyInForce:
    """The policy of a controller, its memory, and the source that may change it."""

    def __init__(self, source: PolicySource, backend: LiveBackend, controller: Controller) -> None:
        self.source, self.backend, self.controller = source, backend, controller
        first = first_choice(source, controller)
        self.policy, self._why = first.policy, first.why
        self.memory = begun(self.policy, backend)
        self._unproven = self._noted and self._log.open_at_last()  # whether it may never have decided anything
        self._way_back: PolicySwitch | None = None  # from a policy that failed after a restart, until it is noted
        self._open, self._outcome = 0, DONE  # the switch whose first round is not over, and what becomes of it then
        self._before: tuple[Policy, Memory] | None = None  # in the round of a switch: what was in force before
        self._failed: dict[str, float] = {}  # policies whose first decision failed, and when (s)
        self._refused = ""

    @property
    def text(self) -> str:
        """The policy as text."""
        return text(self.policy)

    @property
    def _log(self) -> SwitchLog:
        return SwitchLog(self.controller.journal)

    @property
    def _noted(self) -> bool:
        """Whether switches are written down: not by one that only watches, nor of a policy that never changes."""
        return bool(self.source.name) and self.controller.mode is Mode.ACT

    def note_begin(self, kind: str, described: str) -> None:
        """Note in the journal that a controller begins."""
        if self._noted:
            begun = self._log.begin(described, self.text, self._why, unproven=self._unproven)
            self._open = begun if self._unproven else 0
        else:
            self.controller.note(kind, described)

    def start_again(self) -> None:
        """The machines are others than before: the policy goes on with what it remembers."""
        self.memory = self.policy.start(self.backend.cluster, self.memory)

    def consider(self, current: Round) -> PolicySwitch | None:
        """Switch if the source wants to, and nothing speaks against it; None: the policy stays."""
        self._before = None
        controller, choice = self.controller, self.source.choose(current, self.text)
        back = bool(controller.paused)
        if back:
            choice = self.source.hand_back(controller.paused)
        if choice is None or text(choice.policy) == self.text:
            return None
        wanted = PolicySwitch(self.text, text(choice.policy), choice.why, choice.evidence)
        if controller.doubt and not back:
            return self._refuse(wanted, f"the guard holds it back: {controller.doubt}")
        if time.monotonic() - self._failed.get(wanted.policy, -math.inf) < REST_S and not back:
            return self._refuse(wanted, FAILED)
        try:
            self._take(choice, wanted, back)
        except ShunterError as problem:
            return self._refuse(wanted, str(problem))
        except BAD_DATA as problem:
            return self._refuse(wanted, f"it could not start: {type(problem).__name__}: {problem}")
        self._refused = ""
        return wanted

    def _take(self, choice: PolicyChoice, wanted: PolicySwitch, back: bool) -> None:
        _check(choice.policy, self.backend)
        memory = choice.policy.start(self.backend.cluster, self.memory)  # it decides nothing yet
        self._settle()  # an undone switch that could not be noted: it must not be forgotten
        if self._noted:
            self._open = self._log.intend(wanted.before, wanted.policy, wanted.why, wanted.evidence, back=back)
            self._outcome = DONE
        self._before = None if back else (self.policy, self.memory)
        self.policy, self.memory = choice.policy, memory

    def undo(self, problem: Exception) -> PolicySwitch | None:
        """A decision failed: if it was the first one of a policy, return to what was in force before; None: it was not.

        The first one after a restart counts where an earlier controller was killed before the policy had decided.
        """
        switched = self._before is not None
        before = self._before if switched else self._baseline() if self._unproven else None
        if before is None:
            return None
        failing, why = self.text, f"{FAILED}: {type(problem).__name__}"
        self._failed[failing] = time.monotonic()
        (self.policy, self.memory), self._before, self._unproven = before, None, False
        back = PolicySwitch(failing, self.text, why)
        if switched:
            self._outcome = ABANDONED
        else:
            self._way_back = back
        with suppress(JournalError):
            self._settle()  # if it can't be written now, a later round does
        return back

    def _baseline(self) -> tuple[Policy, Memory] | None:
        """What a controller returns to if its first policy can't decide; None: there is nothing else."""
        choice = self.source.hand_back(FAILED)
        if choice is None or text(choice.policy) == self.text:
            return None
        try:
            return choice.policy, begun(choice.policy, self.backend)
        except (ShunterError, *BAD_DATA):
            return None

    def _refuse(self, wanted: PolicySwitch, why: str) -> PolicySwitch | None:
        """The old policy stays, which is reported once."""
        if why == self._refused:
            return None
        self._refused = why
        return PolicySwitch(wanted.before, wanted.policy, wanted.why, wanted.evidence, why)

    def round_over(self) -> None:
        """A round was finished: a switch is done, or abandoned."""
        self._unproven = False
        self._settle()

    def _settle(self) -> None:
        """Write down what has become of the last switch, and the way back from a policy that failed."""
        self._close()
        if self._way_back is not None:
            back, self._outcome = self._way_back, DONE
            self._open = self._log.intend(back.before, back.policy, back.why, "", back=True)
            self._way_back = None
            self._close()

    def _close(self) -> None:
        if self._open:
            self._log.settle(self._open, self._outcome)
            self._open = 0
