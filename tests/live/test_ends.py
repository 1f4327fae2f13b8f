"""When jobs are done, from forecasts and from a history."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import deadlines

from shunter import world as w
from shunter.errors import LiveError
from shunter.live.answers import chance_words
from shunter.live.deadline_answers import DeadlineAnswer, deadline_record
from shunter.live.end_forecast import EndForecast
from shunter.live.past_ends import PastEnds, WantedJob, _waited, held, replayed
from shunter.live.run_times import EndedJob, RecentJobs
from shunter.live.work_left import training
from shunter.model import Trace
from shunter.predictors.progress.curves import LossCurve
from shunter.scaling.curves import Scaling, ScalingCurve
from shunter.seeding import rng

HOUR = 3_600_000
NOW = 1_800_000_000_000


def end(starts, runs, **more):
    return EndForecast(NOW, NOW + np.array(starts) * HOUR, np.array(runs, float) * HOUR, **more)


def test_the_chance_is_the_share_of_starts_and_run_times_that_are_in_time():
    found = end([0, 1], [1, 3])  # ends after 1, 2, 3, 4 hours
    assert [found.chance(NOW + hours * HOUR) for hours in (0, 1, 2, 3, 4)] == [0, 0.25, 0.5, 0.75, 1]
    assert found.at(0.5) == NOW + 2 * HOUR
    assert found.at(0.9) == NOW + 4 * HOUR
    assert found.start_by(NOW + 10 * HOUR) == NOW + 7 * HOUR


def test_a_job_that_never_starts_is_never_done():
    found = EndForecast(NOW, np.array([NOW, w.NEVER]), np.array([1.0 * HOUR]))
    assert found.chance(NOW + 10 * HOUR) == 0.5
    assert found.at(0.9) is None


def test_past_forecasts_that_were_too_sure_make_later_ones_less_sure():
    sure = end([0], np.linspace(0.01, 1, 100))
    past = np.concatenate((np.linspace(0, 1, 500), np.ones(500)))  # half of the jobs ended after all samples
    less = end([0], np.linspace(0.01, 1, 100), past=past)
    assert less.at(0.5) > sure.at(0.5)
    assert less.chance(NOW + HOUR // 2) == pytest.approx(0.25, abs=0.01)


def test_without_a_forecast_nothing_is_said():
    found = EndForecast(NOW, np.zeros(0, np.int64), np.zeros(0), because=("the queue is hidden",))
    record = deadline_record(DeadlineAnswer("A job", NOW + HOUR, found))
    assert record["chance"] is record["p50"] is record["p90"] is record["start_by"] is None
    assert record["because"] == ["the queue is hidden"]


def test_chances_are_written_in_one_form():
    words = [chance_words(chance) for chance in (0.0, 0.5, 0.923, 1.0)]
    assert words == ["under 1 %", "50 %", "92 %", "over 99 %"]


def test_a_chance_is_rounded_down():
    """Else a job with 89.8 % is said to be done in time with 90 % chance, and its P90 comes after that."""
    assert [chance_words(chance) for chance in (0.898, 0.9, 0.29, 0.499)] == ["89 %", "90 %", "29 %", "49 %"]


# ------------------------------------------------------------------------------------------- a history


def history(jobs=3000, seed=0):
    """Users with habits; waits of some minutes, and longer ones for large jobs."""
    draw = rng(seed, "ends")
    user, gpus = draw.integers(0, 8, jobs), draw.choice([1, 4, 16], jobs)
    took = np.exp(draw.uniform(5, 9, 8)[user] + draw.normal(0, 0.7, jobs))
    return Trace.of(
        "past",
        [str(job) for job in range(jobs)],
        submit=NOW + np.cumsum(draw.exponential(600_000, jobs)).astype(np.int64),
        duration=(1000 * took).astype(np.int64),
        gpus=1000 * gpus,
        user=user,
        limit=np.full(jobs, 48 * HOUR),
        recorded_wait=(1000 * draw.exponential(60 * gpus)).astype(np.int64),
        users=tuple(f"user{code}" for code in range(8)),
    )


def test_the_quantiles_of_ends_hold_on_jobs_with_habits():
    trace = history()
    found = held(PastEnds(trace), np.arange(0, len(trace), 2), (0.5, 0.9))[500:]
    assert np.isfinite(found).all()
    assert found.mean(axis=0) == pytest.approx([0.5, 0.9], abs=0.05)


def test_a_past_of_equal_jobs_makes_no_forecast_later():
    """All ended when they were forecast to end; so a new user's jobs, of which less is known, are as likely late."""
    given = {"duration": 100_000, "gpus": 1000, "recorded_wait": 5000}
    columns = {name: np.full(300, value) for name, value in given.items()}
    trace = Trace.of("past", [str(job) for job in range(300)], submit=NOW + 600_000 * np.arange(300), **columns)
    past = replayed(trace)
    assert past.ranks() is not None
    assert past.forecast(WantedJob("somebody new", "", 1, "", 0), NOW).at(0.5) == NOW + 105_000


