"""The replay on real waits, and that the page about it has what the code gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.advising import HISTORIES, by_month, month_rows, outcome, verdict_row

from shunter.advice.verdict import CAUTION, NO, TRUST

pytestmark = pytest.mark.xdist_group("aaic")  # what they look at is computed once

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "advise.md"
AAIC, HALF, SUPERCLOUD = (HISTORIES[at] for at in (0, 1, 5))


@pytest.fixture(scope="module")
def outcomes(data):
    assert data
    return {history.name: outcome(history) for history in (AAIC, HALF, SUPERCLOUD)}


def test_the_page_has_the_numbers_of_the_benchmark(outcomes):
    text = PAGE.read_text()
    for history in (AAIC, HALF):
        rows = month_rows(outcomes[history.name])
        assert len(rows) == 6
        assert all(row in text for row in rows)
    assert all(verdict_row(history, outcomes[history.name]) in text for history in (AAIC, HALF, SUPERCLOUD))


@pytest.mark.parametrize("history", [AAIC, HALF], ids=["documented", "half of the nodes"])
def test_waits_are_ranked_as_recorded_in_every_month(outcomes, history):
    found = list(by_month(outcomes[history.name]))
    assert [role for _, role, _, _ in found] == ["learned from", *["judged"] * 5]
    for _, _, before, after in found:
        assert min(after["rank_correlation"], after["rank_of_waits"]) >= 0.5
        assert after["rank_of_waits"] > before["rank_of_waits"]


def test_the_verdict_is_what_the_record_deserves(outcomes):
    assert [outcomes[one.name].verdict.use for one in (AAIC, HALF, SUPERCLOUD)] == [TRUST, CAUTION, NO]
