"""Work that takes longer than an answer may: done one after the other, with progress that browsers follow."""

from __future__ import annotations

import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any

from shunter.errors import RunError, ShunterError

MOST_KEPT = 12  # tasks whose results can still be shown
MOST_WAITING = 4  # tasks that wait for their turn
LONGEST_S = 600.0  # of one task; a larger run is one for the command line


@dataclass
class BackgroundTask:
    """One piece of work."""

    id: str
    future: Future[Any]
    done: int = 0  # steps
    total: int = 0
    parts: tuple[Any, ...] = ()  # what is known before it is over
    growing: Any = None  # what is known of the part that is being done ...
    grown: int = 0  # ... and how often that has changed
    begun: float | None = None  # by the monotonic clock; None: it waits for its turn
    stopped: Event = field(default_factory=Event)

    def report(self, done: int, total: int) -> None:
        """Take note of steps; ends the work if that is wanted, or if it takes too long."""
        self.done, self.total = done, total
        if self.stopped.is_set():
            raise RunError("stopped; change something and run it again")
        if self.begun is not None and time.monotonic() - self.begun > LONGEST_S:
            raise RunError(f"this takes longer than {LONGEST_S / 60:.0f} minutes; use the command line, or fewer jobs")

    def add(self, part: Any) -> None:
        """Take note of something that can be shown already."""
        self.parts, self.growing = (*self.parts, part), None

    def grow(self, known: Any) -> None:
        """Take note of what is known of the part that is being done."""
        self.growing = known
        self.grown += 1

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.future.done()

    @property
    def problem(self) -> str:
        """Why it failed; "": it did not."""
        if self.future.cancelled():
            return "stopped before it began"
        error = self.future.exception() if self.over else None
        return "" if error is None else str(error) if isinstance(error, ShunterError) else "an error; see the log"

    @property
    def result(self) -> Any:
        """What it found."""
        return self.future.result()

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1."""
        return self.done / self.total if self.total else 0.0


@dataclass
class Tasks:
    """The last pieces of work; one is done at a time."""

    kept: OrderedDict[str, BackgroundTask] = field(default_factory=OrderedDict)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "shunter-web"))
    _lock: Lock = field(default_factory=Lock)

    def begin(self, work: Callable[[BackgroundTask], Any]) -> BackgroundTask:
        """Hand over work, which gets its task to report its steps to."""
        task = BackgroundTask(secrets.token_hex(8), Future())
        with self._lock:
            if sum(not each.over for each in self.kept.values()) > MOST_WAITING:
                raise RunError("too much is being computed; wait until some of it is done")
            self.kept[task.id] = task
            while len(self.kept) > MOST_KEPT:
                self.kept.popitem(last=False)
            task.future = self._pool.submit(_logged, work, task)
        return task

    def all(self) -> list[BackgroundTask]:
        """The tasks that are kept, the last first."""
        with self._lock:
            return list(reversed(self.kept.values()))

    def prepare(self, work: Callable[[], Any]) -> None:
        """Do something before the first task; no task waits for it."""
        self._pool.submit(work)

    def find(self, task_id: str) -> BackgroundTask:
        """The task of this name."""
        with self._lock:
            found = self.kept.get(task_id)
        if found is None:
            raise RunError("this result is no longer kept; run it again")
        return found

    def ended(self, task_id: str) -> BackgroundTask:
        """The task of this name, which must be over: who waits for it would keep others from being answered."""
        if not (task := self.find(task_id)).over:
            raise RunError("this is still being computed; ask again later")
        return task

    def stop(self, task_id: str) -> None:
        """End a task: at once if it waits, else at its next step."""
        task = self.find(task_id)
        task.stopped.set()
        task.future.cancel()

    def close(self) -> None:
        """Begin nothing more, and end what is under way."""
        for task in self.all():
            task.stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _logged(work: Callable[[BackgroundTask], Any], task: BackgroundTask) -> Any:
    task.begun = time.monotonic()
    try:
        task.report(0, 0)
        return work(task)
    except ShunterError:
        raise
    except Exception:
        logging.getLogger("shunter.web").exception("a task failed")
        raise


def ended_within(task: BackgroundTask, seconds: float) -> bool:
    """Whether a task ends soon enough to be part of the answer."""
    wait([task.future], seconds)
    return task.over
