"""Twins of published traces show the published figures."""

from __future__ import annotations

import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from benchmarks import twins as measured  # noqa: E402

from shunter import clusters  # noqa: E402
from shunter.errors import TraceError  # noqa: E402
from shunter.model import GPU, Trace  # noqa: E402
from shunter.traces import read, twins, write  # noqa: E402
from shunter.traces.synthetic import synthetic  # noqa: E402
from shunter.traces.twins.making import numbered  # noqa: E402

ENOUGH = 20_000  # jobs; run times and sizes are right with far fewer, the hours of the day need some weeks
VENUS_HOURS = [0.90, 0.66, 0.60, 0.38, 0.27, 0.21, 0.19, 0.22, 0.37, 0.80, 1.29, 1.47]
VENUS_HOURS += [1.16, 1.30, 1.56, 1.66, 1.73, 1.73, 1.28, 1.31, 1.34, 1.36, 1.15, 1.04]
VENUS_DAYS = [1.03, 1.07, 1.28, 1.21, 0.95, 0.68, 0.78]

# What was published, written down apart from the profiles: median, p90, p95 (s), and shares of sizes.
PUBLISHED = {
    "helios-venus": ((204, 18_201, 58_054), {1: 0.518, 8: 0.247, 4: 0.073, 2: 0.056, 16: 0.042, 32: 0.027}),
    "philly": ((1144, 11_265, 43_646), {1: 0.866, 8: 0.061, 4: 0.049, 2: 0.023}),
    "pai": ((618, 12_201, 22_751), {1: 0.77}),
}
HELIOS = {  # mean and median run time (s), mean GPUs, completed, cancelled, failed
    "helios-venus": (13_041, 204, 6.74, 0.53, 0.27, 0.20),
    "helios-earth": (5131, 234, 2.10, 0.74, 0.14, 0.13),
    "helios-saturn": (5253, 124, 4.01, 0.58, 0.27, 0.15),
    "helios-uranus": (9164, 280, 4.04, 0.61, 0.20, 0.19),
}


def near(value: object) -> object:
    return pytest.approx(value, rel=0.15)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("jobs", [2000, ENOUGH])
@pytest.mark.parametrize("name", PUBLISHED)
def test_run_times_and_sizes_are_as_published(name, jobs, seed):
    trace = twins.twin(name, jobs, seed)
    times, sizes = PUBLISHED[name]
    assert np.percentile(trace.duration / 1000, [50, 90, 95]) == near(times)
    assert {size: (trace.gpus == size * GPU).mean() for size in sizes} == near(sizes)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", HELIOS)
def test_the_helios_clusters_have_their_means_medians_and_outcomes(name, seed):
    found = measured.figures(twins.twin(name, ENOUGH, seed))
    keys = ("mean_s", "median_s", "mean_gpus", "outcomes.completed", "outcomes.cancelled", "outcomes.failed")
    assert tuple(found[key] for key in keys) == near(HELIOS[name])


@pytest.mark.parametrize("seed", range(4))
def test_venus_has_its_day_and_week(seed):
    hours, days = measured.rhythm(twins.twin("helios-venus", ENOUGH, seed))
    assert hours == near(np.array(VENUS_HOURS))
    assert days == near(np.array(VENUS_DAYS))


@pytest.mark.parametrize("seed", range(4))
def test_philly_has_the_hours_of_its_file(data, seed):
    import polars as pl

    times = pl.read_csv(data / "philly" / "philly_jobs.csv.gz", columns=["timestamp"], try_parse_dates=True)
    hours = np.bincount(times["timestamp"].dt.hour().to_numpy(), minlength=24)
    assert measured.rhythm(twins.twin("philly", 40_000, seed))[0] == near(hours / hours.mean())


@pytest.mark.parametrize("seed", range(2))
def test_venus_comes_in_bursts_and_asks_for_the_published_gpu_time(seed):
    found = measured.figures(twins.twin("helios-venus", 120_000, seed))
    assert (found["gap_cv"], found["same_second"]) == near((4.3, 0.09))
    assert found["mean_gpu_time_s"] == pytest.approx(98_526, rel=0.2)  # heavy-tailed: far from sure even so


@pytest.mark.parametrize("name", twins.names())
def test_users_repeat_themselves_and_ask_for_far_too_much(name):
    found = measured.habits(twins.twin(name, ENOUGH))
    assert 0.53 <= found["top_5_percent"] <= 0.90
    assert found["used_of_limit"] == pytest.approx(0.03, rel=0.2)
    assert 2.9 <= found["error_of_limit"] <= 4.7
    assert 0.25 <= found["error_of_last_two"] <= 0.55


def test_runs_of_a_work_share_name_user_and_limit_and_never_pass_the_limit():
    trace = twins.twin("helios-venus", 5000)
    for column in (trace.user, trace.limit):
        assert all(len(np.unique(column[trace.job_name == name])) == 1 for name in range(200))
    assert (trace.limit >= trace.duration).all()
    assert len(trace.job_names) < len(trace) / 5


# ------------------------------------------------------------------------------------------- places


def rooms(name: str) -> dict[str, int]:
    told = tomllib.loads(files("shunter").joinpath("traces", "twins", "profiles", f"{name}.toml").read_text())
    return told.get("vcs") or told["gpu_types"]


