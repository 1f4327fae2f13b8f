"""Changes of policy in the journal: written before the new policy decides anything, with the old one and the reason.

A text that comes from a journal is only text: whoever makes a policy of it must check that it may.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass

from shunter.errors import LiveError
from shunter.live.journal import ABANDONED, BEGIN, DONE, GUARD, INTENT, STOP, HandedBackError, Journal
from shunter.live.journal_file import damaged

SWITCH = "switch"  # the kind of event
LONGEST_POLICY = 1000  # characters
COLUMNS = "id, event, at, before, policy, why, evidence, state"
KINDS = (int, int, float, str, str, str, str, str)


@dataclass(frozen=True)
class LoggedSwitch:
    """A change of policy."""

    id: int
    event: int  # of the journal, which says what came before and after
    at: float  # seconds since 1970
    before: str  # "": a controller began with the new policy
    policy: str
    why: str
    evidence: str
    state: str  # intent: the new policy has not finished a round yet; done; abandoned: the old one stayed


class SwitchLog:
    """The changes of policy of a journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def begin(self, described: str, policy: str, why: str, *, unproven: bool = False) -> int:
        """Note that a controller begins, and with which policy, in one step; ``unproven``: it may never decide."""
        with self.journal.writing() as file:
            became = f"case when policy = ? then '{DONE}' else '{ABANDONED}' end"  # of one that was killed meanwhile
            file.execute(f"update switches set state = {became} where state = '{INTENT}'", (policy,))
            made = file.execute(
                "insert into events (at, kind, text) values (?, ?, ?)", (time.time(), BEGIN, described)
            ).lastrowid
            return _insert(file, int(made or 0), ("", policy, why, ""), INTENT if unproven else DONE)

    def intend(self, before: str, policy: str, why: str, evidence: str, *, back: bool = False) -> int:
        """Note a switch before it is made; refused once the jobs are handed back, unless it leads ``back``."""
        text = f"{before} -> {policy}: {why}" + (f" ({evidence})" if evidence else "")
        with self.journal.writing() as file:
            if not back and (handed := self.journal.handed_back()):
                raise HandedBackError(f"the policy stays: {handed}")
            made = file.execute(
                "insert into events (at, kind, text) values (?, ?, ?)", (time.time(), SWITCH, text)
            ).lastrowid
            return _insert(file, int(made or 0), (before, policy, why, evidence), INTENT)

    def settle(self, number: int, state: str) -> None:
        """Note what has become of a switch."""
        with self.journal.writing() as file:
            file.execute("update switches set state = ? where id = ?", (state, number))

    def all(self) -> list[LoggedSwitch]:
        """All of them, oldest first; a journal of an older release has none."""
        if not self.journal.has("switches"):
            return []
        found = [
            LoggedSwitch(*row) for row in self.journal.rows(f"select {COLUMNS} from switches order by id", (), KINDS)
        ]
        for each in found:
            if max(len(each.before), len(each.policy)) > LONGEST_POLICY:
                raise damaged(self.journal.path, f"no policy is ever as long: '{each.policy[:40]}...'")
            if each.state not in (INTENT, DONE, ABANDONED):
                raise damaged(self.journal.path, f"no switch is ever '{each.state[:20]}'")
        return found

    def in_force(self) -> str:
        """The policy that a source chose last; "": none did, the jobs were handed back since, or another began."""
        made = [each for each in self.all() if each.state != ABANDONED]
        if not made:
            return ""
        later = self.journal.rows(
            f"select 1 from events where id > ? and kind in ('{BEGIN}', '{GUARD}', '{STOP}') limit 1", (made[-1].event,)
        )
        return "" if later else made[-1].policy

    def open_at_last(self) -> bool:
        """Whether a controller was killed in the first round of the last switch."""
        return [each.state for each in self.all()][-1:] == [INTENT]

    def killed_again(self) -> bool:
        """Whether the next controller was killed in its first round, too."""
        return [(each.state, each.before) for each in self.all()][-1:] == [(INTENT, "")]

    def last_at(self) -> float | None:
        """When the policy was last switched, in seconds since 1970; None: never."""
        found = [each.at for each in self.all() if each.before and each.state != ABANDONED]
        return found[-1] if found else None


def _insert(file: sqlite3.Connection, event: int, texts: tuple[str, str, str, str], state: str) -> int:
    """A new switch; ``texts`` are the old policy, the new one, the reason and the evidence."""
    if (longest := max(map(len, texts[:2]))) > LONGEST_POLICY:
        raise LiveError(
            f"a policy must have at most {LONGEST_POLICY:,} characters, got {longest:,}; leave settings out"
        )
    made = file.execute(
        "insert into switches (event, at, before, policy, why, evidence, state) values (?, ?, ?, ?, ?, ?, ?)",
        (event, time.time(), *texts, state),
    )
    return int(made.lastrowid or 0)
