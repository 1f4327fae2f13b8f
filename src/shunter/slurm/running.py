"""A controller put together: the live cluster, a policy, what it may do, and who is told."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from shunter.drive import drive
from shunter.errors import SlurmError
from shunter.model import Trace
from shunter.protocols import Policy
from shunter.registry import text
from shunter.slurm.backend import Levers, Rhythm, Scope, SlurmBackend
from shunter.slurm.client import Client
from shunter.slurm.controller import Bounds, Controller, Mode, Outcome
from shunter.slurm.guard import Guard, Tolerance, handed_back
from shunter.slurm.journal import Journal
from shunter.slurm.levers import STRANDING
from shunter.slurm.locks import only_controller
from shunter.slurm.releasing import release
from shunter.slurm.watchdog import ensure
from shunter.slurm.watcher import Watcher

FOREVER = float("inf")


@dataclass(frozen=True)
class Settings:
    """How a controller runs."""

    mode: Mode = Mode.WATCH
    rhythm: Rhythm = field(default_factory=Rhythm)
    scope: Scope = field(default_factory=Scope)
    levers: Levers = frozenset({"nice"})
    bounds: Bounds = field(default_factory=Bounds)
    rounds: int = 0  # stop after so many; 0: never
    guard: Tolerance | None = None  # None: nobody compares
    resume: bool = False  # after a guard has handed the jobs back


def run(
    policy: Policy,
    client: Client,
    journal: Path,
    settings: Settings,
    *,
    stop: threading.Event | None = None,
    history: Trace | None = None,
    told: Callable[[Outcome], None] = lambda _: None,
    away: Callable[[SlurmError], None] = lambda _: None,
) -> None:
    """Run a policy on the live cluster until told to stop, or for so many rounds; a round is never left halfway."""
    with ExitStack() as stack:
        if settings.mode is Mode.ACT:
            stack.enter_context(only_controller(journal))
        book = Journal(journal)
        stack.callback(book.close)
        stack.enter_context(_crash_told(book))
        watcher = Watcher(client)
        controller = Controller(
            watcher, book, mode=settings.mode, levers=settings.levers, bounds=settings.bounds,
            interval_s=settings.rhythm.interval_s, told=told,
        )  # fmt: skip
        backend = SlurmBackend(
            watcher, controller.close,
            rhythm=settings.rhythm, scope=settings.scope, levers=settings.levers,
            history=history, rounds=settings.rounds,
        )  # fmt: skip
        if settings.mode is Mode.ACT:
            book.live(os.getpid(), settings.rhythm.interval_s)
            controller.told = attended(controller, guarded(controller, settings, told))
        backend.away = away
        backend.stopped = stop or backend.stopped
        backend.prepare(policy.needs)
        if controller.paused:  # whoever handed the jobs back may have been killed before it was done
            release(client, book, watcher.snapshot())
        acts = settings.mode is Mode.ACT  # the watchdog goes by when that one begins and ends
        book.tell("begin" if acts else "watch", f"{text(policy)} in mode {settings.mode}")
        _go_on(policy, backend, book)
        book.tell("end" if acts else "watched", "stopped")


@contextmanager
def _crash_told(book: Journal) -> Iterator[None]:
    try:
        yield
    except Exception as problem:
        with suppress(SlurmError):
            book.tell("crash", f"{type(problem).__name__}: {problem}")
        raise


def _go_on(policy: Policy, backend: SlurmBackend, book: Journal) -> None:
    """Round after round, also when the cluster becomes another one."""
    memory = policy.start(backend.cluster)
    ranking = getattr(policy, "ranking", None)
    if ranking is not None:
        backend.rank = lambda view: ranking(view, memory)
    drive(backend, policy, memory=memory, patience=FOREVER)
    while backend.renewed:
        backend.renewed = False
        book.tell("machines", f"{backend.cluster.nodes} nodes with {backend.cluster.gpus} GPUs from now on")
        memory = policy.start(backend.cluster, memory)
        drive(backend, policy, memory=memory, patience=FOREVER)


def guarded(controller: Controller, settings: Settings, told: Callable[[Outcome], None]) -> Callable[[Outcome], None]:
    """The guard sees each round first; what one of an earlier run has handed back stays so unless somebody resumes."""
    book = controller.journal
    controller.paused = handed_back(book)
    if controller.paused and settings.resume:
        controller.paused = ""
        book.tell("resume", "taken in hand again")
    if settings.guard is None:
        return told
    guard = Guard(controller, settings.guard)

    def tell(outcome: Outcome) -> None:
        guard.seen(outcome)
        told(outcome)

    return tell


def attended(controller: Controller, told: Callable[[Outcome], None]) -> Callable[[Outcome], None]:
    """As long as a lever is on that could strand a job, there is a watchdog; where there can't be, it is put away."""
    client, book = controller.client, controller.journal
    if controller.levers & set(STRANDING):
        ensure(book.path, client)

    def tell(outcome: Outcome) -> None:
        if controller.levers & set(STRANDING):
            try:
                ensure(book.path, client)
            except SlurmError as problem:
                controller.levers -= set(STRANDING)
                book.tell("watchdog", f"{problem}; {', '.join(STRANDING)} are put away")
                release(client, book, outcome.round.snapshot, STRANDING)
        told(outcome)

    return tell
