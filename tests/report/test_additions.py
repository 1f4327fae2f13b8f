"""Measures and sections of third parties: by function and by dotted path, and what happens if one is wrong."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import shunter
from shunter.cli.main import app
from shunter.errors import RunError
from shunter.report import additions
from shunter.report.html.page import Section, paragraph

JOBS, CLUSTER, POLICIES = "synthetic:jobs=60,gpus=8,load=1.2", "1x8", ["fifo", "sjf:estimate=oracle"]
SOURCE = """
    from shunter.report.html.page import Section, paragraph

    def started(run):
        return (run.jobs["wait"] == 0).sum()

    def greeting(runs):
        return Section("A greeting", [paragraph(f"hello, {len(runs)} policies & all")])

    def broken(run):
        return run.jobs["weight"].sum()

    number = 7
"""


@pytest.fixture
def mylab(tmp_path: Path, monkeypatch) -> Path:
    (tmp_path / "additions_of_mine.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def shunter_compare(*more: str) -> str:
    policies = [word for policy in POLICIES for word in ("-p", policy)]
    done = CliRunner().invoke(app, ["compare", JOBS, "-c", CLUSTER, *policies, "--workers", "1", *more])
    return f"{done.exit_code} {done.output}"


def test_a_measure_is_in_the_table_the_json_and_the_report(mylab: Path) -> None:
    path = "additions_of_mine.started"
    said = shunter_compare("--measure", path, "--report", "page.html", "--section", "additions_of_mine.greeting")
    assert said.startswith("0 "), said
    assert "started" in said
    page = Path("page.html").read_text()
    assert "Measures of your own" in page
    assert "A greeting" in page
    assert "hello, 2 policies &amp; all" in page


def test_a_measure_is_the_mean_over_repeats() -> None:
    def waits(run: shunter.Run) -> float:
        return run.jobs["wait"].sum()

    found = shunter.compare(JOBS, CLUSTER, POLICIES, repeat=2, workers=1, measures=[waits])
    for row in found.policies:
        each = [one["measures"]["waits"] for one in row["repeats"]]
        assert row["measures"]["waits"] == pytest.approx(sum(each) / 2)
        assert each[0] != each[1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("additions_of_mine.broken", "additions_of_mine.py:11"),
        ("additions_of_mine.missing", "there is no measure 'additions_of_mine.missing'"),
        ("additions_of_mine.number", "must be a function"),
        ("nothing_here.at_all", "can't import 'nothing_here'"),
        ("nobody", "give the dotted path"),
    ],
)
def test_a_measure_that_does_not_work_is_an_error_with_its_place(mylab: Path, name: str, words: str) -> None:
    said = " ".join(shunter_compare("--measure", name).split())
    assert said.startswith("2 ")
    assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        "much",
        None,
        True,
        np.ones(3),
        pytest.param(10**400, id="large"),
        pytest.param(10**5000, id="huge"),
        1j,
        np.complex64(1),
    ],
)
def test_a_measure_is_a_finite_number(value: object) -> None:
    with pytest.raises(RunError, match="must return a finite number"):
        shunter.compare(JOBS, CLUSTER, POLICIES, workers=1, measures=[lambda _: value])


def test_measures_of_the_same_name_are_all_there(mylab: Path) -> None:
    (mylab / "others_of_mine.py").write_text("def started(run):\n    return 7\n")
    given = ["additions_of_mine.started", "others_of_mine.started", "others_of_mine.started"]
    assert list(additions.measures(given)) == given[:2]
    assert list(additions.measures(given[:1])) == ["started"]
    same = [lambda _: 1, lambda _: 2]
    found = additions.measures(same)
    assert list(found.values()) == same
    assert [name.rpartition(".")[2] for name in found] == ["<lambda>", "<lambda> (2)"]


def test_a_section_is_a_section(tmp_path: Path) -> None:
    found = shunter.compare(JOBS, CLUSTER, POLICIES, workers=1)
    with pytest.raises(RunError, match="must return a"):
        found.report(tmp_path / "page.html", sections=[lambda _: "<b>no</b>"])
    assert not list(tmp_path.iterdir())
    found.report(tmp_path / "page.html", sections=[lambda _: None, lambda _: Section("Mine", [paragraph("words")])])
    assert "Mine" in (tmp_path / "page.html").read_text()


def test_a_section_needs_a_report(mylab: Path) -> None:
    assert "give that too" in shunter_compare("--section", "additions_of_mine.greeting")


def test_text_of_others_steers_no_terminal_that_shows_the_page() -> None:
    assert paragraph("user \x1b[31mred\u202e <b>") == paragraph("user ?[31mred? <b>")
