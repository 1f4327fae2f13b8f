"""``--scaling``: a user's own curves, on the command line and in Python."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import shunter
from shunter import experiment
from shunter.cli.main import app
from shunter.errors import ScalingError

JOBS = "job_id,submit,duration,gpus,model,min_gpus,max_gpus\na,0,3600,1,mine,1,2\nb,0,3600,1,unknown,1,2\n"
CURVES = '[[curve]]\nmodel = "mine"\ntogether = {{ 2 = {efficiency} }}\n'


@pytest.fixture
def files(tmp_path):
    jobs, curves = tmp_path / "jobs.csv", tmp_path / "curves.toml"
    jobs.write_text(JOBS)
    curves.write_text(CURVES.format(efficiency=0.6))
    return jobs, curves


def ends(result):
    return dict(result.jobs.select("job_id", "end").iter_rows())


def test_measured_curves_decide_how_fast_a_wide_job_is(files):
    jobs, curves = files
    wide = ends(shunter.simulate(jobs, "1x4", "optimus", overhead=0, scaling=curves))
    assert wide["a"] == pytest.approx(3600 / 1.2)
    assert wide["b"] == pytest.approx(3600 / 2)  # in proportion: nothing is known of its model
    with_others = shunter.compare(jobs, "1x4", ["optimus", "edf"], overhead=0, scaling=curves, workers=1)
    assert with_others.policies[0]["jct_s"]["max"] == pytest.approx(3000)


def test_the_file_is_recorded_with_its_digest_and_another_content_is_refused(files, tmp_path):
    jobs, curves = files
    command = ["simulate", str(jobs), "-c", "1x4", "-p", "optimus", "--scaling", str(curves), "--out"]
    done = CliRunner().invoke(app, [*command, str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "curves.toml for 1 job" in done.stderr
    record = experiment.read(tmp_path / "run" / "experiment.toml")
    assert record.scaling == str(curves)
    assert str(curves) in record.data
    curves.write_text(CURVES.format(efficiency=0.7))
    again = CliRunner().invoke(app, ["simulate", str(tmp_path / "run" / "experiment.toml")])
    assert again.exit_code == 2
    assert "is not the file of the experiment" in again.stderr


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (CURVES.format(efficiency=1.5), 3, "together.2 must be less than or equal to 1"),
        ('\n[[curve]]\nmodel = "x"\n', 2, "together is missing"),
        (
            '[[curve]]\nmodel = "x"\ntogether = { 2 = 1 }\n[[curve]]\nmodel = 3\ntogether = { 2 = 1.0 }\n',
            5,
            "model must",
        ),
        ("[[curve]\n", 1, "not valid TOML"),
    ],
)
def test_a_mistake_is_reported_with_file_line_and_field(files, text, line, said):
    jobs, curves = files
    curves.write_text(text)
    with pytest.raises(ScalingError, match=said) as wrong:
        shunter.simulate(jobs, "1x4", "optimus", scaling=curves)
    assert f"{curves} line {line}:" in str(wrong.value)


def test_a_file_that_is_not_there_is_refused(files, tmp_path):
    with pytest.raises(ScalingError, match=r"nowhere\.toml"):
        shunter.simulate(files[0], "1x4", "optimus", scaling=tmp_path / "nowhere.toml")
