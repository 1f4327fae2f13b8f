"""Running a plan: what is not in the store yet, in batches of a few seconds, each kept as soon as it is done."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from shunter.errors import RunError
from shunter.sweeps.engines import Engine, Opener, WorkerLostError
from shunter.sweeps.places import Ground, Places
from shunter.sweeps.plan import SweepPlan
from shunter.sweeps.store import Store
from shunter.sweeps.work import Batch, Row, RunLike, Runner
from shunter.texts import counted
from shunter.under_way import UnderWay, shown

BATCH_S = 2.0  # what a batch should take: long against handing it over, short against what is lost with it
MOST_IN_BATCH = 500
AHEAD = 2  # batches per worker that wait for it, so that none is idle
TURN_S = 0.1


@dataclass
class Progress:
    """How far a sweep is."""

    total: int  # runs of the plan
    found: int  # that were there
    begun: float = field(default_factory=time.monotonic)
    done: int = 0  # that were run now
    failed: int = 0  # of these
    workers: int = 0
    busy_s: float = 0.0  # that workers spent in runs

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.begun

    @property
    def rate(self) -> float:
        """Runs per second."""
        return self.done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Seconds until the end, if it goes on like this; None: not known yet."""
        left = self.total - self.found - self.done
        return left / self.rate if self.rate else None


OnProgress: TypeAlias = Callable[[Progress], None]


def keys_of(
    plan: SweepPlan, ground: Ground, on_key: Callable[[int, int], None] = lambda done, total: None
) -> list[str]:
    """The key of every run, in the order of the plan."""
    places, found = Places(ground), []
    for number, run in enumerate(plan.runs):
        found.append(places.identity(run.place, run.policy).key(ground.seed, run.seed))
        on_key(number + 1, len(plan.runs))
    return found


def run_all(
    runs: Mapping[str, RunLike],
    runner: Runner,
    store: Store,
    open_engine: Opener,
    retry_failed: bool = False,
    on_progress: OnProgress = lambda progress: None,
) -> Progress:
    """Run what the store lacks of these runs, which are given by their keys; returns what was done."""
    known = store.read(["version"])
    done = known if not retry_failed else known.filter(known["error"].is_null())
    there = set(done["key"].to_list())
    queue = _Queue({key: run for key, run in runs.items() if key not in there})
    progress = Progress(len(runs), len(runs) - len(queue))
    about = UnderWay("sweep", "", "", [], "runs")
    try:
        with shown(None if store.temporary else store.folder, about) as note_progress:

            def follow(now: Progress) -> None:
                note_progress(now.found + now.done, now.total)
                on_progress(now)

            while len(queue):
                with suppress(WorkerLostError), open_engine(runner) as engine:
                    _drain(engine, queue, runner, store, progress, follow)
    except KeyboardInterrupt as interrupt:
        if not store.temporary:
            interrupt.add_note(
                f"{counted(progress.done, 'run', 'were')} added to {store.folder}; the same command goes on from there"
            )
        raise
    store.settle()
    return progress


def _drain(
    engine: Engine, queue: _Queue, runner: Runner, store: Store, progress: Progress, on_progress: OnProgress
) -> None:
    """Hand out batches until none is left. ``WorkerLostError``: the engine broke; the queue has what was under way."""
    under_way: dict[Future[list[Row]], Batch] = {}
    alone = False  # one suspect runs, and nothing else
    try:
        while len(queue) or under_way:
            progress.workers = engine.workers
            while len(queue) and not alone and len(under_way) < max(AHEAD * progress.workers, 1):
                if queue.next_is_alone() and under_way:
                    break
                alone = queue.next_is_alone()
                batch = queue.batch(progress.workers)
                try:
                    under_way[engine.submit(batch)] = batch
                except WorkerLostError:
                    queue.give_back(batch)
                    raise
            ready, _ = wait(under_way, timeout=TURN_S, return_when=FIRST_COMPLETED)
            done = {future: under_way.pop(future) for future in ready}
            died = _collect(done, queue, runner, store, progress, alone)
            alone = alone and not ready
            engine.poll()
            on_progress(progress)
            if died and not engine.survives:
                raise WorkerLostError
    finally:
        for batch in under_way.values():
            queue.give_back(batch)


