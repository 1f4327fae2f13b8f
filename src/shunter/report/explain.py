"""The course of one job in plain words: what happened to it, and why it waited in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter import reasons as r
from shunter import world as w
from shunter.errors import RunError, did_you_mean
from shunter.model import EARLIEST_DATE_MS
from shunter.report.calendar import LAST_DATE_MS, text_of
from shunter.report.derived_reasons import BUSY, KEPT
from shunter.report.missed import why_missed
from shunter.report.terminal.tables import duration
from shunter.report.waiting import groups, rows_of
from shunter.texts import counted
from shunter.world import I64

if TYPE_CHECKING:
    from shunter.run_folder import Run

STOPPED = {
    w.BY_POLICY: "stopped to make room for others",
    w.BY_LEASE: "stopped, its lease was over",
    w.BY_FAILURE: "stopped, a node failed",
}
TIMED = {"planned": "its turn was planned for", "asleep": "waited for sleeping nodes, awake at"}


@dataclass
class Piece:
    """A stretch of a job's waiting with one reason."""

    begin: int  # ms
    end: int
    code: str
    numbers: tuple[int, ...]  # that came with it; of free GPUs the largest in the stretch
    head: bool = False  # it was the one that stopped its pool
    others: dict[int, int] = field(default_factory=dict)  # the jobs in its way, and for how long (ms)
    besides: int = 0  # ms of it that were short stretches with other reasons
    fitting: int = 0  # ms of it in which enough GPUs were free for it
    wait_began: int = 0  # ms; the wait that it is a part of


def find(run: Run, job_id: str) -> int:
    """The row of a job."""
    rows = np.flatnonzero((run.jobs["job_id"] == job_id).to_numpy())
    if not len(rows):
        raise RunError(f"there is no job '{job_id}' in this run; {_near(run, job_id)}")
    return int(rows[0])


def _near(run: Run, job_id: str) -> str:
    known = run.jobs["job_id"].to_list()
    if len(known) <= 20:
        return did_you_mean(job_id, known)
    return f"its jobs are called '{known[0]}' to '{known[-1]}'; shunter explain RUN --top 20 lists the longest waits"


# ------------------------------------------------------------------------------------------- pieces


def waits(run: Run, job: int) -> list[tuple[int, int]]:
    """From when to when a job waited, ms."""
    found: list[tuple[int, int]] = []
    begin = None
    for time, kind, _, a, _ in run.events[run.events[:, 2] == job].tolist():
        if kind == w.START and begin is not None:
            found.append((begin, time))
            begin = None
        elif kind in (w.ARRIVE, w.PREEMPT) or (kind == w.FAIL and a == 0):
            begin = time
    return found


def pieces(run: Run, job: int) -> list[Piece]:
    """The job's waiting, cut where the reason changes."""
    rows, codes = rows_of(run)
    reasons = reasons_about(run, job, rows)
    return [piece for begin, end in waits(run, job) for piece in _pieces_of(reasons, codes, job, begin, end)]


def reasons_about(run: Run, job: int, rows: I64) -> I64:
    """What was said of a job, of its demand class, of its pool and of all; ``rows`` are those of ``rows_of``."""
    class_of, pool_of = groups(run.jobs)
    cls, pool = int(class_of[job]), int(pool_of[job])
    scope, subject = rows[:, 1], rows[:, 2]
    mine = (scope == r.OF_ALL) | ((scope == r.OF_POOL) & (subject == pool)) | ((scope == r.OF_JOB) & (subject == job))
    mine |= (scope == r.OF_CLASS) & (subject == cls)
    found: I64 = rows[mine]
    return found


def reason_at(job: int, time: int, began: int, about: I64, codes: tuple[str, ...]) -> Piece:
    """Why a job waits at one instant of a wait that ``began`` then; ``about``: what ``reasons_about`` found."""
    said: dict[int, tuple[int, ...]] = {}
    before = about[: np.searchsorted(about[:, 0], time, side="right")]
    for scope in range(len(r.SCOPES)):
        last = np.flatnonzero(before[:, 1] == scope)[-1:]
        if len(last) and (scope != r.OF_JOB or before[last[0], 0] >= began):
            said[scope] = tuple(before[last[0], 3:].tolist())
    return joined([replace(_holding(said, codes, job, time, time), wait_began=began)])[0]


