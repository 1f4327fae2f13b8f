"""The table of evidence: every policy beside the baseline on the same windows."""

from __future__ import annotations

import polars as pl
import pytest
from benchmarks import evidence
from benchmarks.evidence import BASELINE, BEGIN, END, SITES, scores, tables, written

from shunter import registry
from shunter.sweeps.work import ARRIVALS, JOBS


def frame(waits, p99=None, fairness=None, varies=ARRIVALS, **more):
    """Runs of policies: their mean waits by window, every window with two draws that differ a little."""
    rows = [
        {
            "policy": policy, "trace": "Venus", "window": f"week {at}", "seed": seed, "varies": varies,
            "wait_s.mean": wait * (1 + seed / 100), "wait_s.p99": (p99 or {}).get(policy, 10.0) * wait,
            "bsld.mean": 2.0, "utilization": 0.8, "fairness.jain": (fairness or {}).get(policy, 0.5), "finished": 100.0,
            "error": None, **more,
        }
        for policy, by_window in waits.items()
        for at, wait in enumerate(by_window)
        for seed in (0, 1)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"error": pl.String})


BASE = [100.0, 200.0, 50.0, 400.0, 120.0, 90.0]


def test_a_score_is_the_ratio_of_all_waits_on_the_same_windows():
    found = scores(frame({BASELINE: BASE, "half": [wait / 2 for wait in BASE], "same": BASE}))
    half = found["half"]["Venus"]
    assert half.wait == pytest.approx((0.5, 0.5, 0.5))
    assert (half.windows, half.better, half.word) == (6, 6, "better")
    assert found["same"]["Venus"].word == "no difference shown"
    assert evidence.mean_over_sites(found["half"]) == pytest.approx(0.5)


def test_large_windows_count_by_their_jobs():
    runs = frame({BASELINE: BASE, "x": [200.0, 200.0, 50.0, 400.0, 120.0, 90.0]})
    many = pl.when(pl.col("window") == "week 0").then(10_000.0).otherwise(1.0).alias("finished")
    assert scores(runs.with_columns(many))["x"]["Venus"].wait.value == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"p99": {"x": 30.0}}, "shorter waits, but p99 +50%"),
        ({"fairness": {"x": 0.4}}, "shorter waits, but fairness -0.10"),
    ],
)
def test_a_policy_that_pays_elsewhere_is_not_called_better(more, word):
    assert scores(frame({BASELINE: BASE, "x": [wait / 2 for wait in BASE]}, **more))["x"]["Venus"].word == word


def test_a_policy_whose_advantage_turns_with_the_window_is_not_called_better():
    uneven = [wait * (3 if at % 2 else 0.2) for at, wait in enumerate(BASE)]
    score = scores(frame({BASELINE: BASE, "x": uneven}))["x"]["Venus"]
    assert score.wait.low < 1 < score.wait.high
    assert score.word == "no difference shown"


def test_draws_with_jobs_of_their_own_are_windows_of_their_own():
    waits = {BASELINE: BASE[:3], "x": BASE[:3]}
    assert scores(frame(waits))["x"]["Venus"].windows == 3
    assert scores(frame(waits, varies=JOBS))["x"]["Venus"].windows == 6


def test_a_failed_run_leaves_no_score():
    runs = frame({BASELINE: BASE, "x": BASE})
    error = pl.when((pl.col("policy") == "x") & (pl.col("seed") == 1)).then(pl.lit("no")).alias("error")
    found = scores(runs.with_columns(error))
    assert "x" not in found
    partly = {"fifo": {"Venus": found[BASELINE]["Venus"]}}
    assert "| `fifo` | failed | 1.00" in "\n".join(tables(partly, ["AAIC", "Venus"]))


def test_only_what_is_between_the_markers_changes():
    page = f"# Evidence\n{BEGIN}\nold\n{END}\nend\n"
    assert written(page, ["a", "b"]) == f"# Evidence\n{BEGIN}\na\nb\n{END}\nend\n"
    with pytest.raises(SystemExit, match="must have the lines"):
        written("nothing", [])


def test_every_policy_has_a_row_or_a_reason():
    rows = {text.partition(":")[0] for text in evidence.POLICIES}
    assert rows | set(evidence.NOT_APPLICABLE) == set(registry.names())
    assert not rows & set(evidence.NOT_APPLICABLE)
    page = evidence.PAGE.read_text(encoding="utf-8")
    assert "\n".join(evidence.not_applicable()) in page


def test_windows_for_judging_come_after_those_for_choosing():
    for site in SITES.values():
        early, late = site.windows("early"), site.windows("late")
        assert early["first"] + early["days"] * early["count"] <= late["first"]
        assert late["count"] == early["count"] >= 6


def test_a_policy_of_ones_own_gets_a_row(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHUNTER_DATA", str(tmp_path / "nothing"))
    (tmp_path / "of_a_lab.py").write_text(
        "import shunter\nclass Fewest(shunter.Ordering):\n    '''Fewest GPUs first.'''\n    @staticmethod\n"
        "    def key(job, p):\n        return job.gpus\n"
    )
    arguments = ["--only", "smallest", "-p", "of_a_lab.Fewest", "--draws", "1", "--workers", "1"]
    evidence.main(arguments)
    said = capsys.readouterr().out
    rows = [line.split("|") for line in said.splitlines() if line.startswith(("| `smallest`", "| `of_a_lab.Fewest`"))]
    assert len(rows) == 2 + 2 * len(SITES)
    assert rows[0][2:] == rows[1][2:]  # it is the same policy
    evidence.main(arguments)
    assert capsys.readouterr().out == said  # from what was kept
    with pytest.raises(SystemExit, match="--write needs"):
        evidence.main([*arguments, "--write"])
