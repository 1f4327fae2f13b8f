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


def test_outages_are_stays_of_no_job():
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


def walked(steps):
    return np.cumsum(np.where(steps % 2, -(steps + 1) // 2, steps // 2))


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
    assert walked(columns["job"]).tolist() == held.job.tolist()
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
    jobs = timeline._packed_jobs(kept[0], frame)
    least += len(jobs["columns"]) + sum(map(len, jobs["ids"].values()))
    told = []
    (figure,) = timeline.timeline(["a", "b", "c"], kept, least + room, lambda done, total: told.append((done, total)))
    data = json.loads(figure.partition('<script type="application/json">')[2].partition("</script>")[0])
    assert "".join("s" if "stays" in run else "g" for run in data["runs"]) == kinds
    assert (data["jobs"] is None) == (kinds == "ggg")
    assert all(len(run["grid"]) <= 500 for run in data["runs"] if "grid" in run)
    assert told[-1] == (900, 900)


def data_of(names, runs, room):
    (figure,) = timeline.timeline(names, runs, room, lambda done, total: None)
    return json.loads(figure.partition('<script type="application/json">')[2].partition("</script>")[0])


def renamed(run, ids):
    import polars as pl

    return replace(run, jobs=run.jobs.with_columns(job_id=pl.Series(ids)))


def test_ids_come_before_the_bars_of_later_policies(kept, monkeypatch):
    monkeypatch.setattr(timeline, "GRID_ROOM", 500)
    runs = [renamed(run, [f"{number:x}" for number in draw_ids()]) for run in kept]
    whole = data_of("abc", runs, 10**6)
    ids = sum(map(len, whole["jobs"]["ids"].values()))
    room = len(whole["jobs"]["columns"]) + sum(len(run["stays"]) for run in whole["runs"])
    data = data_of("abc", runs, room + ids - 1)
    assert data["jobs"]["ids"] == whole["jobs"]["ids"]
    assert ["stays" in run for run in data["runs"]] == [True, True, False]


def draw_ids():
    return np.random.default_rng(0).choice(2**40, 300, replace=False).tolist()


def test_ids_are_left_out_only_if_no_bar_fits_beside_them(kept):
    draw = np.random.default_rng(0)
    long = [draw.bytes(300).hex() for _ in range(300)]
    data = data_of(["a"], [renamed(kept[0], long)], 20_000)
    assert "stays" in data["runs"][0]
    assert data["jobs"]["ids"] is None


def read_ids(packed):
    inflate = lambda text: zlib.decompress(base64.b64decode(text), -15)  # noqa: E731
    if "text" in packed:
        return json.loads(inflate(packed["text"]))
    stems, columns = json.loads(inflate(packed["stems"])), unpack(packed["columns"])
    parts = zip(columns["stem"].tolist(), columns["width"].tolist(), walked(columns["number"]).tolist(), strict=True)
    return [stems[stem] + (f"{number:0{width}d}" if width else "") for stem, width, number in parts]


@pytest.mark.parametrize(
    "ids",
    [
        [], ["7"], ["", "0", "00", "007", "x", "a\nb1"], ["18446744073709551615", "1000000000", "999999999", "5"],
        [f"application_15_{number:04d}" for number in range(12_000, 8_000, -3)], ["ümlaut-3", "日本-03", "<b>"],
        [f"{number:032x}" for number in draw_ids()],
    ],
)  # fmt: skip
def test_every_id_comes_out_as_it_was(ids):
    assert read_ids(timeline.packed_ids(ids)) == ids


def test_numbers_as_ids_are_small():
    ids = [str(number) for number in np.cumsum(np.random.default_rng(0).integers(1, 4, 100_000)).tolist()]
    packed = timeline.packed_ids(ids)
    assert sum(map(len, packed.values())) < 50_000
    assert read_ids(packed) == ids
