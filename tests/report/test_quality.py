"""Every check finds its defect, and nothing in a trace without defects."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shunter import clusters
from shunter.cluster import Cluster, NodeGroup
from shunter.model import Trace
from shunter.report.quality import CHECKS, validate
from shunter.traces import read
from shunter.traces.synthetic import synthetic

MONDAY = 1_599_436_800_000  # 7 September 2020
NOW = MONDAY + 400 * 86_400_000
HOUR = 3_600_000


def clean() -> Trace:
    """A trace that has everything and lacks nothing; all jobs wait for ten minutes."""
    made = synthetic(5000, seed=1, load=0.3)
    made = made.select(made.duration < made.duration.max())  # made-up run times are cut, too
    return dataclasses.replace(
        made,
        submit=made.submit + MONDAY,
        limit=made.duration + HOUR,
        recorded_wait=np.full(len(made), 600_000),
        outcome=np.zeros(len(made), np.int64),
        outcomes=("completed",),
    )


CLEAN, CLUSTER = clean(), clusters.load("64x32")


def test_nothing_is_found_where_nothing_is_wrong():
    assert validate(CLEAN, CLUSTER, NOW) == []
    assert validate(CLEAN, None, NOW) == []


def with_(rows: Any = slice(None), **values: Any) -> Callable[[], Trace]:
    """The clean trace with some values changed in some rows, sorted anew."""

    def make() -> Trace:
        changes = {}
        for name, value in values.items():
            changes[name] = getattr(CLEAN, name).copy()
            changes[name][rows] = value
        made = dataclasses.replace(CLEAN, **changes)
        return made.select(np.argsort(made.submit, kind="stable"))

    return make


def every_second(column: str, unit: int) -> Callable[[], Trace]:
    return with_(**{column: getattr(CLEAN, column) // unit * unit})


def twice() -> Trace:
    rows = np.sort(np.append(np.arange(len(CLEAN)), np.arange(0, 1000, 2)))
    made = CLEAN.select(rows)
    return dataclasses.replace(made, job_id=np.array([f"j{i}" for i in range(len(made))], object))


DEFECTS: dict[str, tuple[Callable[[], Trace], str, str]] = {
    "zero": (with_(slice(3, 6), duration=0), "no run time", "warning"),
    "milliseconds": (with_(slice(0, 2), duration=400 * 86_400_000), "very long run times", "warning"),
    "hours": (with_(duration=CLEAN.duration // 3600 + 1), "very short run times", "warning"),
    "years": (with_(slice(0, 1), submit=MONDAY - 500 * 86_400_000), "years between submissions", "error"),
    "submit in ms": (with_(submit=MONDAY + (CLEAN.submit - MONDAY) * 1000), "decades", "warning"),
    "hole": (with_(slice(0, 1), submit=MONDAY - 10 * 86_400_000), "holes", "warning"),
    "future": (with_(slice(-2, None), submit=NOW + 1000), "submitted in the future", "error"),
    "clamped": (with_(duration=np.minimum(CLEAN.duration, 2 * HOUR)), "clamped run times", "warning"),
    "heap": (with_(np.flatnonzero(CLEAN.duration > 6 * HOUR)[:-1], duration=6 * HOUR + 9), "run times heap up", "info"),
    "minutes": (with_(duration=CLEAN.duration // 60_000 * 60_000 + 60_000), "coarse run times", "warning"),
    "coarse submit": (every_second("submit", HOUR), "coarse submissions", "warning"),
    "local": (with_(submit=CLEAN.submit + 9 * HOUR), "quiet by day", "info"),
    "utc": (with_(submit=CLEAN.submit - 8 * HOUR), "quiet by day", "info"),
    "limit": (with_(slice(0, 7), limit=1000, duration=70_000), "longer than their limit", "warning"),
    "no wait": (with_(recorded_wait=0), "no job waited", "warning"),
    "twice": (twice, "duplicates", "warning"),
    "burst": (with_(slice(100, 200), submit=CLEAN.submit[100]), "bursts", "info"),
    "batch": (with_(submit=MONDAY), "all at once", "info"),
    "no user": (with_(user=-1), "no user", "info"),
    "some users": (with_(slice(0, 9), user=-1), "jobs without a user", "warning"),
    "no limit": (with_(limit=0), "no limit", "info"),
    "no waits": (with_(recorded_wait=-1), "no recorded_wait", "info"),
    "no outcome": (with_(outcome=-1), "no outcome", "info"),
    "remark": (lambda: dataclasses.replace(CLEAN, remarks=("left out 3",)), "reading", "info"),
    "too large": (with_(slice(0, 2), gpus=4_096_000), "never fits", "error"),
}


@pytest.mark.parametrize(("make", "check", "severity"), DEFECTS.values(), ids=list(DEFECTS))
def test_a_planted_defect_is_found(make, check, severity):
    found = {finding.check: finding for finding in validate(make(), CLUSTER, NOW)}
    assert check in found
    assert found[check].severity == severity
    assert found[check].count > 0
    assert found[check].as_dict()["examples"] == list(found[check].examples)


@pytest.mark.parametrize(
    ("cluster", "check"),
    [
        (clusters.load("1x24"), "load above capacity"),
        (clusters.load("5x32"), "oversubscribed"),
        (clusters.load("256x8"), "larger than a node"),
        (clusters.load("1x36"), "weeks above capacity"),
    ],
)
def test_a_cluster_that_is_too_small_is_reported(cluster, check):
    assert check in {finding.check for finding in validate(CLEAN, cluster, NOW)}


def test_the_page_names_every_finding_with_its_severity():
    page = Path(__file__).parents[2] / "docs" / "reference" / "trace-commands.md"
    told = set(re.findall(r"^\| `([^`]+)` \| (error|warning|info) \|", page.read_text(), re.MULTILINE))
    found = {(check, severity) for _, check, severity in DEFECTS.values()}
    for cluster in ("1x24", "5x32", "256x8", "1x36"):
        found |= {(finding.check, finding.severity) for finding in validate(CLEAN, clusters.load(cluster), NOW)}
    assert told == found


def test_virtual_clusters_are_looked_at_one_by_one():
    trace = dataclasses.replace(CLEAN, vc=np.arange(len(CLEAN)) % 10 // 9, vcs=("large", "small"))
    cluster = Cluster("divided", (NodeGroup(63, 32, vc="small"), NodeGroup(1, 24, vc="large")))
    says = [finding.says for finding in validate(trace, cluster, NOW)]
    assert any("the load in virtual cluster 'large' is" in text for text in says)
    assert any("GPUs are in use at once in virtual cluster 'large', which has 24" in text for text in says)
    assert not any("'small'" in text for text in says)
    other = Cluster("other", (NodeGroup(64, 32, vc="elsewhere"),))
    (error,) = [finding for finding in validate(trace, other, NOW) if finding.severity == "error"]
    assert (error.check, error.count) == ("never fits", len(trace))


def test_examples_are_the_jobs_meant():
    (found,) = validate(with_(slice(3, 6), duration=0)(), CLUSTER, NOW)
    assert found.examples == tuple(CLEAN.job_id[3:6])


def test_errors_come_first_and_every_check_stands_a_single_job():
    made = with_(slice(0, 3), duration=0, gpus=4_096_000)()
    assert [finding.severity for finding in validate(made, CLUSTER, NOW)] == ["error", "warning", "info"]
    one = Trace.of("one", ["a"], submit=[0], duration=[0], gpus=[1000])
    assert {finding.severity for finding in validate(one, CLUSTER, NOW)} == {"warning", "info"}
    assert len(CHECKS) == len(set(CHECKS))


KNOWN = {
    "helios/venus_gpu_jobs.csv.gz": ("helios-venus", {"clamped run times": 2144, "never fits": 112_664, "holes": 1}),
    "philly/philly_jobs.csv.gz": ("philly", {"never fits": 18}),
    "pai/pai_tasks_sample.csv.gz": ("pai", {"clamped run times": 63}),
    "aaic/aaicwl-201807-201812.csv.gz": (
        "40x8",
        {"oversubscribed": 237, "run times heap up": 293, "quiet by day": 8505},
    ),
}


@pytest.mark.parametrize(
    ("file", "cluster", "flaws"), [(file, *known) for file, known in KNOWN.items()], ids=list(KNOWN)
)
def test_the_known_flaws_of_published_traces_are_found(data, file, cluster, flaws):
    found = {finding.check: finding for finding in validate(read(data / file), clusters.load(cluster), NOW)}
    assert {check: found[check].count for check in flaws if check in found} == flaws


def test_what_readers_say_is_found(data):
    said = [
        finding.says
        for finding in validate(read(data / "pai" / "pai_tasks_sample.csv.gz"))
        if finding.check == "reading"
    ]
    assert any("submitted when they started" in text for text in said)
