"""What a result can do in Python beyond its tables: pandas, notebooks, reports and figures."""

from __future__ import annotations

import inspect
import xml.etree.ElementTree as ET

import pytest
import typer

import shunter
from shunter.cli.main import app
from shunter.errors import InputError

TRACE, CLUSTER = "synthetic:jobs=120,gpus=16,load=1.2", "2x8"


@pytest.fixture(scope="module")
def compared():
    return shunter.compare(TRACE, CLUSTER, ["fifo", "las"], workers=1)


def test_python_takes_every_option_of_the_command():
    renamed = {"policy": "policies", "measure": "measures", "section": "sections"}
    renamed |= dict.fromkeys(("json", "columns", "settings", "batsim_csv", "swf"))  # of the command line alone
    for name, call in (("compare", shunter.compare), ("simulate", shunter.simulate)):
        command = typer.main.get_command(app).commands[name]
        options = {renamed.get(one.name, one.name) for one in command.params} - {None}
        kept = {"compare": set(), "simulate": {"out", "report", "force", "policies", "policy"}}[name]  # Result.save
        assert options - kept <= set(inspect.signature(call).parameters), name


def test_a_comparison_is_a_frame_a_table_a_figure_and_a_page(compared, tmp_path):
    pytest.importorskip("pandas")
    frame = compared.to_pandas()
    assert list(frame.index) == ["fifo", "las"]
    assert frame.loc["las", "jct_s.mean"] == compared.policies[1]["jct_s"]["mean"]
    assert compared.verdict.split()[0] in compared._repr_html_()
    drawn = ET.fromstring(compared.plot()._repr_svg_())
    assert sum(one.tag.endswith("circle") for one in drawn.iter()) == 2
    compared.plot("wait_s", "p95").save(tmp_path / "waits.svg")
    assert compared.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")
    with pytest.raises(InputError, match="exists already"):
        compared.report(tmp_path / "page.html")


def test_a_run_is_a_frame_a_table_a_figure_and_a_page(tmp_path):
    pytest.importorskip("pandas")
    result = shunter.simulate(TRACE, CLUSTER, "fifo", decisions=True)
    assert list(result.to_pandas()["job_id"]) == result.jobs["job_id"].to_list()
    assert "<td>fifo</td>" in result._repr_html_()
    ET.fromstring(result.plot("wait").svg)
    assert "Why jobs waited" in result.report(tmp_path / "run.html").read_text()


def test_a_window_and_jobs_that_never_fit_are_options_in_python_too():
    found = shunter.compare(
        "synthetic:jobs=200,gpus=64,load=0.9", "1x4", ["fifo", "sjf"], workers=1, since="+0.1", drop_unfit=True
    )
    assert 0 < found.policies[0]["jobs"] < 200
    assert any("never fit" in remark for remark in found.policies[0]["remarks"])
