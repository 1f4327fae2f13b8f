"""What a report says, and of what."""

from __future__ import annotations

import html
import json
import re
import shlex
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import shunter
from shunter.cli.main import app
from shunter.report.html import course, findings
from shunter.report.html.report import report
from shunter.texts import counted


def row(policy, jct, oracle=False, **more):
    """A summary with every time at ``jct`` seconds."""
    times = dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "max"), float(jct))
    summary = {
        "policy": policy, "oracle": oracle, "estimate": "none", "utilization": 0.5,
        "jct_s": times, "wait_s": times, "bsld": times, "fragmentation": 0.1,
        "fairness": {"jain": 0.5}, "preemptions": 0, "lost_gpu_hours": 0.0, "difference": None,
    }  # fmt: skip
    return summary | more


def told(*rows):
    return " ".join(findings.sentences(rows))


def plain(text):
    return html.unescape(re.sub(r"<[^>]+>", " ", text)).replace("\u00a0", " ")


# ------------------------------------------------------------------------------------------- the winner


def test_the_winner_is_named_with_its_lead_and_its_price():
    slow = dict.fromkeys(("mean", "p50", "p90", "p95"), 300.0) | {"p99": 900.0, "max": 1280.0}
    text = told(row("fifo", 400), row("las", 236, wait_s=slow, preemptions=7))
    assert "las has the shortest mean JCT, 3.93 m, 41 % below fifo (6.67 m)." in text
    assert "The price: its p99 of wait is 2.2x fifo's (15.0 m), its longest wait is 3.2x fifo's (21.3 m)" in text
    assert "and it stops running jobs 7 times." in text
    assert "fifo has the shortest p99 of wait, 6.67 m." in text


def test_it_is_nowhere_worse_only_if_no_measure_says_so():
    assert "By no measure here is it worse than fifo." in told(row("fifo", 400), row("sjf", 200))
    unfair = told(row("fifo", 400), row("sjf", 200, fairness={"jain": 0.4}))
    assert "its fairness (Jain) is 0.8x fifo's" in unfair
    slightly = told(row("fifo", 400), row("sjf", 200, fragmentation=0.101))
    assert "The price" not in slightly
    assert "By no measure" not in slightly


def test_communication_and_tiers_have_a_table_where_a_network_costs_time():
    tiers = {"machine": {"jobs": 0.75, "gpu_time": 0.25}, "rack": {"jobs": 0.25, "gpu_time": 0.75}}
    rows = [row("fifo", 400, tiers=tiers, communication_s=None), row("las", 236, tiers=tiers, communication_s=None)]
    assert "communication" not in plain("".join(findings.tables(rows)))
    for each, mean in zip(rows, (60.0, 120.0), strict=True):
        each["communication_s"] = dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "max"), mean)
    (found,) = [each for each in findings.tables(rows) if "communication mean" in each]
    assert re.findall(r"[A-Z a-z]+: rack", plain(found).replace("  ", "\n")) == ["jobs: rack", "GPU time: rack"]
    assert all(text in plain(found) for text in ("1.00 m", "2.00 m", "75.0 %", "25.0 %"))


def test_an_oracle_is_a_bound_and_no_winner():
    text = told(row("fifo", 400), row("sjf", 200, oracle=True))
    assert text.startswith("fifo has the shortest mean JCT") is False or "sjf* has the shortest" not in text
    assert "With true run times known, sjf* has a mean JCT of 3.33 m, 50 % below fifo, the best policy" in text
    marked = re.findall(
        r'<tr><th scope="row">([^<]+)</th>(.*?)</tr>',
        "".join(findings.tables([row("fifo", 400), row("sjf", 200, oracle=True)])),
    )
    assert {name for name, cells in marked if "best" in cells} == {"fifo"}


def test_only_oracles_may_win_among_themselves():
    assert "a* has the shortest mean JCT" in told(row("a", 100, oracle=True), row("b", 200, oracle=True))


