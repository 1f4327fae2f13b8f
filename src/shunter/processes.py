"""Tasks side by side in processes that leave Ctrl-C to their parent, stop when asked to, and never outlive it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.shared_memory import SharedMemory
from typing import Any, TypeAlias

from shunter import notices
from shunter.errors import RunError

Progress: TypeAlias = Callable[[int, int], None]  # gets the steps done, and all
Work: TypeAlias = Callable[[Any, Any, Callable[[int], None]], Any]  # takes what tasks share, a task, its progress

SAFE_PATH = "PYTHONSAFEPATH"
# the places of counts in what workers share, after the steps of each task
COMPILED = -3  # kernels that workers have begun to compile
COMPILING = -2  # workers that compile now
STOP = -1  # not 0: all must stop


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def safe_path() -> Iterator[None]:
    """Processes that are started in here import nothing from the current folder, which may belong to others.

    They are started as ``python -c``, which would look for ``multiprocessing`` there first.  What the parent can import
    they can import too: it hands them its path.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def run_tasks(
    work: Work, shared: Any, tasks: Sequence[Any], steps: Sequence[int], workers: int, progress: Progress
) -> list[Any]:
    """What ``work(shared, task, report)`` returns for each task; a task reports its steps.

    With one worker, or for one task, all is done in this process.
    """
    total, found = sum(steps), []
    if min(workers, len(tasks)) <= 1:
        for number, task in enumerate(tasks):
            before = sum(steps[:number])
            found.append(work(shared, task, lambda done, before=before: progress(before + done, total)))  # type: ignore[misc]
            progress(before + steps[number], total)
        return found
    with safe_path():
        return _side_by_side(work, shared, tasks, steps, workers, progress)


def _side_by_side(
    work: Work, shared: Any, tasks: Sequence[Any], steps: Sequence[int], workers: int, progress: Progress
) -> list[Any]:
    total = sum(steps)
    with crew(work, shared, min(workers, len(tasks)), len(tasks)) as hands:
        with ctrl_c_later():
            futures = [hands.submit(number, task, steps[number]) for number, task in enumerate(tasks)]
        pending = set(futures)
        while pending:
            ready, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
            for future in ready:
                future.result()
            progress(hands.steps_done(), total)
        return [future.result() for future in futures]


class Crew:
    """Worker processes that share one work, and what they report while they do it."""

    def __init__(self, pool: ProcessPoolExecutor, done: Any) -> None:
        self._pool, self._done = pool, done
        self._compiled = (0, 0)

    def submit(self, number: int, task: Any, steps: int) -> Future[Any]:
        """Hand over a task; its steps are counted under its number."""
        return self._pool.submit(_do, number, task, steps)

    def steps_done(self) -> int:
        """The steps that all tasks have reported; also passes on what workers compile."""
        self._compiled = _announce(self._compiled, (self._done[COMPILED], self._done[COMPILING]))
        return sum(self._done[:COMPILED])


@contextmanager
def crew(work: Work, shared: Any, workers: int, tasks: int) -> Iterator[Crew]:
    """Processes for up to this many tasks; they stop when this is left, in the middle of a task if by an error."""
    processes = multiprocessing.get_context("spawn")  # forking a process that has threads (polars has) may hang
    done = processes.Array("q", tasks - COMPILED)
    handed = _handed_over((work, shared))
    pool = ProcessPoolExecutor(workers, processes, _begin, (handed.name, done))
    try:
        yield Crew(pool, done)
    except BrokenProcessPool:
        done[STOP] = 1
        raise RunError(
            "a process died (out of memory?), or a script started processes outside of \"if __name__ == '__main__':\";"
            " repeat with fewer workers"
        ) from None
    except BaseException:
        done[STOP] = 1
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        handed.close()
        handed.unlink()


def _handed_over(shared: Any) -> SharedMemory:
    """What all workers get, in memory that they read by themselves.

    As an argument it would be written to one worker after the other, each time until that one has started.
    """
    data = pickle.dumps(shared)
    handed = SharedMemory(create=True, size=len(data))
    assert handed.buf is not None
    handed.buf[: len(data)] = data
    return handed


@contextmanager
def ctrl_c_later() -> Iterator[None]:
    """Processes that are started in here never get Ctrl-C, not even while they import; this one gets it afterwards.

    A signal that one thread blocks goes to another, and Python still handles it in the main thread. So the handler
    waits too: a process whose start is interrupted would end with a traceback of its own.
    """
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    came: list[int] = []
    if handler is not None:
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


_work: Work
_shared: Any
_done: Any


def _begin(handed: str, done: Any) -> None:
    """Prepare a worker process."""
    global _work, _shared, _done  # a worker gets once what all its tasks share
    memory = SharedMemory(handed)
    assert memory.buf is not None
    (_work, _shared), _done = pickle.loads(memory.buf), done
    memory.close()
    notices.compiling.set(_Compiling())
    threading.Thread(target=_stop_when_asked, daemon=True).start()


class _Compiling:
    """Counts kernels that a worker compiles, and whether it does so now, for its parent to show."""

    now = False

    def __call__(self, kernel: str) -> None:
        """Take note of one more kernel, or (without a name) of the end."""
        with _done.get_lock():
            _done[COMPILED] += bool(kernel)
            _done[COMPILING] += bool(kernel) - self.now
        self.now = bool(kernel)


def _announce(before: tuple[int, int], now: tuple[int, int]) -> tuple[int, int]:
    """Pass on that workers compile, and that the last of them is done; returns ``now``."""
    for _ in range(before[0], now[0]):
        notices.compiling.get()("of a worker")
    if now[0] and not now[1] and now != before:
        notices.compiling.get()("")
    return now


def _stop_when_asked() -> None:
    parent = multiprocessing.parent_process()
    while parent is not None and parent.is_alive() and not _done[STOP]:
        parent.join(0.2)
    os._exit(1)  # in the middle of a task: what it writes appears whole or not at all


def _do(number: int, task: Any, steps: int) -> Any:
    found = _work(_shared, task, lambda done: _done.__setitem__(number, done))
    _done[number] = steps
    return found