def test_a_forecast_knows_nothing_of_later_jobs():
    trace, cut = history(600), 400
    rows = np.flatnonzero(np.arange(600) < cut)
    early = Trace.of(
        "past",
        [trace.job_id[row] for row in rows],
        users=trace.users,
        **{
            name: getattr(trace, name)[rows]
            for name in ("submit", "duration", "gpus", "user", "limit", "recorded_wait")
        },
    )
    all_jobs, some_jobs = PastEnds(trace), PastEnds(early)
    for row in range(0, cut, 7):
        one, other = all_jobs.ask(row), some_jobs.ask(row)
        assert one.because == other.because
        assert (one.ends == other.ends).all()
        assert one.at(0.9) == other.at(0.9)


def test_large_jobs_wait_as_large_jobs_do():
    ends = replayed(history())
    small, large = (ends.forecast(WantedJob("user1", "", gpus, "", 48 * HOUR), NOW) for gpus in (1, 16))
    assert large.starts.mean() - NOW > 4 * (small.starts.mean() - NOW)
    assert any("calibrated by" in text for text in small.assumptions)


def test_waits_of_jobs_that_did_not_wait_are_named_once():
    assert _waited(np.array([0] * 19 + [60_000])) == "nine in ten not at all, all up to 1.00 m"
    half = _waited(np.array([0, 0, 0, 60_000, 60_000]))
    assert half == "half of them not at all, nine in ten up to 1.00 m, all up to 1.00 m"
    assert _waited(np.zeros(3, np.int64)) == "none of them waited"


def test_a_short_history_is_not_calibrated_and_an_empty_one_says_nothing():
    assert any(
        "not calibrated" in text
        for text in replayed(history(100)).forecast(WantedJob("", "", 1, "", 0), NOW).assumptions
    )
    few = PastEnds(history(100)).forecast(WantedJob("", "", 1, "", 0), NOW)
    assert few.because == ("fewer than 10 jobs of 'past' have started",)
    assert few.chance(NOW + HOUR) is None


def test_a_question_costs_the_groups_of_its_job_and_not_those_of_all_names():
    seen = RecentJobs()
    for at in range(100):
        seen.add(EndedJob(f"user{at}", f"name{at}", 1000.0 * (at + 1), 0))
    job = WantedJob("user7", "name7", 1, "", 0).job
    asked, full = seen.run_times("past", (job,)), seen.run_times("past")
    assert set(asked.groups) == {
        ("kind", "user7", "name7", "0"),
        ("name", "user7", "name7"),
        ("user", "user7"),
        ("all",),
    }
    assert len(full.groups) == 301
    levels = np.linspace(0, 1, 11)
    assert (asked.draw(job, levels) == full.draw(job, levels)).all()
    seen.add(EndedJob("user7", "name7", 1e9, 0))
    assert seen.run_times("past", (job,)).groups["user", "user7"].times.tolist() == [8000.0, 1e9]


def test_a_history_without_waits_is_refused():
    trace = Trace.of("bare", ["1"], submit=np.array([0]), duration=np.array([1000]), gpus=np.array([1000]))
    with pytest.raises(LiveError, match="no recorded waits; add the column recorded_wait"):
        PastEnds(trace)


def test_the_benchmark_counts_months_and_what_is_judged():
    submit = np.array([deadlines.JUDGED_FROM - 1, deadlines.JUDGED_FROM, deadlines.JUDGED_FROM + 1])
    text = deadlines.report(submit, np.array([[1.0, 1, 1], [0, 0, 1], [np.nan, np.nan, np.nan]]))
    assert "| 2018-10 | 1 | 100.0% | 100.0% | 100.0% |" in text
    assert "| judged | 1 | 0.0% | 0.0% | 100.0% |" in text


# ------------------------------------------------------------------------------------------- work that is left

CURVE = ScalingCurve("net", ((2, 0.9), (4, 0.75)))


def test_more_gpus_help_by_what_the_curve_says():
    known = training("net", 1000, 0.5, 2, Scaling((CURVE,)))
    assert known.runs() == pytest.approx([500_000])
    assert known.runs(4) == pytest.approx([500_000 * 1.8 / 3.0])
    assert training("", 1000, 0.5, 2, Scaling()).runs(4) is None


def test_an_iteration_that_was_not_measured_is_computed_and_says_so():
    known = training("resnet50", 1000, 0, 1, Scaling())
    assert known.runs()[0] > 0
    assert any("computed from multiply-adds of 512 samples at 40 TFLOP/s per GPU" in text for text in known.assumptions)
    with pytest.raises(LiveError, match="set --iteration-s"):
        training("nonesuch", 1000, 0, 1, Scaling())
    with pytest.raises(LiveError, match="no run that can be planned"):
        training("", 1e300, 1.0, 1, Scaling())


def test_losses_make_the_work_that_is_left_uncertain():
    steps = np.arange(1.0, 401)
    known = training("", 1000, 1.0, 1, Scaling(), LossCurve("x", "x", steps, 200 / (steps + 9) + 1))
    runs = known.runs() / 1000
    assert 0 <= runs.min() < runs.max() <= 600
    assert len(runs) > 1
