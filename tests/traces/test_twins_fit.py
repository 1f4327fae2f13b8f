"""A twin of somebody's trace is close to it, and tells none of its names."""

from __future__ import annotations

import dataclasses
import io
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import twins as measured

from shunter import traces
from shunter.errors import TraceError
from shunter.model import GPU, Trace
from shunter.traces import twins


def secret_trace(jobs: int = 3000) -> Trace:
    """A trace full of names that must not be told, and some rows that only one job has."""
    made = twins.twin("pai", jobs, seed=4)
    duration, gpus, outcome = made.duration.copy(), made.gpus.copy(), np.arange(jobs) % 3
    duration[7], gpus[7] = 123_456_789, 777 * GPU  # as a nickname would, this gives a job away
    return dataclasses.replace(
        made,
        name="secret-project",
        job_id=np.array([f"run-of-ann-{n}" for n in range(jobs)], object),
        duration=duration,
        gpus=gpus,
        users=tuple(f"ann.{n}@example.org" for n in range(len(made.users))),
        job_names=tuple(f"moonshot-{n}" for n in range(len(made.job_names))),
        vc=made.user % 3,
        vcs=("lab-of-bob", "lab-of-eve", "lab-of-joe"),
        account=made.user % 4,
        accounts=("grant-11", "grant-22", "grant-33", "grant-44"),
        model=made.user % 2,
        models=("brand-new-net", "old-net"),
        outcome=outcome,
        outcomes=("COMPLETED", "CANCELLED by 10017", "failed"),
    )


def test_no_name_and_no_row_of_the_original_survives(tmp_path):
    original = secret_trace()
    traces.write(twins.twin_of(original, seed=1), tmp_path / "twin.parquet")
    plain = io.BytesIO()  # as it was written, text is compressed and would not be found
    pq.write_table(pq.read_table(tmp_path / "twin.parquet"), plain, compression="none", use_dictionary=False)
    told = plain.getvalue() + (tmp_path / "twin.parquet").read_bytes()
    columns = [*map(Trace.names_of, ("user", "vc", "model", "account", "job_name")), "job_id"]
    secrets = [name for column in columns for name in getattr(original, column)]
    secrets += ["secret-project", "10017", "run-of", "moonshot", "lab-of", "grant", "example.org"]
    assert b"u001" in told  # or the search would find nothing whatever stood there
    assert not [name for name in secrets if name.encode() in told]

    twin = traces.read(tmp_path / "twin.parquet")
    assert not pairs(twin) & pairs(original)
    assert 777 * GPU not in twin.gpus
    assert 123_456_789 not in twin.duration
    assert twin.duration.max() < original.duration.max()
    assert set(twin.outcomes) == {"completed", "failed", "other"}
    assert twin.gpu_types == original.gpu_types
    assert twin.remarks == ("a twin does not have these columns of the trace: model",)
    assert "model" in twins.twin_of(original).remarks[0]


def pairs(trace: Trace) -> set[tuple[int, int]]:
    return set(zip(trace.submit.tolist(), trace.duration.tolist(), strict=True))


def test_even_a_twin_of_a_twin_shares_no_pair_of_submission_and_run_time():
    times = np.arange(2000) // 4 * 1000 + 978_307_200_000  # where twins begin, a few jobs every second
    original = Trace.of(
        "t", [str(n) for n in range(2000)], submit=times, duration=[1000, 2000] * 1000, gpus=[GPU] * 2000
    )
    assert not pairs(twins.twin_of(original)) & pairs(original)


def test_what_the_trace_does_not_have_the_twin_has_not_either():
    made = twins.twin("philly", 500)
    bare = Trace.of("bare", made.job_id.tolist(), submit=made.submit, duration=made.duration, gpus=made.gpus)
    twin = twins.twin_of(bare)
    assert not any((twin.users, twin.vcs, twin.gpu_types, twin.accounts, twin.job_names, twin.outcomes))
    assert (twin.limit == 0).all()


def test_users_limits_outcomes_and_places_are_those_of_the_original():
    original = twins.twin("helios-venus", 20_000, seed=2)
    twin = twins.twin_of(original, seed=3)
    assert len(twin.users) == len(original.users)
    top = [np.sort(np.bincount(t.user))[::-1][:10].sum() / len(t) for t in (original, twin)]
    assert top[1] == pytest.approx(top[0], rel=0.1)
    medians = [np.median(t.duration / t.limit) for t in (original, twin)]
    assert medians[1] == pytest.approx(medians[0], rel=0.5)
    for column in ("outcome", "vc"):
        shares = [np.sort(np.bincount(getattr(t, column)))[::-1] / len(t) for t in (original, twin)]
        assert shares[1] == pytest.approx(shares[0], abs=0.005)
    largest = [sorted(t.gpus[t.vc == vc].max() for vc in range(15)) for t in (original, twin)]
    assert all(own <= theirs for theirs, own in zip(*largest, strict=True))  # so that it fits where the original does