@pytest.mark.parametrize(("stops", "lost", "told"), [(7, 0.0, 1), (7, 0.5, 0), (0, 0.0, 0)])
def test_preemption_for_free_is_called_so_once(stops, lost, told):
    more = {"preemptions": stops, "lost_gpu_hours": lost}
    text = plain(" ".join(findings.several([row("fifo", 400), row("las", 200, **more), row("srtf", 300, **more)])))
    assert text.count("Stopping and starting jobs costs nothing on this cluster; --overhead") == told


WAITS = {"mean": 3600.0, "p50": 0.0, "p90": 7200.0, "p95": 14400.0, "p99": 28800.0, "max": 86400.0}


def test_recorded_waits_stand_beside_the_policies_and_win_nothing():
    rows = [row("fifo", 7200, recorded_wait_s=WAITS), row("las", 7900, recorded_wait_s=WAITS)]
    (line,) = re.findall(r"<tr>[^/]*as recorded</th>(.*?)</tr>", findings.tables(rows)[0])
    cells = re.findall(r"<td[^>]*>(.*?)</td>", line)
    assert cells == ["–"] * 5 + ["1.00\u00a0h", "0\u00a0s", "4.00\u00a0h", "8.00\u00a0h", "1.00\u00a0d"]
    assert "best" not in line
    assert findings.recorded(rows[0]) == [
        "As recorded in the trace, jobs waited 1.00 h on average (p95: 4.00 h); under fifo they wait 2.00 h"
        " (p95: 2.00 h), 100 % above that."
    ]
    assert "as recorded" not in findings.tables([row("fifo", 7200, recorded_wait_s=None)])[0]


def test_what_was_left_out_is_said_at_the_top_and_in_full_below(kept):
    told = ["processors are taken as GPUs, one for one", "left out 1,021 jobs that asked for no GPU",
            "log.csv: left out 2 bad rows (2 end before they begin), the first:\n  line 7: end is 3"]  # fmt: skip
    text = plain(report(kept, [{**run.summary, "difference": None, "remarks": told} for run in kept]))
    line = "Left out of the trace: 1,021 jobs that asked for no GPU; 2 bad rows (2 end before they begin)."
    assert text.index(line) < text.index("The best by each measure")
    below = text[text.index("digest of the trace") :]
    for remark in (
        "log.csv: left out 2 bad rows",
        "Processors are taken as GPUs, one for one.",
        "Left out 1,021 jobs",
        "line 7: end is 3",
    ):
        assert remark in below
    assert "Left out of the trace" not in plain(report(kept))


def test_what_may_be_chance_is_called_so():
    unsure = {"jct_s.mean": {"value": -10, "low": -30, "high": 5}}
    assert "which may be chance" in told(row("fifo", 400), row("las", 390, differences=unsure))
    sure = {"jct_s.mean": {"value": -10, "low": -30, "high": -5}}
    assert "chance" not in told(row("fifo", 400), row("las", 390, differences=sure))


def test_practically_a_tie_is_no_headline():
    assert told(row("fifo", 400), row("las", 397)) == "No policy is clearly better than the others by any measure here."
    assert "las has the shortest mean JCT" in told(row("fifo", 400), row("las", 395))


@pytest.mark.parametrize(("count", "text"), [(1, "1 GPU"), ("1", "1 GPU"), ("2-4", "2-4 GPUs"), (1200, "1,200 GPUs")])
def test_one_is_not_many(count, text):
    assert counted(count, "GPU") == text


def test_equals_are_not_praised():
    text = told(row("fifo", 400), row("lifo", 400))
    assert text == "No policy is clearly better than the others by any measure here."


# ------------------------------------------------------------------------------------------- courses


def test_bins_hold_the_mean_of_a_step_function():
    time, value = np.array([0.0, 10.0, 30.0]), np.array([2.0, 4.0, 0.0])
    assert course.binned(time, value, np.array([0.0, 20.0, 40.0, 60.0])).tolist()[:2] == [3.0, 4.0]
    assert np.isnan(course.binned(time, value, np.array([0.0, 20.0, 40.0, 60.0]))[2])
    assert np.isnan(course.binned(np.array([]), np.array([]), np.array([0.0, 1.0]))).all()


