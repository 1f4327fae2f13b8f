"""Which jobs were moved, when, and why: the journal as a list, and an append-only file of JSON lines."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from shunter.errors import LiveError
from shunter.live.controller import RoundResult
from shunter.live.journal import ALL, Journal
from shunter.live.levers import Order
from shunter.texts import UNIT_S


@dataclass(frozen=True)
class Entry:
    """One line of the audit: a change to a job, or an event of the controller."""

    at: float  # seconds since 1970
    job: str  # "": no job's
    kind: str  # the lever, or the kind of event
    before: str
    value: str
    state: str
    why: str

    @property
    def change(self) -> str:
        """From what to what."""
        return f"{self.before or '-'} -> {self.value or '-'}" if self.before or self.value else ""


def entries(journal: Journal, job: str = "", since: float = 0.0, most: int = ALL) -> list[Entry]:
    """What the journal says, oldest first; of one job if one is named, from a moment on, and at least the last ones."""
    found = [
        Entry(
            act.at, act.order.handle, act.order.lever, act.order.before, act.order.value, act.state,
            "; ".join(filter(None, (act.order.why, act.note))),
        )
        for act in journal.acts(most=most)
        if job in ("", act.order.handle)
    ]  # fmt: skip
    found += [
        Entry(at, handle, "respected", "", "", "left alone", why)
        for handle, at, why in journal.hands_off(most)
        if job in ("", handle)
    ]
    if not job:
        found += [Entry(at, "", kind, "", "", "", text) for at, kind, text in journal.events(most=most)]
    return sorted((entry for entry in found if entry.at >= since), key=lambda entry: entry.at)


def since_when(text: str, now: float) -> float:
    """``30m``, ``2h``, ``1d`` ago, or a date, as seconds since 1970."""
    ago = re.fullmatch(r"(\d{1,9})([smhd])", text.strip())
    if ago:
        return now - int(ago[1]) * UNIT_S[ago[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise LiveError(f"--since must look like 30m, 2h, 1d or 2026-01-31T12:00, got '{text}'") from None


def moment(at: float) -> str:
    """A time as people here write it, with its zone."""
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")


# No link: in a folder of others it could lead to any file of this account. No waiting: a pipe may have no reader.
FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK


class AuditLog:
    """A file to which every change and every event adds a line, and from which nothing is ever taken."""

    def __init__(self, path: Path, journal: Path) -> None:
        try:
            found = os.open(path, FLAGS, 0o640)
        except OSError as error:
            raise LiveError(f"{path}: the audit log can't be written: {error.strerror}; choose another place") from None
        self._path, self._file = path, os.fdopen(found, "a")
        if not stat.S_ISREG(os.fstat(found).st_mode):
            self._file.close()
            raise LiveError(f"{path}: the audit log must be a file, not a pipe or a device; choose another place")
        self._journal = journal
        self._until = time.time()  # events until then

    def close(self) -> None:
        """Add the last events."""
        self._add_events()
        self._file.close()

    def seen(self, result: RoundResult) -> None:
        """Add the results of a round."""
        self._add_events()
        current, refused = result.round, dict(result.failed)
        users = {job.handle: (job.user, job.partition) for job in current.snapshot.jobs if job.state == "PENDING"}
        for order in result.orders:
            state = "failed" if order in refused else "done" if result.done else "proposed"
            why = "; ".join(filter(None, (order.why, refused.get(order, ""))))
            user, partition = users.get(order.handle, ("", ""))
            self._write(_change(order, state, why), round=current.number, user=user, partition=partition)
        for handle, why in result.respected.items():
            user, partition = users.get(handle, ("", ""))
            entry = Entry(time.time(), handle, "respected", "", "", "left alone", why)
            self._write(entry, round=current.number, user=user, partition=partition)

    def _add_events(self) -> None:
        if not self._journal.is_file():
            return  # a controller that only watches has none
        with closing(Journal.reading(self._journal)) as book:
            for at, kind, text in book.events(after=self._until):
                self._until = at  # also if the disk is full: the line is kept, and written later
                self._write(Entry(at, "", kind, "", "", "", text))

    def _write(self, entry: Entry, **more: Any) -> None:
        line: Mapping[str, Any] = asdict(entry) | {"at": moment(entry.at)} | more
        try:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        except OSError as error:
            raise LiveError(f"{self._path}: the audit log can't be written: {error.strerror}") from None


def _change(order: Order, state: str, why: str) -> Entry:
    return Entry(time.time(), order.handle, order.lever, order.before, order.value, state, why)