@pytest.mark.parametrize("name", ["helios-venus", "philly", "pai"])
def test_a_twin_fits_its_ready_made_cluster_and_loads_it_evenly(name):
    cluster, trace = clusters.load(name), twins.twin(name, ENOUGH)
    by_type = name == "pai"
    codes, places = (trace.gpu_type, trace.gpu_types) if by_type else (trace.vc, trace.vcs)
    has = dict.fromkeys(places, 0)
    for group in cluster.groups:
        has[group.gpu_type if by_type else group.vc] += group.count * group.gpus
    assert has == rooms(name)
    work = trace.gpus.astype(float) * trace.duration
    for code, place in enumerate(places):
        assert trace.gpus[codes == code].max() <= has[place] * GPU
        assert work[codes == code].sum() / work.sum() == pytest.approx(has[place] / sum(has.values()), rel=0.25)


@pytest.mark.parametrize("name", ["helios-earth", "helios-saturn", "helios-uranus"])
def test_the_other_helios_clusters_are_plain(name):
    trace = twins.twin(name, 1000)
    assert (trace.vcs, trace.gpu_types) == ((), ())


def test_for_a_plain_cluster_jobs_fit_and_have_no_virtual_cluster():
    trace = twins.twin("helios-venus", 5000, gpus=16)
    assert trace.vcs == ()
    assert trace.gpus.max() == 16 * GPU


# ------------------------------------------------------------------------------------------- load, seed, settings


def offered(trace: Trace, gpus: int) -> float:
    return float((trace.gpus / GPU * trace.duration).sum() / (int(trace.submit[-1] - trace.submit[0]) * gpus))


@pytest.mark.parametrize(
    ("name", "gpus", "of"), [("helios-venus", None, 1022), ("philly", 64, 64), ("pai", None, 6742)]
)
def test_the_load_is_as_asked_and_jobs_stay_the_same(name, gpus, of):
    one, other = (twins.twin(name, 5000, load=load, gpus=gpus) for load in (0.5, 1.5))
    assert (offered(one, of), offered(other, of)) == (pytest.approx(0.5, rel=1e-4), pytest.approx(1.5, rel=1e-4))
    assert one.duration.tolist() == other.duration.tolist()


def test_without_a_load_it_comes_at_the_published_rate_from_the_first_day():
    trace = twins.twin("helios-venus", 6960)
    assert trace.submit[0] == 1_585_699_200_000  # 2020-04-01
    assert trace.submit[-1] - trace.submit[0] == 10 * 86_400_000


@pytest.mark.parametrize("jobs", [1, 2, 50])
@pytest.mark.parametrize("name", twins.names())
def test_few_jobs_are_no_trouble(name, jobs):
    trace = twins.twin(name, jobs, seed=jobs)
    assert len(trace) == jobs
    assert (np.diff(trace.submit) >= 0).all()


def test_the_same_seed_gives_the_same_twin_and_another_seed_another():
    one, same, other = (twins.twin("philly", 500, seed) for seed in (1, 1, 2))
    assert one.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"like": "phily"}, "did you mean 'philly'"),
        ({"like": "pai", "jobs": 0}, "jobs must be from 1"),
        ({"like": "pai", "load": float("nan")}, "load must be from 0.01"),
        ({"like": "pai", "seed": -1}, "seed must be from 0"),
        ({"like": "pai", "gpus": 0}, "gpus must be at least 1"),
        ({"like": "pai", "arrivals": "rush"}, "arrivals must be batch or poisson"),
    ],
)
def test_wrong_settings_are_reported(wrong, told):
    with pytest.raises(TraceError, match=told):
        synthetic(**{"jobs": 10, **wrong})


def test_names_are_numbered():
    assert numbered("u", 2, 3) == ["u001", "u002"]


# ------------------------------------------------------------------------------------------- other arrivals


def test_a_batch_is_the_same_jobs_all_at_once():
    trace = twins.twin("philly", 500)
    batch = twins.rearranged(trace, "batch")
    assert set(batch.submit.tolist()) == {int(trace.submit[0])}
    assert batch.duration.tolist() == trace.duration.tolist()


def test_poisson_keeps_jobs_and_span_and_loses_rhythm_and_bursts():
    trace = twins.twin("helios-venus", ENOUGH)
    smooth = twins.rearranged(trace, "poisson", seed=5)
    gaps = np.diff(smooth.submit)
    assert (smooth.submit[0], smooth.submit[-1]) == (trace.submit[0], trace.submit[-1])
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.05)
    assert measured.rhythm(smooth)[0] == near(np.ones(24))
    assert smooth.gpus.tolist() == trace.gpus.tolist()


def test_stretching_changes_gaps_alone():
    trace = twins.twin("philly", 500)
    busy = twins.stretched(trace, 1.2, 64)
    assert offered(busy, 64) == pytest.approx(1.2, rel=1e-6)
    assert busy.duration.tolist() == trace.duration.tolist()
    with pytest.raises(TraceError, match="drop --load"):
        twins.stretched(twins.rearranged(trace, "batch"), 1.0, 64)


# ------------------------------------------------------------------------------------------- the page


def test_the_table_of_the_page_is_the_one_that_the_command_prints():
    page = (ROOT / "docs" / "reference" / "twins.md").read_text()
    assert "\n".join(measured.rows()) in page, "python -m benchmarks.twins prints what must stand in the page"


@pytest.mark.parametrize("name", twins.names())
def test_every_twin_can_be_written_and_read_back(name, tmp_path):
    made = twins.twin(name, 2000, seed=3)
    write(made, tmp_path / "twin.parquet")
    assert read(tmp_path / "twin.parquet").digest == made.digest