def _pieces_of(reasons: I64, codes: tuple[str, ...], job: int, begin: int, end: int) -> list[Piece]:
    """The pieces of one wait."""
    said: dict[int, tuple[int, ...]] = {}  # per scope: code and numbers
    found: list[Piece] = []
    now = begin
    for time, scope, _, code, *numbers in [*reasons[reasons[:, 0] < end].tolist(), (end, -1, 0, 0)]:
        if time > now:
            _extend(found, replace(_holding(said, codes, job, now, time), wait_began=begin))
            now = time
        if scope != r.OF_JOB or time >= begin:  # what was said of the job in an earlier wait is over
            said[scope] = (code, *numbers)
    return found


def _holding(said: dict[int, tuple[int, ...]], codes: tuple[str, ...], job: int, begin: int, end: int) -> Piece:
    """What holds for a job by all that was said; the same rule as in ``shunter.report.waiting``."""
    nothing = (r.NONE, 0, 0, 0)
    own, everything, pool, cls = (said.get(s, nothing) for s in (r.OF_JOB, r.OF_ALL, r.OF_POOL, r.OF_CLASS))
    head = pool[0] != r.NONE and pool[1] == job
    shared = nothing if head else pool
    chosen = next((said for said in (own, everything, cls, shared) if said[0] != r.NONE), nothing)
    if chosen in (everything, cls) and chosen[0] != r.NONE and shared[0] == r.BEHIND:
        chosen = (r.QUEUED, *shared[1:])
    others = {chosen[1]: end - begin} if chosen[0] in (r.BEHIND, r.QUEUED, r.RESERVATION) else {}
    return Piece(begin, end, codes[chosen[0]], chosen[1:], head, others)


def _extend(found: list[Piece], piece: Piece) -> None:
    """Add a piece, or lengthen the last one if it is of the same kind."""
    if not found or found[-1].code != piece.code or found[-1].head != piece.head or found[-1].end != piece.begin:
        found.append(piece)
        return
    last = found[-1]
    last.end = piece.end
    last.besides += piece.besides
    last.fitting += piece.fitting
    if piece.code in ("full", "scattered", "starved", BUSY, KEPT):
        last.numbers = tuple(max(pair) for pair in zip(last.numbers, piece.numbers, strict=True))
    for other, length in piece.others.items():
        last.others[other] = last.others.get(other, 0) + length


def joined(found: list[Piece]) -> list[Piece]:
    """Pieces for people: whether a job that is behind another would fit changes all the time, so that is summed up."""
    merged: list[Piece] = []
    for piece in found:
        fitting = piece.end - piece.begin if piece.code == "behind" else 0
        code = "queued" if piece.code == "behind" else piece.code
        _extend(merged, replace(piece, code=code, fitting=fitting, others=dict(piece.others)))
    return merged


def shortened(found: list[Piece], most: int) -> list[Piece]:
    """At most this many pieces per wait: the shortest become parts of the one before, or of the one after."""
    pieces = list(found)
    while len(pieces) > most:
        at = min(range(len(pieces)), key=lambda i: pieces[i].end - pieces[i].begin)
        short = pieces.pop(at)
        if at > 0 and pieces[at - 1].end == short.begin:
            into = pieces[at - 1]
            into.end = short.end
        elif at < len(pieces) and pieces[at].begin == short.end:
            into = pieces[at]
            into.begin = short.begin
        else:  # a wait of its own, between two runs
            pieces.insert(at, short)
            break
        into.besides += short.end - short.begin
        rest, pieces = pieces, []
        for piece in rest:
            _extend(pieces, piece)  # what was on both sides of it may be alike
    return pieces


# ------------------------------------------------------------------------------------------- words


@dataclass(frozen=True)
class TimelineEntry:
    """One line of the timeline; ``end`` is None for what happens in a moment."""

    begin: int  # ms
    end: int | None
    text: str
    code: str = ""


def timeline(run: Run, job: int, most: int = 10**9) -> list[TimelineEntry]:
    """A job's whole course in words, in the order of time; its waiting in at most this many pieces."""
    waited = shortened(joined(pieces(run, job)), most)
    lines = [*_happened(run, job), *(TimelineEntry(p.begin, p.end, words(run, job, p), p.code) for p in waited)]
    return sorted(lines, key=lambda line: (line.begin, line.end is not None))


