"""What the controller does, written down before it is done, in a file that survives its being killed.

An act is an *intent* first; when the manager has answered, it is *done* or *failed*.  After a crash an intent
is checked: it turns out to be done, or it is *abandoned*; it is never simply done again.
"""

from __future__ import annotations

import re
import socket
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from shunter.errors import LiveError
from shunter.live.journal_copy import write_copy
from shunter.live.journal_file import JournalError, ReplacedError, damaged, opening_failed, readable, which, writable
from shunter.live.levers import STOPPING, Order

INTENT, DONE, FAILED, ABANDONED, UNDONE = "intent", "done", "failed", "abandoned", "undone"
LANDING_S = 5.0  # once the manager answers, a command that was under way is done within so long, or never
UNMARKED = "unmarked"  # the note of an act that left no mark on its job
BEGIN, END = "begin", "end"  # events: of a controller
GUARD, STOP, RESUME = "guard", "stop", "resume"  # events: what handed the jobs back, and that they were taken again
VERSION = 4
IDENTITY = "create table if not exists identity (only integer primary key check (only = 1), id text not null)"
SCHEMA = f"""
create table if not exists acts (
    id integer primary key, at real not null, round integer not null, handle text not null, lever text not null,
    value text not null, before text not null, why text not null, state text not null, ended real, note text not null
);
create index if not exists acts_by_state on acts (state);
create index if not exists acts_by_handle on acts (handle, lever);
create table if not exists hands_off (handle text primary key, at real not null, why text not null);
create table if not exists life (only integer primary key check (only = 1), pid integer, at real, interval real);
create table if not exists events (id integer primary key, at real not null, kind text not null, text text not null);
{IDENTITY};
create table if not exists place (only integer primary key check (only = 1), host text, inode integer);
create table if not exists waits (
    at real not null, jobs integer not null, real_s real not null, shadow_s real not null,
    real_p90_s real not null, shadow_p90_s real not null
);
create table if not exists switches (
    id integer primary key, event integer not null, at real not null, before text not null, policy text not null,
    why text not null, evidence text not null, state text not null
);
insert or ignore into identity values (1, lower(hex(randomblob(4))));
"""
OBJECTS = "select sql from sqlite_master where sql is not null"
EVENT = (float, str, str)
ALL = -1  # rows of a question, as SQLite counts them
COUNTED = {  # by lever: its value and what a job had before, where we count with them
    "nice": re.compile(r"-?[0-9]{1,12} -?[0-9]{1,12}"),
    "priority": re.compile(r"[0-9:-]{1,30} [0-9]{1,12}:-?[0-9]{1,12}"),
    "requeue": re.compile(r" [0-9]{1,12}"),
    "signal": re.compile(r"[0-9]{1,12} [0-9]{1,12}"),
}
MEMORY = Path(":memory:")
LATEST = 2.0**37  # seconds since 1970
NO_JOURNAL = "00000000"  # in marks that are only shown: stands for the id of a journal that is not made yet


@dataclass(frozen=True)
class WaitsEntry:
    """How long jobs waited, and how long they would have waited without the controller, as its guard found then."""

    at: float  # seconds since 1970
    jobs: int
    real_s: float  # mean
    shadow_s: float
    real_p90_s: float
    shadow_p90_s: float


@dataclass(frozen=True)
class Act:
    """One act of the controller."""

    id: int
    at: float
    round: int
    order: Order
    state: str
    note: str


def _fits(value: object, kind: type) -> bool:
    return isinstance(value, kind) and (kind is not float or 0.0 <= value < LATEST)  # type: ignore[operator]


@lru_cache(maxsize=1)
def _objects() -> frozenset[str]:
    """How everything in a journal is made, in SQL."""
    with closing(sqlite3.connect(MEMORY)) as file:
        file.executescript(SCHEMA)
        return frozenset(sql for (sql,) in file.execute(OBJECTS))


class HandedBackError(JournalError):
    """The jobs were handed back to the manager: nothing may be changed until they are taken again."""


