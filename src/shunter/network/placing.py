"""From a placement to the iteration time of a model.

The shape of a placement is how many units it has in each tier, innermost first: (4, 2, 1) is 4 GPUs on each of 2
machines of one rack.  An uneven placement has no balanced hierarchy: it is one flat ring on the highest tier that it
spans, as if each GPU were a unit of that tier, so 5 + 3 GPUs on two machines of a rack are (1, 8, 1).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np

from shunter.cluster import Cluster, Tier
from shunter.errors import NetworkError
from shunter.network.collectives import Dimension
from shunter.network.iteration import Iteration, iteration
from shunter.network.models import CatalogueModel, LayerProfile, compute_ns, find, is_known, profile
from shunter.world import I64

Shape = tuple[int, ...]


class Fabric(Protocol):
    """A network: the dimensions over which a placement of some shape communicates, and the scheme."""

    def dimensions(self, shape: Shape) -> tuple[list[Dimension], str]:
        """One dimension for each tier of the shape, or more."""


@dataclass(frozen=True)
class TierNetwork:
    """A network of tiers as a cluster describes them, used hierarchically."""

    tiers: tuple[Tier, ...]

    @classmethod
    def of(cls, cluster: Cluster) -> TierNetwork:
        """Those of a cluster."""
        if not cluster.tiers:
            raise NetworkError(f"cluster '{cluster.name}' has no tiers; describe its network with [[tier]] in its file")
        if len(cluster.tiers) == 1 and cluster.nodes > 1:
            raise NetworkError(
                f"cluster '{cluster.name}': no tier joins its {cluster.nodes:,} machines; add a second [[tier]]"
            )
        return cls(cluster.tiers)

    def dimensions(self, shape: Shape) -> tuple[list[Dimension], str]:
        """A message through a switch crosses two links."""
        high = top(shape)
        if high >= len(self.tiers):
            names = ", ".join(tier.name for tier in self.tiers)
            raise NetworkError(f"the placement spans {high + 1} tiers, but the network has {len(self.tiers)}: {names}")
        return [_dimension(tier, units) for tier, units in zip(self.tiers, shape, strict=False)], "hierarchical"


def _dimension(tier: Tier, units: int) -> Dimension:
    links = 2 if tier.topology == "switch" else 1
    try:
        return Dimension(units, tier.bandwidth_gbps, 1000 * links * tier.latency_us, tier.topology)
    except NetworkError as error:
        raise NetworkError(f"tier '{tier.name}': {error}") from None


def top(shape: Shape) -> int:
    """The highest tier that a placement of this shape spans."""
    return max((tier for tier, units in enumerate(shape) if units > 1), default=0)


def shape_of(gpus: Sequence[int], *domains: Sequence[int]) -> Shape:
    """The shape of ``gpus`` on some machines; ``domains`` say in which rack (and so on outwards) each of them is."""
    total, machines = sum(gpus), len(gpus)
    if machines == 1:
        return (total, 1, *(1 for _ in domains))
    spans = [machines, *(len(set(domain)) for domain in domains)]  # machines, racks, ... in all
    high = max(tier for tier, count in enumerate(spans) if count > 1)
    if _even(gpus, domains):
        inner = [gpus[0], *(span // above for span, above in pairwise(spans))]
        return (*inner, spans[-1])
    return tuple(total if tier == high + 1 else 1 for tier in range(len(spans) + 1))


def _even(gpus: Sequence[int], domains: Sequence[Sequence[int]]) -> bool:
    """Every machine has as many GPUs, every rack as many machines, and so on."""
    if any(count != gpus[0] for count in gpus):
        return False
    inside: Sequence[int] = range(len(gpus))
    for domain in domains:
        children: dict[int, set[int]] = {}
        for child, parent in zip(inside, domain, strict=True):
            children.setdefault(parent, set()).add(child)
        if len({len(found) for found in children.values()}) > 1:
            return False
        inside = domain
    return True


def possible_shapes(gpus: int, most: Sequence[int]) -> list[Shape]:
    """Every shape that ``gpus`` can have where a tier has at most this many units: the even ones, then flat rings."""
    if gpus > math.prod(most):
        raise NetworkError(f"{gpus} GPUs fit nowhere: all tiers together have at most {math.prod(most)}")
    even = _even_shapes(gpus, most)
    rings = [
        tuple(gpus if index == tier else 1 for index in range(len(most)))
        for tier in range(1, len(most))
        if 2 < gpus <= math.prod(most[: tier + 1])  # two GPUs are never uneven
    ]
    return even + [ring for ring in rings if ring not in even]


def _even_shapes(gpus: int, most: Sequence[int]) -> list[Shape]:
    if not most:
        return [()] if gpus == 1 else []
    outer = [units for units in range(1, min(gpus, most[-1]) + 1) if gpus % units == 0]
    return [(*inner, units) for units in outer for inner in _even_shapes(gpus // units, most[:-1])]


def tightest(gpus: int, most: Sequence[int], tier: int) -> Shape:
    """The even shape over a tier with the fewest units there; a flat ring is even too, if there is no other."""
    spanning = [shape for shape in possible_shapes(gpus, most) if top(shape) == tier]
    return min(spanning, key=lambda shape: (*reversed(shape[1:]),))


def room(cluster: Cluster) -> Shape:
    """The most units of each tier: GPUs of a machine, machines of a rack, racks of what is above, and so on."""
    return (int(cluster.node_gpus.max()), *_most(cluster.nodes, cluster.tier_domains))


def _most(machines: int, domains: Sequence[Sequence[int] | I64]) -> Shape:
    """The most machines in a rack, racks in what is above, and so on; the last tier joins all."""
    levels = [np.arange(machines), *map(np.asarray, domains), np.zeros(machines, np.int64)]
    pairs = (np.unique(np.stack(level), axis=1) for level in pairwise(levels))
    return tuple(int(np.bincount(around).max()) for _, around in pairs)


def placed(text: str, cluster: Cluster) -> Shape:
    """The shape of a placement as people write it: ``4+4`` is two machines of a rack, ``4+4/8`` a third in another.

    Two slashes lead out of what joins racks, three out of what joins that, and so on.
    """
    if not re.fullmatch(r"[0-9]{1,6}((\+|/+)[0-9]{1,6})*", text):
        raise NetworkError(
            f"placement '{text}': must be GPUs per machine joined by +, racks by /, what is above by //, as in 4+4 or "
            "4+4/8; correct it"
        )
    gpus, names = [int(count) for count in re.split("[+/]+", text)], cluster.tier_names
    leaves = [len(joint.strip("+")) for joint in re.findall("[+/]+", text)]  # 0: the machine, 1: the rack, ...
    if 0 in gpus:
        raise NetworkError(f"placement '{text}': must have 1 or more GPUs on each machine; leave out machines without")
    if max(leaves, default=0) > len(names) - 2:
        raise NetworkError(
            f"placement '{text}': {'/' * max(leaves)} leads out of the tier '{names[-1]}', but cluster "
            f"'{cluster.name}' has no tier above it; its tiers are {', '.join(names)}"
        )
    domains = [np.cumsum([0, *(left >= tier for left in leaves)]) for tier in range(1, len(names) - 1)]
    shape, units = (max(gpus), *_most(len(gpus), domains)), ("GPUs", "machines", *(f"{name}s" for name in names[1:]))
    for wanted, there, unit, name in zip(shape, room(cluster), units, names, strict=False):
        if wanted > there:
            raise NetworkError(
                f"placement '{text}': has {wanted} {unit} in a {name}, but cluster '{cluster.name}' has at most "
                f"{there}; place it otherwise, or choose another cluster"
            )
    return shape_of(gpus, *(domain.tolist() for domain in domains))


class Costs:
    """What placements cost models on one network under one calibration; every answer is remembered."""

    def __init__(
        self,
        fabric: Fabric,
        calibration: str = "profiled",
        models: Mapping[str, CatalogueModel] | None = None,
        data: Path | None = None,
        uneven: str = "ring",
        stand_in: str = "",
    ) -> None:
        self.fabric = fabric
        self.uneven = uneven  # what an uneven placement costs: a flat ring, or as much as the tightest even one
        self.calibration = calibration
        self._stand_in = stand_in  # for models that the catalogue does not have; "": they are refused
        self._models = models
        self._data = data
        self._profiles: dict[str, LayerProfile] = {}
        self._known: dict[tuple[str, Shape, float], Iteration] = {}

    def profile(self, model: str) -> LayerProfile:
        """A model's layers as they are used here."""
        if model not in self._profiles:
            known = self._stand_in if self._stand_in and not self.knows(model) else model
            self._profiles[model] = profile(find(known, self._models), self.calibration, self._data)
        return self._profiles[model]

    def knows(self, model: str) -> bool:
        """Whether the catalogue has a model."""
        return is_known(model, self._models)

    def iteration(self, model: str, shape: Shape, share: float = 1.0) -> Iteration:
        """How long an iteration takes; ``share`` is how much of its bandwidth between machines the job gets."""
        key = (model, shape, share)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._iteration(model, shape, share)
        return found

    def _iteration(self, model: str, shape: Shape, share: float) -> Iteration:
        if not 0 < share <= 1:
            raise NetworkError(f"a share of bandwidth must be above 0 and at most 1, got {share:g}")
        layers = self.profile(model).layers
        if math.prod(shape) == 1:
            return Iteration(compute_ns(layers), compute_ns(layers))
        dimensions, scheme = self.fabric.dimensions(shape)
        if share < 1 and top(shape):
            dimensions = dimensions[:1] + [
                dataclasses.replace(dimension, bandwidth=share * dimension.bandwidth) for dimension in dimensions[1:]
            ]
        return iteration(layers, dimensions, scheme)
