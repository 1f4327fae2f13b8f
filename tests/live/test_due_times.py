"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import LiveError
from shunter.live.due_times import due_at

WEDNESDAY = datetime(2026, 11, 18, 12, 0).astimezone()  # local
NOW = round(1000 * WEDNESDAY.timestamp())


def local(*parts):
    return round(1000 * datetime(*parts).astimezone().timestamp())


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("Fri 09:00", (2026, 11, 20, 9)),
        ("friday 9:00", (2026, 11, 20, 9)),
        ("  FRI   09:00 ", (2026, 11, 20, 9)),
        ("Wed 13:30", (2026, 11, 18, 13, 30)),  # still today
        ("Wed 11:00", (2026, 11, 25, 11)),  # past today, so the next one
        ("thurs 00:00", (2026, 11, 19, 0)),
        ("18:00", (2026, 11, 18, 18)),
        ("08:00", (2026, 11, 19, 8)),
        ("today 18:00", (2026, 11, 18, 18)),
        ("tomorrow 08:15", (2026, 11, 19, 8, 15)),
        ("2026-11-20T09:00", (2026, 11, 20, 9)),
        ("2026-11-20 09:00:30", (2026, 11, 20, 9, 0, 30)),
        ("+36h", (2026, 11, 20, 0)),
        ("+2d", (2026, 11, 20, 12)),
    ],
)
def test_a_time_is_found(text, due):
    assert due_at(text, NOW) == local(*due)


def test_an_offset_counts():
    found = due_at("2026-11-20T09:00:00+09:00", NOW)
    assert found == round(1000 * datetime(2026, 11, 20, tzinfo=UTC).timestamp())
    assert due_at("2026-11-20T00:00Z", NOW) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a time"),
        ("soon", "is not a time"),
        ("Fri", "needs a time of day"),
        ("2026-11-20", "needs a time of day"),
        ("Fry 09:00", "'Fry' is no day"),
        ("Fri 25:00", "is not a time of day"),
        ("today 08:00", "is past"),
        ("2020-01-01T00:00", "is past"),
        ("2099-01-01T00:00", "more than a year"),
        ("+9999d", "more than a year"),
        ("2026-13-01T00:00", "is not a time"),
        ("9" * 500, "is not a time"),
    ],
)
def test_what_is_no_time_is_refused(text, words):
    with pytest.raises(LiveError, match=words):
        due_at(text, NOW)


@given(st.text(max_size=80))
def test_any_text_is_a_time_ahead_or_refused(text):
    try:
        found = due_at(text, NOW)
    except LiveError:
        return
    assert NOW < found <= NOW + 1000 * timedelta(days=367).total_seconds()
