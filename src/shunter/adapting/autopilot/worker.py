"""The search of an autopilot as a process of its own, with low priority and a budget: no round waits for it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.rule import Autopilot, AutopilotLimits, PilotAction, PilotVerdict, past_days
from shunter.adapting.autopilot.site_jobs import joined, with_unfinished
from shunter.cluster import Cluster
from shunter.errors import ShunterError
from shunter.generating.repository import WorkloadRepository
from shunter.live import warming
from shunter.model import Trace
from shunter.processes import safe_path
from shunter.registry import policy

NICEST = 19
STARTING_S = 5.0  # at the end, for a process that has just begun


@dataclass(frozen=True, eq=False)
class PilotTask:
    """What a search needs to know."""

    folder: Path  # of the repository
    history: Trace | None  # ended jobs that a site brought along, and that are not in it yet
    ended: Trace  # others that are not in it yet
    present: Trace  # jobs that wait or run
    ran: dict[str, int]  # how long these have run (ms)
    cluster: Cluster
    now: int  # ms
    in_force: str
    since_switch_h: float
    candidates: Candidates
    limits: AutopilotLimits
    cpu_s: int  # seconds of CPU time that it may take
    shortlist: tuple[str, ...] = ()  # of the search before


@dataclass(frozen=True)
class PilotAnswer:
    """The result of a search."""

    verdict: PilotVerdict
    in_force: str  # when it began
    problems: tuple[str, ...] = ()  # files of the repository that were left out
    kept: bool = True  # whether the ended jobs are in the repository now


def answered(task: PilotTask, parent: int = 0) -> PilotAnswer:
    """Keep the new jobs, replay the last days with the candidates, and decide; compiles what is chosen."""

    def alive() -> None:
        if parent and os.getppid() != parent:
            os._exit(1)  # no process waits for the answer

    kept = WorkloadRepository(task.folder)
    new = joined(task.history, task.ended)
    if len(ended := new.select(new.submit <= task.now)):  # a history may go on into the future
        kept.add(ended)
    known, finished = with_unfinished(kept.read(task.present, task.now), task.present, task.ran, task.now)
    past = past_days(known, task.cluster, task.now, finished, task.candidates.first)
    pilot = Autopilot(task.candidates, task.limits, on_evaluation=alive)
    verdict = pilot.decide(past, task.in_force, task.since_switch_h, task.shortlist)
    if verdict.answer is PilotAction.SWITCH:
        warming.rounds(policy(verdict.policy))  # for the controller: it loads what is compiled
    return PilotAnswer(verdict, task.in_force, tuple(kept.problems[:3]))


def _work(task: PilotTask, pipe: Connection, parent: int, nice: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controller ends it
    with suppress(OSError, ValueError):  # a service may not be allowed to
        os.nice(nice)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (task.cpu_s, task.cpu_s + 5))
    try:
        pipe.send(answered(task, parent))
    except (ShunterError, OSError) as problem:  # such as a full disk
        why = f"{task.folder}: {problem.strerror or problem}" if isinstance(problem, OSError) else str(problem)
        pipe.send(PilotAnswer(PilotVerdict(PilotAction.UNKNOWN, task.in_force, why), task.in_force, kept=False))


@dataclass
class BackgroundSearch:
    """At most one search at a time; ``start`` and ``poll`` never wait.

    A thread starts the process: its task is large, and a new process reads it only after it has loaded all libraries.
    """

    longest_s: float = 3600.0  # wall-clock time after which it is ended
    nice: int = NICEST  # of the process: rounds go first
    _process: SpawnProcess | None = None
    _pipe: Connection | None = None
    _starting: threading.Thread | None = None
    _failed: str = ""  # why it could not be started
    _begun: float = 0.0

    @property
    def busy(self) -> bool:
        """Whether one runs."""
        return self._process is not None

    def start(self, task: PilotTask) -> None:
        """Begin a search."""
        context = multiprocessing.get_context("spawn")
        near, far = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(task, far, os.getpid(), self.nice), daemon=True, name="autopilot")
        starting = threading.Thread(target=self._start, args=(process, far), daemon=True)
        self._begun, self._failed = time.monotonic(), ""
        starting.start()  # if there are no more threads, no search is under way
        self._process, self._pipe, self._starting = process, near, starting

    def _start(self, process: SpawnProcess, far: Connection) -> None:
        try:
            with safe_path():
                process.start()
        except Exception as problem:  # no more processes, no memory, or it died while it began
            self._failed = str(problem) or type(problem).__name__
        finally:
            far.close()

    def poll(self) -> PilotAnswer | str | None:
        """The answer, why there is none, or None while it is sought."""
        if self._process is None or self._pipe is None or self._starting is None:
            return None
        if time.monotonic() - self._begun > self.longest_s:
            self.close()
            return f"the search took longer than {self.longest_s:g} s"
        found = None if self._starting.is_alive() else self._received(self._process, self._pipe)
        if found is not None:
            self.close()
        return found

    def _received(self, process: SpawnProcess, pipe: Connection) -> PilotAnswer | str | None:
        if self._failed:
            return f"the search could not be begun: {self._failed}"
        try:
            found = pipe.recv() if pipe.poll() else None
        except (EOFError, OSError):
            process.join(1.0)
            if process.exitcode == -signal.SIGXCPU:
                return "the search used all the CPU time it may have; lower budget, copies or days (--limits)"
            return f"the search ended without an answer (code {process.exitcode})"
        except Exception as problem:  # whatever bytes may do: rounds go on
            return f"the search's answer can't be read: {type(problem).__name__}"
        return found if found is None or isinstance(found, PilotAnswer) else "the search returned an invalid answer"

    def close(self) -> None:
        """End it."""
        process, pid = self._process, self._process.pid if self._process is not None else None
        if process is not None and pid is not None and process.is_alive():
            process.kill()  # also one that is just loading libraries: the thread that starts it then gives up
        if self._starting is not None:
            self._starting.join(STARTING_S)
        if process is not None and process.pid is not None:
            process.kill()
            process.join(STARTING_S)
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = self._starting = None
