"""Finish-time fairness on runs small enough to work out by hand."""

import numpy as np
import pytest

from shunter import simulation
from shunter import world as w
from shunter.model import GPU, Trace
from shunter.report.finish_fairness import finish_time_fairness, has_rho, share_of_fair
from shunter.report.terminal.tables import comparison_view, summary_view
from shunter.seeding import rng
from shunter.setup import set_up


def run_of(*rows):
    """A trace and the job table of a run; rows are (begin, end, duration, GPUs, state), seconds."""
    begin, end, duration, gpus, state = (np.array(column) for column in zip(*rows, strict=True))
    trace = Trace.of("t", [str(i) for i in begin], submit=begin * 1000, duration=duration * 1000, gpus=gpus * GPU)
    table = np.zeros((w.JOB_COLUMNS, len(rows)), np.int64)
    table[[w.SUBMIT, w.ELIGIBLE, w.ENDED_AT, w.STATE]] = begin * 1000, begin * 1000, end * 1000, state
    return trace, table


def test_rho_by_hand():
    """Two jobs of two GPUs on two GPUs, one after the other: each should have one GPU while the other is there."""
    trace, table = run_of((0, 100, 100, 2, w.DONE), (0, 200, 100, 2, w.DONE))
    first, second = finish_time_fairness(trace, table, gpus=2)
    assert first == pytest.approx(100 / (100 * 2))
    assert second == pytest.approx(200 / (100 * 1.5))
    assert share_of_fair(np.array([first, second])) == 0.5


def test_a_job_that_always_ran_alone_has_one():
    trace, table = run_of((0, 100, 100, 1, w.DONE), (500, 700, 100, 1, w.DONE))
    assert finish_time_fairness(trace, table, gpus=8).tolist() == [1.0, 2.0]


def test_unfinished_jobs_have_none_but_are_there():
    states = (w.DONE, w.FAILED, w.RUNNING, w.FUTURE)
    trace, table = run_of(*[(0, 100, 100, 1, state) for state in states])
    rho = finish_time_fairness(trace, table, gpus=1)
    assert rho[0] == pytest.approx(1 / 3)
    assert np.isnan(rho[1:]).all()
    assert share_of_fair(rho) == 1.0
    table[w.STATE] = w.PENDING
    assert np.isnan(finish_time_fairness(trace, table, gpus=1)).all()
    assert share_of_fair(np.full(4, np.nan)) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_number_of_jobs_counted_second_by_second(seed):
    draw = rng(seed, "rho")
    begin = np.sort(draw.integers(0, 60, 30))
    end, gpus = begin + draw.integers(1, 50, 30), draw.integers(1, 5, 30)
    trace, table = run_of(*zip(begin, end, np.full(30, 10), gpus, np.full(30, w.DONE), strict=True))
    counted = []
    for first, last, size in zip(begin, end, gpus, strict=True):
        present = np.mean([((begin <= t) & (end > t)).sum() for t in range(first, last)])
        counted.append((last - first) / (10 * max(1, size * present / 8)))
    assert finish_time_fairness(trace, table, gpus=8).tolist() == pytest.approx(counted)


def test_a_result_has_it_and_only_themis_runs_show_it(capsys):
    from rich.console import Console

    setup = set_up("synthetic:jobs=60,gpus=16,load=1.5", "2x8")
    themis, fifo = (simulation.run(setup, policy) for policy in ("themis:lease=600", "fifo"))
    for result in (themis, fifo):
        rho = result.jobs["rho"].to_numpy()
        assert result.summary["rho"]["mean"] == pytest.approx(rho.mean())
        assert result.summary["fairness"]["rho_at_most_1"] == pytest.approx((rho <= 1).mean())
    assert has_rho([fifo.summary, themis.summary])
    assert not has_rho([fifo.summary])
    assert not has_rho([{**themis.summary, "rho": None}])
    console = Console(width=100)
    rows = [{**result.summary, "difference": None} for result in (fifo, themis)]
    console.print(summary_view(themis.summary), comparison_view(rows))
    assert capsys.readouterr().out.count("rho <= 1") == 2
    console.print(summary_view(fifo.summary), comparison_view(rows[:1]))
    assert "rho" not in capsys.readouterr().out


def test_a_report_shows_it(tmp_path):
    from shunter.report.html.report import report

    setup = set_up("synthetic:jobs=60,gpus=16,load=1.5", "2x8")
    results = [simulation.run(setup, policy, decisions=True) for policy in ("fifo", "themis:lease=600")]
    rows = [{**result.summary, "difference": None} for result in results]
    page = report([result.kept for result in results], rows)
    assert "Finish-time fairness (rho)" in page
    assert "rho at most 1" in page
    assert "rho at most 1" in report([results[1].kept], rows[1:])
    assert "rho" not in report([results[0].kept], rows[:1]).partition("</style>")[2].partition("<script>")[0]
