"""The benchmark of backfilling in small: on a made-up trace EASY harms no order, whatever it is estimated by."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import backfilling

from shunter import simulation
from shunter.model import GPU, Trace
from shunter.reproduce.venus import divided
from shunter.setup import set_up

ORDERS = ("fifo:estimate=history", "sjf:estimate=history", "saf:estimate=limit", "saf:estimate=rolling")


def test_easy_harms_no_order():
    found = backfilling.setups("made-up")
    made = backfilling.rows(found, ORDERS)
    trials = backfilling.run_rows(found, made, 2, workers=1)
    shown, changes = backfilling.table(trials, made)
    assert shown.row_count == len(ORDERS)
    ways = {order: tuple(by for one, by in changes if one == order) for order in ORDERS}
    by_limits = (backfilling.BOUND, backfilling.ESTIMATE)
    assert ways == dict(zip(ORDERS, (backfilling.BOUNDS,) * 2 + (by_limits,) * 2, strict=True))
    assert all(change <= backfilling.WORST for some in changes.values() for change in some), changes
    assert backfilling.summary(changes).row_count == len(changes)


def test_what_loses_is_shown_by_size_of_jobs(monkeypatch):
    found = backfilling.setups("made-up")
    made = backfilling.rows(found, ORDERS[:2], (backfilling.BOUND,))
    trials = backfilling.run_rows(found, made, 2, workers=1)
    assert backfilling.losses(trials, made).row_count == 0
    monkeypatch.setattr(backfilling, "WORST", -1.0)
    shown = backfilling.losses(trials, made)
    assert [column.header for column in shown.columns[3:-1]] == ["all jobs", "up to 8 GPUs", "above", "P50", "P99"]
    (_, row), hours = made, [outcome.numbers["jct_mean_s"] / 3600 for outcome in trials.outcomes[made[1].plain]]
    cells = [next(iter(reversed(list(column.cells)))) for column in shown.columns]
    assert cells[2] == f"{min(hours):.2f} to {max(hours):.2f}"
    for name, cell in zip(backfilling.LOSSES.values(), cells[3:-1], strict=True):
        easy, plain = (trials.means(case, name)[0] for case in (row.easy[backfilling.BOUND], row.plain))
        assert cell.startswith(f"{100 * (easy / plain - 1):+.1f} %")


def test_the_hours_are_counted_in_which_large_jobs_hold_all():
    jobs = Trace.of(
        "large", ["a", "b", "c"], submit=[0, 0, 3_600_000], duration=[7_200_000, 18_000_000, 3_600_000],
        gpus=[16_000, 8_000, 16_000],
    )  # fmt: skip
    for nodes, hours in ((3, 0.0), (2, 3.0)):  # with three the small job is beside them
        setup = set_up(jobs, divided("small", {"": nodes}))
        found = backfilling.sizes(simulation.run(setup, simulation.resolve("fifo")))
        assert found["full_h"] == hours, nodes


def test_only_an_order_by_a_model_can_reserve_by_its_p90():
    found = backfilling.setups("made-up")
    made = backfilling.rows(found, ORDERS, (backfilling.BOUND, backfilling.P90))
    by_p90 = {row.plain.policy: row.easy[backfilling.P90].policy for row in made if backfilling.P90 in row.easy}
    assert by_p90 == {"saf:estimate=rolling": "saf:estimate=rolling,quantile=p90,bound=0,backfill=easy"}


def test_reservations_by_the_truth_change_limits_and_nothing_else():
    found = backfilling.setups("made-up")
    (name, plain), (told, knowing) = backfilling.knowing(found).items()
    assert told == f"{name}{backfilling.TRUTH}"
    assert (knowing.trace.limit == plain.trace.duration).all()
    assert not (plain.trace.limit == plain.trace.duration).all()
    assert (knowing.trace.submit == plain.trace.submit).all()


def test_an_order_is_compared_with_itself_and_with_easy_in_each_draw():
    found = backfilling.setups("made-up")
    made = backfilling.rows(found, ORDERS[:2], (backfilling.BOUND, "passing=4"))
    assert made[0].easy["passing=4"].policy == "fifo:estimate=history,bound=0.9,backfill=easy,passing=4"
    later = [backfilling.submitted_later(found, repeat, backfilling.LATER) for repeat in range(2)]
    assert all((draw["stand-in"].trace.submit[0] == found["stand-in"].trace.submit[0]) for draw in later)
    draws = backfilling.run_draws(found, made, later, workers=1)
    assert {by: easy.shape for by, easy in draws.easy.items()} == {backfilling.BOUND: (3, 2), "passing=4": (3, 2)}
    shown, losing = backfilling.by_chance(draws._replace(easy={"made up": draws.plain * np.array([1.0, 1.1])}))
    rows = list(zip(*(column.cells for column in shown.columns), strict=True))
    assert [row[0] for row in rows] == ["as the jobs came", "1", "2", "mean of the draws"]
    assert rows[0][1:] == ("0 of 2; +0.0 %, +0.0 %", "1 of 2; +4.9 %, +10.0 %")
    assert rows[1][1] != rows[0][1]
    assert list(losing.columns[1].cells) == [ORDERS[1]]


def test_every_repeat_leaves_out_other_jobs_but_never_the_first():
    found = backfilling.setups("made-up")
    (whole,) = found.values()
    first, other = (next(iter(backfilling.thinned(found, repeat).values())).trace for repeat in (0, 1))
    assert first.job_id[0] == other.job_id[0] == whole.trace.job_id[0]
    assert not np.array_equal(first.submit, other.submit)
    for one in (first, other):
        assert 0.9 < len(one) / len(whole.trace) < 0.99


def test_all_jobs_stay_where_none_are_left_out():
    found = backfilling.setups("made-up")
    (whole,), (same,) = found.values(), backfilling.thinned(found, 0, left_out=0.0).values()
    assert np.array_equal(same.trace.job_id, whole.trace.job_id)


def test_months_are_kept_apart():
    early, late = ([list(backfilling.windows(name, part)) for name in backfilling.MONTHS] for part in ("early", "late"))
    both = [list(backfilling.windows(name, "all")) for name in backfilling.MONTHS]
    assert [a + b for a, b in zip(early, late, strict=True)] == both
    assert ("2018-10-01", "2018-11-01") in early[0]
    assert ("2018-12-01", "") in late[0]


def test_large_jobs_are_moved_and_no_others():
    found = backfilling.setups("made-up")
    (whole,), (later,) = found.values(), backfilling.moved(found, 0, 6.0).values()
    old, new = (dict(zip(one.trace.job_id, one.trace.submit.tolist(), strict=True)) for one in (whole, later))
    large = {name for name, gpus in zip(whole.trace.job_id, whole.trace.gpus, strict=True) if gpus > 8 * GPU}
    assert {name for name in old if old[name] != new[name]} == large - {whole.trace.job_id[0]} != set()
    assert all(0 <= new[name] - old[name] < 6 * 3_600_000 for name in old)
    assert (np.diff(later.trace.submit) >= 0).all()
