"""One training iteration: by hand, and beside the reference."""

from __future__ import annotations

import csv

import pytest

from shunter.network.collectives import Dimension
from shunter.network.iteration import Layer, iteration
from shunter.network.models import read_layers, scaled

PAIR = [Dimension(2, 1.0, 0)]  # all-reduces S bytes in 10 + 2 (S / 2 + 10) ns


def layer(gradient: int, compute: int, update: int = 0) -> Layer:
    return Layer("any", gradient, compute, compute, compute, update)


def test_communication_hides_behind_the_layers_that_are_left():
    # forward 200; last layer's gradients at 300, its all-reduce until 430; the first layer's weights at 500 to 630
    found = iteration([layer(100, 100), layer(100, 100)], PAIR)
    assert (found.compute_ns, found.total_ns, found.exposed_ns) == (500, 630, 130)
    assert found.slowdown == 1.26


def test_the_first_layer_has_no_input_gradient():
    assert iteration([layer(0, 100)], PAIR).compute_ns == 200


def test_an_update_follows_its_all_reduce():
    assert iteration([layer(100, 100, update=7)], PAIR).total_ns == 200 + 130 + 7
    assert iteration([layer(0, 100), layer(0, 100, update=1000)], PAIR).total_ns == 300 + 1000


def test_the_newest_all_reduce_goes_first():
    # three gradients at 4, 6 and 7 ns: the first is being served, then the newest, and the second's update comes last
    layers = [layer(100, 1), layer(100, 1, update=1000), layer(100, 1)]
    assert iteration(layers, PAIR).total_ns == 4 + 3 * 130 + 1000


def test_one_unit_communicates_nothing():
    assert iteration([layer(100, 100)], [Dimension(1, 1.0, 0)]).exposed_ns == 0


MACHINE, RACK = (112.5, 500), (50, 2000)
NETWORK = {"20us": (100, 20_000), "50us": (100, 50_000)}


def dimensions(placement: str, units: str) -> list[Dimension]:
    """The reference's: ``rack 2x4`` is two machines of four GPUs, ``8x1`` one GPU on each of eight."""
    tier = placement.split(maxsplit=1)[0]
    outer = {"machine": [], "rack": [RACK], "network": [NETWORK.get(placement[-5:-1])]}[tier]
    used = outer if "8x1" in placement else [MACHINE, *outer]
    return [Dimension(int(n), *about) for n, about in zip(units.split("x"), used, strict=True)]


def test_every_iteration_of_the_reference_within_a_tenth_of_a_percent(data):
    layers = read_layers(data / "network" / "resnet50_dataparallel_layers.txt")
    schemes = {"localBWAware": "hierarchical", "baseline": "baseline"}
    with (data / "network" / "iteration_reference.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    for row in rows:
        used = dimensions(row["placement"], row["units_per_dim"])
        found = iteration(scaled(layers, float(row["compute_scale"])), used, schemes[row["collective_optimization"]])
        assert found.total_ns / 1000 == pytest.approx(float(row["total_us"]), rel=0.001), row
        assert found.compute_ns / 1000 == pytest.approx(float(row["compute_us"]), rel=1e-6), row
