"""The arrays that a compiled queue remembers its jobs in."""

from __future__ import annotations

import numpy as np

from shunter import placers
from shunter import world as w
from shunter.arrays import Arrays
from shunter.capabilities import Compiled
from shunter.cluster import Cluster
from shunter.model import GPU, View
from shunter.predictors.learned import unlearned
from shunter.predictors.noise import noisy
from shunter.scheduling.backfill.bounds import bounds_for
from shunter.scheduling.queue import queue as q
from shunter.scheduling.queue.policy import BACKFILLS, LEARNED, Queued, queue_of
from shunter.world import I64, World

FIRST_REACH = 60_000  # ms; how far ahead keys that fall are bounded at first


def build_queue(policy: Queued, view: View, cluster: Cluster, kinds: I64 | None) -> q.Queue:
    """The arrays of a queue for the jobs in this view, all of them still to come; ``kinds`` as in ``queue_for``."""
    world = view.world
    n, m, g = world.jobs.shape[1], world.nodes.shape[1], world.gpus.shape[1]
    class_of, first_member = demand_classes(world, kinds)
    classes = len(first_member)
    pools = pools_of(world, first_member)
    begins = np.concatenate(([0], 2 * np.cumsum(np.bincount(class_of, minlength=classes)))).astype(np.int64)
    users = max(int(world.jobs[w.USER].max(initial=0)) + 1, 1)
    gpus = world.jobs[w.GPUS, first_member] * world.jobs[w.SHARE, first_member] / 1000
    estimate = np.zeros(n, np.int64)
    if view.truth is not None:
        estimate[:] = np.maximum(view.truth, 1) if policy.estimate == "oracle" else noisy(view)
    elif not policy.estimates:
        estimate[:] = 1
    return q.Queue(
        config=config_of(policy, world),
        state=q.State(usage_at=int(world.clock[w.NOW]), reach=FIRST_REACH * policy.ageing),
        params=policy.key_params(),
        factors=np.array([cluster.vc_priority.get(vc, 1.0) for vc in cluster.vcs] + [1.0]),
        key=np.zeros(n),
        exact=np.zeros(n),
        tie=np.zeros(0, np.int64),
        estimate=estimate,
        bound=np.ones(n, np.int64),
        due=np.zeros(n, np.int64),
        class_of=class_of,
        part=gpus / g,
        cost=gpus,
        members=np.zeros(2 * n, np.int64),
        at=np.full(n, -1, np.int64),
        floor=np.zeros(n * (policy.backfill == "easy"), np.int64),
        lowest=np.zeros(2 * n * (policy.backfill == "easy"), np.int64),
        begins=begins,
        first=begins[:-1].copy(),
        size=np.zeros(classes, np.int64),
        in_line=np.zeros(classes, np.int64),
        blocked=np.zeros(classes, np.int64),
        pool_of=pools,
        sample=first_member,
        head=np.full(int(pools.max(initial=0)) + 1, -1, np.int64),
        shadow=q.Shadows(*[np.full(int(pools.max(initial=0)) + 1, -1, np.int64) for _ in q.Shadows.fields]),
        upset=np.zeros(int(pools.max(initial=0)) + 1, np.int64),
        users=q.Users(*[np.zeros(users) for _ in q.Users.fields]),
        standing=np.zeros(0, np.int64),
        sizes=q.SizeClasses(*[np.zeros(q.SIZE_CLASSES + 1) for _ in q.SizeClasses.fields]),
        completions=q.Completions(*[np.zeros(len(cluster.vcs) + 1, np.int64) for _ in q.Completions.fields]),
        bounds=bounds_for(policy.share_within),
        scratch=scratch_for(m, g, int(world.clock[w.SLOTS_PER_GPU])),
        profile=profile_for(m, g, policy.depth if policy.backfill == "conservative" else 0),
        given=reasons_for(world, first_member, int(pools.max(initial=0)) + 1),
        tiers=no_tiers(),
        forgiven=forgiven_for(0),
        learned=unlearned(),
        stoppable=stoppable_for(world.nodes[w.TOTAL]),
        min_run=min_runs(policy, world),
        pools=pools_seen(world, first_member) if policy.sees_pool else no_pools(classes),
        inspector=q.Inspector(np.zeros(0), np.zeros(0, np.int64)),
    )


def pools_seen(world: World, sample: I64) -> q.Pools:
    """Room for what keys may know of pools; ``sample``: a job of each class."""
    alike = world.jobs[w.VC, sample] * (world.jobs[w.TYPE].max(initial=0) + 2) + world.jobs[w.TYPE, sample]
    _, first, of_class = np.unique(alike, return_index=True, return_inverse=True)
    return _pools(of_class, sample[first], len(first))


def no_pools(classes: int) -> q.Pools:
    """What keys see that don't look at pools."""
    return _pools(np.zeros(classes, np.int64), np.zeros(0, np.int64), 1)


