"""How long an all-reduce takes over some dimensions (tiers) of a network, in whole nanoseconds.

The arithmetic is that of a packet-free analytical simulator: a message takes ``latency + bytes / bandwidth``, a step of
a collective is one message and an endpoint's delay, and a dimension serves one chunk at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from shunter.errors import NetworkError, did_you_mean

ENDPOINT_NS = 10  # what an endpoint needs before a collective, and after each of its steps
TOPOLOGIES = ("switch", "ring", "full")
ALGORITHMS = ("ring", "halving-doubling")
SCHEMES = ("hierarchical", "baseline")
MOST_UNITS = 2**24


@dataclass(frozen=True)
class Dimension:
    """Some units (GPUs, machines, racks) and what joins them."""

    units: int
    bandwidth: float  # decimal GB/s per GPU, which is bytes per ns
    latency: float  # ns: of a whole message through a switch, of one hop on a ring, of the one link if fully connected
    topology: str = "switch"
    algorithm: str = "ring"

    def __post_init__(self) -> None:
        if not 1 <= self.units <= MOST_UNITS:
            raise NetworkError(f"a dimension's units must be 1 to {MOST_UNITS:,}, got {self.units}")
        if not 0 < self.bandwidth < math.inf:
            raise NetworkError(f"a dimension's bandwidth must be above 0 GB/s, got {self.bandwidth:g}")
        if not 0 <= self.latency < math.inf:
            raise NetworkError(f"a dimension's latency must be 0 ns or more, got {self.latency:g}")
        if self.topology not in TOPOLOGIES:
            raise NetworkError(f"there is no topology '{self.topology}'; {did_you_mean(self.topology, TOPOLOGIES)}")
        if self.algorithm not in ALGORITHMS:
            raise NetworkError(f"there is no algorithm '{self.algorithm}'; {did_you_mean(self.algorithm, ALGORITHMS)}")
        if self.algorithm == "halving-doubling" and self.units & (self.units - 1):
            raise NetworkError(
                f"halving-doubling needs a power of two of units, got {self.units}; use ring for this dimension"
            )

    def message_ns(self, size: int, distance: int = 1) -> int:
        """One message between units that are so far apart."""
        if self.topology == "ring":
            return int(self.latency * min(distance, self.units - distance) + size / self.bandwidth)
        if self.topology == "full":
            return int(self.latency + size / (self.bandwidth / (self.units - 1)))
        return int(self.latency + size / self.bandwidth)

    def reduce_scatter_ns(self, size: int) -> int:
        """Every unit ends with the sum of its share; an all-gather of the shares takes as long."""
        if self.algorithm == "ring":
            return ENDPOINT_NS + (self.units - 1) * (self.message_ns(size // self.units) + ENDPOINT_NS)
        steps = range(self.units.bit_length() - 1)
        return ENDPOINT_NS + sum(self.message_ns(size >> (step + 1), 1 << step) + ENDPOINT_NS for step in steps)

    def allreduce_ns(self, size: int) -> int:
        """Every unit ends with the whole sum."""
        return 2 * self.reduce_scatter_ns(size) - ENDPOINT_NS


class Phase(NamedTuple):
    """One part of a collective: a dimension is busy for this long."""

    dimension: int
    ns: int


def phases(dimensions: Sequence[Dimension], size: int, scheme: str = "hierarchical") -> tuple[Phase, ...]:
    """The parts of an all-reduce of ``size`` bytes, in order; dimensions of one unit have none.

    hierarchical: reduce-scatter up through the dimensions, all-reduce in the last, all-gather down again.
    baseline: an all-reduce of the full size in every dimension, one after the other.
    """
    if scheme not in SCHEMES:
        raise NetworkError(f"there is no scheme '{scheme}'; {did_you_mean(scheme, SCHEMES)}")
    used = [(index, dimension) for index, dimension in enumerate(dimensions) if dimension.units > 1]
    if not used or size == 0:
        return ()
    if scheme == "baseline":
        return tuple(Phase(index, dimension.allreduce_ns(size)) for index, dimension in used)
    up = []
    for index, dimension in used[:-1]:
        up.append(Phase(index, dimension.reduce_scatter_ns(size)))
        size //= dimension.units
    last, dimension = used[-1]
    return (*up, Phase(last, dimension.allreduce_ns(size)), *reversed(up))


class Stream(NamedTuple):
    """A message to send: when it is issued, its rank (the higher goes first), and its parts."""

    issued: int
    rank: int
    phases: tuple[Phase, ...]


def finish_times(streams: Sequence[Stream]) -> list[int]:
    """When each stream has passed all its phases; a dimension serves one at a time, the highest waiting rank first.

    Among equal ranks the one that came to the dimension first goes first.
    """
    waiting: dict[int, list[tuple[int, int, int, int]]] = {}  # by dimension: (-rank, order of coming, stream, phase)
    serving: set[int] = set()
    done = [stream.issued for stream in streams]
    events = sorted((stream.issued, index, index, 0) for index, stream in enumerate(streams))
    order = len(streams)
    while events:
        now, changed = events[0][0], set()
        while events and events[0][0] == now:  # all that happens now, before anyone is chosen
            _, _, index, part = heappop(events)
            stream = streams[index]
            if part:
                left = stream.phases[part - 1].dimension
                serving.discard(left)
                changed.add(left)
            if part == len(stream.phases):
                done[index] = now
                continue
            wanted = stream.phases[part].dimension
            heappush(waiting.setdefault(wanted, []), (-stream.rank, order, index, part))
            order += 1
            changed.add(wanted)
        for dimension in changed:
            if dimension not in serving and waiting.get(dimension):
                _, _, index, part = heappop(waiting[dimension])
                serving.add(dimension)
                heappush(events, (now + streams[index].phases[part].ns, order, index, part + 1))
                order += 1
    return done


def allreduce_ns(dimensions: Sequence[Dimension], size: int, scheme: str = "hierarchical", chunks: int = 1) -> int:
    """An all-reduce of ``size`` bytes, cut into equal chunks that follow one another through the dimensions."""
    if size < 0 or chunks < 1:
        raise NetworkError(f"an all-reduce needs bytes >= 0 and chunks >= 1, got {size} bytes in {chunks} chunks")
    parts = phases(dimensions, size // chunks, scheme)
    return max(finish_times([Stream(0, 0, parts)] * chunks))
