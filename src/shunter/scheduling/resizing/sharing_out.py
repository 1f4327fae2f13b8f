"""GPUs given out one by one to whoever gains most, as Optimus and SLAQ do."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.arrays import F1, I1, Arrays, Variables, narrowed
from shunter.compiled import kernel
from shunter.predictors.progress.curves import BINS
from shunter.predictors.progress.extrapolating import SMALLEST_LOSS
from shunter.scheduling.resizing.heap import pop, push, settle_top
from shunter.scheduling.resizing.known_jobs import (
    begins_look,
    look_again,
    stays,
    take_in,
    work_done,
    work_left,
)
from shunter.scheduling.resizing.memory import ResizingState
from shunter.scheduling.resizing.placing import add_changes, ask_for
from shunter.world import Decision, World

FIRST = 0.01  # of its work: what the loss curve of a job begins with that reports no losses ...
WHOLE_FALL = 1.0 / FIRST - 1.0 / (1.0 + FIRST)  # ... and by how much it falls in all


class GainConfig(Arrays):
    """What counts as a gain."""

    by_loss: bool  # the fall of the loss in the next round; else the time that a job saves
    step: float  # ms of a round


class PresentJobs(Variables):
    """The jobs that wait or run, in submit order."""

    config: GainConfig
    size: int = 0
    rows: I1  # (jobs,)
    listed: I1  # (jobs,) 1: it is there
    slope: F1  # (jobs,) of a loss that falls as scale / (slope k + level), k in parts of the declared work; or nothing
    level: F1  # (jobs,) or nothing
    scale: F1  # (jobs,) over the largest fall so far; below 0: no losses are known; or nothing


present_of = narrowed(PresentJobs)


def nobody_present(jobs: int, config: GainConfig, losses: bool = False) -> PresentJobs:
    """No job has come yet; ``losses``: jobs may report some."""
    slope, level, scale = np.zeros((3, jobs if losses else 0))
    scale[:] = -1.0
    rows, listed = np.zeros((2, jobs), np.int64)
    return PresentJobs(config=config, rows=rows, listed=listed, slope=slope, level=level, scale=scale)


@kernel
def add_present(present: PresentJobs, job: int) -> None:
    """Add a job in submit order."""
    if present.listed[job] == 1:
        return
    at = present.size
    while at > 0 and present.rows[at - 1] > job:
        present.rows[at] = present.rows[at - 1]
        at -= 1
    present.rows[at] = job
    present.listed[job] = 1
    present.size += 1


@kernel
def note_present(world: World, state: ResizingState) -> None:
    """Take in the jobs that came; all that are there at first."""
    present = present_of(state.own)
    if not state.synced:
        for at in range(world.clock[w.N_PENDING]):
            add_present(present, world.lists[w.L_PENDING, at])
        for at in range(world.clock[w.N_RUNNING]):
            add_present(present, world.lists[w.L_RUNNING, at])
    for at in range(world.clock[w.N_ARRIVED]):
        add_present(present, world.lists[w.L_ARRIVED, at])


@kernel
def drop_ended(world: World, present: PresentJobs) -> None:
    """Forget the jobs that have ended."""
    kept = 0
    for at in range(present.size):
        job = present.rows[at]
        if world.jobs[w.STATE, job] >= w.DONE:
            present.listed[job] = 0
        else:
            present.rows[kept] = job
            kept += 1
    present.size = kept


@kernel
def loss_at(world: World, state: ResizingState, job: int, done: float, left: float, width: int) -> float:
    """The loss of a job after the next round at a width: by the curve of its losses so far, else as 1/k."""
    present = present_of(state.own)
    ahead = done + present.config.step * state.speeds.best[state.kind[job], width]
    if len(present.scale) > 0 and present.scale[job] >= 0:
        part = 1.0 + BINS * ahead / world.jobs[w.DECLARED, job]  # the first is number 1
        return float(present.scale[job] / max(present.slope[job] * part + present.level[job], SMALLEST_LOSS))
    return float(1.0 / (FIRST + ahead / (done + left)))


@kernel
def gain(world: World, state: ResizingState, job: int, width: int) -> float:
    """What a job gains from one more GPU than a width."""
    left = work_left(world, state, job)
    if present_of(state.own).config.by_loss:
        done = work_done(world, job)
        return loss_at(world, state, job, done, left, width) - loss_at(world, state, job, done, left, width + 1)
    speed = state.speeds.best[state.kind[job]]
    return float(left * (1.0 / speed[width] - 1.0 / speed[width + 1]))


@kernel
def spare_gpus(world: World, state: ResizingState) -> int:
    """The GPUs that can be given out: of nodes that are up, less those of jobs that keep theirs."""
    spare = 0
    for node in range(world.nodes.shape[1]):
        if world.nodes[w.NODE_STATE, node] == w.UP:
            spare += world.nodes[w.TOTAL, node]
    for at in range(world.clock[w.N_RUNNING]):
        job = world.lists[w.L_RUNNING, at]
        if stays(world, job):
            state.wanted[job] = world.jobs[w.WORKERS, job]
            spare -= state.wanted[job]
    return int(spare)


@kernel
def share_out(world: World, state: ResizingState) -> None:
    """Each job gets its fewest GPUs in submit order; what is left goes to whoever gains most."""
    present, draft, size = present_of(state.own), state.draft, 0
    spare = spare_gpus(world, state)
    for at in range(present.size):
        job = present.rows[at]
        if spare <= 0:
            break
        if world.jobs[w.STATE, job] not in (w.PENDING, w.RUNNING) or stays(world, job) or state.least[job] > spare:
            continue
        state.wanted[job] = state.least[job]
        spare -= state.least[job]
        if state.wanted[job] < state.most[job]:
            size = push(draft.value, draft.member, size, gain(world, state, job, state.wanted[job]), job)
    while size > 0 and spare > 0 and draft.value[0] > 0:
        job = draft.member[0]
        state.wanted[job] += 1
        spare -= 1
        if state.wanted[job] < state.most[job]:
            draft.value[0] = gain(world, state, job, state.wanted[job])
            settle_top(draft.value, draft.member, size)
        else:
            size = pop(draft.value, draft.member, size)
    for at in range(present.size):
        ask_for(world, state, present.rows[at])


@kernel
def decide(world: World, state: ResizingState, parts: int, plan: Decision) -> None:
    """Give out all GPUs again."""
    present = present_of(state.own)
    note_present(world, state)
    take_in(world, state)
    if not begins_look(world, state):
        return
    drop_ended(world, present)
    share_out(world, state)
    add_changes(world, state, plan)
    look_again(world, state, plan)
