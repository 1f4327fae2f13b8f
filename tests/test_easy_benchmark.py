"""The benchmark of backfilling in small: on a made-up trace EASY harms no order, whatever it is estimated by."""

from __future__ import annotations

import sys
from pathlib import Path

from shunter.reproduce.trials import run_cases

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import backfilling

ORDERS = ("fifo:estimate=history", "sjf:estimate=history", "saf:estimate=limit", "saf:estimate=rolling")


def test_easy_harms_no_order():
    found = backfilling.setups("made-up")
    pairs = backfilling.cases(found, ORDERS)
    trials = run_cases(found, [case for pair in pairs for case in pair], 2, workers=1)
    rows, changes = backfilling.table(trials, pairs)
    assert rows.row_count == len(changes) == len(ORDERS)
    assert all(change <= backfilling.WORST for some in changes.values() for change in some), changes
    assert backfilling.summary(changes).row_count == len(ORDERS)


def test_months_are_told_apart():
    early, late = ([list(backfilling.windows(name, part)) for name in backfilling.MONTHS] for part in ("early", "late"))
    both = [list(backfilling.windows(name, "all")) for name in backfilling.MONTHS]
    assert [a + b for a, b in zip(early, late, strict=True)] == both
    assert ("2018-10-01", "2018-11-01") in early[0]
    assert ("2018-12-01", "") in late[0]
