"""A controller put together: the live cluster, a policy, what it may do, and who is told."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from shunter.drive import drive
from shunter.errors import SlurmError
from shunter.model import Trace
from shunter.protocols import Policy
from shunter.registry import text
from shunter.slurm import warming
from shunter.slurm.backend import Levers, Rhythm, Round, Scope, SlurmBackend
from shunter.slurm.client import Client
from shunter.slurm.controller import Bounds, Controller, Mode, Outcome
from shunter.slurm.guard import Guard, Tolerance, shadow_policy
from shunter.slurm.journal import DONE, INTENT, RESUME, STOP, Journal
from shunter.slurm.journal_copy import not_ours, read_copy
from shunter.slurm.levers import STRANDING
from shunter.slurm.locks import only_controller
from shunter.slurm.presence import Presence
from shunter.slurm.releasing import release
from shunter.slurm.rivals import rivals
from shunter.slurm.snapshot import Snapshot
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
    acts = settings.mode is Mode.ACT
    with _journal(journal, acts, settings.resume) as book:
        _compile(policy, client, settings.guard if acts else None)
        watcher = Watcher(client)
        controller = Controller(
            watcher, book, mode=settings.mode, levers=settings.levers, bounds=settings.bounds,
            interval_s=settings.rhythm.interval_s, told=told,
        )  # fmt: skip
        presence = Presence(client, book, settings.rhythm.interval_s)
        backend = SlurmBackend(
            watcher, obedient(controller, presence) if acts else informed(controller, journal),
            rhythm=settings.rhythm, scope=settings.scope, levers=settings.levers,
            history=history, rounds=settings.rounds,
        )  # fmt: skip
        if acts:
            book.live(os.getpid(), settings.rhythm.interval_s)
            controller.told = attended(controller, guarded(controller, settings, told))
        backend.away = away
        backend.stopped = stop or backend.stopped
        backend.prepare(policy.needs)
        note = book.tell if acts else _unnoted
        note("begin", _described(policy, settings, book.id))  # the watchdog goes by this and the end
        try:
            _go_on(policy, backend, note)
        finally:
            presence.remove()
        note("end", "stopped")


def _described(policy: Policy, settings: Settings, journal: str) -> str:
    """What runs, and which jobs it leaves alone, for the audit."""
    scope = settings.scope
    kinds = {"users": scope.without_users, "partitions": scope.without_partitions, "QOS": scope.without_qos}
    without = [f"{kind} {', '.join(sorted(names))}" for kind, names in kinds.items() if names]
    found = f"{text(policy)} in mode {settings.mode}, journal {journal}"
    return f"{found}; jobs without GPUs or with sla=yes are left alone" + "".join(f", and {each}" for each in without)


def _compile(policy: Policy, client: Client, guard: Tolerance | None) -> None:
    """Compile before the first look: what is seen must not grow old while a round compiles."""
    warming.rounds(policy)
    if guard is not None:
        warming.shadow(shadow_policy(guard, client))


@contextmanager
def _journal(path: Path, acts: bool, resumes: bool) -> Iterator[Journal]:
    """The journal of a controller that acts, and of no other; one that only watches writes nothing to disk."""
    if not acts:
        with closing(_to_read(path)):
            pass  # if it can't be read, this is said at once
        with closing(Journal.in_memory()) as book:
            yield book
        return
    with only_controller(path), closing(Journal(path)) as book:
        book.check()
        if resumes:
            resume(book)
        book.check_copied()
        _refuse_lost(book)
        with _crash_told(book):
            yield book


def _refuse_lost(book: Journal) -> None:
    """Refuse to begin with a new journal before what an old one in its place has changed was given back."""
    name, lost = read_copy(book.path)
    if lost and name != book.id:
        raise SlurmError(
            f"{not_ours(book.path, name)}; give the jobs back with 'shunter slurm release --from-marks', then"
            " 'shunter slurm resume'"
        )


def _to_read(path: Path) -> Journal:
    return Journal.reading(path) if path.is_file() else Journal.in_memory()


def _unnoted(_kind: str, _text: str) -> None:
    pass


@contextmanager
def _crash_told(book: Journal) -> Iterator[None]:
    try:
        yield
    except Exception as problem:
        with suppress(SlurmError):
            book.tell("crash", f"{type(problem).__name__}: {problem}")
        raise


def resume(book: Journal) -> bool:
    """Take the jobs again after they were handed back; whether they were."""
    was = bool(book.handed_back())
    book.move_in()
    if was:
        book.tell(RESUME, "taken in hand again")
    return was


# -- rounds


def obedient(controller: Controller, sign: Presence | None = None) -> Callable[[Round], None]:
    """Rounds of a controller that changes nothing while the jobs are handed back, or another controller's.

    What is in force is given back: the one that handed back may have been killed, or found Slurm away.
    """
    book, why = controller.journal, ""
    presence = sign or Presence(controller.client, book, controller.interval_s)

    def close(current: Round) -> None:
        nonlocal why
        try:
            controller.unsure = ""
            before, why = why, book.handed_back() or _gives_way(book, current.snapshot, presence)
            controller.paused = why if why or before else controller.paused
        except SlurmError as error:
            controller.unsure = f"can't tell whether another controller acts, so nothing is changed: {error}"
        if book.handed_back():
            presence.remove()
            if book.acts(INTENT, DONE):
                release(controller.client, book, current.snapshot)
        controller.close(current)

    return close


def _gives_way(book: Journal, snapshot: Snapshot, presence: Presence) -> str:
    """Why nothing is changed while another controller has changed the same queue; "": none has."""
    found = rivals(snapshot, book.id)
    if not found.jobs:
        if why := presence.rival():
            book.tell(STOP, why)
        return why
    if not found.yields(book.id):
        return f"{found}; waiting until that one has given way"
    why = (
        f"{found}. One cluster has one controller: end one of the two; if that one is gone for good, give its jobs back"
        " with 'shunter slurm release --from-marks'; then 'shunter slurm resume'"
    )
    book.tell(STOP, why)
    return why


def informed(controller: Controller, path: Path) -> Callable[[Round], None]:
    """Rounds of a controller that only watches, and sees what another one has written down by then."""

    def close(current: Round) -> None:
        with closing(_to_read(path)) as controller.journal:
            controller.close(current)

    return close


def _go_on(policy: Policy, backend: SlurmBackend, note: Callable[[str, str], None]) -> None:
    """Round after round, also when the cluster becomes another one."""
    memory = drive(backend, policy, patience=FOREVER)
    while backend.renewed:
        backend.renewed = False
        note("machines", f"{backend.cluster.nodes} nodes with {backend.cluster.gpus} GPUs from now on")
        memory = drive(backend, policy, memory=policy.start(backend.cluster, memory), patience=FOREVER)


def guarded(controller: Controller, settings: Settings, told: Callable[[Outcome], None]) -> Callable[[Outcome], None]:
    """The guard sees each round first."""
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
