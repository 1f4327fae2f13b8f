"""Dally's Table I: communication as a percentage of compute, for 8 GPUs as 2 x 4, and the network that gives it.

The compute scales make the machine row come out: that is how the authors calibrated.  Settings of the rack and network
rows were fitted to the table, so those rows are no validation of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shunter.cluster import Cluster
from shunter.errors import NetworkError
from shunter.network.collectives import Dimension
from shunter.network.models import compute_ns
from shunter.network.placing import Costs, Shape, top

GIB = 2**30 / 1e9  # GB/s in a GiB/s
BOARD = 4  # GPUs of a machine that are joined with one another
SHAPES: dict[str, Shape] = {"machine": (8, 1, 1), "rack": (4, 2, 1), "network": (4, 1, 2)}
PRINTED = {
    "vgg11": (1, 6, 7),
    "alexnet": (2, 13, 100),
    "mobilenetv3": (42, 940, 19592),
    "resnet18": (7, 116, 2749),
    "resnet50": (12, 12, 38),
    "bert-large": (8, 23, 715),
}


@dataclass(frozen=True)
class TableFabric:
    """The network that reproduces Table I; what joins the GPUs of a machine depends on how far a job reaches."""

    @classmethod
    def of(cls, cluster: Cluster) -> TableFabric:
        """That network in place of a cluster's own, which must have the same tiers."""
        if len(cluster.tiers) != len(SHAPES):
            raise NetworkError(
                f"cluster '{cluster.name}': must have three tiers (machine, rack, network) to be run on the network of "
                f"Dally's Table I, got {len(cluster.tiers)}; take dally-8rack, or use --network profiled"
            )
        return cls()

    def dimensions(self, shape: Shape) -> tuple[list[Dimension], str]:
        """Shapes of up to three tiers: machine, rack, network."""
        high = top(shape)
        if high > 2:
            raise NetworkError(f"Table I has the tiers machine, rack and network; the placement spans {high + 1} tiers")
        gpus, machines, racks = (*shape, 1, 1)[:3]
        if high == 0:
            return _machine(gpus), "baseline"
        if high == 1:
            return [Dimension(gpus, 600 * GIB, 500), Dimension(machines, 800 * GIB, 5000)], "baseline"
        inner = [Dimension(gpus, 2400 * GIB, 500), Dimension(machines, 800 * GIB, 5000)]
        return [*inner, Dimension(racks, 800 * GIB, 100_000)], "hierarchical"


def _machine(gpus: int) -> list[Dimension]:
    """Boards of 4 GPUs, each with 600 GiB/s to each other, on a ring; what fills no boards is on the ring alone."""
    board = gpus if gpus <= BOARD else BOARD if gpus % BOARD == 0 else 1
    on_board = Dimension(board, 600 * GIB * max(board - 1, 1), 0, "full")
    return [on_board, Dimension(gpus // board, 1200 * GIB, 500, "ring")]


def table(calibration: str, data: Path | None = None) -> list[dict[str, Any]]:
    """Table I under a calibration, one row a model, beside what is printed."""
    costs = Costs(TableFabric(), calibration, data=data)
    rows = []
    for model, printed in PRINTED.items():
        profile = costs.profile(model)
        ours = {tier: 100 * (costs.iteration(model, shape).slowdown - 1) for tier, shape in SHAPES.items()}
        rows.append(
            {
                "model": model,
                "compute_us": compute_ns(profile.layers) / 1000,
                "percent": ours,
                "paper_percent": dict(zip(SHAPES, printed, strict=True)),
                "source": profile.source,
            }
        )
    return rows


def agrees(ours: float, printed: float) -> bool:
    """Whether a cell is within one point or half a percent, whichever is larger."""
    return abs(ours - printed) <= max(1, 0.005 * printed)