def _happened(run: Run, job: int) -> Iterator[TimelineEntry]:
    """What happened to a job, from the event log."""
    about = run.jobs.row(job, named=True)
    events = run.events[run.events[:, 2] == job].tolist()
    submitted, eligible = round(about["submit"] * 1000), events[0][0]
    extra = (("of type", about["gpu_type"]), ("in", about["vc"]), ("by", about["user"]))
    asked = " ".join([_gpus(about["gpus"]), *(f"{word} {name}" for word, name in extra if name)])
    yield TimelineEntry(submitted, None, f"submitted: {asked}")
    if eligible > submitted:
        yield TimelineEntry(submitted, eligible, f"held until job '{about['after']}' had ended", "dependency")
    starts: dict[int, list[str]] = {}
    moves: dict[int, str] = {}
    for time, kind, _, a, b in events:
        if kind == w.START:
            starts.setdefault(time, []).append(f"node {a} ({_gpus(b / 1000)})")
        elif kind == w.MOVE:
            moves[time] = "given other CPUs, memory or GPUs, now" if a == b else f"resized to {_gpus(b)},"
        elif kind == w.PREEMPT:
            yield TimelineEntry(time, None, STOPPED[a])
        elif kind == w.FAIL:
            yield TimelineEntry(time, None, "failed for good" if a == 1 else "failed, and is tried again")
        elif kind == w.FINISH:
            yield TimelineEntry(time, None, "finished")
    for time, nodes in starts.items():
        shown = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more nodes" if len(nodes) > 4 else "")
        yield TimelineEntry(time, None, f"{moves.get(time, 'started')} on {shown}")


def words(run: Run, job: int, piece: Piece) -> str:
    """A piece of waiting as a sentence."""
    besides = f" (but for {duration(piece.besides / 1000)} in short stretches)" if piece.besides else ""
    return _words(run, job, piece) + besides


def _words(run: Run, job: int, piece: Piece) -> str:  # noqa: C901, PLR0911 one per code
    about = run.jobs.row(job, named=True)
    needs = f"needs {_gpus(about['gpus'])}"
    free, largest, elsewhere = (*piece.numbers, 0, 0, 0)[:3]
    most = "at most " if piece.end > piece.begin else ""
    beside = f"; {elsewhere} free elsewhere, where it may not run" if elsewhere else ""
    where = f"in {about['vc']} " if about["vc"] else ""
    first = "head of the queue, " if piece.head else ""
    match piece.code:
        case "full" if free == 0:
            return f"{first}no GPU was free {where}".rstrip() + beside
        case "full":
            return f"{first}{needs}, {most}{free} were free {where}({largest} on one node){beside}"
        case "scattered":
            together = "on one node" if about["gpus"] <= run.cluster.node_gpus.max() else "on whole nodes"
            return f"{first}{needs} {together}, largest free block {largest} ({free} free {where}in all){beside}"
        case "starved":
            return f"{first}{needs}, {free} were free {where}but not the CPU or memory that it wants beside them"
        case "away":
            return f"{first}{needs}, but nodes {where or 'where it may run '}were down or asleep"
        case "queued":
            idle = f"; for {duration(piece.fitting / 1000)} enough GPUs were free for it" if piece.fitting else ""
            return "not its turn: {} came first and did not fit{}".format(*_in_front(run, piece)) + idle
        case "reservation":
            long = f", or too long to pass it (passing={elsewhere / 1000:g})" if elsewhere else ""
            return "held back by what is reserved for {}{}".format(*_in_front(run, piece)) + long
        case "planned" | "asleep":
            return f"{TIMED[piece.code]} {moment(piece.numbers[0])}"
        case "unplanned":
            return f"not planned yet: {counted(free, 'job')} held a reservation before it"
        case "offer":
            return _offer(run, piece)
        case "profile":
            return f"was to be profiled first; {counted(free, 'job', 'were')} before it"
        case "order":
            return f"no GPUs of its own and no job to share with; {counted(free, 'job', 'were')} before it when it came"
        case "busy" | "kept":
            return _by_log(piece.code, most, free, largest)
        case "none":
            return "nothing known held it back"
    return f"{piece.code} {' '.join(str(number) for number in piece.numbers)}".strip()


