"""The instances of a job, one on each of its GPUs or slots: the CPU and memory of each, and what they do.

An instance is a worker or a parameter server. Servers don't train: each serves up to four workers, and workers beyond
that wait for it. Without servers all instances are workers, which exchange gradients themselves (all-reduce).
"""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.compiled import kernel
from shunter.world import I64, World

SERVED = 4  # workers that one parameter server serves; Qore-DL has a server for every two to four workers
CPU_POWER = 0.4  # of a job's CPU, to which its speed is in proportion; see ``shunter.scaling.deriving``


def training_by_width(asked: int, servers: int, most: int) -> I64:
    """Workers that train at full speed, by the number of instances from 0 to ``most``, with servers as usual."""
    width = np.arange(most + 1)
    if servers == 0:
        return width
    serving = np.where(width == asked, servers, (width + SERVED) // (SERVED + 1))
    workers: I64 = np.minimum(width - serving, SERVED * serving)
    return workers


@kernel
def cpu_of(world: World, job: int) -> int:
    """Milli-cores of each instance of a job: what it has, or asks for while it waits."""
    if world.instances.shape[1] == 0:
        return int(world.jobs[w.CPU, job])
    return int(world.instances[w.CPU_NOW, job])


@kernel
def mem_of(world: World, job: int) -> int:
    """MiB of each instance of a job: what it has, or asks for while it waits."""
    if world.instances.shape[1] == 0:
        return int(world.jobs[w.MEM, job])
    return int(world.instances[w.MEM_NOW, job])


@kernel
def usual_servers(asked: int, servers: int, width: int) -> int:
    """Of so many instances those that serve, if nothing else is said: as asked for, or as few as the others need."""
    if servers == 0 or width == asked:
        return servers
    return (width + SERVED) // (SERVED + 1)


@kernel
def training(width: int, servers: int) -> int:
    """Workers that train at full speed: those that a server serves; all, without servers."""
    return min(width - servers, SERVED * servers) if servers > 0 else width


@kernel
def cpu_speed(cpu: int, asked: int) -> float:
    """Speed with this much CPU per instance over that with what was asked for."""
    return float((cpu / asked) ** CPU_POWER) if asked > 0 and cpu != asked else 1.0
