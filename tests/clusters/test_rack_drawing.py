"""The SVG picture of a cluster's racks."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from shunter.cluster import Cluster, NodeGroup
from shunter.clusters import load, names
from shunter.clusters.rack_drawing import WIDTH, svg


def parts(cluster: Cluster, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg(cluster)).iter(tag))


def squares(cluster: Cluster, kind: str) -> int:
    return sum(
        each.get("d", "").count("M") for each in parts(cluster, "path") if each.get("class", "").startswith(kind)
    )


def test_every_node_and_every_gpu_is_drawn() -> None:
    assert squares(load("16x8"), "node") == 16
    assert squares(load("16x8"), "kind") == 128
    assert len(parts(load("16x8"), "rect")) == 1


def test_racks_have_a_box_a_label_and_a_title_each() -> None:
    cluster = load("dally-16rack")
    assert len(parts(cluster, "rect")) == 16
    assert [each.text for each in parts(cluster, "text")][-1] == "rack 15"
    assert parts(cluster, "title")[3].text == "rack 3: 8 nodes with 8 GPUs each"


def test_gpu_types_have_classes_of_their_own() -> None:
    cluster = Cluster("c", (NodeGroup(2, 4, "a100"), NodeGroup(1, 2, "v100")))
    assert [squares(cluster, kind) for kind in ("kind0", "kind1")] == [8, 2]


def test_where_gpus_are_too_many_nodes_are_drawn_and_the_rest_is_counted() -> None:
    assert squares(load("1000x8"), "kind") == 1000
    assert squares(load("10000x8"), "kind") == 2000
    assert parts(load("10000x8"), "text")[-1].text == "and 8,000 nodes more"


@pytest.mark.parametrize("name", [*names(), "1x1", "128x16", "10000x16"])
def test_boxes_are_inside_the_picture_and_apart(name: str) -> None:
    cluster = load(name)
    picture = ElementTree.fromstring(svg(cluster))
    high = float(picture.get("viewBox", "").split()[3])
    boxes = [tuple(float(each.get(key, "")) for key in ("x", "y", "width", "height")) for each in picture.iter("rect")]
    assert all(x >= 0 and y >= 0 and x + width <= WIDTH and y + height <= high for x, y, width, height in boxes)
    for number, (x, y, width, height) in enumerate(boxes):
        for left, top, _, _ in boxes[number + 1 :]:
            assert not (x <= left < x + width and y <= top < y + height)


def test_hostile_names_are_escaped() -> None:
    drawn = svg(Cluster('"><script>', (NodeGroup(1, 1, "<b>", vc="<i>"), NodeGroup(1, 1, "<u>", vc="x"))))
    assert "<script>" not in drawn
    assert "<i>" not in drawn
    assert ElementTree.fromstring(drawn).get("aria-label", "").startswith('"><script>')
