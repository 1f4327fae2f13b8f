"""What a result can do in Python beyond its tables: pandas, notebooks, reports and figures."""

from __future__ import annotations

import inspect
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import typer

import shunter
from shunter.cli.main import app
from shunter.errors import InputError
from shunter.report.drawing import distribution, mean_and_tail

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
        kept = {"compare": {"figures"}, "simulate": {"out", "report", "figures", "force", "policies", "policy"}}[name]
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
    with pytest.raises(InputError, match=r"exists already; .* \(in Python: force=True\)"):
        compared.report(tmp_path / "page.html")


def test_a_frame_has_no_empty_columns_and_no_times_of_no_jobs(compared):
    pytest.importorskip("pandas")
    frame = compared.to_pandas()
    assert {"difference", "differences"}.isdisjoint(frame.columns)
    assert not frame["difference.mean_s"].isna()["las"]
    empty = [name for name, group in compared.policies[0]["by_size"].items() if not group["jobs"]]
    assert empty
    assert frame.loc["fifo", f"by_size.{empty[0]}.jobs"] == 0
    assert (
        frame[[f"by_size.{empty[0]}.{name}" for name in ("jct_s.mean", "wait_s.p99", "bsld.max")]]
        .isna()
        .to_numpy()
        .all()
    )


def test_printing_shows_what_it_is_and_not_its_arrays(compared, tmp_path):
    names = f"trace='{compared.trace}', cluster='2x8')"
    assert repr(compared) == f"Comparison(policies=['fifo', 'las'], {names}"
    result = shunter.simulate(TRACE, CLUSTER, "fifo")
    assert repr(result) == f"Result(policy='fifo', {names}"
    run = shunter.load_run(result.save(tmp_path / "run"))
    assert repr(run) == f"Run(policy='fifo', trace='{TRACE}', cluster='2x8')"
    with pytest.raises(InputError, match=r"exists already; .* \(in Python: force=True\)"):
        result.save(tmp_path / "run")
    assert repr(result.plot()) == "Figure(640 x 400; save('figure.svg') writes it)"


def drawn(mean, p99, **more):
    """The texts of a figure of one policy."""
    row = {"policy": "fifo", "jct_s": {"mean": mean, "p99": p99}, "bsld": {"mean": mean, "p99": p99}}
    root = ET.fromstring(mean_and_tail([row], **more).svg)
    return [one.text for one in root.iter() if one.tag.endswith("text")]


def test_ticks_of_a_figure_are_round():
    assert drawn(4.2 * 3600, 2.19 * 86_400)[:11] == [
        *("0", "1 h", "2 h", "3 h", "4 h", "5 h"),
        *("0", "20 h", "40 h", "60 h"),
        "mean JCT",
    ]
    assert drawn(0.3, 240, measure="bsld")[:4] == ["0", "0.1", "0.2", "0.3"]
    assert drawn(0, 0)[:2] == ["0", "0.2 s"]


def test_names_of_points_do_not_overlap():
    """The points are near each other, or at the edges; a letter is at least 6 px wide."""
    close = [(5000 + 10 * at, 40_000 - 50 * at) for at in range(12)]
    places = [*close, (9000, 90_000), (8990, 89_900), (10, 100)]
    names = [f"saf:backfill=easy,placement={at:02}" if at % 2 else f"f{at:02}" for at in range(len(places))]
    rows = [{"policy": name, "jct_s": {"mean": x, "p99": y}} for name, (x, y) in zip(names, places, strict=True)]
    texts = [one for one in ET.fromstring(mean_and_tail(rows).svg).iter() if one.text in names]
    boxes = [(float(one.get("x")), float(one.get("y")), 6 * len(one.text)) for one in texts]
    assert len(boxes) == len(names)
    for at, (x, y, width) in enumerate(boxes):
        assert 0 <= x <= 640 - width
        for other, base, more in boxes[:at]:
            assert x >= other + more or other >= x + width or abs(y - base) >= 11


def test_a_distribution_has_round_ticks_to_its_end():
    root = ET.fromstring(distribution(np.array([3.0, 5000.0, np.nan]), "jct of jobs").svg)
    texts = [one.text for one in root.iter() if one.tag.endswith("text")]
    assert texts[:6] == ["1 s", "10 s", "1 m", "10 m", "1 h", "10 h"]
    assert "0" not in texts
    ET.fromstring(distribution(np.full(2, np.nan), "wait of jobs").svg)


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