def _collect(
    done: Mapping[Future[list[Row]], Batch],
    queue: _Queue,
    runner: Runner,
    store: Store,
    progress: Progress,
    alone: bool,
) -> bool:
    """Keep what was done; returns whether a worker died."""
    rows: list[Row] = []
    died, problem = False, None
    for future, batch in done.items():
        try:
            found = future.result()
        except WorkerLostError:
            died = True
            rows += queue.failed(batch, runner, alone)
        except Exception as error:  # it ends the sweep, but not before what others did is kept
            problem = error
        else:
            queue.took(batch, found)
            rows += found
    if rows:
        store.add(rows)
        progress.done += len(rows)
        progress.failed += sum(row.get("error") is not None for row in rows)
        progress.busy_s += sum(row.get("seconds") or 0.0 for row in rows)
    if problem is not None:
        raise problem
    return died


Waiting: TypeAlias = tuple[str, RunLike]  # a run that is to be done, with its key


class _Queue:
    """The runs that are still to be done, by their keys, in the order of the plan.

    A worker may die because of a run, or together with it. Runs that were under way then are tried again, each in a
    batch of its own; one that loses its worker again, with nothing beside it; if that worker dies too, the run failed.
    """

    def __init__(self, todo: Mapping[str, RunLike]) -> None:
        self._runs: deque[Waiting] = deque(todo.items())
        self._singly: deque[Waiting] = deque()
        self._alone: deque[Waiting] = deque()
        self._tried_singly: set[str] = set()
        self._seconds: dict[Hashable, float] = {}  # that a run of a place, or of a place and policy, takes, as measured
        self._next = 0

    def __len__(self) -> int:
        return len(self._runs) + len(self._singly) + len(self._alone)

    def next_is_alone(self) -> bool:
        """Whether nothing may run beside the next batch."""
        return bool(self._alone)

    def batch(self, workers: int) -> Batch:
        """The next runs: as many as take a few seconds, and at the end few enough that all workers have some."""
        suspects = self._alone or self._singly
        taken = [suspects.popleft()] if suspects else self._several(workers)
        self._next += 1
        return Batch(self._next, tuple(run for _, run in taken), tuple(key for key, _ in taken))

    def _several(self, workers: int) -> list[Waiting]:
        taken, seconds = [self._runs.popleft()], 0.0
        most = min(MOST_IN_BATCH, len(self._runs) // (AHEAD * max(workers, 1)))
        known = self._estimate(taken[0][1])
        while known and self._runs and len(taken) < most:
            seconds += known
            known = self._estimate(self._runs[0][1])
            if known is None or seconds + known > BATCH_S:
                break
            taken.append(self._runs.popleft())
        return taken

    def _estimate(self, run: RunLike) -> float | None:
        """The seconds that a run takes: as others of its kind, or as others at its place; None: not known yet."""
        return self._seconds.get((run.place, run.policy), self._seconds.get(run.place))

    def took(self, batch: Batch, rows: Sequence[Row]) -> None:
        """Learn how long runs take. The first one in a process also loads kernels, so the least counts."""
        for run, row in zip(batch.runs, rows, strict=True):
            for kind in ((run.place, run.policy), run.place):
                self._seconds[kind] = min(row["seconds"], self._seconds.get(kind, row["seconds"])) + 1e-6

    def give_back(self, batch: Batch) -> None:
        """Put back runs that were not done."""
        self._runs.extendleft(reversed(list(zip(batch.keys, batch.runs, strict=True))))

    def failed(self, batch: Batch, runner: Runner, alone: bool) -> Iterator[Row]:
        """Try the runs of a batch again whose worker died; a run that was alone has failed."""
        for key, run in zip(batch.keys, batch.runs, strict=True):
            if alone:
                yield runner.lost(run, key, "its process died, also when nothing else ran (out of memory?)")
            elif key in self._tried_singly:
                self._alone.append((key, run))
            else:
                self._tried_singly.add(key)
                self._singly.append((key, run))


def check_version(store: Store, version: str, any_version: bool) -> None:
    """Refuse to mix runs of several versions, whose numbers may differ."""
    others = sorted(set(store.read(["version"])["version"].drop_nulls().to_list()) - {version})
    if others and not any_version:
        raise RunError(
            f"{store.folder}: has runs by shunter {others[0]}, and this is {version}: numbers may differ. Choose"
            " another folder, or keep those runs as they are with --any-version"
        )
