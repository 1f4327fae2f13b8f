"""What is printed after training."""

from __future__ import annotations

import pytest
from rich.console import Console

from shunter.report.terminal.learning import learning_view


@pytest.mark.parametrize(("changes", "warned"), [([0.5, 0.04], True), ([0.5, 0.0], True), ([0.5, -0.04], False)])
def test_a_model_that_is_no_better_is_not_recommended(changes, warned):
    found = {"agent": "search", "objective": "wait", "reference": "saf", "stopped_early": False}
    console = Console(width=200)
    with console.capture() as shown:
        console.print(learning_view({**found, "curve": [{"change": change} for change in changes]}))
    assert ("Don't use it" in shown.get()) == warned
