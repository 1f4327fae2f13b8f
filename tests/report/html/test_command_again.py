"""The command in a report leads to the same report, whatever options the first one had."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from shunter.cli.main import app

MINE = """
from shunter.report.html.page import Section, paragraph

def early(run):
    return (run.jobs["wait"] == 0).sum()

def greeting(runs):
    return Section("A greeting", [paragraph("hello")])
"""
OPTIONS = {
    "compare": """--policy fifo --policy las --overhead 30,60 --overhead las=60,120 --repeat 2 --workers 1
        --measure mine.early --section mine.greeting""",
    "simulate": "--policy las --overhead 30,60",
}
COMMON = """--cluster machines.toml --columns submit=came,duration=ran --on-bad-row skip --since +1 --until +3 --seed 7
    --load 0.8 --checkpointable 50% --drop-unfit --network profiled --contention --sharing time-slice
    --scaling speeds.toml --losses losses.csv"""
ELSEWHERE = {  # what changes no number, or is written in another way
    *("--out", "--report", "--figures", "--force", "--decisions", "--json", "--workers", "--swf", "--batsim-csv"),
    *("--format", "--models", "--set", "--grid"),
}
SPEEDS = '[[curve]]\nmodel = "resnet50"\ntogether = { 2 = 0.9 }\n'
MACHINES = 'name = "small"\n[[nodes]]\ncount = 2\ngpus = 4\ntype = "v100"\n'


def shunter(*words: str) -> None:
    done = CliRunner().invoke(app, list(words), prog_name="shunter")
    assert done.exit_code == 0, done.output


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"j{at},{at * 2400},{900 + at * 37 % 5000},{1 + at % 4}" for at in range(150)]
    lines[3] = "j3,7200,never,1"
    lines[60] = "wide,144000,60,64"
    (tmp_path / "jobs.csv").write_text("\n".join(["id,came,ran,gpus", *lines]) + "\n")
    (tmp_path / "machines.toml").write_text(MACHINES)
    (tmp_path / "speeds.toml").write_text(SPEEDS)
    (tmp_path / "losses.csv").write_text("iteration,loss\n1,2\n2,1\n")
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_that_changes_numbers_is_tried(name):
    command = typer.main.get_command(app).commands[name]
    options = {each.opts[0] for each in command.params if each.opts[0].startswith("--")}
    tried = {word for word in f"{COMMON} {OPTIONS[name]}".split() if word.startswith("--")}
    assert options - ELSEWHERE - {"--help"} == tried - ELSEWHERE


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("name", OPTIONS)
def test_the_command_of_a_report_makes_the_same_report(name):
    shunter(name, "jobs.csv", *COMMON.split(), *OPTIONS[name].split(), "--report", "first.html")
    page = Path("first.html").read_text()
    command = html.unescape(re.findall(r"<pre[^>]*>(?:<code[^>]*>)?(shunter [^<]*)", page)[-1])
    shunter(*shlex.split(command)[1:], "--report", "again.html")
    assert Path("again.html").read_text() == page
