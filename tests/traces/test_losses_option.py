"""``--losses``: loss curves from a file, on the command line and in Python."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import shunter
from shunter import experiment
from shunter.cli.main import app
from shunter.errors import ModelError
from shunter.setup import set_up
from shunter.traces import measurements
from shunter.traces.measurements import read_losses

JOBS = "job_id,submit,duration,gpus,min_gpus,max_gpus,declared,loss_curve\n" + "".join(
    f"{name},0,40000,2,1,3,40000,{name}\n" for name in ("flat", "falls")
)
CURVES = "curve,iteration,loss\nflat,1,9\nflat,2,1\nflat,200,1\nfalls,1,9\nfalls,200,1\n"


@pytest.fixture
def files(tmp_path):
    jobs, losses = tmp_path / "jobs.csv", tmp_path / "losses.csv"
    jobs.write_text(JOBS)
    losses.write_text(CURVES)
    return jobs, losses


def test_losses_come_in_equal_steps_up_to_the_last_iteration(files, tmp_path):
    found = read_losses(files[1])
    assert list(found) == ["flat", "falls"]
    assert found["flat"][:2] == (1.0, 1.0)
    assert found["falls"][49] == pytest.approx(9 - 8 * 99 / 199)
    assert len(found["falls"]) == 100
    (tmp_path / "one.csv").write_text("iteration,loss\n1,3\n2,1\n")
    assert list(read_losses(tmp_path / "one.csv")) == ["one"]


def test_a_file_is_read_once_and_only_curves_of_jobs_are_kept(files, monkeypatch):
    jobs, losses = files
    losses.write_text(CURVES + "other,1,2\n")
    reads = []
    monkeypatch.setattr(measurements, "read_losses", lambda path: reads.append(path) or read_losses(path))
    setup = set_up(jobs, "1x4", losses=losses)
    assert list(setup.loss_curves) == ["flat", "falls"]
    assert "for 2 jobs" in setup.losses_remark
    assert len(reads) == 1
    shunter.simulate(jobs, "1x4", "slaq", losses=losses)
    assert len(reads) == 2


def test_slaq_serves_the_job_whose_loss_still_falls(files):
    jobs, losses = files
    ends = {}
    for name, given in (("with", losses), ("without", "")):
        result = shunter.simulate(jobs, "1x4", "slaq", overhead=0, losses=given)
        ends[name] = dict(result.jobs.select("job_id", "end").iter_rows())
    assert ends["without"]["flat"] == ends["without"]["falls"]
    assert ends["with"]["falls"] < ends["with"]["flat"]


def test_the_file_is_recorded_with_its_digest_and_another_content_is_refused(files, tmp_path):
    jobs, losses = files
    command = [
        "simulate",
        str(jobs),
        "-c",
        "1x4",
        "-p",
        "slaq",
        "--losses",
        str(losses),
        "--out",
        str(tmp_path / "run"),
    ]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "losses as in losses.csv for 2 jobs" in done.stderr
    record = experiment.read(tmp_path / "run" / "experiment.toml")
    assert (record.losses, str(losses) in record.data) == (str(losses), True)
    losses.write_text(CURVES.replace("200,1", "200,0.5"))
    again = CliRunner().invoke(app, ["simulate", str(tmp_path / "run" / "experiment.toml")])
    assert (again.exit_code, "is not the file of the experiment" in again.stderr) == (2, True)


def test_a_file_that_no_job_names_is_said(files, tmp_path):
    jobs, losses = files
    losses.write_text("curve,iteration,loss\nother,1,2\n")
    done = CliRunner().invoke(app, ["simulate", str(jobs), "-c", "1x4", "-p", "slaq", "--losses", str(losses)])
    assert (done.exit_code, "for 0 jobs; a job needs a loss_curve of the file" in done.stderr) == (0, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("curve,iteration,loss\na,1,x\n", "line 2: loss"),
        ("curve,iteration,loss\na,1,\n", "line 2: loss must be a number of 0 or more, got none; fill it in"),
        ("curve,iteration,loss\na,1,nan\n", "line 2: loss"),
        ("curve,iteration,loss\na,1,inf\n", "line 2: loss"),
        ("curve,iteration,loss\na,1,-2\n", "line 2: loss must be a number of 0 or more, got -2; correct it"),
        ("curve,iteration,loss\na,0,2\n", "line 2: iteration must be a number above 0, got 0; count from 1"),
        ("curve,iteration,loss\na,,2\n", "line 2: iteration must be a number above 0, got none; fill it in"),
        ("curve,iteration,loss\n,1,2\n", "line 2: curve must name a curve, got none; fill it in"),
        (
            "curve,iteration,loss\na,2,2\nb,1,2\na,2,1\n",
            "line 4: iteration must rise within a curve, got 2 of 'a' after as many or more; sort the rows",
        ),
        ("curve,iteration,loss\n", "there is a header but no measurement; add a line for each"),
        ("curve,loss\na,1\n", "iteration"),
        ("", ""),
    ],
)
def test_a_wrong_file_is_refused_with_file_line_and_remedy(files, text, said):
    jobs, losses = files
    losses.write_text(text)
    with pytest.raises(ModelError) as caught:
        read_losses(losses)
    assert str(losses) in str(caught.value)
    assert said in str(caught.value)
    done = CliRunner().invoke(app, ["simulate", str(jobs), "-c", "1x4", "-p", "slaq", "--losses", str(losses)])
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_is_refused(files, tmp_path):
    with pytest.raises(ModelError, match=r"nowhere\.csv"):
        read_losses(tmp_path / "nowhere.csv")


def test_an_error_about_an_enormous_name_stays_short_and_keeps_its_remedy(files):
    jobs, losses = files
    name = "a" * 100_000
    losses.write_text(f"curve,iteration,loss\n{name},1,2\n{name},1,2\n")
    done = CliRunner().invoke(app, ["simulate", str(jobs), "-c", "1x4", "-p", "slaq", "--losses", str(losses)])
    assert done.exit_code == 2
    assert len(done.stderr) < 5000
    assert "line 3: iteration must rise" in done.stderr
    assert "after as many or more; sort the rows" in done.stderr