def test_bins_know_the_highest_value_in_them():
    time, value = np.array([0.0, 10.0, 12.0, 30.0]), np.array([2.0, 9.0, 4.0, 0.0])
    edges = np.array([-20.0, 0.0, 5.0, 11.0, 20.0, 40.0, 60.0])
    assert course.highest(time, value, edges).tolist()[1:-1] == [2.0, 9.0, 9.0, 4.0]
    assert np.isnan(course.highest(time, value, edges)[[0, -1]]).all()
    assert np.isnan(course.highest(np.array([]), np.array([]), np.array([0.0, 1.0]))).all()


# ------------------------------------------------------------------------------------------- the whole


def test_a_report_of_one_run_describes_it(kept):
    text = plain(report(kept[:1]))
    summary = kept[0].summary
    assert f"{summary['finished']} of {summary['jobs']} jobs finished" in text
    assert "shunter simulate synthetic:jobs=300,seed=1,gpus=16,load=1.3 --cluster 4x4 --policy fifo" in text
    assert "fifo on synthetic:jobs=300,seed=1,gpus=16,load=1.3, 4x4" in text
    assert "The best by each measure" not in text


def test_a_report_of_several_has_all_of_them(kept):
    text = plain(report(kept))
    for run in kept:
        assert run.summary["digest"] in text
    assert kept[0].experiment.trace.digest in text
    assert f"shunter {kept[0].versions['shunter']}" in text
    assert "--policy fifo --policy las --policy sjf:estimate=oracle" in text
    assert findings.ORACLE in text


def test_the_command_of_a_report_leads_to_the_same_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.txt").write_text("job_id,submit,duration,gpus\na,0,60,1\nb,never,60,1\nc,0,60,2\n")
    (tmp_path / "own.toml").write_text('name = "called so"\n[[nodes]]\ncount = 1\ngpus = 2\n')
    for cluster in ("auto", str(tmp_path / "own.toml")):
        given = ["log.txt", "-c", cluster, "-p", "fifo", "-p", "las", "--format", "csv", "--on-bad-row", "skip"]
        first = CliRunner().invoke(app, ["compare", *given, "--json", "--report", f"{len(cluster)}.html"])
        assert first.exit_code == 0, first.stderr
        told = re.search("<code>shunter (.*?)</code>", (tmp_path / f"{len(cluster)}.html").read_text())
        again = CliRunner().invoke(app, [*shlex.split(told[1]), "--json"])
        assert again.exit_code == 0, again.stderr
        digests = [[policy["digest"] for policy in json.loads(done.stdout)["policies"]] for done in (first, again)]
        assert digests[0] == digests[1]


@pytest.mark.parametrize(("user", "told"), [("35", "Jobs of user 35 wait"), ("user35", "Jobs of user35 wait")])
def test_a_user_is_called_one(kept, user, told):
    run = replace(kept[0], jobs=kept[0].jobs.with_columns(user=pl.lit(user)))
    assert told in plain(report([run]))


def test_fragmentation_is_the_same_number_everywhere(kept):
    text = plain(report(kept[:1]))
    number = f"{100 * kept[0].summary['fragmentation']:.1f} %"
    assert f"While jobs wait, {number} of the free GPUs are on partly used nodes" in text
    assert f"While jobs waited, {number} of the free GPUs were on partly used nodes" in text


def test_without_reasons_there_is_no_section_about_them(kept):
    assert "Where waiting time went" in report(kept)
    assert "Where waiting time went" not in report([replace(run, decisions=None) for run in kept])


def test_repeats_are_reported(kept):
    rows = [{**run.summary, "difference": None, "repeats": [run.summary] * 3} for run in kept]
    text = plain(report(kept, rows))
    assert "means of 3 repeats" in text
    assert "--repeat 3" in text


@pytest.mark.parametrize("jobs", [0, 1])
def test_hardly_any_job_is_enough(jobs):
    run = shunter.simulate("synthetic:jobs=1,gpus=4", "1x4", "fifo", decisions=True).kept
    if not jobs:
        run = replace(run, jobs=run.jobs.with_columns(state=run.jobs["state"].str.replace("done", "failed")))
    assert "<figure" in report([run])
    assert "<figure" in report([run, run])
