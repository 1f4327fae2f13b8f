"""Tasks side by side in processes that leave Ctrl-C to their parent, stop when asked to, and never outlive it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeAlias

from shunter import notices
from shunter.errors import RunError

Progress: TypeAlias = Callable[[int, int], None]  # gets the steps done, and all
Work: TypeAlias = Callable[[Any, Any, Callable[[int], None]], Any]  # takes what tasks share, a task, its progress

SAFE_PATH = "PYTHONSAFEPATH"
COMPILED = -2  # the place of a count in what workers share


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def safe_path() -> Iterator[None]:
    """Processes that are started in here import nothing from the present folder, which may belong to others.

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
    processes = multiprocessing.get_context("spawn")  # forking a process that has threads (polars has) may hang
    # steps per task; how many kernels workers have begun to compile; the last entry says: stop
    done = processes.Array("q", len(tasks) + 2)
    pool = ProcessPoolExecutor(min(workers, len(tasks)), processes, _begin, (work, shared, done))
    try:
        futures = [pool.submit(_do, number, task, steps[number]) for number, task in enumerate(tasks)]
        pending, compiled = set(futures), 0
        while pending:
            ready, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
            for future in ready:
                future.result()
            compiled = _announce(compiled, done[COMPILED])
            progress(sum(done[:COMPILED]), total)
        return [future.result() for future in futures]
    except BrokenProcessPool:
        done[-1] = 1
        raise RunError(
            "a process died (out of memory?), or a script started processes outside of \"if __name__ == '__main__':\";"
            " repeat with fewer workers"
        ) from None
    except BaseException:
        done[-1] = 1
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_work: Work
_shared: Any
_done: Any


def _begin(work: Work, shared: Any, done: Any) -> None:
    """Prepare a worker process."""
    global _work, _shared, _done  # a worker gets once what all its tasks share
    _work, _shared, _done = work, shared, done
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    notices.compiling.set(_compiling)
    threading.Thread(target=_stop_when_asked, daemon=True).start()


def _compiling(kernel: str) -> None:
    """Count kernels that a worker compiles, for its parent to show."""
    if kernel:
        with _done.get_lock():
            _done[COMPILED] += 1


def _announce(before: int, now: int) -> int:
    """Pass on that workers compile; returns how many kernels that was."""
    for _ in range(before, now):
        notices.compiling.get()("of a worker")
    return now


def _stop_when_asked() -> None:
    parent = multiprocessing.parent_process()
    while parent is not None and parent.is_alive() and not _done[-1]:
        parent.join(0.2)
    os._exit(1)  # in the middle of a task: what it writes appears whole or not at all


def _do(number: int, task: Any, steps: int) -> Any:
    found = _work(_shared, task, lambda done: _done.__setitem__(number, done))
    _done[number] = steps
    return found
