"""Parts of traces, and several in one."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner
from whole_traces import traces

from shunter.cli.main import app
from shunter.errors import TraceError
from shunter.model import Trace
from shunter.traces.slicing import merge, moment, part, remark_on_begin, tidy
from shunter.traces.synthetic import synthetic

DATED = Trace.of("dated", ["a", "b"], submit=[1_600_000_000_000, 1_600_000_500_000], duration=[1, 1], gpus=[1000, 1000])


def test_a_number_before_all_jobs_is_told_to_be_seconds() -> None:
    first = int(DATED.submit[0])
    said = "--since 14 is 14 seconds after 1970, before the first job; for day 14 write +14"
    assert remark_on_begin("14", first, True) == said
    assert remark_on_begin("1", first, True).startswith("--since 1 is 1 second after 1970")
    assert remark_on_begin("14", 15_000, False).startswith(
        "--since 14 is second 14 of the trace, before the first job;"
    )
    assert remark_on_begin("1500000000", first, True).endswith("before the first job")  # no number of days
    assert [remark_on_begin(text, first, True) for text in ("+14", "2020-01-01", "", str(first // 1000))] == [""] * 4


def test_commands_note_that_a_number_leaves_out_nothing(tmp_path) -> None:
    file = tmp_path / "jobs.csv"
    rows = [f"{number},{1_600_000_000 + 60 * number},60,1" for number in range(30)]
    file.write_text("\n".join(["job_id,submit,duration,gpus", *rows]))
    said = "note: --since 14 is 14 seconds after 1970, before the first job; for day 14 write +14"
    for command in (
        ["simulate", str(file), "-c", "1x8", "-p", "fifo"],
        ["tune", str(file), "-c", "1x8", "-p", "fifo", "--validate", "none", "--workers", "1"],
        ["trace", "slice", str(file), str(tmp_path / "part.csv")],
    ):
        result = CliRunner().invoke(app, [*command, "--since", "14"])
        assert result.exit_code == 0, result.output
        assert said in " ".join(result.stderr.split())


def without_dependencies(trace: Trace) -> Trace:
    """The same, as dependencies between parts are cut."""
    return Trace.of(
        trace.name,
        trace.job_id.tolist(),
        **{name: getattr(trace, name) for name in Trace.columns() if name != "after"},
        **{
            Trace.names_of(n): getattr(trace, Trace.names_of(n))
            for n, c in Trace.columns().items()
            if not c.scale and n != "after"
        },
    )


@given(traces(), st.integers(-1, 20_001))
def test_parts_of_the_time_merge_into_the_trace(trace, cut):
    trace = without_dependencies(trace)
    at = int(trace.submit[0]) + cut
    before, after = (trace.submit < at).any(), (trace.submit >= at).any()
    parts = ([part(trace, end=at)] if before else []) + ([part(trace, begin=at)] if after else [])
    assert merge(parts).digest == trace.digest


@settings(max_examples=50, deadline=None)
@given(traces(prefix="a"), traces(prefix="b"))
def test_merged_jobs_are_those_of_both(one, other):
    merged = merge([one, other], align=one.dated != other.dated)
    assert sorted(merged.job_id) == sorted([*one.job_id, *other.job_id])
    assert (np.diff(merged.submit) >= 0).all()
    row_of = {job: row for row, job in enumerate(merged.job_id)}
    for trace in (one, other):
        for row, job in enumerate(trace.job_id):
            there = row_of[job]
            for name, about in Trace.columns().items():
                if name == "after":
                    wanted, got = (
                        t.job_id[t.after[r]] if t.after[r] >= 0 else None for t, r in ((trace, row), (merged, there))
                    )
                elif about.scale:
                    wanted, got = getattr(trace, name)[row], getattr(merged, name)[there]
                    wanted += (one.submit[0] - trace.submit[0]) * (name == "submit" and one.dated != other.dated)
                else:
                    wanted, got = (
                        (*getattr(t, Trace.names_of(name)), None)[getattr(t, name)[r]]
                        for t, r in ((trace, row), (merged, there))
                    )
                assert got == wanted, name


def test_ids_get_a_prefix_only_where_they_collide():
    one = Trace.of("one", ["a", "b"], submit=[0, 1], duration=[1, 1], gpus=[1000, 1000], remarks=("r",))
    other = Trace.of("two", ["b", "c"], submit=[0, 1], duration=[1, 1], gpus=[1000, 1000], remarks=("r", "s"))
    merged = merge([one, other])
    assert merged.job_id.tolist() == ["a", "two/b", "one/b", "c"]
    assert (merged.name, merged.remarks) == ("one+two", ("r", "s"))
    assert merge([one, one]).job_id.tolist() == ["one-1/a", "one-2/a", "one-1/b", "one-2/b"]
    taken = Trace.of("x", ["two/b", "b"], submit=[0, 0], duration=[1, 1], gpus=[1000, 1000])
    with pytest.raises(TraceError, match="'two/b' would occur twice"):
        merge([taken, other])


def test_traces_with_and_without_dates_meet_only_when_aligned():
    plain = synthetic(3)
    with pytest.raises(TraceError, match="--align"):
        merge([DATED, plain])
    merged = merge([DATED, plain], align=True)
    assert merged.submit[0] == DATED.submit[0]
    assert len(merged) == 5


def test_a_part_keeps_the_wanted_names_and_no_others():
    trace = synthetic(500)
    users = trace.users[:2]
    kept = part(trace, users=users)
    assert set(kept.users) == set(users)
    assert len(kept) == np.isin(trace.user, [0, 1]).sum()
    assert kept.digest == tidy(kept).digest


def test_a_part_says_which_dependencies_it_cuts():
    trace = Trace.of("t", ["a", "b", "c"], submit=[0, 10, 20], duration=[1] * 3, gpus=[1000] * 3, after=[-1, 0, 1])
    kept = part(trace, begin=5)
    assert kept.after.tolist() == [-1, 0]
    assert kept.remarks == ("1 job waits no more for a job that was left out",)
    assert part(trace, end=15).remarks == ()


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"begin": 10, "end": 10}, "must be after its beginning"),
        ({"begin": 10**12}, "no job of .* is left of 20"),
        ({"users": ["user001"]}, "did you mean 'user01'"),
        ({"vcs": ["a"]}, "has no column 'vc'"),
    ],
)
def test_what_leaves_nothing_is_refused(given_, says):
    with pytest.raises(TraceError, match=says):
        part(synthetic(20), **given_)


@pytest.mark.parametrize(
    ("text", "after_s"),
    [("+1", 86400), ("+1d", 86400), ("+1.5h", 5400), ("+2m", 120), ("1600000007", 7), ("1600000000.5", 0.5),
     ("2020-09-13", -44800), ("2020-09-13T12:26:41", 1), ("2020-09-13T14:26:41+02:00", 1)],
)  # fmt: skip
def test_moments(text, after_s):
    assert moment(text, DATED, UTC) == 1_600_000_000_000 + round(after_s * 1000)


def test_dates_are_of_the_zone():
    zone = timezone(timedelta(hours=8))
    assert moment("2020-09-13", DATED, UTC) - moment("2020-09-13", DATED, zone) == 8 * 3_600_000


@pytest.mark.parametrize("text", ["soon", "", "+x", "2020-13-01", "1e400", "99999999999999999"])
def test_what_is_no_moment_is_reported(text):
    with pytest.raises(TraceError, match="a time must be a date"):
        moment(text, DATED, UTC)


def test_a_date_in_a_trace_without_dates_is_reported():
    with pytest.raises(TraceError, match="has no dates"):
        moment("2020-09-13", synthetic(3), UTC)
