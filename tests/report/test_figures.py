"""Figures for papers: valid PDF and SVG, with the numbers of the frame in the CSV, the same bytes every time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import polars as pl
import pytest

import shunter
from shunter import extras
from shunter.errors import RunError
from shunter.report import figures
from shunter.report.intervals import JobTimes

TRACE = "synthetic:jobs=200,seed=1,gpus=16,load=1.3"
HOSTILE = "_a$\\frac{1}{0}$<script>&\n\x1b[31m"


@pytest.fixture(scope="module", autouse=True)
def _needed():
    """Not while tests are collected: each process would import it."""
    pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def compared():
    return shunter.compare(TRACE, "2x8", ["fifo", "las", "saf:backfill=easy"], workers=1)


@pytest.fixture(scope="module")
def swept():
    return shunter.sweep(
        traces=["synthetic:jobs=100,gpus=16"], clusters=["2x8"], loads=[0.8, 1.3], seeds=6, workers=1,
        policies=["fifo", {"policy": "saf", "grid": {"backfill": ["none", "easy"], "bound": [0, 0.5, 0.9]}}],
    )  # fmt: skip


def check_files(files):
    """Every figure is whole, as wide as a column, with TrueType fonts and without dates."""
    assert len(files) % 3 == 0
    for file in files:
        content = file.read_bytes()
        if file.suffix == ".pdf":
            assert content.startswith(b"%PDF-")
            assert content.rstrip().endswith(b"%%EOF")
            assert b"/CreationDate" not in content
            fonts = content + b"".join(_streams(content))
            assert b"/FontFile2" in fonts
            assert b"/Subtype /Type3" not in fonts
            assert float(re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", content)[1]) == pytest.approx(72 * figures.WIDTH)
        elif file.suffix == ".svg":
            root = ET.fromstring(content)
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            assert b"<dc:date>" not in content
            assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) > 5
        else:
            assert pl.read_csv(file).height > 0


def _streams(content):
    for found in re.finditer(rb"stream\r?\n(.*?)\r?\nendstream", content, re.S):
        try:
            yield zlib.decompress(found[1])
        except zlib.error:
            continue


def test_one_run(tmp_path):
    result = shunter.simulate(TRACE, "2x8", "las")
    files = result.figures(tmp_path / "las")
    assert {file.stem for file in files} == {"times", "queue", "gpus"}
    check_files(files)
    times = pl.read_csv(tmp_path / "las" / "times.csv")
    waits = result.jobs["wait"].to_numpy()
    own = times.filter(pl.col("measure") == "wait")
    for seconds, share in own.select("time_s", "share").iter_rows():
        assert np.mean(np.sort(waits)[: round(share * len(waits))] <= seconds) == 1.0
    assert own["time_s"].max() == pytest.approx(waits.max())
    gpus = pl.read_csv(tmp_path / "las" / "gpus.csv")
    assert gpus["busy_gpus"].mean() == pytest.approx(16 * result.summary["utilization"], rel=0.02)


def test_a_comparison(tmp_path, compared):
    files = compared.figures(tmp_path / "out")
    assert {file.stem for file in files} == {"mean-and-tail", "jct", "wait", "wait-by-size"}
    check_files(files)
    ends = pl.read_csv(tmp_path / "out" / "mean-and-tail.csv")
    frame = {row["policy"]: row for row in compared.policies}
    for row in ends.iter_rows(named=True):
        assert row["mean_jct_s"] == frame[row["policy"]]["jct_s"]["mean"]
        assert row["p99_jct_s_high"] == frame[row["policy"]]["intervals"]["jct_s.p99"]["high"]
    sizes = pl.read_csv(tmp_path / "out" / "wait-by-size.csv")
    for policy, size, wait in sizes.iter_rows():
        assert wait == frame[policy]["by_size"][size]["wait_s"]["mean"]


def test_a_sweep(tmp_path, swept):
    files = swept.figures(tmp_path / "out", measure="wait_s.mean")
    names = {file.stem for file in files}
    assert names == {
        "ranking", "load-1-synthetic_jobs_100_gpus_16_2x8", "heat-saf-backfill-bound", "front-tail", "front-fairness",
    }  # fmt: skip
    check_files(files)
    ranking = pl.read_csv(tmp_path / "out" / "ranking.csv")
    assert ranking["relative"].to_list() == [row.relative for row in swept.ranking("wait_s.mean").rows]
    lines = pl.read_csv(tmp_path / "out" / "load-1-synthetic_jobs_100_gpus_16_2x8.csv")
    means = swept.runs.group_by("policy", "load").agg(pl.col("wait_s.mean").mean())
    joined = lines.join(means, on=["policy", "load"])
    assert joined.height == lines.height
    np.testing.assert_allclose(joined["value"], joined["wait_s.mean"])
    heat = pl.read_csv(tmp_path / "out" / "heat-saf-backfill-bound.csv", schema_overrides={"bound": pl.String})
    saf = swept.runs.filter(pl.col("policy").str.starts_with("saf"))
    by_load = saf.group_by("policy", "load").agg(pl.col("wait_s.mean").mean())
    means = by_load.group_by("policy").agg(pl.col("wait_s.mean").log().mean().exp())["wait_s.mean"]
    assert sorted(heat["value"].drop_nulls()) == pytest.approx(sorted(means))


def test_the_same_input_gives_the_same_bytes(tmp_path, compared):
    first, second = (compared.figures(tmp_path / name) for name in ("one", "two"))
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]


def test_settings_of_the_user_do_not_change_figures(tmp_path, compared):
    import matplotlib

    plain = compared.figures(tmp_path / "one")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        other = compared.figures(tmp_path / "two")
        assert matplotlib.rcParams["font.size"] == 30  # and theirs stay
    assert [file.read_bytes() for file in plain] == [file.read_bytes() for file in other]


def test_hostile_names_are_drawn_as_they_are(tmp_path, compared):
    row = {**compared.policies[0], "policy": HOSTILE}
    times = [JobTimes(*(np.array([1.0, np.nan, 5.0]) for _ in range(3)))]
    files = figures.write(tmp_path / "out", figures.of_comparison([row, {**row, "policy": "b"}], [times, times]))
    check_files(files)


def test_jobs_that_never_finished_are_missing_from_the_share():
    times = figures._curves({"a": np.array([1.0, 2.0, np.nan, np.nan])}, "policy")
    assert times["share"].to_list() == [0.25, 0.5]


def test_figures_are_never_put_over_other_files(tmp_path, compared):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="is not empty"):
        compared.figures(tmp_path / "mine")
    compared.figures(tmp_path / "mine", force=True)
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"
    with pytest.raises(RunError, match="is a file"):
        compared.figures(tmp_path / "mine" / "notes.txt")
    with pytest.raises(RunError, match="there is no folder"):
        compared.figures(tmp_path / "no" / "where")


def test_without_matplotlib_the_remedy_is_named(tmp_path, compared, monkeypatch):
    def missing(module, what):
        raise extras.MissingError(f"{what} needs {module}; {extras.remedy(module)}")

    monkeypatch.setattr(extras, "require", missing)
    with pytest.raises(extras.MissingError, match="--figures needs matplotlib; install it with"):
        compared.figures(tmp_path / "out")
    assert not (tmp_path / "out").exists()
