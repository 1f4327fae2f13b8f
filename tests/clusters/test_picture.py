"""What ``shunter cluster show`` draws."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from shunter.cluster import Cluster, NodeGroup, Overheads, Tier
from shunter.clusters import load, names
from shunter.clusters.picture import draw


def drawn(cluster: Cluster) -> list[str]:
    console = Console(width=100, file=io.StringIO(), color_system=None)
    console.print(draw(cluster))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_a_small_cluster_shows_every_gpu() -> None:
    lines = drawn(load("qoredl-5gpu"))
    assert lines[0] == "qoredl-5gpu  14 GPUs, 5 nodes"
    assert "v100  ▪▪▪▪ ▪▪▪▪ ▪▪▪▪" in lines
    assert "v100  ▪ ▪" in lines


def test_virtual_clusters_have_a_row_each() -> None:
    lines = drawn(load("philly"))
    assert lines[0] == "philly  2,816 GPUs, 352 nodes, 11 virtual clusters"
    assert "b436b2  " + "■" * 64 in lines
    assert sum(line.startswith("ed69ec") for line in lines) == 2  # in the table and in the picture


def test_racks_have_a_row_each() -> None:
    lines = drawn(load("dally-16rack"))
    assert "rack 15  " + " ".join(["▪" * 8] * 8) in lines
    assert any("16 of 8 nodes" in line for line in lines)
    assert any(line.startswith("machine") and "112.5" in line for line in lines)


def test_what_is_above_racks_is_named_and_counted() -> None:
    tiers = (Tier("machine", 9, 1), Tier("rack", 8, 1), Tier("pod", 7, 1, joins=2), Tier("site", 6, 1))
    lines = drawn(Cluster("c", (NodeGroup(3, 2, racks=(1, 1, 1)),), tiers=tiers))
    joins = [line.rsplit("switch")[-1].split() for line in lines if "switch" in line]
    assert joins == [["GPUs"], ["machines"], ["2", "racks"], ["all", "pods"]]
    assert [line.split("  ")[0] for line in lines if "▪▪" in line] == ["pod 0 rack 0", "pod 0 rack 1", "pod 1 rack 2"]
    assert not any("joins" in line for line in drawn(load("dally-16rack")))


def test_long_rows_and_many_racks_are_abbreviated() -> None:
    assert any(line.endswith("■ x 42 more") for line in drawn(load("100x8")))
    lines = drawn(Cluster("big", (NodeGroup(400, 8, racks=(8,) * 50),)))
    assert "... and 27 racks more" in lines
    assert len(lines) < 40


@pytest.mark.parametrize("name", [*names(), "64x8", "100000x1000", "1x1"])
def test_nothing_is_wider_than_the_terminal_or_cut(name: str) -> None:
    lines = drawn(load(name))
    assert max(map(len, lines)) <= 100
    assert not any("…" in line for line in lines)


def test_a_table_with_every_column_fits() -> None:
    group = NodeGroup(20, 8, "v100", 96, 512.5, "production", (8, 8, 4))
    lines = drawn(Cluster("lab", (group,), {"v100": 2.0}, vc_priority={"production": 0.5}))
    assert " ".join(lines[2].split()) == "VC GPU type nodes GPUs/node GPUs speed CPUs/node GiB/node racks priority"
    assert "3 of 4-8 nodes" in lines[3]
    assert "production rack 2  " + " ".join(["▪" * 8] * 4) in lines


def test_names_are_shown_as_they_are_and_costs_in_words() -> None:
    costs = Overheads(((1, 7), (8, 30)), ((1, 5.5),), 60)
    lines = drawn(Cluster("[bold]", (NodeGroup(1, 1, "[red]", vc="[b]"),), overheads=costs))
    assert lines[0].startswith("[bold]")
    assert any("[red]" in line and "[b]" in line for line in lines)
    assert "checkpoint 7 s (up to 1 GPU), 30 s (more); restart 5.5 s; wake 60 s" in lines
