"""The validity check on AAIC's real waits, and that its page says what the code gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shunter import runs, scenes
from shunter import world as w
from shunter.advice.validity import validity
from shunter.report.tables import duration, share

pytestmark = pytest.mark.xdist_group("aaic")  # what they look at is computed once

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "advise.md"
BASE = "fifo:backfill=easy"


@pytest.fixture(scope="module")
def found(data):
    trace = scenes.read_trace(data / "aaic" / "aaicwl-201807-201812.csv.gz")
    told = {}
    for cluster in ("40x8", "36x8", "32x8"):
        scene = scenes.scene(trace, cluster)
        result = runs.run(scene, BASE)
        told[cluster] = (validity(trace, result.table[w.WAITED], scene.cluster), scene.cluster.gpus)
    return told


def row(cluster, about, gpus):
    interval, record = about["rank_interval"], about["record"]
    used = [f"{gpus * record['in_use_while_waiting'][key]:.0f}" for key in ("p10", "p50", "p90")]
    cells = [
        f"`{cluster}`", f"{about['rank_correlation']:.2f}", f"{about['rank_of_waits']:.2f}",
        f"{interval['low']:.2f} .. {interval['high']:.2f}",
        *(duration(about[key]["mean"]) for key in ("recorded_wait_s", "simulated_wait_s")),
        *(duration(about[key]) for key in ("mean_abs_error_s", "median_abs_error_s")),
        share(about["within_factor_2"]),
        f"{share(record['share_with_room'])} ({share(about['simulated']['share_with_room'])})",
        f"{used[1]} ({used[0]} .. {used[2]})", share(record["over_capacity"]),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def test_the_page_says_what_the_code_gives(found):
    text = PAGE.read_text()
    for cluster, (about, gpus) in found.items():
        assert row(cluster, about, gpus) in text
    about = found["40x8"][0]
    months = [
        f"| {month['name']} | {month['jobs']:,} | {duration(month['recorded_wait_s']['mean'])} |"
        f" {duration(month['simulated_wait_s']['mean'])} | {month['rank_correlation']:.2f} |"
        f" {share(month['within_factor_2'])} |"
        for month in about["by_month"]
        if month["rank_correlation"] is not None
    ]
    assert len(months) == 6
    assert all(month in text for month in months)
    passed = about["causes"]["passed"]
    assert f"{share(passed['jobs'])} of jobs" in text
    assert f"{share(passed['same_user'])} it was" in text
    only = about["causes"]["only_recorded"]
    assert f"{only['jobs']:,} jobs" in text
    assert f"{share(only['share_of_recorded_wait'])} of all recorded waiting" in text
    assert f"{share(about['causes']['share_of_error_by_top_users'])} of the error" in text


def test_waits_are_ranked_far_better_than_by_chance_and_the_record_says_why_not_better(found):
    about = found["40x8"][0]
    assert about["jobs"] == 124_425
    assert about["rank_interval"]["low"] > 0.4
    assert about["record"]["share_with_room"] > 0.99
    assert found["36x8"][0]["rank_correlation"] > about["rank_correlation"]
    assert np.isclose(about["record"]["in_use_while_waiting"]["p50"], 0.9)
