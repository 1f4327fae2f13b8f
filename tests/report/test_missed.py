"""Why a job missed its deadline."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import shunter
from shunter.cli.main import app
from shunter.model import GPU, Trace
from shunter.report.explain import find, headline
from shunter.report.missed import why_missed

IN_TIME = {
    "deadline": 100.0, "jct": 100.0, "state": "done", "wait": 20.0, "lost": 0.0, "run": 80.0, "work": 80.0,
    "declared": None, "alone": 80.0,
}  # fmt: skip


def three() -> Trace:
    """On one GPU, in this order: one in time, one late, one that is impossible even alone; and one without deadline."""
    return Trace.of(
        "t", ["a", "b", "c", "d"], submit=[0] * 4, duration=[60_000] * 4, gpus=[GPU] * 4,
        deadline=[60_000, 90_000, 30_000, 0],
    )  # fmt: skip


def test_a_run_says_who_missed_and_why():
    run = shunter.simulate(three(), "1x1", "fifo", decisions=True).kept
    found = [why_missed(about) for about in run.jobs.iter_rows(named=True)]
    assert found == [
        None,
        "It missed its deadline by 30.0 s: it waited for GPUs (1.00 m).",
        "It missed its deadline by 2.50 m: it could not have met it alone, as it takes 1.00 m at its fastest.",
        None,
    ]
    assert headline(run, find(run, "b")).endswith(found[1])


@pytest.mark.parametrize(
    ("differs", "causes"),
    [
        ({"jct": 110, "wait": 30}, "it waited for GPUs (30.0 s)"),
        ({"jct": 110, "wait": 0, "run": 110}, "it ran on fewer or slower GPUs than it could have (30.0 s)"),
        ({"jct": 110, "wait": 30, "lost": 30, "run": 110}, "it lost time to stops and changes of GPUs (30.0 s)"),
        ({"jct": 110, "wait": 0, "run": 80}, "it was held for another job (30.0 s)"),
        (
            {"jct": 110, "wait": 30, "declared": 60},
            "either alone would have been enough: it waited for GPUs (30.0 s), it had more work than was declared"
            " (20.0 s)",
        ),
        (
            {"jct": 130, "wait": 24, "run": 106},
            "two things together made it that late: it ran on fewer or slower GPUs than it could have (26.0 s), it"
            " waited for GPUs (24.0 s)",
        ),
    ],
)
def test_causes(differs, causes):
    late = differs["jct"] - 100
    assert why_missed(IN_TIME | differs) == f"It missed its deadline by {late}.0 s: {causes}."


def test_failed_unfinished_in_time_and_older_runs():
    assert why_missed(IN_TIME) is None
    assert why_missed(IN_TIME | {"state": "running", "jct": None}) is None
    assert why_missed(IN_TIME | {"state": "failed"}) == "It failed, so it missed its deadline."
    assert why_missed({name: IN_TIME[name] for name in ("deadline", "jct", "state")}) is None


def test_the_command_has_it_too(tmp_path):
    shunter.simulate(three(), "1x1", "fifo", decisions=True).save(tmp_path / "run")
    said = [
        json.loads(CliRunner().invoke(app, ["explain", str(tmp_path / "run"), job, "--json"]).stdout) for job in "ab"
    ]
    assert "missed_deadline" not in said[0]
    assert "it waited for GPUs" in said[1]["missed_deadline"]
