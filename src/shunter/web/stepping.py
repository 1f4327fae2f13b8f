"""A stretch of a run, instant by instant: what happened, which jobs run where, which wait and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shunter import run_folder
from shunter import world as w
from shunter.errors import RunError
from shunter.report.derived_reasons import with_reasons
from shunter.report.explain import STOPPED, moment, reason_at, reasons_about, words
from shunter.report.html.page import embed
from shunter.report.waiting import rows_of
from shunter.run_folder import Run
from shunter.texts import counted
from shunter.world import I64

MOST_INSTANTS = 60  # of a stretch
MOST_NODES = 32  # that are drawn
MOST_WAITING = 25  # jobs that are listed at one instant
MOST_HAPPENED = 12  # events that are listed at one instant
NO_REASONS = "why is not recorded; make the run again with --decisions"


@dataclass(frozen=True)
class Stretch:
    """Some instants of a run, one after the other, as data for the browser."""

    first: int  # number of its first instant
    instants: int  # of the whole run
    html: str  # the data for the script that draws it

    @property
    def before(self) -> int | None:
        """Where the stretch before it begins."""
        return max(0, self.first - MOST_INSTANTS) if self.first else None

    @property
    def after(self) -> int | None:
        """Where the stretch after it begins."""
        following = self.first + MOST_INSTANTS
        return following if following < self.instants else None


@dataclass
class _Playback:
    """The cluster while events are replayed."""

    run: Run
    where: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # job -> (node, thousandths of GPUs)
    waiting: dict[int, int] = field(default_factory=dict)  # job -> since when, ms
    away: set[int] = field(default_factory=set)  # nodes that are down or asleep

    def apply(self, event: list[int]) -> None:
        """One more event."""
        time, kind, job, a, b = event
        if kind == w.START:
            self.waiting.pop(job, None)
            self.where.setdefault(job, []).append((a, b))
        elif kind in (w.FINISH, w.FAIL, w.PREEMPT, w.MOVE, w.ARRIVE):
            self.where.pop(job, None)
            if kind in (w.ARRIVE, w.PREEMPT) or (kind == w.FAIL and a == 0):
                self.waiting[job] = time
            elif kind != w.MOVE:
                self.waiting.pop(job, None)
        elif kind in (w.NODE_DOWN, w.SLEEP):
            self.away.add(a)
        elif kind == w.NODE_UP:
            self.away.discard(a)


def of_run(folder: Path, first: int = 0) -> Stretch:
    """The stretch of a kept run that begins with this instant."""
    kept = run_folder.load(folder)
    with run_folder.fitting(folder.name):
        return stretch(kept, first)


def stretch(run: Run, first: int = 0) -> Stretch:
    """The stretch of a run that begins with this instant."""
    times = np.unique(run.events[:, 0])
    if not len(times) or first >= len(times):
        raise RunError(f"the run has {len(times):,} instants; choose an earlier one")
    shown = times[first : first + MOST_INSTANTS]
    begin, end = np.searchsorted(run.events[:, 0], (shown[0], shown[-1] + 1))
    course = _Playback(run)
    for event in run.events[:begin].tolist():
        course.apply(event)
    nodes = _nodes(course, run.events[begin:end])
    why = _Reasons(run)
    frames = list(_frames(course, run.events[begin:end], nodes, why))
    data = {
        "nodes": [{"name": str(node), "gpus": int(run.cluster.node_gpus[node])} for node in nodes],
        "left_out": run.cluster.nodes - len(nodes),
        "frames": frames,
    }
    return Stretch(first, len(times), embed(data))


def _nodes(course: _Playback, events: I64) -> list[int]:
    """The nodes that are drawn: all, or those on which something happens, and then those that are busy."""
    if course.run.cluster.nodes <= MOST_NODES:
        return list(range(course.run.cluster.nodes))
    started = events[events[:, 1] == w.START][:, 3].tolist()
    busy = [node for places in course.where.values() for node, _ in places]
    chosen = dict.fromkeys(node for node in (*started, *busy, *range(MOST_NODES)) if node >= 0)
    return sorted(list(chosen)[:MOST_NODES])


def _frames(course: _Playback, events: I64, nodes: list[int], why: _Reasons) -> Iterator[dict[str, Any]]:
    """What is drawn at each instant."""
    for time in np.unique(events[:, 0]).tolist():
        now = events[events[:, 0] == time].tolist()
        for event in now:
            course.apply(event)
        yield {
            "when": moment(time),
            "happened": _some(_happened(course.run, now), MOST_HAPPENED),
            "nodes": [_on(course, node) for node in nodes],
            "waiting": [_waits(course, job, time, why) for job in list(course.waiting)[:MOST_WAITING]],
            "more": max(0, len(course.waiting) - MOST_WAITING),
            "running": len(course.where),
        }


def _some(texts: Iterable[str], most: int) -> list[str]:
    found = list(texts)
    return found if len(found) <= most else [*found[:most], f"and {len(found) - most} more"]


def _on(course: _Playback, node: int) -> dict[str, Any]:
    """The jobs on a node, with their GPUs there."""
    held = [(job, amount) for job, places in course.where.items() for place, amount in places if place == node]
    return {"jobs": [[_name(course.run, job), job, amount / 1000] for job, amount in held], "away": node in course.away}


def _waits(course: _Playback, job: int, time: int, why: _Reasons) -> dict[str, Any]:
    began = course.waiting[job]
    about = {"job": _name(course.run, job), "row": job, "gpus": float(course.run.jobs["gpus"][job])}
    return {**about, "s": (time - began) / 1000, "why": why.at(job, time, began)}


def _name(run: Run, job: int) -> str:
    return str(run.jobs["job_id"][job])


class _Reasons:
    """Why jobs wait; what was said about each job is found once."""

    def __init__(self, run: Run) -> None:
        self.run, self.known = (run := with_reasons(run)), dict[int, I64]()
        self.said = rows_of(run) if run.decisions is not None else None

    def at(self, job: int, time: int, began: int) -> str:
        """Why a job waits at an instant."""
        if self.said is None:
            return NO_REASONS
        rows, codes = self.said
        if job not in self.known:
            self.known[job] = reasons_about(self.run, job, rows)
        return words(self.run, job, reason_at(job, time, began, self.known[job], codes))


def _happened(run: Run, events: list[list[int]]) -> Iterator[str]:
    """The events of an instant in words, one for each job and kind."""
    starts: dict[int, list[str]] = {}
    for _, kind, job, a, b in events:
        if kind == w.START:
            starts.setdefault(job, []).append(f"node {a} ({b / 1000:g})" if a >= 0 else f"{b / 1000:g} GPUs")
        elif kind == w.ARRIVE:
            size = f"{run.jobs['gpus'][job]:g}"
            yield f"job {_name(run, job)} is submitted, {counted(size, 'GPU')}"
        elif kind == w.FINISH:
            yield f"job {_name(run, job)} has finished"
        elif kind == w.PREEMPT:
            yield f"job {_name(run, job)} is {STOPPED[a]}"
        elif kind == w.FAIL:
            yield f"job {_name(run, job)} has failed" + ("" if a == 1 else " and is tried again")
        elif kind in _OF_NODES:
            yield f"node {a} {_OF_NODES[kind]}"
    resized = {job for _, kind, job, a, b in events if kind == w.MOVE and a != b}
    for job, places in starts.items():
        begins = "is resized, now" if job in resized else "starts"
        yield f"job {_name(run, job)} {begins} on {', '.join(places[:6])}" + (" and more" if len(places) > 6 else "")


_OF_NODES = {w.NODE_DOWN: "is down", w.NODE_UP: "is up", w.SLEEP: "sleeps", w.WAKE: "is being woken"}