def _pools(of_class: I64, sample: I64, rows: int) -> q.Pools:
    counts = {name: np.zeros(rows) for name in q.Pools.fields}
    by_class = {"fits": np.zeros(len(of_class)), "ways": np.zeros(len(of_class))}
    return q.Pools(**counts | {"of_class": of_class, "sample": sample} | by_class)


def forgiven_for(jobs: int) -> q.Forgiven:
    """No job has been promoted yet."""
    return q.Forgiven(np.zeros(jobs, np.int64), np.zeros(jobs, np.int64))


def stoppable_for(gpus: I64) -> q.Stoppable:
    """No node has been looked at yet; given how many GPUs each has."""
    unseen = [np.full(len(gpus), -1, np.int64) for _ in range(4)]
    price = np.full((int(gpus.max(initial=0)) + 1, len(gpus)), q.NO_KEY)
    return q.Stoppable(q.Look(), *unseen, np.zeros(int(gpus.sum()), np.int64), np.full(len(gpus), q.NO_KEY), price)


def min_runs(policy: Queued, world: World) -> I64:
    """How long each job works at least before it is stopped for another (ms); nothing where stops are free."""
    cost = world.jobs[w.RESTART] + world.jobs[w.STOP_COST] + world.jobs[w.STOP_LOSS] // 2
    if policy.min_run == 0 or not cost.any():
        return np.zeros(0, np.int64)
    return np.asarray(np.ceil(cost * policy.min_run), np.int64)


def queue_for(
    policy: Queued, view: View, cluster: Cluster, previous: Compiled | None, kinds: I64 | None = None
) -> q.Queue:
    """The queue of a policy, which goes on with what the one before it learned.

    ``kinds`` has a number for each job where jobs of the same demand are not treated alike.
    """
    queue = policy.configured(build_queue(policy, view, cluster, kinds), view, cluster)
    if previous is not None:
        take_over(queue, queue_of(previous))
    return queue


def config_of(policy: Queued, world: World) -> q.Config:
    """How the queue of a policy works."""
    return q.Config(
        strict=policy.blocking == "strict" or policy.backfill != "none",
        backfill=BACKFILLS.index(policy.backfill),
        shortest=policy.candidates == "shortest",
        passing=round(1000 * policy.passing),
        depth=policy.depth,
        preemptive=policy.preemptive,
        slow_stops=bool(world.jobs[w.STOP_COST].any()),
        hysteresis=policy.hysteresis,
        max_stops=policy.max_stops,
        quantum=quantum_of(policy, world),
        varying=policy.varying,
        ageing=policy.ageing,
        sees_pool=policy.sees_pool,
        source=source_of(policy),
        shares=has_shares(world),
        together=policy.placement in placers.TOGETHER,
    )


def has_shares(world: World) -> bool:
    """Whether some jobs want a share of a GPU."""
    return bool((world.jobs[w.SHARE] < GPU).any())


def quantum_of(policy: Queued, world: World) -> int:
    """How often running jobs are looked at: as the policy says, or when a job that was spared may be stopped (ms).

    Never, where no job may be stopped: there is nothing to look for.
    """
    runs, may_stop = min_runs(policy, world), world.jobs[w.CHECKPOINTABLE] == 1
    if policy.preemptive and not may_stop.any():
        return 0
    runs = runs[(runs > 0) & may_stop] if len(runs) else runs
    if policy.preemptive and not policy.quantum() and len(runs):
        return max(int(runs.min()), 1000)
    return round(policy.quantum() * 1000)


def source_of(policy: Queued) -> int:
    """Where its estimates come from."""
    sources = {"oracle": q.S_ORACLE, "declared": q.S_DECLARED, "limit": q.S_LIMIT, "history": q.S_HISTORY}
    sources |= {"noisy": q.S_ORACLE, "last-two": q.S_LAST_TWO, **dict.fromkeys(LEARNED, q.S_LEARNED)}
    sources["auto"] = q.S_DECLARED if policy.declared_first else q.S_LIMIT
    return sources.get(policy.estimate, q.S_LEARNED) if policy.estimates else q.S_NONE


def scratch_for(nodes: int, gpus: int, per_gpu: int) -> q.Scratch:
    """Room to work in."""

    def room(size: int) -> I64:
        return np.zeros(size, np.int64)

    paper = (room(nodes), room(nodes), room(nodes), room(gpus), room(gpus))
    wide, running = max(nodes, gpus), gpus * per_gpu
    identity = np.arange(gpus)
    return q.Scratch(
        *paper,
        room(wide),
        room(wide),
        identity,
        room(128),
        room(gpus),
        room(gpus),
        room(gpus),
        room(gpus),
        room(running),
        room(running),
        q.Laid(*[np.full(running + 1, -1, np.int64) for _ in q.Laid.fields]),
    )


def profile_for(nodes: int, gpus: int, depth: int) -> q.Profile:
    """An empty table of the future; of no size where it is not planned."""
    rows = gpus + 2 * depth + 4 if depth else 0

    def room(*shape: int) -> I64:
        return np.zeros(shape, np.int64)

    return q.Profile(room(rows), *[room(rows, nodes) for _ in range(3)], room(depth), room(depth), room(depth, nodes))


