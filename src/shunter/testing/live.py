"""A simulated cluster as Slurm would show it: to test code for live clusters on a known future."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.live.nodes import Node
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.model import Trace
from shunter.seeding import rng
from shunter.sim.engine import Simulator

PARTITION = "main"


def snapshot_of(simulator: Simulator) -> Snapshot:
    """What Slurm would report now about waiting and running jobs; the first submitted has the highest priority."""
    world, trace = simulator.world, simulator.trace
    table, now = world.jobs, simulator.now
    where = _nodes_of(simulator)
    jobs = []
    for row in [*world.lists[w.L_PENDING, : world.clock[w.N_PENDING]], *where]:
        runs = row in where
        jobs.append(
            LiveJob(
                id=str(row),
                handle=str(row),
                state="RUNNING" if runs else "PENDING",
                reason="" if runs else "Priority",
                user=(*trace.users, "")[trace.user[row]],
                name=(*trace.job_names, "")[trace.job_name[row]],
                partition=PARTITION,
                priority=len(trace) - int(row),
                submit=int(table[w.SUBMIT, row]),
                eligible=int(table[w.ELIGIBLE, row]),
                start=int(table[w.BEGUN, row]) if runs else -1,
                limit=int(table[w.LIMIT, row]),
                ran=int(now - table[w.BEGUN, row]) if runs else 0,
                nodes=tuple(f"n{node}" for node in where[row]) if runs else (),
                gpus=int(table[w.GPUS, row]),
                cpus=int(trace.cpus[row]) // 1000,
                mem_mib=int(trace.mem_gib[row]),
            )
        )
    return Snapshot(now, tuple(jobs), tuple(_nodes(simulator)))


def _nodes_of(simulator: Simulator) -> dict[int, list[int]]:
    """The nodes of every job that runs."""
    world = simulator.world
    per_gpu, found = int(world.clock[w.SLOTS_PER_GPU]), {}
    for row in world.lists[w.L_RUNNING, : world.clock[w.N_RUNNING]].tolist():
        slot, nodes = int(world.jobs[w.HEAD, row]), set()
        while slot >= 0:
            nodes.add(int(world.gpus[w.NODE, slot // per_gpu]))
            slot = int(world.slots[w.SLOT_NEXT, slot])
        found[row] = sorted(nodes)
    return found


def _nodes(simulator: Simulator) -> list[Node]:
    world, cluster = simulator.world, simulator.cluster
    found = []
    for node in range(cluster.nodes):
        first, total = int(world.nodes[w.FIRST_GPU, node]), int(world.nodes[w.TOTAL, node])
        used = tuple(at for at in range(total) if world.gpus[w.TENANTS, first + at] > 0)
        cpus, mem = int(cluster.node_cpu[node]), int(cluster.node_mem[node])
        cpus_used = (cpus - int(world.nodes[w.CPU_FREE, node])) // 1000 if cpus else 0
        mem_used = mem - int(world.nodes[w.MEM_FREE, node]) if mem else 0
        state = "up" if world.nodes[w.NODE_STATE, node] == w.UP else "down"
        kind = cluster.gpu_types[int(world.nodes[w.NODE_TYPE, node])]
        found.append(
            Node(f"n{node}", "mixed" if state == "up" else "down", (PARTITION,), total, kind, 0, used, cpus // 1000,
                 cpus_used, mem, mem_used)
        )  # fmt: skip
    return found


def habitual(jobs: int, gpus: int, load: float, seed: int = 0) -> Trace:
    """A synthetic trace of users with a few kinds of jobs each, which request four times the kind's usual run time."""
    users, kinds = 40, 3
    draw = rng(seed, "habitual")
    user, kind = draw.zipf(1.6, jobs) % users, draw.integers(0, kinds, jobs)
    usual = draw.uniform(5.5, 10, (users, kinds))  # log of seconds
    size = 2 ** draw.choice(4, (users, kinds), p=(0.5, 0.2, 0.2, 0.1))
    limit = 3_600_000 * np.ceil(4 * np.exp(usual) / 3600)[user, kind].astype(np.int64)
    duration = np.minimum(1000 * np.exp(usual[user, kind] + draw.normal(0, 0.7, jobs)), limit).astype(np.int64)
    gap = float((duration * size[user, kind]).mean()) / (gpus * load)
    return Trace.of(
        "habitual",
        [str(job) for job in range(jobs)],
        submit=1_700_000_000_000 + np.cumsum(draw.exponential(gap, jobs)).astype(np.int64),
        duration=np.maximum(duration, 1000),
        gpus=1000 * size[user, kind],
        limit=limit,
        user=user,
        users=tuple(f"user{number}" for number in range(users)),
        job_name=user * kinds + kind,
        job_names=tuple(f"kind{number}" for number in range(users * kinds)),
    )
