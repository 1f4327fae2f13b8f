"""Corrects a forecast by past waits: how far forecasts at past moments were off, for jobs in a similar position.

A history is stopped at past moments.  Jobs that waited are forecast from what was known then, and their recorded
starts show how far each forecast was off.  A forest finds the past forecasts that are most like a present one.  Their
errors, added to the present roll-forward, make up most of the answer; their waits themselves, and the roll-forward
alone, make up the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from shunter.errors import LiveError
from shunter.live.forecast import FARTHEST_MS, Forecast, Outlook, check
from shunter.live.forest import Forest, quantiles
from shunter.live.moments import Moments, started
from shunter.live.nodes import Node
from shunter.live.queue_state import NAMES, QueueState
from shunter.live.rules import Rules
from shunter.live.snapshot import LiveJob
from shunter.live.wait_causes import Kind
from shunter.model import Trace
from shunter.predictors import storing
from shunter.world import F64, I64

LEVELS = np.array([0.1, 0.25, 0.5, 0.75, 0.9, 0.97])
MIDDLE = 2  # in LEVELS
SPANS = np.diff([0.0, *(LEVELS[1:] + LEVELS[:-1]) / 2, 1.0])  # the share of samples that each stands for
FEATURES = (*NAMES, *(f"rolled_{level:g}" for level in LEVELS), "rolled_mean")
MOMENTS = 150  # at submissions, and as many at regular times at which jobs wait
EACH = 8  # jobs of a regular moment
DAYS_MS = 90 * 86_400_000  # of history
GRID_MS = 600_000  # between regular times
SAMPLES = 30  # of a roll-forward at a past moment
FEWEST = 100  # questions without which nothing is learned
# Chosen on AAIC's jobs to October, see docs/reference/slurm-asking.md:
TREES, SMALLEST, TRIED = 40, 10, 12  # of the forest
PLAIN = 0.25  # the weight of past waits themselves beside that of the errors of past roll-forwards
ALONE = 10.0  # weight of the roll-forward alone, in past jobs
SCALE_S = 60.0  # errors are measured in logs of seconds and this: what is off by less hardly matters

Progress = Callable[[int, int], None]


class Ask(NamedTuple):
    """A past moment at which waiting jobs are forecast."""

    now: int  # ms
    row: int = -1  # the job that is submitted then; -1: some of those that wait


@dataclass(frozen=True, eq=False)
class Questions:
    """Forecasts at past moments, and what happened: the lessons that are stored."""

    rows: F64  # (questions, FEATURES)
    moment: I64  # (questions,) ms
    job: I64  # (questions,) row in the history
    start: I64  # (questions,) ms, as recorded
    features: tuple[str, ...] = FEATURES

    def waited(self, until: int) -> F64:
        """Seconds from question to start as known at an instant; of a job that still waits, the least it can be."""
        return np.maximum(np.minimum(self.start, until) - self.moment, 0) / 1000

    def where(self, chosen: Any) -> Questions:
        """Some of them."""
        return Questions(self.rows[chosen], self.moment[chosen], self.job[chosen], self.start[chosen])

    def check(self) -> None:
        """Refuse what can't be learned from; called when they are read from a file."""
        shapes = {each.shape for each in (self.moment, self.job, self.start)}
        if shapes != {(len(self.rows),)} or self.rows.shape[1:] != (len(FEATURES),) or np.isinf(self.rows).any():
            raise ValueError("its numbers are not complete")


storing.KINDS["waits"] = Questions  # stored in the same checked format as fitted models


