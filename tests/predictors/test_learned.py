"""What a simulation carries along says the same as a batch, and starts from what the history tells."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shunter import world as w
from shunter.errors import InputError
from shunter.predictors import features as f
from shunter.predictors.fitted import Fitted, estimates
from shunter.predictors.fitting import known
from shunter.predictors.history import History
from shunter.predictors.learned import estimate, learn, prepare
from shunter.predictors.trees import Trees


def live(learned, trace):
    """Estimates at each submission of a cluster where nobody waits longer than recorded."""
    jobs, ends = f.request_table(trace), f.recorded_ends(trace)
    order, done, found = np.argsort(ends, kind="stable"), 0, []
    for job in range(len(trace)):
        while done < len(order) and ends[order[done]] <= trace.submit[job]:
            learn(jobs, learned, order[done], float(trace.duration[order[done]]), ends[order[done]])
            done += 1
        found.append(estimate(jobs, learned, job))
    return np.array(found)


@pytest.fixture(scope="module")
def stump(habits) -> Fitted:
    """A model with one split: who asks for a day or more takes twice as long as before, others half as long."""
    trees = Trees(
        np.array([[f.F_LIMIT, 1, 2, 1], [-1, 0, 0, 0], [-1, 0, 0, 0]]),
        np.array([np.log(86_000.0), 0.0, 0.0]),
        np.log([1.0, 0.5, 2.0]),
        np.array([0]),
        np.zeros(1),
    )
    return dataclasses.replace(History().fit(batch(habits(400))), trees=trees, alpha=0.25, longest_s=1e6)


def batch(trace):
    return known(trace, f.stream(trace), w.NEVER)


def test_live_estimates_are_those_of_a_batch(stump, habits):
    trace = habits(300)
    learned = prepare(stump, trace)
    seconds = estimates(stump, f.stream(trace))
    np.testing.assert_array_equal(live(learned, trace), (1000 * seconds + 0.5).astype(np.int64))
    np.testing.assert_array_equal(learned.rows, f.stream(trace))


def a_row(recent, history, limit=np.nan):
    row = np.full((1, f.WIDTH), np.nan)
    row[0, f.F_RECENT], row[0, f.F_LIMIT] = np.log(recent), np.log(limit)
    row[0, f.F_HISTORY] = np.log(history / recent)
    return row


def test_the_mix_is_of_rolling_mean_and_trees(stump):
    assert estimates(stump, a_row(100, 1000))[0] == pytest.approx(0.25 * 1000 + 0.75 * 50)
    assert estimates(stump, a_row(100, 1000, limit=90_000))[0] == pytest.approx(0.25 * 1000 + 0.75 * 200)
    assert estimates(stump, a_row(100, np.nan))[0] == pytest.approx(50)  # nothing has ended yet: the trees alone


def test_estimates_are_bounded(stump):
    assert estimates(stump, a_row(1e12, 1e12))[0] == 10 * stump.longest_s
    assert estimates(stump, a_row(1e-3, 1e-3))[0] == 1.0


def test_a_window_goes_on_where_its_history_ends(habits):
    whole = habits(400)
    history, window = whole.select(np.arange(250)), whole.select(np.arange(250, 400))
    learned = prepare(None, window, history)
    first = f.stream(whole)[250]
    f.fill_row(f.request_table(window), learned.seen, 0, window.submit[0], learned.rows[0])
    first[f.F_OPENS : f.F_AGES] = [0, 0, np.nan, np.nan]  # what still runs is not in the window
    np.testing.assert_array_equal(learned.rows[0], first)


def test_without_a_model_estimates_are_rolling_means(habits):
    whole = habits(400)
    history, window = whole.select(np.arange(250)), whole.select(np.arange(250, 400))
    with_history, without = live(prepare(None, window, history), window), live(prepare(None, window), window)
    errors = [np.abs(np.log(found / window.duration)).mean() for found in (with_history, without)]
    assert errors[0] < errors[1]


def test_nothing_known_at_all_is_an_hour(habits):
    assert live(prepare(None, habits(1)), habits(1)) == [3_600_000]


def test_parts_of_different_traces_are_refused(habits):
    other = dataclasses.replace(habits(50), users=("x",) * 12)
    with pytest.raises(InputError, match="must be parts of one trace, but their users differ"):
        prepare(None, habits(50), other)


def test_an_estimate_made_again_counts_its_job_once(stump, habits):
    trace = habits(3)
    learned, jobs = prepare(stump, trace), f.request_table(trace)
    assert estimate(jobs, learned, 0) == estimate(jobs, learned, 0)
    assert learned.seen.groups[learned.seen.group_of[:, 0].max(), f.OPEN] == 1.0
