"""What Qore-DL remembers, and its random numbers."""

from __future__ import annotations

import numpy as np

from shunter import world as w
from shunter.arrays import F1, I1, Arrays, Variables, narrowed
from shunter.compiled import kernel
from shunter.draws import mixed
from shunter.world import World

ON_LIGHTEST = 0.95  # of the tasks go to the lightest third of the hosts
MOST_LEVELS = 16  # of a change of CPU, at most
POPULATION = 8  # of the genetic search, as in the authors' code


class QoredlConfig(Arrays):
    """Its settings."""

    flip: bool
    adjusts: bool
    genetic: bool
    period: int  # from one adjustment to the next, ms


class QoredlState(Variables):
    """What it knows of the cluster, and room to work in."""

    config: QoredlConfig
    due: int = -1  # when running jobs are adjusted next; -1: not known yet
    usage: float = 0.0  # U
    free: int = 0  # instances
    draws: int = 0  # random numbers drawn at this instant
    factor: F1  # (hosts + 1,) by the number of hosts that are up: of the weight of a host over that of the next
    used: F1  # (hosts,) share of instances in use
    options: int = 0  # that a job has, first those of another width ...
    horizontal: int = 0  # ... of which there are so many
    option: I1  # (room,) widths that a job could have ...
    each: I1  # (room,) ... the CPU of each instance ...
    worth: F1  # (room,) ... and how good they are
    codes: I1  # (POPULATION,) of the genetic search ...
    bred: I1  # (POPULATION,) ... and the next generation


qoredl_of = narrowed(QoredlState)


def nothing_adjusted(world: World, most: int, config: QoredlConfig) -> QoredlState:
    """No job has come yet."""
    hosts = world.nodes.shape[1]
    factor = np.array([(1 - ON_LIGHTEST) ** (3 / max(count, 1)) for count in range(hosts + 1)])
    codes = [np.zeros(POPULATION, np.int64) for _ in range(2)]
    room = most + 1 + MOST_LEVELS
    return QoredlState(
        config=config, factor=factor, used=np.zeros(hosts), option=np.zeros(room, np.int64),
        each=np.zeros(room, np.int64), worth=np.zeros(room), codes=codes[0], bred=codes[1],
    )  # fmt: skip


@kernel
def draw_at(world: World, number: int) -> float:
    """A random number from 0 to 1 that depends on the seed, the instant and its number (splitmix64)."""
    drawn = 0
    for value in (world.clock[w.SEED], world.clock[w.NOW], number):
        drawn = mixed(drawn, value)
    return float((drawn & 0x1FFFFFFFFFFFFF) / 9007199254740992.0)


@kernel
def draw(world: World, own: QoredlState) -> float:
    """The next random number."""
    own.draws += 1
    return draw_at(world, own.draws)


@kernel
def measure_usage(world: World, own: QoredlState) -> None:
    """U: the hosts' shares of instances in use, weighed by the chance that a task is placed there."""
    count = 0
    for node in range(world.nodes.shape[1]):
        if world.nodes[w.NODE_STATE, node] == w.UP:
            share, at = 1.0 - world.nodes[w.FREE, node] / world.nodes[w.TOTAL, node], count
            while at > 0 and own.used[at - 1] > share:
                own.used[at] = own.used[at - 1]
                at -= 1
            own.used[at] = share
            count += 1
    weight, weights, total = 1.0, 0.0, 0.0
    for at in range(count):
        total += weight * own.used[at]
        weights += weight
        weight *= own.factor[count]
    own.usage = total / weights if count > 0 else 1.0
