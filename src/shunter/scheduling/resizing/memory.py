"""What a compiled policy that resizes jobs remembers, and the arrays that it begins with."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.arrays import F1, F2, I1, Arrays, Variables
from shunter.instances import training_by_width
from shunter.model import View
from shunter.world import I64, World

UNKNOWN = -1.0  # of work: the job has not come yet


class ResizingConfig(Arrays):
    """What does not change; times in ms."""

    step: int  # from one look to the next where nothing happens
    lightest: bool  # jobs go to the least used nodes; else to as few as possible
    careful: bool  # few moves and few jobs across machines, see ``placing``
    node_gpus: int  # of the largest node
    squeezes: bool  # a job that finds no room may begin with less CPU for each instance


class Speeds(Arrays):
    """Speeds by kind of job (a curve, GPUs asked for and servers of them) and width; 1: as the trace has it."""

    together: F2  # (kinds, GPUs + 1) on one machine
    apart: F2  # across machines
    best: F2  # on one machine while that has the GPUs, then across
    units: F2  # the same over that of one GPU of the same model
    fastest: F2  # the best of all widths up to this one
    unit: F1  # (kinds,) what speed 1 is in such units


class Draft(Arrays):
    """Room to work in while widths become a plan."""

    free: I1  # (nodes,) free GPUs
    cpu: I1  # (nodes,)
    mem: I1  # (nodes,)
    tenants: I1  # (GPUs,)
    room: I1  # (nodes,) GPUs that one job could have
    own: I1  # (nodes,) GPUs that it has
    held: I1  # (GPUs,)
    chosen: I1  # (GPUs,)
    value: F1  # (jobs,) of a heap ...
    member: I1  # (jobs,) ... and its jobs


class ResizingState(Variables):
    """The jobs that wait or run, and what is being planned for them."""

    config: ResizingConfig
    speeds: Speeds
    draft: Draft
    at: int = -1  # the instant of the last look ...
    turns: int = 0  # ... and how many there were at it
    wake: int = -1  # the timer that is set
    synced: bool = False  # whether the jobs that were there before are known
    ended_work: float = 0.0  # of ended jobs, ms at speed 1
    ended_jobs: int = 0
    kind: I1  # (jobs,) row of the speeds
    least: I1  # (jobs,)
    most: I1  # (jobs,)
    expected: F1  # (jobs,) work in all, ms at speed 1; UNKNOWN: it has not come yet
    wanted: I1  # (jobs,) GPUs, while a plan is made; else 0
    cpu: I1  # (jobs,) milli-cores wanted for each instance, while a plan is made; 0: as it has or asks for
    servers: I1  # (jobs,) parameter servers wanted, while a plan is made; 0: as usual
    reequipped: int = 0  # running jobs whose CPU is to change
    changing: I1  # (jobs,) those that give up GPUs
    order: I1  # (jobs,) those that get GPUs, first to be placed first
    ordered: int = 0
    truth: F1  # (jobs,) or nothing
    own: Arrays  # what only one policy remembers


def state_for(view: View, step: int, lightest: bool, careful: bool, squeezes: bool, own: Arrays) -> ResizingState:
    """A state for the jobs of this view, all of them still to come."""
    world = view.world
    jobs, nodes, gpus = world.jobs, world.nodes.shape[1], world.gpus.shape[1]
    count, ranged, asked = jobs.shape[1], jobs[w.MAX_GPUS] > 0, jobs[w.GPUS]
    least, most = np.where(ranged, jobs[w.MIN_GPUS], asked), np.where(ranged, jobs[w.MAX_GPUS], asked)
    node_gpus = int(world.nodes[w.TOTAL].max())
    kind, speeds = speeds_by_kind(world, int(most.max(initial=1)), node_gpus)

    def room(size: int) -> I64:
        return np.zeros(size, np.int64)

    draft = Draft(
        room(nodes), room(nodes), room(nodes), room(gpus), room(nodes), room(nodes), room(gpus), room(gpus),
        np.zeros(count + 1), room(count + 1),
    )  # fmt: skip
    return ResizingState(
        config=ResizingConfig(step, lightest, careful, node_gpus, squeezes),
        speeds=speeds,
        draft=draft,
        kind=kind,
        least=least,
        most=most,
        expected=np.full(count, UNKNOWN),
        wanted=room(count),
        cpu=room(count),
        servers=room(count),
        changing=room(count),
        order=room(count),
        truth=np.zeros(0) if view.truth is None else view.truth.copy(),
        own=own,
    )


def speeds_by_kind(world: World, most: int, node_gpus: int) -> tuple[I64, Speeds]:
    """The kind of each job, and the speeds of each kind at all widths up to the most."""
    servers = world.instances[w.SERVERS] if world.instances.shape[1] else np.zeros_like(world.jobs[w.GPUS])
    pairs, kind = np.unique(np.vstack((world.jobs[[w.CURVE, w.GPUS]], servers)), axis=1, return_inverse=True)
    together, apart = (np.zeros((pairs.shape[1], most + 1)) for _ in range(2))
    unit = np.zeros(pairs.shape[1])
    for at, (curve, asked, serving) in enumerate(pairs.T.tolist()):
        work = training_by_width(asked, serving, max(most, asked))
        unit[at] = work[asked] if curve < 0 else world.scaling[2 * curve, work[asked]]
        for way, table in enumerate((together, apart)):
            table[at] = work[: most + 1] if curve < 0 else world.scaling[2 * curve + way, work[: most + 1]]
            table[at] /= unit[at]
    best = np.where(np.arange(most + 1) <= node_gpus, together, apart)
    return kind.reshape(-1), Speeds(
        together, apart, best, best * unit[:, None], np.maximum.accumulate(best, axis=1), unit
    )
