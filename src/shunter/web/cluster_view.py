"""What the page knows of a live cluster: read as ``shunter slurm when`` and ``audit`` read it, and never changed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from shunter import registry
from shunter.errors import LiveError, ShunterError
from shunter.experiment import TraceSource
from shunter.live import answers, audit
from shunter.live.answers import described
from shunter.live.daemons import pid_in
from shunter.live.forecast import Outlook
from shunter.live.journal import GUARD, Journal, WaitsEntry
from shunter.live.locks import lock_of
from shunter.live.running import policy_of
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.standing import places
from shunter.live.why import why
from shunter.model import Trace
from shunter.setup import read_trace, trace_version
from shunter.slurm import questions
from shunter.texts import counted
from shunter.web.settings import LiveSources

FRESH_S = 10.0  # a look at the cluster is used for this long
LATE = 3  # intervals without a sign of life after which a controller counts as silent
MOST_FORECASTS = 25  # jobs of a list whose starts are forecast at once
MOST_ENTRIES = 200  # of the audit
DAY_S = 86_400.0
NO_CONTROLLER = "No controller has run with this journal."
SOON_S = 1.0  # that a page waits for a policy's order
T = TypeVar("T")


@dataclass(frozen=True)
class QueueFilter:
    """Which waiting jobs are shown."""

    user: str = ""
    partition: str = ""
    text: str = ""  # a part of the job's id or name
    begin: int = 0  # how many are skipped
    when: bool = False  # whether starts are forecast
    policy: str = ""  # whose order is shown beside the manager's; "": the controller's

    def keeps(self, job: LiveJob) -> bool:
        """Whether a job is shown."""
        return (
            self.user in ("", job.user)
            and (not self.partition or self.partition in job.partition.split(","))
            and (not self.text or self.text in job.id or self.text.lower() in job.name.lower())
        )


@dataclass(frozen=True)
class QueuedJob:
    """A waiting job as the list shows it."""

    job: LiveJob
    place: int  # among all that are listed
    about: str
    reason: str
    changed: str  # what the controller did to it last, and why
    policy_place: int | None = None  # in the policy's order; None: not known, or left to the manager
    p50_s: float | None = None  # seconds since 1970; None: no forecast was asked for, or none can be made
    p90_s: float | None = None


@dataclass(frozen=True)
class ControllerState:
    """What the journal says of the controller and its guard."""

    present: bool  # there is a journal
    life: str = ""
    handed_back: str = ""
    guard: str = ""
    silent: bool = False
    policy: str = ""


@dataclass(frozen=True)
class PolicyOrder:
    """The places of waiting jobs in a policy's order; or why there are none."""

    policy: str = ""
    places: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    pending: bool = False  # they are still being computed

    def of(self, job: LiveJob) -> int | None:
        """The place of a job; None: the policy leaves it to the manager."""
        return self.places.get(job.id) or self.places.get(job.whole)


@lru_cache(maxsize=1)
def _past_jobs(past: TraceSource, version: tuple[int, int]) -> Trace:
    """The history; it is read again when the file's ``version`` is another, not at every look at the cluster."""
    return read_trace(past.path, past.format or None, past.on_bad_row)