class Journal:
    """The file.  One controller writes at a time; a watchdog and people may read, and undo.

    ``id``, 8 hex digits, is drawn when the file is made: the marks on jobs say by it which journal knows more.
    """

    def __init__(self, path: Path, file: sqlite3.Connection | None = None) -> None:
        self.path = path
        self._file = writable(path) if file is None else file
        self._which = which(path)
        try:
            self._check_objects()
            old, reads = self._version() != VERSION, self._file.execute("pragma query_only").fetchone()[0]
            if old and not reads:  # else one that a hung controller has locked could not be opened
                self._file.executescript(f"begin immediate; {SCHEMA} pragma user_version = {VERSION}; commit;")
            self.id = self._identity() if self.has("identity") else ""
        except sqlite3.Error as error:
            self.close()
            raise opening_failed(path, error) from None

    @classmethod
    def reading(cls, path: Path) -> Self:
        """The same for an account that may only read it, and need not be able to write its folder."""
        return cls(path, readable(path))

    @classmethod
    def in_memory(cls, name: str = "") -> Self:
        """An empty one that is gone with its process; with an id, in the place of one that is lost."""
        file = sqlite3.connect(MEMORY, isolation_level=None)
        file.execute(IDENTITY)
        file.execute("insert into identity values (1, ?)", (name or NO_JOURNAL,))
        return cls(MEMORY, file)

    def _check_objects(self) -> None:
        """Refuse a file with tables, views or triggers that are not a journal's: some never come to an end."""
        found = {sql for (sql,) in self._file.execute(OBJECTS)} - _objects()
        if found:
            self.close()
            raise damaged(self.path, f"a journal has no '{' '.join(min(found).split())[:60]}'")

    def _version(self) -> int:
        found = int(self._file.execute("pragma user_version").fetchone()[0])
        if found > VERSION:
            self.close()
            raise LiveError(
                f"{self.path}: is a journal of version {found}, and this release knows versions up to {VERSION};"
                " use the newer release, or name another file (--journal)"
            )
        return found

    def has(self, table: str) -> bool:
        """Whether there is such a table; a file of an older release that is only read may lack some."""
        return bool(self._file.execute("select 1 from sqlite_master where name = ?", (table,)).fetchone())

    def _identity(self) -> str:
        found = self._file.execute("select id from identity").fetchone()
        if found is None:
            raise damaged(self.path, "it has no id")
        return str(found[0])

    def close(self) -> None:
        """Done with it."""
        self._file.close()

    def check(self) -> None:
        """Refuse a damaged one before anything depends on it."""
        found = self.rows("pragma quick_check(1)")[0][0]
        if found != "ok":
            raise damaged(self.path, found)

    def move_in(self) -> None:
        """Make this file the journal, wherever it was before."""
        with self.writing() as file:
            file.execute("insert or replace into place values (1, ?, ?)", self._place())

    def check_copied(self) -> None:
        """Refuse a copy of a journal: by their id two controllers with copies would take each other for themselves."""
        found = self.rows("select host, inode from place")
        if not found:
            self.move_in()
        elif found[0] != self._place():
            raise LiveError(
                f"{self.path}: is a copy of a journal, or was moved or restored; if no controller uses the other one,"
                " go on with 'shunter slurm resume'"
            )

    def _place(self) -> tuple[str, int]:
        return socket.gethostname(), self._which[1] if self._which else 0

    def in_place(self) -> bool:
        """Whether its name still means the file that was opened."""
        return which(self.path) == self._which

    def confirm(self) -> None:
        """Refuse to go on with a file that is no longer the one that was opened, or has another journal in it."""
        if self.rows("select id from identity") != [(self.id,)]:
            raise self._replaced()

    def _replaced(self) -> ReplacedError:
        return ReplacedError(
            f"{self.path}: the journal was removed or replaced while it was in use, so nothing is changed any more; put"
            " it back, or give the jobs back with 'shunter slurm release --from-marks' and start again"
        )

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it is written, or nothing."""
        try:
            self._file.execute("begin immediate")
            self.confirm()
            yield self._file
            self._file.execute("commit")
        except sqlite3.OperationalError as error:
            raise JournalError(f"{self.path}: the journal can't be written: {error}") from error
        except sqlite3.Error as error:
            raise damaged(self.path, error) from error
        finally:
            if self._file.in_transaction:  # else nothing could ever be written again
                with suppress(sqlite3.Error):
                    self._file.execute("rollback")

    def rows(self, question: str, values: Iterable[object] = (), kinds: tuple[type, ...] = ()) -> list[Any]:
        """The answer; with ``kinds`` each value has its type, which SQLite does not see to: others may have written."""
        if not self.in_place():  # SQLite would mix the two
            raise self._replaced()
        try:
            rows = self._file.execute(question, tuple(values)).fetchall()
            for row in rows if kinds else ():
                if not all(_fits(value, kind) for value, kind in zip(row, kinds, strict=True)):
                    raise damaged(self.path, f"no such values are ever written: {repr(row)[:80]}")
            return rows
        except sqlite3.OperationalError as error:
            raise JournalError(f"{self.path}: the journal can't be read: {error}") from error
        except sqlite3.Error as error:
            raise damaged(self.path, error) from error

    # -- acts

    def intend(self, number: int, orders: Iterable[Order]) -> list[Act]:
        """Write down what is going to be done."""
        now, found, orders = time.time(), [], list(orders)
        with self.writing() as file:
            if orders and (why := self.handed_back()):  # in the same transaction: no hand-back in between
                raise HandedBackError(f"nothing is changed: {why}")
            for order in orders:
                row = (now, number, order.handle, order.lever, order.value, order.before, order.why, INTENT, "")
                made = file.execute(
                    "insert into acts (at, round, handle, lever, value, before, why, state, note)"
                    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
                found.append(Act(int(made.lastrowid or 0), now, number, order, INTENT, ""))
        if found:
            self.keep_copy()
        return found

    def keep_copy(self) -> None:
        """Write what is in force, or will be in a moment, to a second file."""
        if self.path != MEMORY:
            write_copy(self.path, self.id, (act.order for act in self.acts(INTENT, DONE)))

    def adopt(self, orders: Iterable[Order], note: str = "") -> None:
        """Write down what turns out to be done although the journal does not say so."""
        with self.writing() as file:
            for order in orders:
                named = (order.handle, order.lever)
                file.execute(
                    "update acts set state = ? where handle = ? and lever = ? and state = ?", (UNDONE, *named, DONE)
                )
                file.execute(
                    "insert into acts (at, round, handle, lever, value, before, why, state, ended, note)"
                    " values (?, 0, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (time.time(), *named, order.value, order.before, order.why, DONE, time.time(), note),
                )

    def settle(self, act: Act, state: str, note: str = "") -> None:
        """Record its result; the act that it replaces is no longer in force."""
        order = act.order
        with self.writing() as file:
            if state == DONE:
                file.execute(
                    "update acts set state = ? where handle = ? and lever = ? and state = ? and id < ?",
                    (UNDONE, order.handle, order.lever, DONE, act.id),
                )
            file.execute(
                "update acts set state = ?, ended = ?, note = ? where id = ?", (state, time.time(), note, act.id)
            )

    def acts(self, *states: str, lever: str = "", most: int = ALL) -> list[Act]:
        """The acts in these states, oldest first; all of them if none is named; the last ones if ``most`` is set."""
        asked = [f"state in ({','.join('?' * len(states))})"] if states else []
        asked += ["lever = ?"] if lever else []
        which = f" where {' and '.join(asked)}" if asked else ""
        columns = "id, at, round, handle, lever, value, before, why, state, note"
        rows = self.rows(
            f"select {columns} from acts{which} order by id desc limit ?",
            (*states, *((lever,) if lever else ()), most),
            (int, float, int, *(str,) * 7),
        )
        for row in rows:
            if row[4] in COUNTED and not COUNTED[row[4]].fullmatch(f"{row[5]} {row[6]}"):
                raise damaged(self.path, f"no such values are ever written: {repr(row)[:80]}")
        return [Act(row[0], row[1], row[2], Order(*row[3:8]), row[8], row[9]) for row in reversed(rows)]

    def in_force(self) -> dict[tuple[str, str], Act]:
        """What was done and not undone, by job and lever."""
        return {(act.order.handle, act.order.lever): act for act in self.acts(DONE) if act.order.lever not in STOPPING}

    def stops_since(self, at: float) -> int:
        """How many jobs were stopped since then, or may have been: intents count, too."""
        over = (FAILED, ABANDONED)
        rows = self.rows(
            "select count(*) from acts where lever in (?, ?) and at >= ? and state not in (?, ?)",
            (*STOPPING, at, *over),
        )
        return int(rows[0][0])

    def forget(self, days: float, present: Collection[str] = ()) -> int:
        """Drop what is over and older than this; returns how much.

        Of a job that is present, or of which something is in force, all is kept: what it had before our first act is
        needed.  So are what a guard said last, the last beginning, the last switch from one policy to another, and the
        last event: ids must go on growing, as they say what came later.
        """
        before = time.time() - days * 86_400
        with self.writing() as file:
            file.execute("create temp table if not exists here (handle text primary key)")
            file.execute("delete from here")
            file.executemany("insert or ignore into here values (?)", ((handle,) for handle in present))
            alive = "select handle from here union select handle from acts where state in ('intent', 'done')"
            said = f"select max(id) from events where kind in ('{GUARD}', '{STOP}', '{RESUME}')"
            began = f"select max(id) from events where kind = '{BEGIN}'"
            event, switch = "select max(id) from events", "select max(id) from switches"
            made = f"{switch} where state != '{ABANDONED}'"
            switches = f"{switch} union {made} union {made} and before != ''"
            return sum(
                file.execute(f"delete from {where}", (before,)).rowcount
                for where in (
                    f"acts where at < ? and handle not in ({alive})",
                    "hands_off where at < ? and handle not in (select handle from here)",
                    f"events where at < ? and id is not ({said}) and id is not ({began}) and id is not ({event})",
                    f"switches where at < ? and id not in ({switches})",
                    "waits where at < ?",
                )
            )

    # -- jobs that someone else has changed

    def leave_alone(self, handle: str, why: str) -> None:
        """Never touch a job again."""
        with self.writing() as file:
            file.execute("insert or ignore into hands_off values (?, ?, ?)", (handle, time.time(), why))

    def left_alone(self) -> dict[str, str]:
        """The jobs that are not to be touched, and why."""
        return {handle: why for handle, _, why in self.hands_off()}

    def hands_off(self, most: int = ALL) -> list[tuple[str, float, str]]:
        """The same with the time since when, oldest first."""
        question = "select handle, at, why from hands_off order by at desc, rowid desc limit ?"
        return self.rows(question, (most,), (str, float, str))[::-1]

    def handed_back(self) -> str:
        """Why the jobs are the manager's again, as the guard or an operator said; "": they are not."""
        last = self.last_event(GUARD, STOP, RESUME)
        return last[2] if last is not None and last[1] != RESUME else ""

    # -- what the guard compares

    def note_waits(self, entry: WaitsEntry) -> None:
        """Note a comparison of waits."""
        with self.writing() as file:
            file.execute("insert into waits values (?, ?, ?, ?, ?, ?)", astuple(entry))

    def waits(self, since: float = 0.0) -> list[WaitsEntry]:
        """The comparisons since then, oldest first."""
        if not self.has("waits"):
            return []
        question = "select at, jobs, real_s, shadow_s, real_p90_s, shadow_p90_s from waits where at >= ? order by at"
        return [WaitsEntry(*row) for row in self.rows(question, (since,), (float, int, *(float,) * 4))]

    # -- signs of life, for the watchdog

    def live(self, pid: int, interval_s: float) -> None:
        """The controller lives; it will say so again within the interval."""
        with self.writing() as file:
            file.execute("insert or replace into life values (1, ?, ?, ?)", (pid, time.time(), interval_s))

    def life(self) -> tuple[int, float, float] | None:
        """The controller's process, when it last said that it lives, and its interval; None: there was never one."""
        return next(iter(self.rows("select pid, at, interval from life", kinds=(int, float, float))), None)

    # -- what else there is to say

    def note(self, kind: str, text: str) -> None:
        """Note an event for the audit log."""
        with self.writing() as file:
            file.execute("insert into events (at, kind, text) values (?, ?, ?)", (time.time(), kind, text))

    def events(self, after: float = 0.0, most: int = ALL) -> list[tuple[float, str, str]]:
        """All of them since a time, or the last ones, oldest first."""
        question = "select at, kind, text from events where at > ? order by id desc limit ?"
        return self.rows(question, (after, most), EVENT)[::-1]

    def last_event(self, *kinds: str) -> tuple[float, str, str] | None:
        """The last one of these kinds."""
        rows = self.rows(
            f"select at, kind, text from events where kind in ({','.join('?' * len(kinds))}) order by id desc limit 1",
            kinds,
            EVENT,
        )
        return rows[0] if rows else None
