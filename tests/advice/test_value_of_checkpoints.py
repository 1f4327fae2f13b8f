"""What checkpoints are worth on some days, and whose jobs should be first."""

from __future__ import annotations

import numpy as np
import pytest

from shunter.advice import checkpointing
from shunter.advice.advising import HistoryWindow
from shunter.advice.page import _checkpoints as on_the_page
from shunter.advice.view import _checkpoints as on_the_terminal
from shunter.model import GPU, Trace
from shunter.setup import set_up

HOUR = 3_600_000


def crowded():
    """Ann's long job has the only node when Bob's many short jobs come, again and again; Cy's are as short."""
    long, short = (
        np.arange(6) * 12 * HOUR,
        np.concatenate([np.arange(6) * 12 * HOUR + 600_000 * at for at in (1, 2, 3)]),
    )
    submit = np.concatenate([long, short, short + 60_000])
    return Trace.of(
        "crowded",
        [f"j{at}" for at in range(len(submit))],
        submit=submit,
        duration=np.concatenate([np.full(6, 8 * HOUR), np.full(36, HOUR // 12)]),
        gpus=np.full(42, 4 * GPU),
        user=np.concatenate([np.zeros(6, np.int64), np.ones(18, np.int64), np.full(18, 2)]),
        users=("ann", "bob", "cy"),
    )


@pytest.fixture(scope="module")
def worth():
    found = checkpointing.value(HistoryWindow(set_up(crowded(), "1x4"), 0), "wait", 0)
    return found | {"sentences": list(checkpointing.sentences(found))}


def test_it_is_worth_most_where_all_may_be_stopped_and_stops_are_cheap(worth):
    waits = {(row["share"], row["costs"]): row["wait_s"]["mean"] for row in worth["shares"]}
    assert set(waits) == {(share, costs) for share in checkpointing.SHARES for costs in checkpointing.COSTS}
    assert waits["100%", "30,30"] < 0.2 * worth["before"]["wait_s"]["mean"]
    assert waits["100%", "30,30"] < waits["100%", "120,120"]


def test_the_user_with_long_jobs_comes_first(worth):
    assert worth["users"][0]["name"] == "ann"
    assert worth["users"][0]["change"] < -0.8
    assert worth["users"][0]["before_s"] < worth["users"][0]["after_s"]  # she waits for the others now
    assert "worth most in the jobs of ann" in worth["sentences"][1]


def test_groups_are_those_that_may_be_stopped_and_the_others(worth):
    may, others = worth["groups"][:2]
    assert (may["name"], others["name"]) == ("jobs that may be stopped", "all other jobs")
    assert may["jobs"] + others["jobs"] == 42


def test_it_is_shown(worth):
    page = "".join(on_the_page(worth))
    assert all(text in page for text in ("jobs that may be stopped", "ann", "30 + 30 s", "120 + 120 s"))
    assert len(on_the_terminal(worth)) > 4
    assert on_the_terminal(None) == []
