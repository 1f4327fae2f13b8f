"""One data-parallel training iteration, layer by layer, with communication behind computation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shunter.network.collectives import Dimension, Stream, finish_times, phases


@dataclass(frozen=True)
class Layer:
    """What a layer computes, in ns, and how large its gradient is."""

    name: str
    gradient_bytes: int
    forward_ns: int
    weight_ns: int  # the gradient of its weights
    input_ns: int  # the gradient of its input; the first layer needs none
    update_ns: int = 0  # of the weights, after the all-reduce


class Iteration(NamedTuple):
    """How long an iteration takes, and how much of it is computing."""

    total_ns: int
    compute_ns: int

    @property
    def exposed_ns(self) -> int:
        """Communication that no computing hides."""
        return self.total_ns - self.compute_ns

    @property
    def slowdown(self) -> float:
        """How many times longer than computing alone; never below 1."""
        return self.total_ns / self.compute_ns


def iteration(layers: Sequence[Layer], dimensions: Sequence[Dimension], scheme: str = "hierarchical") -> Iteration:
    """Forward through all layers; then from the last to the first: weights' gradient, its all-reduce, input's gradient.

    No job waits for an all-reduce before the end; a dimension serves the newest first.
    """
    now = sum(layer.forward_ns for layer in layers)
    parts = {size: phases(dimensions, size, scheme) for size in {layer.gradient_bytes for layer in layers}}
    streams: list[Stream] = []
    for index in reversed(range(len(layers))):
        layer = layers[index]
        now += layer.weight_ns
        streams.append(Stream(now, len(streams), parts[layer.gradient_bytes]))
        if index:
            now += layer.input_ns
    ends = finish_times(streams)
    updated = [end + layer.update_ns for end, layer in zip(ends, reversed(layers), strict=True)]
    return Iteration(max(now, *updated), now)
