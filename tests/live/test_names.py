"""Codes of names: stable as long as anybody has the name, and no more of them than there are names to keep."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter.live import ended_jobs as remembering
from shunter.live.ended_jobs import FEW, EndedHistory
from shunter.live.replica import Names
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.model import Trace

REMEMBERED, LIVE, DISTINCT = 500, 100, 100_000
SECOND = 1000


def history():
    return Trace.of("before", ["1", "2"], submit=[0, 0], duration=[1, 1], job_name=[0, 1], job_names=("old", "older"))


def job(number, name, over):
    state, end = ("COMPLETED", 20) if over else ("PENDING", -1)
    about = {"user": "ann", "name": name, "gpus": 1, "submit": 0, "start": 10, "end": end, "nodes": ("n1",) * over}
    return LiveJob(str(number), str(number), state, **about)


@pytest.mark.parametrize("before", [None, history()], ids=["alone", "history"])
def test_a_hundred_thousand_names_leave_few(monkeypatch, before):
    """Every job has a name of its own; it is waiting in one round, has ended in the next, and is then remembered."""
    monkeypatch.setattr(remembering, "MOST", REMEMBERED)
    names = Names.of(before)
    past = EndedHistory(names, before)
    largest, last = 0, {}
    for first in range(0, DISTINCT, LIVE):
        waiting = [job(number, f"job-{number}", over=False) for number in range(first, first + LIVE)]
        ended = [job(number, f"job-{number}", over=True) for number in range(first - LIVE, first) if number >= 0]
        past.note(Snapshot(first * SECOND, (*waiting, *ended), ()), ())
        codes = {each.name: names.code("job_name", each.name) for each in waiting}
        table = names.table()["job_names"]
        assert all(table[code] == name for name, code in (codes | last).items())
        assert len(set(codes.values()) | set(last.values())) == len(codes) + len(last)
        largest, last = max(largest, len(table)), codes
    kept = REMEMBERED + 2 * LIVE + (len(before.job_names) if before else 0)
    assert largest <= 2 * kept + FEW + 2 * LIVE
    trace = past.trace(())
    assert [trace.job_names[code] for code in trace.job_name[-REMEMBERED:]] == [
        f"job-{number}" for number in range(DISTINCT - LIVE - REMEMBERED, DISTINCT - LIVE)
    ]
    if before is not None:
        assert trace.job_names[:2] == before.job_names
        assert trace.job_name[:2].tolist() == [0, 1]


def test_users_are_never_forgotten(monkeypatch):
    """What policies know of users is kept under their codes."""
    monkeypatch.setattr(remembering, "MOST", 10)
    names = Names()
    past = EndedHistory(names, None)
    codes = [names.code("user", f"user-{number}") for number in range(3 * FEW)]
    for number in range(3 * FEW):
        past.note(Snapshot(0, (job(number, f"job-{number}", over=True),), ()), ())
    assert [names.code("user", f"user-{number}") for number in range(3 * FEW)] == codes
    assert names.count("job_name") < 2 * FEW


STEPS = st.lists(st.one_of(st.integers(0, 30), st.frozensets(st.integers(0, 30))), max_size=60)


@settings(deadline=None)
@given(STEPS)
def test_a_name_keeps_its_code_as_long_as_it_is_kept(steps):
    """A number names somebody; a set says who is still there."""
    names, model = Names({"job_name": ("n0", "n1")}), {"n0": 0, "n1": 1}
    for step in steps:
        if isinstance(step, frozenset):
            kept = {f"n{number}" for number in step}
            names.keep("job_name", kept)
            model = {name: code for name, code in model.items() if name in kept or code < 2}
        else:
            code = names.code("job_name", f"n{step}")
            assert model.setdefault(f"n{step}", code) == code
        table = names.table()["job_names"]
        assert {name: table.index(name) for name in table if name} == model
        assert len(table) <= 31
    assert names.count("job_name") == len(model)
    assert names.code("job_name", "") == -1