def reasons_for(world: World, sample: I64, pools: int) -> q.GivenReasons:
    """Nothing has been said yet."""
    wanted = int(world.clock[w.REASONS])
    classes, jobs = len(sample) * wanted, world.jobs.shape[1] * wanted
    alike = world.jobs[w.VC, sample] * (world.jobs[w.TYPE].max(initial=0) + 2) + world.jobs[w.TYPE, sample]
    kin_of = np.unique(alike, return_inverse=True)[1].astype(np.int64)

    def nothing(size: int) -> I64:
        return np.full(size, -1, np.int64)

    return q.GivenReasons(
        head=nothing(pools * wanted),
        shadow=nothing(pools * wanted),
        code=np.zeros(classes, np.int64),
        free=nothing(classes),
        largest=nothing(classes),
        start=nothing(jobs),
        kin_of=kin_of,
        kin=q.Kin(*[nothing(int(kin_of.max(initial=0)) + 1) for _ in q.Kin.fields]),
    )


def no_tiers() -> q.Tiers:
    """What is in the place of tiers where jobs are placed by a rule."""
    nothing = np.zeros(0, np.int64)
    return q.Tiers(np.zeros((0, 0), np.int64), nothing, nothing, nothing)


def spans(world: World, cluster: Cluster, sample: I64) -> I64:
    """The most GPUs that a job of each class can have in one domain of each tier while the cluster is empty."""
    nodes, jobs = world.nodes, world.jobs
    levels = [np.arange(nodes.shape[1]), *world.domains, np.zeros(nodes.shape[1], np.int64)]
    found = np.zeros((len(levels), len(sample)), np.int64)
    for cls, job in enumerate(sample):
        mine = np.ones(nodes.shape[1], np.bool_)
        if jobs[w.VC, job] >= 0:
            mine &= nodes[w.NODE_VC] == jobs[w.VC, job]
        if jobs[w.TYPE, job] >= 0:
            mine &= world.admits[jobs[w.TYPE, job]] == 1
        usable = np.where(mine, nodes[w.TOTAL], 0)
        for column, room in ((w.CPU, cluster.node_cpu), (w.MEM, cluster.node_mem)):
            if jobs[column, job] > 0:
                usable = np.where(room > 0, np.minimum(usable, room // jobs[column, job]), usable)
        for tier, domain in enumerate(levels):
            found[tier, cls] = np.bincount(domain, usable).max()
    return found


def demand_classes(world: World, further: I64 | None = None) -> tuple[I64, I64]:
    """A class for every combination of demands that occurs: (class of each job, one job of each class)."""
    code = np.zeros(world.jobs.shape[1], np.int64)
    demands = [world.jobs[column] for column in (w.GPUS, w.SHARE, w.VC, w.TYPE, w.CPU, w.MEM, w.SPAN)]
    for values in [*demands, *([] if further is None else [further])]:
        if values.min(initial=w.NEVER) < values.max(initial=-w.NEVER):
            kinds, inverse = np.unique(values, return_inverse=True)
            code = code * len(kinds) + inverse
            if code.max() > 2**31:
                code = np.unique(code, return_inverse=True)[1]
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return np.ascontiguousarray(inverse, np.int64), first


def pools_of(world: World, members: I64) -> I64:
    """The pool of each class: virtual cluster and GPU type; only the former where jobs take any, or sets overlap."""
    vc, kind = world.jobs[w.VC, members], world.jobs[w.TYPE, members]
    wanted = np.unique(kind[kind >= 0])
    shared = world.admits[wanted].sum(0) > 1  # nodes that are in several of the types and sets that are wanted
    mixed = wanted[(world.admits[wanted] & shared).any(1)]
    loose = np.isin(vc, vc[(kind < 0) | np.isin(kind, mixed)])
    return np.unique(np.where(loose, -1, kind) + (vc + 1) * (kind.max(initial=0) + 2), return_inverse=True)[1].astype(
        np.int64
    )


def take_over(queue: q.Queue, old: q.Queue) -> None:
    """Go on with what another configuration learned; with its estimates only if they come from the same source."""
    copy_known(queue.users, old.users)  # on a live cluster there may be new ones
    copy_known(queue.sizes, old.sizes)
    copy_known(queue.completions, old.completions)
    for name in ("users_seen", "usage_at", "total_usage"):
        setattr(queue.state, name, getattr(old.state, name))
    if queue.config.source == old.config.source and queue.config.source >= q.S_DECLARED:
        queue.estimate[:] = old.estimate
        if queue.bounds.level == old.bounds.level:
            copy_known(queue.bounds, old.bounds)
    if len(queue.forgiven.run_time) == len(old.forgiven.run_time):
        copy_known(queue.forgiven, old.forgiven)


def copy_known(to: Arrays, old: Arrays) -> None:
    """Take over every array of a struct, as far as both reach; not its numbers."""
    for name in to.fields:
        if isinstance(values := getattr(to, name), np.ndarray):
            count = min(len(values), len(getattr(old, name)))
            values[:count] = getattr(old, name)[:count]
