"""Speed by width: what a model gains from more GPUs, on one machine and across machines.

Linear speed-up is wrong: on four V100 the published throughputs are 0.63 of it in the mean. A ``ScalingCurve`` has the
efficiency (speed over that of one GPU, over the number of GPUs) at some widths; widths between are interpolated over
doublings, and beyond the last one the efficiency falls as it did over the last doubling. ``Scaling`` finds the curve
of a model: one that a site measured, else what the network model says of the cluster, else a published one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from shunter.cluster import Cluster
from shunter.errors import ScalingError
from shunter.network.models import plain
from shunter.network.placing import Costs, TierNetwork, possible_shapes, room, tightest, top
from shunter.safe_files import text_of
from shunter.world import F64

TOGETHER, APART = range(2)  # all GPUs of a job on one machine, or not
USUAL_TYPE = "v100"  # whose published curve stands for a type that none was published for
Efficiencies = tuple[tuple[int, float], ...]  # (GPUs, efficiency), ascending


@dataclass(frozen=True)
class ScalingCurve:
    """What a model gains from more GPUs of a type."""

    model: str
    together: Efficiencies  # on one machine
    apart: Efficiencies = ()  # across machines; (): as on one
    gpu_type: str = ""  # "": any
    source: str = ""

    def speeds(self, most: int) -> F64:
        """Speed over that of one GPU, by width from 0 to ``most``: on one machine, and across machines."""
        return np.stack([_speeds(self.together, most), _speeds(self.apart or self.together, most)])

    def speed(self, gpus: int, machines: int = 1) -> float:
        """Speed over that of one GPU."""
        return float(self.speeds(gpus)[APART if machines > 1 else TOGETHER, gpus])


def _speeds(known: Efficiencies, most: int) -> F64:
    """Speeds at widths 0 to ``most``; one GPU has speed 1."""
    widths = np.array([1, *(width for width, _ in known if width > 1)], float)
    values = np.array([1.0, *(value for width, value in known if width > 1)])
    wanted = np.arange(1, most + 1, dtype=float)
    found = np.interp(np.log2(wanted), np.log2(widths), values)
    beyond = wanted > widths[-1]
    found[beyond] *= (wanted[beyond] / widths[-1]) ** -_fall(widths, values)
    return np.concatenate(([0.0], wanted * found))


def _fall(widths: F64, values: F64) -> float:
    """The power of the width with which the efficiency falls at the end; at most 1: the speed itself never falls."""
    if len(widths) == 1:
        return 0.0
    power = math.log(values[-2] / values[-1]) / math.log(widths[-1] / widths[-2])
    return min(max(power, 0.0), 1.0)


def cleaned(values: Sequence[float]) -> list[float]:
    """Measured efficiencies at growing widths as ones that never rise, 1 at most: neighbours that do are averaged."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((min(value, 1.0), 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (one, ones), (two, twos) = blocks[-2:]
            blocks[-2:] = [((one * ones + two * twos) / (ones + twos), ones + twos)]
    return [value for value, count in blocks for _ in range(count)]


@dataclass(frozen=True, eq=False)
class Scaling:
    """The curves of models, in the order in which they are asked: measured, by the network model, published."""

    measured: tuple[ScalingCurve, ...] = ()
    cluster: Cluster | None = None  # whose network is computed with; None: of none
    published: tuple[ScalingCurve, ...] = ()

    @classmethod
    def usual(cls, cluster: Cluster | None = None, measured: Path | None = None) -> Scaling:
        """A site's measurements if there is a file, the network of the cluster if it has one, published curves."""
        return cls(read(measured) if measured else (), cluster, published())

    def curve(self, model: str, gpu_type: str = "") -> ScalingCurve | None:
        """The curve of a model on GPUs of a type; None: nothing is known of it."""
        found = _chosen(self.measured, model, gpu_type)
        if found is None and self.cluster is not None:
            found = _from_network(self.cluster, model)
        return found or _chosen(self.published, model, gpu_type)

    def has_measured(self, model: str) -> bool:
        """Whether a site has measured a model."""
        return any(plain(curve.model) == plain(model) for curve in self.measured)

    def speed(self, model: str, gpus: int, machines: int = 1, gpu_type: str = "") -> float:
        """Speed over that of one GPU; linear for a model of which nothing is known."""
        found = self.curve(model, gpu_type)
        return found.speed(gpus, machines) if found else float(gpus)


def _chosen(curves: tuple[ScalingCurve, ...], model: str, gpu_type: str) -> ScalingCurve | None:
    """The curve for this type, else for any, else for the usual one; None: the model has none."""
    by_type = {curve.gpu_type: curve for curve in curves if plain(curve.model) == plain(model)}
    for kind in (gpu_type, "", USUAL_TYPE):
        if kind in by_type:
            return by_type[kind]
    return None


def _from_network(cluster: Cluster, model: str) -> ScalingCurve | None:
    """What the network model says of a model; None: the catalogue lacks it, or the cluster has no tiers for it."""
    if not cluster.tiers or (len(cluster.tiers) == 1 and cluster.nodes > 1):
        return None
    costs = Costs(TierNetwork.of(cluster))
    if not costs.knows(model):
        return None
    most = room(cluster)
    inside, outside = _widths(most[0]), _widths(min(math.prod(most), cluster.gpus)) if cluster.nodes > 1 else []
    flat = (1,) * (len(most) - 1)
    together = tuple((gpus, 1 / costs.iteration(model, (gpus, *flat)).slowdown) for gpus in inside)
    apart = tuple((gpus, 1 / costs.iteration(model, _across(gpus, most)).slowdown) for gpus in outside)
    return ScalingCurve(model, together, apart, source=f"the network of cluster '{cluster.name}'")


def _widths(most: int) -> list[int]:
    """2, 4, 8 and so on, and the most."""
    doublings = [2**power for power in range(1, most.bit_length()) if 2**power <= most]
    return sorted({*doublings, most} - {1})


def _across(gpus: int, most: tuple[int, ...]) -> tuple[int, ...]:
    """The tightest shape of this many GPUs on several machines."""
    lowest = min(top(shape) for shape in possible_shapes(gpus, most) if top(shape) > 0)
    return tightest(gpus, most, lowest)


@cache
def published() -> tuple[ScalingCurve, ...]:
    """The curves that the package has: published throughputs, cleaned (``shunter.scaling.deriving``)."""
    from shunter.scaling.reading import parse

    return parse(files(__package__).joinpath("published.toml").read_text("utf-8"), "published.toml")


def read(path: Path) -> tuple[ScalingCurve, ...]:
    """The curves in a site's own file."""
    from shunter.scaling.reading import parse

    return parse(text_of(path, ScalingError), str(path))
