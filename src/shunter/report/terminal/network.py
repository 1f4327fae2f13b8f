"""Models, placements and Dally's Table I: records for scripts, tables for people."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.tables import number, table

if TYPE_CHECKING:
    from shunter.cluster import Cluster
    from shunter.network.models import CatalogueModel
    from shunter.network.placing import Costs, Shape


def model_record(model: CatalogueModel, layers: bool = False) -> dict[str, Any]:
    """A model for scripts; its layers too where wanted."""
    return {
        "name": model.name,
        "aliases": list(model.aliases),
        "gradient_bytes": model.gradient_bytes,
        "compute_us": model.compute_ns / 1000,
        "compute_from": model.source,
        "calibrations": ["paper", "profiled"] if model.published else ["profiled"],
        "layers": [dataclasses.asdict(layer) for layer in model.layers] if layers else len(model.layers),
    }


def models_view(models: Iterable[CatalogueModel]) -> RenderableType:
    """All models."""
    made = table("model", "layers", "gradient\nMB", "compute\nms", "compute follows from", "Table I")
    for model in models:
        sizes = (f"{len(model.layers):,}", number(model.gradient_bytes / 1e6), number(model.compute_ns / 1e6))
        made.add_row(model.name, *sizes, model.source, "yes" if model.published else "")
    return made


def layers_view(model: CatalogueModel) -> RenderableType:
    """The layers of a model, first to last."""
    made = table("layer", "gradient bytes", "forward us", "weights us", "input us", "update us")
    for layer in model.layers:
        times = (layer.forward_ns, layer.weight_ns, layer.input_ns, layer.update_ns)
        made.add_row(layer.name, f"{layer.gradient_bytes:,}", *(number(ns / 1000) for ns in times))
    return Group(Text.assemble((model.name, "bold"), f"  compute follows from {model.source}"), made)


def table_view(rows: Sequence[dict[str, Any]], calibration: str) -> RenderableType:
    """Table I, ours beside the printed one; cells that agree are green."""
    from shunter.network.paper import SHAPES, agrees

    made = table("% of compute", "compute\nus", *(f"{tier}\n{who}" for tier in SHAPES for who in ("ours", "paper")))
    for row in rows:
        cells = []
        for tier in SHAPES:
            ours, printed = row["percent"][tier], row["paper_percent"][tier]
            cells += [Text(number(ours), style="green" if agrees(ours, printed) else ""), Text(f"{printed:,}")]
        made.add_row(row["model"], number(row["compute_us"]), *cells)
    both = [(row["percent"][tier], row["paper_percent"][tier]) for row in rows for tier in SHAPES]
    near = f"{sum(agrees(*cell) for cell in both)} of {len(both)} cells within one point or 0.5 %"
    sources = "; ".join(dict.fromkeys(row["source"] for row in rows))
    return Group(made, Text(f" calibration {calibration}: {near}\n compute: {sources}", style="dim"))


def cost_record(costs: Costs, model: str, shape: Shape, cluster: Cluster) -> dict[str, Any]:
    """What a placement costs a model, for scripts."""
    from shunter.network.placing import top

    found, profile = costs.iteration(model, shape), costs.profile(model)
    return {
        "model": profile.model,
        "cluster": cluster.name,
        "calibration": profile.calibration,
        "compute_from": profile.source,
        "shape": list(shape),
        "units": ["GPUs", "machines", *(f"{name}s" for name in cluster.tier_names[1:-1])],
        "tier": cluster.tiers[top(shape)].name,
        "compute_us": found.compute_ns / 1000,
        "iteration_us": found.total_ns / 1000,
        "exposed_us": found.exposed_ns / 1000,
        "slowdown": found.slowdown,
    }


def costs_view(rows: Sequence[dict[str, Any]]) -> RenderableType:
    """What placements cost a model."""
    made = table(" x ".join(rows[0]["units"]), "tier", "compute us", "iteration us", "exposed us", "slowdown")
    for row in rows:
        times = (number(row[key]) for key in ("compute_us", "iteration_us", "exposed_us"))
        made.add_row(_written(row["shape"]), row["tier"], *times, f"{row['slowdown']:.3f}")
    first = rows[0]
    about = f" {first['model']} on {first['cluster']}; calibration {first['calibration']}: {first['compute_from']}"
    return Group(made, Text(about, style="dim"))


def _written(shape: Sequence[int]) -> str:
    """``4 x 2 x 1``; units of an outer tier alone are the ring of any uneven placement, too."""
    ring = shape[0] == 1 and sum(shape) == len(shape) - 1 + max(shape) and max(shape) > 2
    return " x ".join(map(str, shape)) + ("  (or uneven)" if ring else "")
