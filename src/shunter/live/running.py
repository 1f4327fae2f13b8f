"""A controller put together: the live cluster, a policy, what it may do, and what observes its rounds."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shunter.errors import LiveError
from shunter.live import warming
from shunter.live.backend import Levers, LiveBackend, Rhythm, Scope
from shunter.live.controller import ChangeLimits, Controller, Mode, Watching, to_read
from shunter.live.guard import Guard, shadow_policy
from shunter.live.journal import BEGIN, END, RESUME, Journal
from shunter.live.journal_copy import not_ours, read_copy
from shunter.live.locks import only_controller
from shunter.live.manager import ResourceManager
from shunter.live.rounds import Authority, Observe, Rounds, WatchdogKeeper
from shunter.live.sources import PolicySource, source_of
from shunter.live.switch_log import SwitchLog
from shunter.live.switching import first_choice
from shunter.live.tolerance import Tolerance
from shunter.model import Trace
from shunter.protocols import Policy
from shunter.registry import text

IN_MODE = " in mode "  # behind the policy, in the event with which a controller begins


@dataclass(frozen=True)
class ControllerSettings:
    """How a controller runs."""

    mode: Mode = Mode.WATCH
    rhythm: Rhythm = field(default_factory=Rhythm)
    scope: Scope = field(default_factory=Scope)
    levers: Levers = frozenset({"nice"})
    bounds: ChangeLimits = field(default_factory=ChangeLimits)
    rounds: int = 0  # stop after this many; 0: never
    guard: Tolerance | None = None  # None: no guard
    resume: bool = False  # after a guard has handed the jobs back


def run(
    policy: Policy | PolicySource,
    manager: ResourceManager,
    journal: Path,
    settings: ControllerSettings,
    *,
    stop: threading.Event | None = None,
    history: Trace | None = None,
    on_round: Observe = lambda _: None,
    on_silence: Callable[[LiveError], None] = lambda _: None,
) -> None:
    """Run a policy on a live cluster until stopped, or for a number of rounds; a source may change it in between.

    ``on_round`` gets the result of each round, ``on_silence`` the reason of each that could not be finished.
    """
    acts, interval_s = settings.mode is Mode.ACT, settings.rhythm.interval_s
    with _journal(journal, acts, settings.resume) as book:
        source, controller = source_of(policy), _controller(manager, book, journal, settings)
        first = first_choice(source, controller).policy
        _compile(first, manager, settings.guard if acts else None)
        presence = manager.presence(book, interval_s) if acts else None
        rounds = Rounds(
            source,
            LiveBackend(
                manager, settings.rhythm, settings.scope, settings.levers, history, stops=settings.bounds.stops
            ),
            controller,
            Authority(controller, presence) if presence is not None else None,
            (*_safeguards(controller, settings.guard), on_round) if acts else (on_round,),
            on_silence,
            stop or threading.Event(),
        )
        # the watchdog uses this and the end
        rounds.in_force.note_begin(BEGIN, described(first, settings, book.id, source.name))
        try:
            rounds.run(settings.rounds)
        finally:
            if presence is not None:
                presence.remove()
            source.close()
        controller.note(END, "stopped")


def _controller(manager: ResourceManager, book: Journal, path: Path, settings: ControllerSettings) -> Controller:
    """One that acts, or one that only watches what is in the journal at this path."""
    about: dict[str, Any] = {"mode": settings.mode, "levers": settings.levers, "bounds": settings.bounds}
    about["interval_s"] = settings.rhythm.interval_s
    return Controller(manager, book, **about) if settings.mode is Mode.ACT else Watching(manager, path, **about)


def _safeguards(controller: Controller, tolerance: Tolerance | None) -> Iterator[Observe]:
    """What observes each round of a controller that acts, before anything else does."""
    controller.journal.live(os.getpid(), controller.interval_s)
    yield WatchdogKeeper(controller).seen
    if tolerance is not None:
        yield Guard(controller, tolerance).seen


def described(policy: Policy, settings: ControllerSettings, journal: str, source: str = "") -> str:
    """What runs, and which jobs it leaves alone, for the audit."""
    scope = settings.scope
    kinds = {"users": scope.without_users, "partitions": scope.without_partitions, "QOS": scope.without_qos}
    without = [f"{kind} {', '.join(sorted(names))}" for kind, names in kinds.items() if names]
    found = f"{text(policy)}{IN_MODE}{settings.mode}, journal {journal}" + (f", chosen by {source}" if source else "")
    return f"{found}; jobs without GPUs or with sla=yes are left alone" + "".join(f", and {each}" for each in without)


def begun(book: Journal) -> str:
    """What ran with a journal last, as ``described``; "": nothing did."""
    last = book.last_event(BEGIN)
    return last[2] if last is not None else ""


def policy_of(book: Journal) -> str:
    """The policy of the controller that used a journal last, also if it has switched since; "": none did."""
    return SwitchLog(book).in_force() or begun(book).partition(IN_MODE)[0]


def _compile(policy: Policy, manager: ResourceManager, guard: Tolerance | None) -> None:
    """Compile before the first look: what is seen must not grow old while a round compiles."""
    warming.rounds(policy)
    if guard is not None:
        warming.shadow(shadow_policy(guard, manager))


@contextmanager
def _journal(path: Path, acts: bool, resumes: bool) -> Iterator[Journal]:
    """The journal of a controller that acts, and of no other; one that only watches writes nothing to disk."""
    if not acts:
        with closing(to_read(path)):
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
        with _crash_noted(book):
            yield book


def _refuse_lost(book: Journal) -> None:
    """Refuse to begin with a new journal before what an old one in its place has changed was given back."""
    name, lost = read_copy(book.path)
    if lost and name != book.id:
        raise LiveError(
            f"{not_ours(book.path, name)}; give the jobs back with 'shunter slurm release --from-marks', then"
            " 'shunter slurm resume'"
        )


@contextmanager
def _crash_noted(book: Journal) -> Iterator[None]:
    try:
        yield
    except Exception as problem:
        with suppress(LiveError):
            book.note("crash", f"{type(problem).__name__}: {problem}")
        raise


def resume(book: Journal) -> bool:
    """Take the jobs again after they were handed back; whether they were."""
    was = bool(book.handed_back())
    book.move_in()
    if was:
        book.note(RESUME, "taken in hand again")
    return was
