"""Rows of features against an obvious reference, and that nothing of the future is in them."""

from __future__ import annotations

import dataclasses
import datetime
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter.model import Trace
from shunter.predictors import features as f

DAY = 86_400_000
BEGIN = 1_530_000_000_000
JOB = st.tuples(
    st.integers(0, 3 * DAY).map(lambda ms: ms // 1000 * 1000),  # submit
    st.sampled_from([0, 1, 30_000, 3_600_000, DAY]),  # duration
    st.sampled_from([250, 1000, 2000, 8000]),  # gpus
    st.integers(-1, 2),  # user
    st.integers(-1, 2),  # name
    st.integers(-1, 1),  # vc
    st.sampled_from([0, 3_600_000]),  # limit
    st.sampled_from([-1, 0, 60_000]),  # wait
)


def trace_of(jobs, begin=BEGIN) -> Trace:
    columns = np.array(jobs, np.int64).reshape(-1, 8).T
    names = ("submit", "duration", "gpus", "user", "job_name", "vc", "limit", "recorded_wait")
    given = dict(zip(names, columns, strict=True))
    given["submit"] = given["submit"] + begin
    given["account"], given["cpus"] = columns[3] // 2, 4 * columns[2]
    people = {"users": ("ann", "bob", "eve"), "accounts": ("a", "b"), "vcs": ("v", "w")}
    return Trace.of("made up", [str(i) for i in range(len(jobs))], **given, **people, job_names=("bert", "vgg", "lstm"))


class Reference:
    """The features by their definitions, in quadratic time."""

    def __init__(self, trace: Trace, job: int, now: int) -> None:
        self.trace, self.job, self.now = trace, job, now
        ends = trace.submit + np.maximum(np.maximum(trace.recorded_wait, 0) + trace.duration, 1)
        self.ends = ends.tolist()
        self.past = sorted((j for j in range(len(trace)) if ends[j] <= self.now), key=lambda j: (ends[j], j))
        self.known = [j for j in range(len(trace)) if (trace.submit[j], j) < (now, job)]

    def like(self, jobs, *columns, known=()):
        values = {column: getattr(self.trace, column) for column in (*columns, *known)}
        if any(values[column][self.job] < 0 for column in known):
            return None
        return [j for j in jobs if all(values[c][j] == values[c][self.job] for c in values)]

    def seconds(self, j):
        return max(self.trace.duration[j] / 1000, 1.0)

    def mean(self, jobs, of):
        if not jobs:
            return math.nan
        weights = [2.0 ** ((self.ends[j] - self.ends[jobs[-1]]) / DAY) for j in jobs]
        return sum(w * of(self.seconds(j)) for w, j in zip(weights, jobs, strict=True)) / sum(weights)

    def row(self) -> dict[str, float]:
        trace, job, past, nan = self.trace, self.job, self.past, math.nan
        moment = datetime.datetime.fromtimestamp(trace.submit[job] / 1000, datetime.UTC)
        dated, cpus = trace.dated, trace.cpus[job] / 1000 / max(trace.gpus[job] // 1000, 1)
        request = ("gpus", "cpus", "mem_gib", "limit", "vc")
        groups = {
            "user": self.like(past, known=("user",)),
            "request": self.like(past, *request, known=("user",)),
            "user_gpus": self.like(past, "gpus", known=("user",)),
            "user_name": self.like(past, known=("user", "job_name")),
            "name": self.like(past, known=("job_name",)),
            "account": self.like(past, known=("account",)),
            "vc": self.like(past, known=("vc",)),
            "gpus": self.like(past, "gpus"),
            "all": past,
        }
        same = self.like(past, "gpus", known=("user", "job_name"))
        chain = (same, *(groups[name] for name in ("user_name", "name", "user_gpus", "user", "gpus", "all")))
        nearest = next(filter(None, chain), [])
        user, before = groups["user"], self.like(self.known, known=("user",))
        base = self.recent(same, groups)
        limit = math.log(trace.limit[job] / 1000) if trace.limit[job] else nan
        row = {
            "recent": base,
            "gpus": math.log2(max(trace.gpus[job] // 1000, 1)),
            "share": min(trace.gpus[job] / 1000, 1),
            "cpus": math.log2(cpus) if cpus else nan,
            "mem": nan,
            "limit": limit,
            "slack": limit - base,
            "hour": moment.hour + moment.minute / 60 + moment.second / 3600 if dated else nan,
            "weekday": moment.weekday() if dated else nan,
            "day": moment.day if dated else nan,
            "history": math.log(self.mean(nearest, float)) - base if nearest else nan,
            "user_last_two": math.log(np.mean([self.seconds(j) for j in user[-2:]])) - base if user else nan,
            "user_gap": self.log_since(trace.submit[before[-1]]) if before else nan,
        }
        row |= {f"{name}_mean": self.mean(jobs, math.log) - base for name, jobs in groups.items()}
        for at, word in ((1, "last"), (2, "previous")):
            for name in ("user", "request", "user_name", "name"):
                enough = len(groups[name] or ()) >= at
                row[f"{name}_{word}"] = math.log(self.seconds(groups[name][-at])) - base if enough else nan
        for name in ("user", "request", "user_name"):
            row[f"{name}_ended"] = nan if groups[name] is None else math.log1p(len(groups[name]))
        seen = {"user": before, "request": self.like(self.known, *request, known=("user",))}
        still = {name: None if jobs is None else [j for j in jobs if j not in past] for name, jobs in seen.items()}
        for name, jobs in still.items():
            row[f"{name}_open"] = nan if jobs is None else math.log1p(len(jobs))
        for name, jobs in still.items():
            row[f"{name}_open_age"] = self.log_since(np.mean(trace.submit[jobs])) - base if jobs else nan
        for name in ("user", "request"):
            row[f"{name}_age"] = self.log_since(self.ends[groups[name][-1]]) - base if groups[name] else nan
        return row

    def recent(self, same, groups):
        nearest = next(filter(None, (same, groups["request"], groups["user"])), None)
        if nearest:
            return math.log(self.seconds(nearest[-1]))
        level = groups["gpus"] or groups["all"]
        return self.mean(level, math.log) if level else math.log(3600)

    def log_since(self, then):
        return math.log(max((self.now - then) / 1000, 1.0))


@settings(max_examples=60, deadline=None)
@given(st.lists(JOB, min_size=1, max_size=25), st.sampled_from([BEGIN, 0]))
def test_rows_are_what_their_definitions_say(jobs, begin):
    """As of the submission, and as of the start."""
    trace = trace_of(jobs, begin)
    for at in (trace.submit, f.starts(trace)):
        rows = f.stream(trace, at=at)
        for job in range(len(trace)):
            expected = Reference(trace, job, int(at[job])).row()
            assert tuple(expected) == f.NAMES
            np.testing.assert_allclose(rows[job], list(expected.values()), rtol=1e-9, atol=1e-9, err_msg=str(job))


@settings(max_examples=40, deadline=None)
@given(st.lists(JOB, min_size=2, max_size=25), st.data())
def test_what_ends_later_changes_nothing(jobs, data):
    trace = trace_of(jobs)
    at = data.draw(st.integers(0, len(jobs) - 1))
    ends = f.recorded_ends(trace)
    changed = trace.duration + np.where(ends > trace.submit[at], data.draw(st.integers(1, 10 * DAY)), 0)
    other = dataclasses.replace(trace, duration=changed)
    np.testing.assert_array_equal(f.stream(trace)[at], f.stream(other)[at])


def test_ends_can_be_given():
    trace = trace_of([(0, 60_000, 1000, 0, -1, -1, 0, 0), (120_000, 1, 1000, 0, -1, -1, 0, 0)])
    mean = f.NAMES.index("user_mean")
    assert f.stream(trace)[1, mean] == pytest.approx(0)
    assert math.isnan(f.stream(trace, ends=np.array([10**15, 10**15]))[1, mean])


def test_a_job_that_takes_no_time_is_not_known_to_itself():
    trace = trace_of([(0, 0, 1000, 0, -1, -1, 0, 0)])
    assert math.isnan(f.stream(trace)[0, f.NAMES.index("user_last")])


@pytest.mark.parametrize("year", [1970, 1999, 2000, 2020, 2024, 2100])
def test_days_of_the_month(year):
    first = datetime.date(year, 1, 1)
    for offset in range(366):
        day = first + datetime.timedelta(days=offset)
        assert f.day_of_month((day - datetime.date(1970, 1, 1)).days) == day.day


def test_every_feature_has_a_line():
    assert len(f.NAMES) == f.WIDTH == f.F_AGES + len(f.ACTIVE)
    assert all(doc and "\n" not in doc for doc in f.FEATURES.values())
    assert (f.NAMES[f.F_DAY], f.NAMES[f.F_HISTORY], f.NAMES[f.F_MEANS]) == ("day", "history", "user_mean")
