"""What a worker does: the runs of a batch, each to a row, whatever happens to it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

from shunter import registry
from shunter.compiled import cache_folder
from shunter.errors import InputError, RunError
from shunter.model import Trace
from shunter.params import declared, named
from shunter.simulation import Result, run_draw
from shunter.sweeps.places import Ground, Places, code_version, command_of
from shunter.sweeps.plan import RunSpec

JOBS, ARRIVALS = "jobs", "arrivals"  # what seeds vary: a synthetic trace is drawn again, a recorded one is not
PATIENCE_S, PAUSE_S = 180.0, 0.2  # how long a process waits for another one that compiles
LONGEST_ERROR = 4000  # characters that are kept
SPREADS = ("jct_s", "wait_s", "bsld", "rho", "communication_s")
POINTS = ("mean", "p50", "p90", "p95", "p99", "max")
TOTALS = (
    *("jobs", "finished", "makespan_s", "utilization", "fragmentation", "preemptions"),
    *("lost_gpu_hours", "gpu_hours"),
)
FAIRNESS = ("jain", "worst_bsld", "rho_at_most_1")
BY_SIZE = ("jobs", "jct_s.mean", "jct_s.p99", "wait_s.mean", "wait_s.p99")
SIZES = ("1", "2-4", "5-8", "9-16", "17-32", "33+")
METRICS = (  # the columns of a store with numbers of the summary, by their paths in it
    *TOTALS,
    *(f"{name}.{point}" for name in SPREADS for point in POINTS),
    *(f"fairness.{name}" for name in FAIRNESS),
    *(f"by_size.{size}.{name}" for size in SIZES for name in BY_SIZE),
)

Row = dict[str, Any]


class RunLike(Protocol):
    """Something that is run; runs of one place and policy take about as long as each other."""

    @property
    def place(self) -> Hashable:
        """Everything but its policy and its seed."""

    @property
    def policy(self) -> str:
        """The text of its policy."""


class Runner(Protocol):
    """What workers are given once: all that runs share, and how one of them becomes a row."""

    @property
    def version(self) -> str:
        """That of the shunter that plans; a worker with another one is refused."""

    def row(self, run: Any, key: str) -> Row:
        """Do a run. Its row has ``key``, ``version``, ``begun``, ``seconds`` and, if it failed, ``error``."""

    def lost(self, run: Any, key: str, why: str) -> Row:
        """The row of a run whose worker died with it."""


@dataclass(frozen=True)
class Batch:
    """Runs that one worker does in a row, with their keys."""

    number: int
    runs: tuple[Any, ...]
    keys: tuple[str, ...]


class OtherVersionError(RunError):
    """A worker has another version of shunter than the one that plans."""


def work(runner: Runner, batch: Batch, report: Callable[[int], None] = lambda done: None) -> list[Row]:
    """Do the runs of a batch; a run that fails is a row with its error."""
    if runner.version != code_version():
        raise OtherVersionError(
            f"a worker on {os.uname().nodename} has shunter {code_version()}, and this is {runner.version}; "
            "install the same version there"
        )
    rows = []
    for done, (each, key) in enumerate(zip(batch.runs, batch.keys, strict=True), 1):
        rows.append(runner.row(each, key))
        report(done)
    return rows


def attempted(about: Row, policy: str, command: str, do: Callable[[], Row]) -> Row:
    """The row of a run: what it is, what it took, and what it gave or its error with the command that repeats it."""
    begun, cpu = time.time(), time.process_time()
    row = {**about, "begun": begun, "host": os.uname().nodename}
    try:
        with compiled_once(policy):
            row |= do()
    except Exception as error:  # whatever it is, the other runs go on
        row |= {"error": _error_text(error), "command": command}
    return {**row, "seconds": time.time() - begun, "cpu_s": time.process_time() - cpu}


@dataclass(frozen=True, eq=False)
class SweepRunner:
    """How a run of a sweep becomes a row."""

    ground: Ground

    @property
    def version(self) -> str:
        """That of the shunter that plans."""
        return self.ground.version

    def row(self, run: RunSpec, key: str) -> Row:
        """One run as a row: what it is, and its numbers or its error."""
        return attempted(about(run, key, self.ground), run.policy, self._command(run), lambda: self._done(run))

    def lost(self, run: RunSpec, key: str, why: str) -> Row:
        """The row of a run whose worker died with it."""
        return {**about(run, key, self.ground), "error": why, "command": self._command(run)}

    def _done(self, spec: RunSpec) -> Row:
        places = _places_of(self.ground)
        settings = {"settings": _settings(spec.policy)}
        policy = places.policy(spec.place, spec.policy)
        draw = places.draw(spec.place, spec.seed)
        result = run_draw(draw, policy, budget=self.budget(draw.trace))
        settings |= {
            "input": places.input(spec.place),
            "varies": JOBS if places.setup(spec.place).redraws else ARRIVALS,
        }
        return {**settings, "digest": result.digest, "engine_s": result.elapsed_s, **self.found(result)}

    def budget(self, trace: Trace) -> int | None:
        """Decisions after which a run of these jobs is abandoned; None: never."""
        return None

    def found(self, result: Result) -> Row:
        """What is kept of a result."""
        return {**numbers(result), **_measured(self.ground.choices.measures, result)}

    def _command(self, run: RunSpec) -> str:
        return command_of(run, self.ground.choices, self.ground.seed)


@lru_cache(maxsize=1)
def _places_of(ground: Ground) -> Places:
    """What a worker has read stays for the batches to come; it serves one sweep at a time."""
    return Places(ground)


def about(spec: RunSpec, key: str, ground: Ground) -> Row:
    """The columns that say what a run is."""
    place, jobs = spec.place, spec.place.jobs
    return {
        "key": key, "trace": jobs.name, "window": jobs.window, "cluster": place.cluster,
        "load": float(place.load) if place.load else None, "network": place.network, "overhead": place.overhead,
        "checkpointable": place.checkpointable,
        "policy": spec.policy, "seed": spec.seed, "base_seed": ground.seed, "version": ground.version,
    }  # fmt: skip


def numbers(result: Result) -> dict[str, float | None]:
    """The numbers of a run, by the names of columns."""
    summary = dict(result.core_summary)
    summary["by_size"] = {size: group for size, group in summary["by_size"].items() if group["jobs"]}
    return {name: _at(summary, name) for name in METRICS}


def _at(summary: Mapping[str, Any], path: str) -> float | None:
    found: Any = summary
    for step in path.split("."):
        found = None if found is None else found.get(step)
    return None if found is None else float(found)


def _measured(wanted: Sequence[str], result: Result) -> dict[str, float]:
    """The measures of third parties."""
    from shunter.report import additions

    found = additions.measured(result.kept, additions.measures(wanted)) if wanted else {}
    return {f"measures.{name}": float(value) for name, value in found.items()}


@cache
def _settings(policy: str) -> str:
    """Every parameter of a policy with its value, as JSON."""
    name, given = named(policy)
    known = declared(registry.policy_class(name))
    return json.dumps({key: given.get(key, _plain(default)) for key, (_, default, _) in known.items()})


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


@contextmanager
def compiled_once(policy: str) -> Iterator[None]:
    """Let only one process of a machine compile what a policy needs; the others wait and find it in the cache."""
    mark = cache_folder() / f"used-{_kernels_of(policy)}"
    lock = None if mark.exists() else _locked(cache_folder() / "compiling.lock")
    try:
        yield
    finally:
        if lock is not None:
            with suppress(OSError):  # no room: the next process looks again
                mark.touch()
            os.close(lock)


def _locked(path: Path) -> int | None:
    """A file that one process holds at a time; None: nothing can be kept there, so nothing can be shared."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    for _ in range(round(PATIENCE_S / PAUSE_S)):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        time.sleep(PAUSE_S)
    return lock  # in the end without the lock: whoever holds it may be stopped


@cache
def _kernels_of(policy: str) -> str:
    """What kernels depend on: a policy's name and its settings that are no numbers."""
    name, given = named(policy)
    words = [f"{key}={value}" for key, value in sorted(given.items()) if not value.replace(".", "").isdigit()]
    return hashlib.blake2b(":".join((name, *words)).encode(), digest_size=8).hexdigest()


def _error_text(error: Exception) -> str:
    """What went wrong, for people; of a defect also where."""
    if isinstance(error, InputError):
        return str(error)[:LONGEST_ERROR]
    where = "".join(traceback.format_tb(error.__traceback__)[-3:])
    return f"{type(error).__name__}: {error}\n{where}"[:LONGEST_ERROR]
