"""Policies with a model, while their settings change."""

from __future__ import annotations

import pytest

from shunter.adapting.controller import SearchTimes, plain_run
from shunter.adapting.study import OPTIMAL, Adapting, AdaptingOptions
from shunter.generating.known_jobs import HOUR
from shunter.setup import set_up
from shunter.simulation import run


def test_lucid_adapts_and_without_a_change_is_the_plain_run() -> None:
    pytest.importorskip("interpret")
    setup = set_up("synthetic:jobs=240,gpus=16,load=1.2", "2x8", since="+0.4")
    options = AdaptingOptions("lucid", 1, times=SearchTimes(2 * HOUR))
    work = Adapting(setup, options)
    alone = run(setup, "lucid").digest
    assert plain_run(work.simulator(), "lucid", work.memory("lucid")).digest == alone
    assert work.adapted(OPTIMAL, "lucid").digest == alone  # one evaluation: the settings in use