def _by_log(code: str, most: str, free: int, fewest: int) -> str:
    """What the log shows of a wait for which the policy gave no reason."""
    if code == KEPT:
        return f"{most}{_gpus(free)} free for it, which the policy kept for others or left idle"
    return (
        f"{most}{_gpus(free)} free for it, but it never ran on fewer than {fewest}"
        if free
        else "no GPU was free for it"
    )


def _offer(run: Run, piece: Piece) -> str:
    """What a job that declines free GPUs waits for, and how long it does."""
    tier, timer, waits = piece.numbers
    names = run.cluster.tier_names
    name = names[min(tier, len(names) - 1)]
    tuned = f", tuned from {waits} wait{'' if waits == 1 else 's'}" if waits >= 0 else ""
    until = moment(piece.wait_began + timer)
    return f"waited for a {name}-level offer, until {until} at most (timer {duration(timer / 1000)}{tuned})"


def _in_front(run: Run, piece: Piece) -> tuple[str, str]:
    """The job that was in the way, or how many one after the other, and then the one that was longest."""
    longest = max(piece.others, key=lambda other: piece.others[other])
    name = f"job '{run.jobs['job_id'][longest]}' ({_gpus(run.jobs['gpus'][longest])})"
    if len(piece.others) == 1:
        return name, ""
    return f"{len(piece.others)} jobs in turn", f"; longest {name}, {duration(piece.others[longest] / 1000)}"


def _gpus(count: float) -> str:
    return f"{count:g} GPU{'' if count == 1 else 's'}"


def moment(time: int) -> str:
    """A time for people: the date where it is one, else the day and time since the trace began."""
    if EARLIEST_DATE_MS <= time <= LAST_DATE_MS:
        return text_of(time, UTC, dated=True)
    days, rest = divmod(time // 1000, 86400)
    return f"day {days} {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def as_dicts(run: Run, job: int) -> dict[str, Any]:
    """The whole explanation for scripts, times in seconds."""
    about = run.jobs.row(job, named=True)
    lines = [
        {
            "begin": line.begin / 1000,
            "end": None if line.end is None else line.end / 1000,
            "code": line.code or None,
            "text": line.text,
        }
        for line in timeline(run, job)
    ]
    missed = why_missed(about)
    deadline = {"missed_deadline": missed} if missed else {}
    return {"job_id": about["job_id"], "wait_s": queued_s(about), **deadline, "timeline": lines}


def queued_s(about: Mapping[str, Any]) -> float:
    """Seconds that a job spent in the queue, of its row: its wait without what was lost on GPUs."""
    return float(about["wait"] - about.get("lost", 0.0))  # older runs have no such column: their wait is that


def headline(run: Run, job: int) -> str:
    """A job in short: how long it waited, how long it ran, what cost most, and why it missed its deadline."""
    missed = why_missed(run.jobs.row(job, named=True))
    return " ".join([_waited_and_ran(run, job), *([missed] if missed else [])])


def _waited_and_ran(run: Run, job: int) -> str:
    about = run.jobs.row(job, named=True)
    spent: dict[str, int] = {}
    for piece in pieces(run, job):
        spent[piece.code] = spent.get(piece.code, 0) + piece.end - piece.begin
    text = f"Job '{about['job_id']}' waited {duration(queued_s(about))} and ran {duration(about['run'])}"
    if not sum(spent.values()):
        return text + "."
    code = max(spent, key=lambda name: spent[name])
    share = 100 * spent[code] / sum(spent.values())
    return f"{text}. {share:.0f} % of the wait: {REASONS.get(code, code)}."


REASONS = {
    "none": "nothing known",
    "full": "too few GPUs free",
    "scattered": "free GPUs scattered over nodes",
    "starved": "CPU or memory short",
    "away": "nodes down or asleep",
    "behind": "behind others though GPUs free",
    "queued": "behind others, too few GPUs free",
    "reservation": "another job's reservation",
    "planned": "planned for later",
    "unplanned": "too far back to be planned",
    "offer": "waiting for closer GPUs",
    "asleep": "waiting for nodes to wake up",
    "profile": "waiting to be profiled",
    "order": "no free GPUs, no job to share with",
    "dependency": "waiting for another job",
    BUSY: "too few GPUs free, by the log",
    KEPT: "GPUs free but not given to it, by the log",
}
