"""What the controller does, written down before it is done, in a file that survives its being killed.

An act is an *intent* first; when Slurm has answered it is *done* or *failed*.  After a crash an intent is looked at:
it turns out to be done, or it is *abandoned*; it is never simply done again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shunter.errors import SlurmError
from shunter.slurm.levers import Order

INTENT, DONE, FAILED, ABANDONED, UNDONE = "intent", "done", "failed", "abandoned", "undone"
VERSION = 1
SCHEMA = """
create table if not exists acts (
    id integer primary key, at real not null, round integer not null, handle text not null, lever text not null,
    value text not null, before text not null, why text not null, state text not null, ended real, note text not null
);
create index if not exists acts_by_state on acts (state);
create index if not exists acts_by_handle on acts (handle, lever);
create table if not exists hands_off (handle text primary key, at real not null, why text not null);
create table if not exists life (only integer primary key check (only = 1), pid integer, at real, interval real);
create table if not exists events (id integer primary key, at real not null, kind text not null, text text not null);
"""


@dataclass(frozen=True)
class Act:
    """One act of the controller."""

    id: int
    at: float
    round: int
    order: Order
    state: str
    note: str


class Journal:
    """The file.  One controller writes at a time; a watchdog and people may read, and undo."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=10, isolation_level=None)
            self._file.execute("pragma journal_mode = wal")
            self._file.execute("pragma synchronous = full")
            version = self._file.execute("pragma user_version").fetchone()[0]
            if version not in (0, VERSION):
                raise SlurmError(f"{path}: is a journal of version {version}, and this is {VERSION}; use another file")
            if version != VERSION:  # else one that a hung controller has locked could not be opened
                self._file.executescript(f"{SCHEMA} pragma user_version = {VERSION};")
        except (sqlite3.Error, OSError) as error:
            raise SlurmError(f"{path}: must be a journal or a place for one: {error}") from None

    def close(self) -> None:
        """Done with it."""
        self._file.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._file.execute("begin immediate")
        try:
            yield self._file
        except BaseException:
            self._file.execute("rollback")
            raise
        self._file.execute("commit")

    # -- acts

    def intend(self, number: int, orders: Iterable[Order]) -> list[Act]:
        """Write down what is going to be done."""
        now, found = time.time(), []
        with self._writing() as file:
            for order in orders:
                row = (now, number, order.handle, order.lever, order.value, order.before, order.why, INTENT, "")
                made = file.execute(
                    "insert into acts (at, round, handle, lever, value, before, why, state, note)"
                    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
                found.append(Act(int(made.lastrowid or 0), now, number, order, INTENT, ""))
        return found

    def settle(self, act: Act, state: str, note: str = "") -> None:
        """Write down what became of it; what it replaces is no longer in force."""
        order = act.order
        with self._writing() as file:
            if state == DONE:
                file.execute(
                    "update acts set state = ? where handle = ? and lever = ? and state = ? and id < ?",
                    (UNDONE, order.handle, order.lever, DONE, act.id),
                )
            file.execute(
                "update acts set state = ?, ended = ?, note = ? where id = ?", (state, time.time(), note, act.id)
            )

    def acts(self, *states: str) -> list[Act]:
        """The acts in these states, oldest first; all of them if none is named."""
        which = f" where state in ({','.join('?' * len(states))})" if states else ""
        rows = self._file.execute(
            f"select id, at, round, handle, lever, value, before, why, state, note from acts{which} order by id", states
        )
        return [Act(row[0], row[1], row[2], Order(*row[3:8]), row[8], row[9]) for row in rows]

    def in_force(self) -> dict[tuple[str, str], Act]:
        """What was done and not undone, by job and lever."""
        return {(act.order.handle, act.order.lever): act for act in self.acts(DONE) if act.order.lever != "requeue"}

    def original(self, order: Order) -> Order:
        """The same order with what was there before the first of ours."""
        row = self._file.execute(
            "select before from acts where handle = ? and lever = ? and state in (?, ?) order by id limit 1",
            (order.handle, order.lever, DONE, UNDONE),
        ).fetchone()
        return order if row is None else Order(order.handle, order.lever, order.value, row[0], order.why)

    def forget(self, days: float) -> int:
        """Drop acts and events that are over and older than this; returns how many."""
        before = time.time() - days * 86_400
        with self._writing() as file:
            old = "state not in ('intent', 'done') and at < ?"
            gone = file.execute(f"delete from acts where {old}", (before,)).rowcount
            return int(gone + file.execute("delete from events where at < ?", (before,)).rowcount)

    # -- jobs that somebody else has taken in hand

    def leave_alone(self, handle: str, why: str) -> None:
        """Never touch a job again."""
        with self._writing() as file:
            file.execute("insert or ignore into hands_off values (?, ?, ?)", (handle, time.time(), why))

    def left_alone(self) -> dict[str, str]:
        """The jobs that are not to be touched, and why."""
        return dict(self._file.execute("select handle, why from hands_off").fetchall())

    # -- signs of life, for the watchdog

    def live(self, pid: int, interval_s: float) -> None:
        """The controller lives; it will say so again within the interval."""
        with self._writing() as file:
            file.execute("insert or replace into life values (1, ?, ?, ?)", (pid, time.time(), interval_s))

    def life(self) -> tuple[int, float, float] | None:
        """The controller's process, when it last said that it lives, and its interval; None: there was never one."""
        found: tuple[int, float, float] | None = self._file.execute("select pid, at, interval from life").fetchone()
        return found

    # -- what else there is to say

    def tell(self, kind: str, text: str) -> None:
        """Note an event for the audit log."""
        with self._writing() as file:
            file.execute("insert into events (at, kind, text) values (?, ?, ?)", (time.time(), kind, text))

    def events(self, after: float = 0.0) -> list[tuple[float, str, str]]:
        """All of them since a time, oldest first."""
        return list(self._file.execute("select at, kind, text from events where at > ? order by id", (after,)))

    def last_event(self, *kinds: str) -> tuple[float, str, str] | None:
        """The last one of these kinds."""
        found: tuple[float, str, str] | None = self._file.execute(
            f"select at, kind, text from events where kind in ({','.join('?' * len(kinds))}) order by id desc limit 1",
            kinds,
        ).fetchone()
        return found
