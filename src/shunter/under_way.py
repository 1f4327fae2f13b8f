"""Work that is under way, as a small file beside the folder that it will fill: others can follow how far it is.

``runs/sjf`` has ``runs/.sjf.under-way.json`` as long as its run is computed. ``shunter web`` shows it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from shunter.errors import RunError
from shunter.safe_files import text_of, whole

ENDING = ".under-way.json"
EVERY_S = 1.0  # between two writes
MOST_POINTS = 100  # of a course
MOST_BYTES = 2**16  # of a file that is read: anyone may have put it there
MOST = 2**53
SILENT_S = 600.0  # after which work on another machine counts as gone


class RunPoint(NamedTuple):
    """How far a simulation is, at a moment of its own time."""

    time_s: float  # since the simulated time began
    ended: int  # jobs
    waiting: int  # jobs
    busy_gpus: float


class SimulatedCourse:
    """The moments of a simulation so far: few enough to draw, spread over all of its course, the newest among them."""

    def __init__(self) -> None:
        self.points = [RunPoint(0.0, 0, 0, 0.0)]
        self._every, self._since = 1, 0  # reports for each point that stays; those since the last of these

    def add(self, point: RunPoint) -> None:
        """Take note of one more; when there are too many, every second one is forgotten."""
        points = self.points[:-1] if self._since else self.points
        points = [*points, point]  # others may read the list before
        self._since = (self._since + 1) % self._every
        if len(points) > MOST_POINTS:
            points = points[::2]
            self._every *= 2
        self.points = points


@dataclass
class UnderWay:
    """How far it is."""

    kind: str  # run, comparison or sweep
    trace: str
    cluster: str
    policies: list[str]
    unit: str = "jobs"
    done: int = 0
    total: int = 0
    begun: float = field(default_factory=time.time)  # seconds since 1970
    at: float = 0.0  # when this was written
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    points: list[tuple[float, int]] = field(default_factory=list)  # seconds since it began, steps done by then
    gpus: float = 0.0  # of the cluster
    course: list[RunPoint] = field(default_factory=list)  # of a run: its simulated time so far

    @property
    def alive(self) -> bool:
        """Whether someone still works on it, as far as this machine can know."""
        if self.host == socket.gethostname() and Path("/proc/self").exists():
            return Path(f"/proc/{self.pid}").exists()
        return abs(time.time() - self.at) < SILENT_S  # a time far ahead is no sign of life

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1."""
        return min(self.done / self.total, 1.0) if self.total > 0 else 0.0


def file_of(folder: Path) -> Path:
    """The file that says how far the work on a folder is."""
    return folder.with_name(f".{folder.name}{ENDING}")


@contextmanager
def shown(folder: Path | None, about: UnderWay, later: bool = False) -> Iterator[Progressing]:
    """Keep the file as long as the block lasts; without a folder there is none.  ``later``: not in the first second."""
    writer = Progressing(folder, about, later)
    try:
        yield writer
    finally:
        writer.end()


class Progressing:
    """Gets the steps done, and all, and writes them down now and then; what can't be written is left out.

    A run adds how far it is in its simulated time.
    """

    def __init__(self, folder: Path | None, about: UnderWay, later: bool = False) -> None:
        self.file = file_of(folder.absolute()) if folder is not None else None
        self.about = about
        self._written, self._course = time.monotonic() if later else -EVERY_S, SimulatedCourse()

    def reach(self, point: RunPoint, total: int) -> None:
        """Take note of how far a run is."""
        self._course.add(point)
        self.about.course = self._course.points
        self(point.ended, total)

    def __call__(self, done: int, total: int) -> None:
        """Take note of steps."""
        now = time.monotonic()
        if self.file is None or now - self._written < EVERY_S:
            return
        self._written, about = now, self.about
        about.done, about.total, about.at = done, total, time.time()
        about.points.append((round(about.at - about.begun, 1), done))
        if len(about.points) > MOST_POINTS:
            about.points = about.points[::2]
        with suppress(OSError, RunError):  # a full disk must not end the run
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with whole(self.file, RunError) as part:
                part.write_text(json.dumps(asdict(about)))

    def end(self) -> None:
        """It is over."""
        if self.file is not None:
            with suppress(OSError):
                self.file.unlink(missing_ok=True)


def read(file: Path) -> UnderWay | None:
    """What a file says; None: it is none of ours, or gone."""
    try:
        if file.stat().st_size > MOST_BYTES:
            return None
        found: Any = json.loads(text_of(file, RunError))
        made = UnderWay(**found)
        numbers = (made.done, made.total, made.begun, made.at, made.pid, made.gpus)
        texts = (made.kind, made.trace, made.cluster, made.unit, made.host)
        "".join((*texts, *made.policies)).encode()  # JSON can spell characters that can't be sent
        if not isinstance(made.policies, list) or made.kind not in KINDS or not all(map(_is_number, numbers)):
            return None
        made.points = [(float(at), int(done)) for at, done in _numbers(made.points)]
        made.course = _forwards(RunPoint(float(t), int(n), int(m), float(g)) for t, n, m, g in _numbers(made.course))
    except (RunError, OSError, ValueError, TypeError, LookupError, RecursionError):
        return None
    return made


KINDS = ("run", "comparison", "sweep")


def _numbers(points: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows of numbers, not too many."""
    found = [tuple(point) for point in points[: 2 * MOST_POINTS]]
    if not all(_is_number(each) for point in found for each in point):
        raise ValueError("no numbers")
    return found


def _forwards(points: Iterable[RunPoint]) -> list[RunPoint]:
    """The points whose time is not before that of an earlier one."""
    found: list[RunPoint] = []
    for point in points:
        if not found or point.time_s >= found[-1].time_s:
            found.append(point)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value < MOST