@dataclass(frozen=True, eq=False)
class Waits:
    """What past questions say about a present one."""

    forest: Forest  # its targets are the errors of the roll-forwards, in logs
    waited: F64  # (questions,) logs
    known: NDArray[np.bool_]  # (questions,) False: the job waits still, and the others are the least that they can be
    job: I64  # (questions,) numbered from 0

    @classmethod
    def learned(cls, questions: Questions, until: int) -> Waits | None:
        """From questions before an instant, and what was known of their answers by then; None if they are few."""
        past = questions.where(questions.moment < until)
        known = past.start <= until
        if known.sum() < FEWEST:
            return None
        waited = np.log(past.waited(until) + SCALE_S)
        errors = waited - rolled(past.rows)[:, MIDDLE]
        forest = Forest.grown(past.rows, errors, trees=TREES, smallest=SMALLEST, tried=TRIED)
        return cls(forest, waited, known, np.unique(past.job, return_inverse=True)[1])

    @property
    def method(self) -> str:
        """What gave the numbers, in words."""
        return f"simulation, corrected by how far it was off at {len(self.waited):,} past waits of this site"

    def seconds(self, rows: F64, levels: F64) -> F64:
        """By when jobs start with such chances: whole seconds from now, a row for each job."""
        found = [self._logs(*each, levels) for each in zip(self.forest.weights(rows), rolled(rows), strict=True)]
        logs = np.array(found).reshape(len(rows), len(levels))
        return np.ceil(np.maximum(np.exp(logs) - SCALE_S, 0.0) - 1e-6)  # a log and back is no whole second

    def _logs(self, weights: F64, rolled: F64, levels: F64) -> F64:
        """Three opinions: the roll-forward, the same with the errors of like ones, and the waits of like jobs."""
        like = np.flatnonzero(weights)
        weight, known = weights[like], self.known[like]
        alone = ALONE / (ALONE + self._jobs(like, weight))
        waited = self.waited[like]
        moved = np.minimum(self.forest.targets[like] + rolled[MIDDLE], max(waited.max(), rolled[-1]))
        values = np.concatenate((rolled, moved, waited))
        shares = (alone * SPANS, (1 - alone) * (1 - PLAIN) * weight, (1 - alone) * PLAIN * weight)
        return quantiles(values, np.concatenate((SPANS > 0, known, known)), np.concatenate(shares), levels)

    def _jobs(self, like: I64, weight: F64) -> float:
        """How many jobs speak: many questions about a few jobs say little."""
        return 1 / float((np.bincount(self.job[like], weight) ** 2).sum())

    def corrected(self, outlook: Outlook, forecasts: Sequence[Forecast]) -> list[Forecast]:
        """Roll-forwards, corrected where a job waits for its turn."""
        levels = np.arange(1, outlook.samples + 1) / outlook.samples
        seconds = self.seconds(described(outlook, forecasts), levels)
        return [
            self._corrected(each, starts)
            if outlook.snapshot.words.meaning(each.job).kind is Kind.TURN and each.at(0.5)
            else each
            for each, starts in zip(forecasts, seconds, strict=True)
        ]

    def _corrected(self, forecast: Forecast, seconds: F64) -> Forecast:
        first = max(forecast.job.eligible, forecast.now)
        starts = np.maximum(forecast.now + np.minimum(1000 * seconds, FARTHEST_MS).astype(np.int64), first)
        return replace(forecast, starts=tuple(starts.tolist()), method=self.method)


def rolled(rows: F64) -> F64:
    """The roll-forwards of rows at the levels, in the logs in which errors are measured."""
    logs: F64 = np.log(np.expm1(rows[:, len(NAMES) : len(NAMES) + len(LEVELS)]) + SCALE_S)
    return logs


def described(outlook: Outlook, forecasts: Sequence[Forecast]) -> F64:
    """Jobs with the queue around them and their roll-forwards, as rows of ``FEATURES``."""
    jobs = [each.job for each in forecasts]
    own = {job.id.partition("_")[0] for job in jobs if "_" in job.id}  # a task does not wait for the rest of its array
    order = [job for job in outlook.line.waiting(*jobs) if not (job.is_array and job.id in own)]
    state = QueueState(outlook.snapshot, outlook.run_times, order)
    rows = [[*state.row(each.job), *_rolled(each)] for each in forecasts]
    return np.array(rows, np.float64).reshape(len(forecasts), len(FEATURES))


