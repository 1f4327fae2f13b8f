"""Work that takes longer than an answer may: done one after the other, with progress that browsers follow."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from shunter.errors import RunError, ShunterError
from shunter.processes import Progress

MOST_KEPT = 12  # tasks whose results can still be shown
MOST_WAITING = 4  # tasks that wait for their turn
LOOK_S = 0.1  # between two looks at a task
SIGN_OF_LIFE_S = 15.0  # between two events, so that a proxy keeps the connection


@dataclass
class BackgroundTask:
    """One piece of work."""

    id: str
    future: Future[Any]
    done: int = 0  # steps
    total: int = 0

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.future.done()

    @property
    def problem(self) -> str:
        """Why it failed; "": it did not."""
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

    def begin(self, work: Callable[[Progress], Any]) -> BackgroundTask:
        """Hand over work, which gets a function to report its steps to."""
        if sum(not task.over for task in self.kept.values()) > MOST_WAITING:
            raise RunError("too much is being computed; wait until some of it is done")
        task = BackgroundTask(secrets.token_hex(8), Future())

        def report(done: int, total: int) -> None:
            task.done, task.total = done, total

        task.future = self._pool.submit(_logged, work, report)
        self.kept[task.id] = task
        while len(self.kept) > MOST_KEPT:
            self.kept.popitem(last=False)
        return task

    def prepare(self, work: Callable[[], Any]) -> None:
        """Do something before the first task, which nobody waits for."""
        self._pool.submit(work)

    def find(self, task_id: str) -> BackgroundTask:
        """The task of this name."""
        if task_id not in self.kept:
            raise RunError("this result is no longer kept; run it again")
        return self.kept[task_id]

    def ended(self, task_id: str) -> BackgroundTask:
        """The task of this name, which must be over: who waits for it would keep others from being answered."""
        if not (task := self.find(task_id)).over:
            raise RunError("this is still being computed; ask again later")
        return task

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _logged(work: Callable[[Progress], Any], report: Progress) -> Any:
    try:
        return work(report)
    except ShunterError:
        raise
    except Exception:
        logging.getLogger("shunter.web").exception("a task failed")
        raise


def ended_within(task: BackgroundTask, seconds: float) -> bool:
    """Whether a task ends soon enough to be part of the answer."""
    wait([task.future], seconds)
    return task.over


async def events(task: BackgroundTask) -> AsyncIterator[str]:
    """The progress of a task as server-sent events; the last one says that it is over."""
    last, quiet = -1.0, 0.0
    while not task.over:
        if task.share != last or quiet >= SIGN_OF_LIFE_S:
            last, quiet = task.share, 0.0
            yield _event("progress", {"done": task.done, "total": task.total})
        await asyncio.sleep(LOOK_S)
        quiet += LOOK_S
    yield _event("over", {"problem": task.problem})


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
