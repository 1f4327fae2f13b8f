"""Deadlines in summaries: what counts as met, as possible, and as late."""

from __future__ import annotations

import io

import numpy as np
import pytest

import shunter
from shunter.model import GPU, Trace
from shunter.report.terminal.tables import comparison_view, summary_view
from shunter.simulation import simulate


def three() -> Trace:
    """On one GPU, in this order: one in time, one late, one that is impossible even alone; and one without deadline."""
    return Trace.of(
        "t", ["a", "b", "c", "d"], submit=[0, 0, 0, 0], duration=[60_000, 60_000, 60_000, 60_000], gpus=[GPU] * 4,
        deadline=[60_000, 90_000, 30_000, 0], user=[0, 1, 0, 0], users=("ann", "bob"),
    )  # fmt: skip


def test_met_possible_and_late():
    found = simulate(three(), "1x1", "fifo").summary["deadlines"]
    assert (found["jobs"], found["feasible"], found["met"], found["met_share"]) == (3, 2, 1, 0.5)
    assert found["lateness_s"]["mean"] == pytest.approx((0 + 30 + 150) / 3)
    assert (found["by_size"], found["by_user"]) == ({"1": 0.5}, {"ann": 1.0, "bob": 0.0})
    assert found["lateness_by_size"] == {"1": pytest.approx((0 + 30 + 150) / 3)}
    assert found["lateness_by_user"] == {"ann": pytest.approx((0 + 150) / 2), "bob": 30.0}
    assert found["moves_per_job"] == 0


def test_a_job_with_a_range_is_judged_at_its_best_width():
    about = {"submit": [0], "duration": [60_000], "gpus": [GPU], "deadline": [30_000]}
    assert simulate(Trace.of("t", ["a"], **about), "1x2", "fifo").summary["deadlines"]["feasible"] == 0
    wide = Trace.of("t", ["a"], **about, max_gpus=[4])
    assert simulate(wide, "1x2", "fifo").summary["deadlines"]["feasible"] == 1
    assert simulate(wide, "1x1", "fifo").summary["deadlines"]["feasible"] == 0  # the cluster has no two


def test_summaries_without_deadlines_have_no_such_part():
    assert "deadlines" not in shunter.simulate("synthetic:jobs=5,gpus=8", "1x8", "fifo").summary


def test_tables_show_them():
    from rich.console import Console

    result = simulate(three(), "1x1", "fifo")
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(summary_view(result.summary))
    console.print(comparison_view([result.summary | {"difference": None}] * 2))
    text = console.export_text()
    assert "1 of 3: 50.0 % of the 2 that could be met alone" in text
    assert "deadlines" in text
    assert "moves" in text
    assert "bob" in text  # by user, those with the fewest met first
    assert "0.0 %, 30.0 s" in text
    assert "users: those with the fewest" not in text  # all are shown
    assert text.count("met: of the deadlines that could be met alone") == 2  # in both views


def test_a_table_of_some_users_says_which():
    from rich.console import Console

    jobs = Trace.of(
        "t", list("abcdefg"), submit=[0] * 7, duration=[60_000] * 7, gpus=[GPU] * 7, deadline=[90_000] * 7,
        user=range(7), users=tuple("tuvwxyz"),
    )  # fmt: skip
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(comparison_view([simulate(jobs, "1x1", "fifo").summary | {"difference": None}] * 2))
    assert "5 of 7 users: those with the fewest deadlines met" in console.export_text()


def test_edf_and_llf_order_by_what_they_say():
    trace = Trace.of(
        "t", ["none", "late", "soon", "long"], submit=np.zeros(4, np.int64), gpus=[GPU] * 4,
        duration=[10_000, 10_000, 10_000, 50_000], declared=[10_000, 10_000, 10_000, 50_000],
        deadline=[0, 70_000, 60_000, 80_000],
    )  # fmt: skip

    def order(policy: str) -> list[str]:
        return simulate(trace, "1x1", policy).jobs.sort("start")["job_id"].to_list()

    assert order("edf") == ["soon", "late", "long", "none"]
    assert order("llf") == ["long", "soon", "late", "none"]
