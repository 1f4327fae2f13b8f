"""Stays of jobs on nodes from the event log, how busy they make nodes, and how they are packed."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace

import numpy as np
import pytest

from shunter import world as w
from shunter.cluster import Cluster, NodeGroup
from shunter.report.html import timeline
from shunter.report.html.stays import occupancy, stays


def found(*rows):
    held = stays(np.array(rows, np.int64).reshape(-1, 5))
    columns = (held.node, held.start, held.end, held.amount, held.job)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_job_stays_on_each_of_its_nodes_until_it_is_released():
    assert found(
        (0, w.ARRIVE, 0, 0, 0),
        (5, w.START, 0, 1, 4000),
        (5, w.START, 0, 0, 2000),
        (9, w.FINISH, 0, 0, 0),
    ) == [(0, 5, 9, 2000, 0), (1, 5, 9, 4000, 0)]


@pytest.mark.parametrize("release", [w.PREEMPT, w.FAIL, w.MOVE])
def test_it_comes_back_after_being_stopped(release):
    assert found(
        (0, w.START, 0, 0, 1000),
        (1, w.START, 1, 0, 1000),
        (3, release, 0, 0, 0),
        (6, w.START, 0, 1, 1000),
        (7, w.STOP, 1, 0, 0),
        (8, w.FINISH, 1, 0, 0),
        (9, w.FINISH, 0, 0, 0),
    ) == [(0, 0, 3, 1000, 0), (0, 1, 8, 1000, 1), (1, 6, 9, 1000, 0)]


def test_what_is_not_over_lasts_to_the_last_event():
    assert found((0, w.START, 0, 0, 1000), (4, w.ARRIVE, 1, 0, 0)) == [(0, 0, 4, 1000, 0)]


def test_outages_are_stays_of_nobody():
    assert found(
        (0, w.NODE_DOWN, -1, 1, 0), (2, w.SLEEP, -1, 0, 0), (3, w.NODE_UP, -1, 1, 0), (5, w.NODE_UP, -1, 0, 0)
    ) == [(0, 2, 5, 0, -1), (1, 0, 3, 0, -1)]


def test_a_count_of_gpus_is_no_place_and_no_log_no_stay():
    assert found((0, w.START, 0, -1, 1000), (4, w.FINISH, 0, 0, 0)) == []
    assert found() == []


def test_occupancy_is_exact():
    cluster = Cluster("three", (NodeGroup(2, 4), NodeGroup(1, 8)))
    held = stays(
        np.array(
            [
                (0, w.START, 0, 0, 4000), (50, w.START, 1, 1, 2000), (75, w.FINISH, 0, 0, 0),
                (90, w.START, 2, 2, 8000), (100, w.FINISH, 1, 0, 0), (100, w.FINISH, 2, 0, 0),
            ]
        )
    )  # fmt: skip
    each = occupancy(held, cluster, 0, 100, (3, 2))
    assert each == pytest.approx(np.array([[1, 0.5], [0, 0.5], [0, 0.2]]))
    grouped = occupancy(held, cluster, 0, 100, (1, 1))
    assert grouped == pytest.approx((4 * 75 + 2 * 50 + 8 * 10) / (16 * 100))
    assert occupancy(held, cluster, 0, 200, (3, 1))[0] == pytest.approx(0.375)


def unpack(text):
    data = zlib.decompress(base64.b64decode(text), -15)
    head, _, planes = data.partition(b"\0")
    columns, at = {}, 0
    for name, count in json.loads(head).items():
        bytes_ = np.frombuffer(planes[at : at + 4 * count], np.uint8).reshape(4, count).T
        columns[name] = np.ascontiguousarray(bytes_).view("<u4").ravel().astype(np.int64)
        at += 4 * count
    assert at == len(planes)
    return columns


def test_what_is_packed_comes_out_again(kept):
    held = stays(kept[1].events)
    frame = timeline.Frame(kept[1].cluster, len(kept[1].jobs), int(kept[1].events[0, 0]), int(kept[1].events[-1, 0]))
    columns = unpack(timeline._packed_stays(held, frame))
    node = np.repeat(np.arange(frame.cluster.nodes), columns["counts"])
    assert node.tolist() == held.node.tolist()
    first = np.cumsum(columns["counts"]) - columns["counts"]
    sums = np.cumsum(columns["delta"])
    start = sums - np.repeat((sums - columns["delta"])[np.minimum(first, len(sums) - 1)], columns["counts"])
    assert np.abs(start * frame.unit + frame.first - held.start).max() < frame.unit
    assert np.abs((start + columns["length"]) * frame.unit + frame.first - held.end).max() < frame.unit
    assert columns["job"].tolist() == held.job.tolist()
    assert columns["amount"].tolist() == held.amount.tolist()


def test_policies_that_only_count_gpus_have_no_timeline(kept):
    events = kept[0].events.copy()
    events[events[:, 1] == w.START, 3] = -1
    assert timeline.timeline(["a"], [replace(kept[0], events=events)], 10**6, lambda done, total: None) == []


@pytest.mark.parametrize(("room", "kinds"), [(10**6, "sss"), (0, "sgg"), (-(10**6), "ggg")])
def test_the_first_runs_are_exact_while_there_is_room(kept, monkeypatch, room, kinds):
    monkeypatch.setattr(timeline, "GRID_ROOM", 500)
    frame = timeline.Frame(kept[0].cluster, len(kept[0].jobs), 0, int(max(run.events[-1, 0] for run in kept)))
    least = len(timeline._packed_stays(stays(kept[0].events), frame)) + 2 * 500
    least += len(timeline._packed_jobs(kept[0], frame)["columns"])
    told = []
    (figure,) = timeline.timeline(["a", "b", "c"], kept, least + room, lambda done, total: told.append((done, total)))
    data = json.loads(figure.partition('<script type="application/json">')[2].partition("</script>")[0])
    assert "".join("s" if "stays" in run else "g" for run in data["runs"]) == kinds
    assert (data["jobs"] is None) == (kinds == "ggg")
    assert all(len(run["grid"]) <= 500 for run in data["runs"] if "grid" in run)
    assert told[-1] == (900, 900)


def test_ids_that_do_not_fit_are_left_out_before_the_jobs(kept):
    import polars as pl

    draw = np.random.default_rng(0)
    long = [draw.bytes(300).hex() for _ in range(300)]
    run = replace(kept[0], jobs=kept[0].jobs.with_columns(job_id=pl.Series(long)))
    (figure,) = timeline.timeline(["a"], [run], 20_000, lambda done, total: None)
    data = json.loads(figure.partition('<script type="application/json">')[2].partition("</script>")[0])
    assert "stays" in data["runs"][0]
    assert data["jobs"]["names"] is None