@pytest.mark.parametrize(
    "columns",
    [
        {"duration": np.full(200, 5000)},
        {"duration": np.zeros(200, int)},
        {"submit": np.zeros(200, int)},
        {"gpus": np.arange(1, 201)},
        {"gpus": np.arange(1, 201) * GPU},
        {"user": np.zeros(200, int), "users": ("one",)},
        {"user": np.arange(200), "users": tuple(map(str, range(200)))},
        {"limit": np.full(200, 10**12)},
        {"submit": np.arange(200) * 86_400_000 * 30},
    ],
    ids="-".join,
)
def test_odd_traces_have_twins_too(columns, tmp_path):
    usual = {"submit": np.arange(200) * 1000, "duration": np.arange(200) * 1000, "gpus": np.full(200, GPU)}
    twin = twins.twin_of(Trace.of("odd", [str(n) for n in range(200)], **{**usual, **columns}))
    traces.write(twin, tmp_path / "twin.parquet")
    assert len(traces.read(tmp_path / "twin.parquet")) == 200


def test_a_handful_of_jobs_has_no_twin():
    with pytest.raises(TraceError, match="fewer than 100"):
        twins.twin_of(twins.twin("philly", 99))


# ------------------------------------------------------------------------------------------- real traces


def venus(data: Path) -> Trace:
    table = pl.read_csv(data / "helios" / "venus_gpu_jobs.csv.gz", try_parse_dates=True)
    return as_trace(table, pl.col("submit_time").dt.epoch("s"), pl.col("duration"), pl.col("gpu_num"))


def philly(data: Path) -> Trace:
    table = pl.read_csv(data / "philly" / "philly_jobs.csv.gz", try_parse_dates=True)
    return as_trace(table, pl.col("timestamp").dt.epoch("s"), pl.col("duration"), pl.col("num_gpus"))


def aaic(data: Path) -> Trace:
    table = pl.read_csv(data / "aaic" / "aaicwl-201807-201812.csv.gz")
    table = table.select(
        pl.col(name).cast(pl.String).str.strip_chars().cast(pl.Int64).alias(name.strip()) for name in table.columns
    )
    trace = as_trace(table, pl.col("time_submit"), pl.col("walltime"), pl.col("nodes") * pl.col("gpus"))
    people = tuple(map(str, range(table["user"].max() + 1)))
    return dataclasses.replace(
        trace, user=table["user"].to_numpy(), users=people, limit=table["walltime_req"].to_numpy() * 1000
    )


def as_trace(table: pl.DataFrame, submit: pl.Expr, duration: pl.Expr, gpus: pl.Expr) -> Trace:
    found = table.select(submit=submit * 1000, duration=duration * 1000, gpus=gpus * GPU).cast(pl.Int64)
    return Trace.of(
        "real", [str(n) for n in range(len(table))], **{name: found[name].to_numpy() for name in found.columns}
    )


@pytest.mark.parametrize("real", [venus, philly, aaic])
def test_it_is_close_to_real_traces(data, real):
    original = real(data)
    twin = twins.twin_of(original, seed=1)
    assert not pairs(twin) & pairs(original)
    times = [np.percentile(t.duration / 1000, [10, 25, 50, 75, 90, 95, 99]) for t in (original, twin)]
    assert times[1] == pytest.approx(times[0], rel=0.05)
    hours = [np.bincount(t.submit // 3_600_000 % 24, minlength=24) / len(t) for t in (original, twin)]
    assert hours[1] == pytest.approx(hours[0], rel=0.1)
    days = [np.bincount((t.submit // 86_400_000 + 3) % 7, minlength=7) / len(t) for t in (original, twin)]
    assert days[1] == pytest.approx(days[0], rel=0.1)
    together = [(np.diff(t.submit // 1000) == 0).mean() for t in (original, twin)]
    assert together[1] == pytest.approx(together[0], rel=0.25)
    for size in (1, 2, 4, 8):
        has = [t.gpus == size * GPU for t in (original, twin)]
        assert has[1].mean() == pytest.approx(has[0].mean(), rel=0.05)
        medians = [np.median(t.duration[rows]) for t, rows in zip((original, twin), has, strict=True)]
        assert medians[1] == pytest.approx(medians[0], rel=0.25)
    work = [(t.gpus / GPU * t.duration).mean() for t in (original, twin)]
    assert work[1] == pytest.approx(work[0], rel=0.2)


def test_users_of_the_twin_are_as_predictable_as_those_of_aaic(data):
    original = aaic(data)
    own, theirs = measured.habits(twins.twin_of(original, seed=1)), measured.habits(original)
    assert own["top_5_percent"] == pytest.approx(theirs["top_5_percent"], rel=0.1)
    assert own["error_of_limit"] == pytest.approx(theirs["error_of_limit"], rel=0.15)
    assert own["error_of_last_two"] == pytest.approx(theirs["error_of_last_two"], rel=0.5)
