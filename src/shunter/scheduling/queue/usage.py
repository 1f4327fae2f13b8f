"""What users have used, as fair share counts it."""

from __future__ import annotations

import math

from shunter import world as w
from shunter.compiled import kernel
from shunter.scheduling.queue.queue import Queue
from shunter.world import World


@kernel
def charge(world: World, queue: Queue, until: int) -> None:
    """Bring every user's decayed usage up to a time, now at most: it halves once per half-life, what ran adds to it."""
    elapsed = until - queue.state.usage_at
    if elapsed <= 0:
        return
    queue.state.usage_at = until
    kept, total = 2.0 ** (-elapsed / queue.config.half_life), 0.0
    gain = queue.config.half_life / math.log(2.0) * (1.0 - kept)  # of one GPU in use all the while, itself decaying
    for user in range(len(queue.users.usage)):
        queue.users.usage[user] *= kept
        total += queue.users.usage[user]
    for row, length in ((w.L_RUNNING, w.N_RUNNING), (w.L_ENDED, w.N_ENDED), (w.L_ARRIVED, w.N_ARRIVED)):
        for at in range(world.clock[length]):
            job = world.lists[row, at]
            user = world.jobs[w.USER, job]
            ran = row == w.L_RUNNING or world.jobs[w.EXECUTED, job] > 0  # since before: starts are decisions too
            if user >= 0 and ran:
                cost = queue.cost[queue.class_of[job]]
                queue.users.usage[user] += cost * gain
                total += cost * gain
    queue.state.total_usage = total


@kernel
def recount(world: World, queue: Queue) -> None:
    """When a period has begun, see what users had used by then; keys are made again then, and stay until the next."""
    config, state, users = queue.config, queue.state, queue.users
    begun = world.clock[w.NOW] // config.period * config.period
    if state.counted_at == begun:
        return
    state.counted_at, state.stale = begun, True
    queue.head[:] = -1
    if config.half_life == 0:
        return
    charge(world, queue, begun)
    if config.ranks:
        rank_users(queue)
    elif queue.state.total_usage > 0:
        for user in range(len(users.usage)):
            users.counted[user] = users.usage[user] / queue.state.total_usage * state.users_seen


@kernel
def rank_users(queue: Queue) -> None:
    """Fair Tree without accounts: of n users the one with the least usage has factor 1, the most 1/n, equals the same.

    What is kept is minus the binary logarithm of the factor, so that 2^-usage is the factor here too.
    """
    users, standing, seen = queue.users, queue.standing, queue.state.users_seen
    for begin in range(1, len(standing)):  # hardly anything has moved since the last time
        user, at = standing[begin], begin
        while at > 0 and users.usage[standing[at - 1]] > users.usage[user]:
            standing[at] = standing[at - 1]
            at -= 1
        standing[at] = user
    rank, left, before = seen, seen, -1.0
    for at in range(len(standing)):
        user = standing[at]
        if users.seen[user] == 1:
            if users.usage[user] != before:
                rank, before = left, users.usage[user]
            users.counted[user] = math.log2(seen / rank)
            left -= 1