def _rolled(forecast: Forecast) -> list[float]:
    """Log seconds until the start at the levels, and their mean over all samples."""
    waits = np.log1p((np.minimum(forecast.starts, forecast.now + FARTHEST_MS) - forecast.now) / 1000)
    places = np.ceil(LEVELS * len(waits)).astype(np.int64) - 1
    return [*waits[places].tolist(), float(waits.mean())]


# ------------------------------------------------------------------------------------------- from a history


def of_history(trace: Trace, nodes: Sequence[Node], rules: Rules, progress: Progress | None = None) -> Waits | None:
    """What a history's waits say, or None if it has too few; the questions are kept in the cache of models."""
    if not (trace.recorded_wait >= 0).any():
        return None
    until = int(started(trace).max())
    when = moments(trace, max(until - DAYS_MS, int(trace.submit[0])), until, MOMENTS)

    def put() -> Any:
        return questions(trace, nodes, when, rules, progress)

    plain = [replace(node, state="", used=(), cpus_used=0, mem_used=0) for node in nodes]
    found = storing.cached(("waits", _code(), trace.digest, plain, asdict(rules)), put)
    return Waits.learned(cast(Questions, found), until)


def _code() -> str:
    """A hash of what puts questions: other code may get other answers."""
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def moments(trace: Trace, first: int, last: int, count: int) -> list[Ask]:
    """Moments between two instants: a number of submissions, and as many regular times at which jobs wait."""
    starts, grid = np.sort(started(trace)), np.arange(first, last, GRID_MS)
    busy = np.searchsorted(trace.submit, grid, side="right") > np.searchsorted(starts, grid, side="right")
    rows = np.flatnonzero((trace.submit >= first) & (trace.submit < last) & (trace.recorded_wait >= 0))
    regular = [Ask(int(now)) for now in spread(grid[busy], count)]
    return sorted([*regular, *(Ask(int(trace.submit[row]), int(row)) for row in spread(rows, count))])


def spread(values: I64, count: int) -> I64:
    """At most this many of the values, evenly spread."""
    places = np.linspace(0, len(values) - 1, min(count, len(values)))
    return values[places.astype(np.int64)]


def questions(
    trace: Trace, nodes: Sequence[Node], when: Sequence[Ask], rules: Rules, progress: Progress | None = None
) -> Questions:
    """Roll-forwards at past moments, beside the recorded starts."""
    rows, asked = [np.zeros((0, len(FEATURES)))], []
    for at, (outlook, jobs) in enumerate(past(trace, nodes, when, rules)):
        rows.append(described(outlook, outlook.rolled(*jobs)) if jobs else rows[0])
        asked += [(outlook.snapshot.now, int(job.id)) for job in jobs]
        if progress is not None:
            progress(at + 1, len(when))
    now, job = np.array(asked, np.int64).reshape(-1, 2).T
    return Questions(np.concatenate(rows), now, job, started(trace)[job])


def past(
    trace: Trace, nodes: Sequence[Node], when: Sequence[Ask], rules: Rules, samples: int = SAMPLES
) -> Iterator[tuple[Outlook, list[LiveJob]]]:
    """What was known at past moments, and the jobs to forecast then."""
    walk = Moments(trace, nodes)
    for ask in when:
        moment = walk.at(ask.now)
        outlook = Outlook(moment.snapshot, rules, moment.run_times, samples)
        yield outlook, _chosen(outlook, moment.waiting, ask)


def _chosen(outlook: Outlook, waiting: Sequence[LiveJob], ask: Ask) -> list[LiveJob]:
    """The jobs to forecast at a moment."""
    if ask.row >= 0:
        some = [job for job in waiting if int(job.id) == ask.row]
    else:
        some = list(waiting[:: max(-(-len(waiting) // EACH), 1)])
    return [job for job in some if _possible(outlook, job)]


def _possible(outlook: Outlook, job: LiveJob) -> bool:
    try:
        check(job, outlook)
    except LiveError:
        return False
    return not outlook.line.obstacles(job)
