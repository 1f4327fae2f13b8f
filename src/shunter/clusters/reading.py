"""The TOML form of a cluster, declared once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, model_validator

from shunter.cluster import ANY_TYPE, WAKE_S, Cluster, NodeGroup, Overheads, Tier
from shunter.clusters import MOST_GPUS_PER_NODE, MOST_NODES
from shunter.errors import ClusterError, did_you_mean
from shunter.toml_forms import MOST, Amount, Form, Name, Positive, filled


def _steps(value: Any) -> tuple[tuple[int, float], ...]:
    """One number of seconds for every job, or [[up to this many GPUs, seconds], ...]."""
    steps = value if isinstance(value, list) else [[1, value]]  # a job above the last step pays the last step
    for step in steps:
        if not (isinstance(step, list) and len(step) == 2 and type(step[0]) is int and type(step[1]) in (int, float)):
            raise ValueError("must be seconds, or steps as in [[1, 7], [8, 30]]: [GPUs up to, seconds]")
        if step[0] < 1 or not 0 <= step[1] <= MOST:
            raise ValueError("must have GPUs >= 1 and seconds >= 0 in every step")
    if any(after[0] <= before[0] for before, after in pairwise(steps)):
        raise ValueError("must have steps with ascending numbers of GPUs")
    return tuple((gpus, float(seconds)) for gpus, seconds in steps)


Steps = Annotated[tuple[tuple[int, float], ...], PlainValidator(_steps)]


class NodesForm(Form):
    """``[[nodes]]``: some equal nodes."""

    count: int = Field(ge=1, le=MOST_NODES)
    gpus: int = Field(ge=1, le=MOST_GPUS_PER_NODE)
    type: Name = ANY_TYPE
    cpus: Amount = 0
    mem_gib: Amount = 0
    vc: str = ""
    racks: list[Annotated[int, Field(ge=1)]] = Field(default_factory=list)
    rack_size: int = Field(0, ge=1)

    @model_validator(mode="after")
    def _racks_add_up(self) -> NodesForm:
        if self.racks and self.rack_size:
            raise ValueError("must give racks or rack_size, not both; remove one")
        if self.racks and sum(self.racks) != self.count:
            raise ValueError(f"racks must add up to count = {self.count}, but are {sum(self.racks)} nodes in all")
        return self

    def group(self) -> NodeGroup:
        """The same as the simulator has it."""
        racks = tuple(self.racks)
        if self.rack_size:
            whole, rest = divmod(self.count, self.rack_size)
            racks = (self.rack_size,) * whole + ((rest,) if rest else ())
        return NodeGroup(self.count, self.gpus, self.type, self.cpus, self.mem_gib, self.vc, racks)


class TierForm(Form):
    """``[[tier]]``: one level of the network, innermost first."""

    name: Name
    bandwidth_gbps: Positive
    latency_us: Amount
    topology: Literal["switch", "ring", "full"] = "switch"
    joins: int = Field(0, ge=2)
    uplinks: int = Field(1, ge=1, le=MOST_GPUS_PER_NODE)


class OverheadsForm(Form):
    """``[overheads]``: what stopping and starting costs."""

    checkpoint: Steps = ()
    restart: Steps = ()
    wake: Amount = WAKE_S


class ClusterForm(Form):
    """A whole file."""

    name: Name | None = None
    nodes: list[NodesForm] = Field(min_length=1)
    speeds: dict[str, Positive] = Field(default_factory=dict)
    tier: list[TierForm] = Field(default_factory=list)
    vc_priority: dict[str, Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]] = Field(default_factory=dict)
    overheads: OverheadsForm = OverheadsForm()
    sharing: Literal["time-slice", "mps"] = "time-slice"


def parse(text: str, source: str) -> Cluster:
    """The cluster in this TOML text; ``source`` is its file, for messages, or a ready-made cluster's name."""
    form = filled(ClusterForm, text, source, ClusterError)
    try:
        cluster = Cluster(
            name=form.name or Path(source).stem,
            groups=tuple(nodes.group() for nodes in form.nodes),
            speeds=form.speeds,
            tiers=tuple(Tier(**tier.model_dump()) for tier in form.tier),
            vc_priority=form.vc_priority,
            overheads=Overheads(form.overheads.checkpoint, form.overheads.restart, form.overheads.wake),
            sharing=form.sharing,
        )
    except ClusterError as error:
        raise ClusterError(f"{source}: {error}") from None
    _check_names(cluster, source)
    return cluster


def _check_names(cluster: Cluster, source: str) -> None:
    """What is said about a type, a VC or a tier must be about one that there is, once."""
    for table, given, known in (
        ("speeds", cluster.speeds, cluster.gpu_types),
        ("vc_priority", cluster.vc_priority, cluster.vcs),
    ):
        for name in given:
            if name not in known:
                what = "GPU type" if table == "speeds" else "vc"
                raise ClusterError(
                    f"{source}: [{table}] '{name}' is the {what} of no nodes; {did_you_mean(name, known)}"
                )
    tiers = [tier.name for tier in cluster.tiers]
    for name in tiers:
        if tiers.count(name) > 1:
            raise ClusterError(
                f"{source}: [[tier]] name must be unique, got '{name}' {tiers.count(name)} times; rename one"
            )
