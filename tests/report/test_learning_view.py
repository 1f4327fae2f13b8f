"""What is printed after training."""

from __future__ import annotations

import pytest
from rich.console import Console

from shunter.report.terminal.learning import judging_view, learning_view


def printed(view, width=200):
    console = Console(width=width)
    with console.capture() as shown:
        console.print(view)
    return shown.get()


def trained(best, start):
    scores = {"change_on_checked_windows": best, "change_at_the_start": start}
    about = {"agent": "search", "objective": "wait", "reference": "saf", "stopped_early": False}
    return {**about, "curve": [{"change": 0.5}, {"change": best}], "model": {"scores": scores}}


@pytest.mark.parametrize(("best", "warned"), [(0.04, True), (0.0, True), (-0.04, False)])
def test_a_model_that_is_no_better_is_not_recommended(best, warned):
    assert ("Don't use it" in printed(learning_view(trained(best, 0.5)))) == warned


def test_it_is_said_when_the_untrained_model_is_kept():
    assert "the untrained one, which is kept" in printed(learning_view(trained(-0.04, -0.04)))
    assert "untrained" not in printed(learning_view(trained(-0.04, 0.1)))


def test_numbers_of_a_judgement_fit_a_terminal_and_stand_beside_their_policy():
    def row(policy, share):
        number = {"value": 7200.0 * (1 + share), "base": 7200.0, "share": share, "low": share - 0.2, "high": share + 1}
        return {"policy": policy, "objectives": dict.fromkeys(("wait", "bsld", "jct", "p99"), number)}

    found = {
        "rows": [row("model", 0.0), row("fifo:backfill=easy", 0.767)], "windows": 6, "window": 32, "same_trace": True,
        "windows_asked": 8, "remarks": [], "estimate": "history", "reference": "saf", "verdict": "V.",
    }  # fmt: skip
    lines = printed(judging_view(found), 100).splitlines()
    assert max(map(len, lines)) <= 100
    beside = next(at for at, line in enumerate(lines) if line.startswith(" fifo:backfill=easy"))
    assert lines[beside].count("3.53 h") == 3
    assert lines[beside + 1].count("+77 % (+57..+177)") == 4