class ClusterView:
    """Looks at the cluster at most every few seconds, however many browsers ask."""

    def __init__(self, sources: LiveSources) -> None:
        self.sources = sources
        self._lock = Lock()
        self._kept: tuple[float, Outlook | None] = (0.0, None)
        self._ordering = Lock()
        self._lined: tuple[Outlook | None, Sequence[LiveJob]] = (None, ())
        self._orders: tuple[Snapshot | None, dict[str, Future[PolicyOrder]]] = (None, {})
        self._pool = ThreadPoolExecutor(1, "shunter-places")

    def _fresh(self, make: Callable[[], Outlook]) -> Outlook:
        """The last look, or a new one: of Slurm after some seconds, of a file when that has changed."""
        file = self.sources.snapshot
        with self._lock:
            at, found = self._kept
            now = file.stat().st_mtime if file is not None and file.is_file() else time.monotonic()
            if found is None or (now != at if file is not None else now - at > FRESH_S):
                found = make()
                self._kept = (now, found)
            return found

    def outlook(self) -> Outlook:
        """Everything that forecasts use, as ``shunter slurm when`` has it."""
        if not self.sources.shows_queue:
            raise LiveError("this page shows no cluster; start it with --slurm, or with --snapshot FILE")
        return self._fresh(self._look)

    def _look(self) -> Outlook:
        sources, past = self.sources, self.sources.history
        jobs = _past_jobs(past, trace_version(past.path)) if past else None
        return questions.AnswerSources(sources.snapshot, sources.site, jobs).outlook()

    def warm(self) -> None:
        """Forecast one job, so that the first person who asks need not wait until all is compiled."""
        outlook = self.outlook()
        waiting = outlook.line.waiting()
        if waiting:
            outlook.of(waiting[0])
        self.order()

    @property
    def snapshot(self) -> Snapshot:
        """The jobs and nodes."""
        return self.outlook().snapshot

    # -- the queue

    def queue(self, wanted: QueueFilter, most: int) -> tuple[list[QueuedJob], int]:
        """A part of the waiting jobs in the manager's order, and how many there are."""
        outlook, changed = self.outlook(), self._changed()
        ordered = [(place, job) for place, job in enumerate(self._line(outlook), 1) if wanted.keeps(job)]
        begin = wanted.begin
        meaning = outlook.snapshot.words.meaning
        part = ordered[begin : begin + most]
        starts = self._starts(outlook, [job for _, job in part]) if wanted.when else {}
        places = self.order(wanted.policy)
        shown = [
            QueuedJob(
                job, place, described(job), meaning(job).words, changed.get(job.handle, ""), places.of(job),
                *starts.get(job.id, ()),
            )
            for place, job in part
        ]  # fmt: skip
        return shown, len(ordered)

    def _line(self, outlook: Outlook) -> Sequence[LiveJob]:
        """The waiting jobs in the manager's order, found once for each look at the cluster."""
        with self._ordering:
            if self._lined[0] is not outlook:
                pending = [job for job in outlook.snapshot.jobs if job.state == "PENDING"]
                self._lined = (outlook, outlook.line.order(pending))
            return self._lined[1]

    def order(self, policy: str = "") -> PolicyOrder:
        """The order of this policy, or of the controller's; found once for each look at the cluster.

        The first one of a policy may compile, which takes longer than a page may.
        """
        moment, text = self.snapshot, policy or self.policy()
        if not text:
            return PolicyOrder()
        with self._ordering:
            if self._orders[0] is not moment:
                self._orders = (moment, {})
            known = self._orders[1]
            if text not in known:
                known[text] = self._pool.submit(_ordered, text, moment)
            found = known[text]
        try:
            return found.result(SOON_S)
        except TimeoutError:
            return PolicyOrder(text, pending=True)

    @staticmethod
    def _starts(outlook: Outlook, jobs: list[LiveJob]) -> dict[str, tuple[float | None, float | None]]:
        """By when jobs start with 50 % and 90 % chance, of the first ones that wait for their turn."""
        waiting = {job.id for job in outlook.line.waiting()}
        able = [task for job in jobs if job.id in waiting for task in job.first_tasks(1)][:MOST_FORECASTS]
        found = {one.job.id: (one.at(0.5), one.at(0.9)) for one in outlook.of(*able)} if able else {}
        return {name: (half and half / 1000, most and most / 1000) for name, (half, most) in found.items()}

    def users(self) -> list[tuple[str, int]]:
        """The users of waiting jobs, with how many they have."""
        return sorted(Counter(job.user for job in self.snapshot.jobs if job.state == "PENDING").items())

    def partitions(self) -> list[str]:
        """The partitions of nodes with GPUs."""
        return sorted({name for node in self.snapshot.nodes for name in node.partitions})

    def nodes(self) -> dict[str, Any]:
        """The nodes and their GPUs, as data for the map."""
        users: dict[str, list[str]] = {}
        for job in self.snapshot.jobs:
            for name in job.nodes if job.runs else ():
                users.setdefault(name, []).append(f"{job.id} ({job.user})")
        found = [
            [
                node.name,
                node.gpus,
                len(node.used),
                int(node.up),
                node.state,
                node.gpu_type,
                users.get(node.name, [])[:9],
            ]
            for node in self.snapshot.nodes
        ]
        return {"nodes": found}

    def totals(self) -> list[tuple[str, str]]:
        """The cluster in a few numbers."""
        jobs, nodes = self.snapshot.jobs, self.snapshot.nodes
        up = [node for node in nodes if node.up]
        gpus, used = sum(node.gpus for node in up), sum(len(node.used) for node in up)
        return [
            ("waiting", counted(sum(job.count for job in jobs if job.state == "PENDING"), "job")),
            ("running", counted(sum(job.runs for job in jobs), "job")),
            ("GPUs in use", f"{used:,} of {gpus:,}"),
            ("nodes up", f"{len(up):,} of {len(nodes):,}"),
        ]

    @property
    def as_of(self) -> str:
        """When the cluster was looked at."""
        return answers.moment(self.snapshot.now)

    # -- questions

    def why(self, job_id: str) -> dict[str, Any]:
        """Why a job waits: what ``shunter slurm why --json`` prints."""
        outlook = self.outlook()
        return answers.why_record(why(outlook, questions.pending(outlook.snapshot, job_id)))

    def why_lines(self, job_id: str) -> tuple[str, list[tuple[str, str]]]:
        """The same in words: a sentence, and names with what they are."""
        outlook = self.outlook()
        return answers.why_lines(why(outlook, questions.pending(outlook.snapshot, job_id)))

    def when(self, job_id: str) -> dict[str, Any]:
        """When a job may start: what ``shunter slurm when --json`` prints."""
        outlook = self.outlook()
        (found,) = outlook.of(questions.pending(outlook.snapshot, job_id))
        return answers.when_record(outlook, found)

    def what_if(self, wish: questions.Wish) -> dict[str, Any]:
        """When a job would start: what ``shunter slurm what-if --json`` prints."""
        outlook = self.outlook()
        return answers.when_record(outlook, wish.forecast(outlook))

    # -- the controller

    def audit(self) -> list[audit.Entry]:
        """What the controller changed or left alone, the last first."""
        return self._journal(lambda book: audit.entries(book, most=MOST_ENTRIES)[-MOST_ENTRIES:][::-1], [])

    def controller(self) -> ControllerState:
        """Whether a controller runs, and what its guard says."""
        if self.sources.journal is not None and not self.sources.journal.is_file():
            return ControllerState(True, "There is no journal yet; a controller that acts makes it.", silent=True)
        return self._journal(lambda book: _controller(book, self._starting()), ControllerState(False))

    def _starting(self) -> str:
        """What is known of a process that may be compiling before its first round; "": there is none."""
        pid = pid_in(lock_of(self.sources.journal, "controller")) if self.sources.journal is not None else None
        return f"Process {pid} is there; its first round comes when all is compiled." if pid else ""

    def policy(self) -> str:
        """The controller's policy; "": not known."""
        return self._journal(policy_of, "")

    def waits(self) -> list[WaitsEntry]:
        """How long jobs waited against the guard's shadow, over the last day."""
        return self._journal(lambda book: book.waits(time.time() - DAY_S), [])

    def _changed(self) -> dict[str, str]:
        return {entry.job: f"{entry.kind} {entry.change}: {entry.why}" for entry in self.audit()[::-1] if entry.job}

    def _journal(self, read: Callable[[Journal], T], otherwise: T) -> T:
        if self.sources.journal is None or not self.sources.journal.is_file():
            return otherwise
        with closing(Journal.reading(self.sources.journal)) as book:
            return read(book)


def _ordered(text: str, moment: Snapshot) -> PolicyOrder:
    try:
        return PolicyOrder(text, places(registry.policy(text), moment))
    except ShunterError as error:
        return PolicyOrder(text, problem=str(error))


def _clock(at: float) -> str:
    return answers.moment(round(1000 * at))


def _controller(book: Journal, starting: str) -> ControllerState:
    life = book.life()
    last = book.last_event(GUARD, "guard would", "guard can't")
    guard = f"{_clock(last[0])}: {last[2]}" if last else "It has not objected."
    if life is None:
        return ControllerState(True, starting or NO_CONTROLLER, book.handed_back(), guard, True)
    _, at, interval = life
    silent = time.time() - at > LATE * interval
    words = f"{'Last' if silent else 'It runs; last'} sign of life at {_clock(at)}, due every {interval:g} s."
    words += f" {starting}" if silent and starting else ""
    return ControllerState(True, words, book.handed_back(), guard, silent, policy_of(book))
