"""Detects a simulation without progress: by decisions and rows of its log, not by seconds, so that runs are equal."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shunter import world as w
from shunter.safe_files import most_loaded
from shunter.sim.state import LOG_ROWS, NEXT_ARRIVAL, NEXT_FAULT, UNFINISHED, SimulationState

EVERY = 200_000  # decisions and rows of the log from one look to the next
MOST_IDLE = 2_000_000  # decisions, or rows of the log, in which no job gets any work done
MOST_LOSSES = 1_000_000  # rows of the log without an end in which nearly all GPU time is lost to stops and restarts ...
LOST_SHARE = 0.9  # ... that is, so much of it
MOST_ROWS = 20_000_000  # rows of the log without the end of a job, whatever it does: about 0.8 GB
ROW_BYTES = 40  # of the log in memory


@dataclass(frozen=True)
class ProgressMark:
    """How far a simulation had got when it last made progress, and when a job last ended."""

    decisions: int = 0  # made so far
    rows: int = 0  # of the log that have been moved out of the state
    looks: int = 0
    moved: tuple[int, ...] = ()  # arrivals, faults, jobs left
    work: float = -1.0  # that was done by the last look (ms)
    quiet_since: tuple[int, int] = (0, 0)  # decisions and rows when there was progress last
    ended: tuple[int, int, int] = (0, 0, 0)  # rows, GPU time and lost GPU time when a job ended last
    left: int = -1  # jobs then

    def after(self, state: SimulationState, decisions: int) -> tuple[ProgressMark, str]:
        """What is known after more decisions, and why the simulation should not go on; "": it should."""
        rows, made = self.rows + int(state.counts[LOG_ROWS]), self.decisions + decisions
        looks = (made + rows) // EVERY
        found = replace(self, decisions=made, looks=looks)
        return found.look(state, rows) if looks > self.looks else (found, "")

    def look(self, state: SimulationState, rows: int) -> tuple[ProgressMark, str]:
        """The same after this many rows of the log, with a look at what was done."""
        counts = state.counts
        moved = tuple(int(counts[at]) for at in (NEXT_ARRIVAL, NEXT_FAULT, UNFINISHED))
        work, held, lost = _work(state), _held(state), int(state.world.jobs[w.LOST].sum())
        found = self
        if moved != self.moved or work >= self.work + 1:
            found = replace(found, moved=moved, quiet_since=(self.decisions, rows))
        found = replace(found, work=work)  # a failure takes work back, and what follows is progress again
        if moved[-1] != self.left:
            found = replace(found, left=moved[-1], ended=(rows, held, lost))
        return found, found.complaint(rows, held, lost)

    def complaint(self, rows: int, held: int, lost: int) -> str:
        """Why a simulation should not go on, "" if it should."""
        idle, logged = self.decisions - self.quiet_since[0], rows - self.quiet_since[1]
        if max(idle, logged) >= MOST_IDLE:
            return f"no job got any work done in the last {idle:,} decisions and {logged:,} rows of the event log"
        if ROW_BYTES * rows > most_loaded():
            return f"the event log has grown to {rows:,} rows, more than is kept in this machine's memory"
        since = rows - self.ended[0]
        if since >= MOST_ROWS:
            return f"no job ended in the last {since:,} rows of the event log"
        if since >= MOST_LOSSES and lost - self.ended[2] >= LOST_SHARE * max(held - self.ended[1], 1):
            share = min((lost - self.ended[2]) / max(held - self.ended[1], 1), 1)
            return (
                f"no job ended in the last {since:,} rows of the event log, and stopping and restarting jobs took "
                f"{100 * share:.0f} % of the GPU time since"
            )
        return ""


def _work(state: SimulationState) -> float:
    """The work that all jobs have done by now (ms)."""
    world, now = state.world, state.world.clock[w.NOW]
    running = world.lists[w.L_RUNNING, : world.clock[w.N_RUNNING]]
    uncounted = np.maximum(now - world.jobs[w.SINCE, running], 0) * world.progress[w.RATE, running]
    return float(world.progress[w.WORK].sum() + uncounted.sum())


def _held(state: SimulationState) -> int:
    """The GPU time that all jobs have had by now (GPU-ms)."""
    world, now = state.world, state.world.clock[w.NOW]
    running = world.lists[w.L_RUNNING, : world.clock[w.N_RUNNING]]
    jobs = world.jobs[:, running]
    uncounted = (now - jobs[w.BEGUN]) * jobs[w.WORKERS] * jobs[w.SHARE] // 1000
    return int(world.jobs[w.ATTAINED].sum() + uncounted.sum())
