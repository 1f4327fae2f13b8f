"""One name per idea, ``--json`` on every command, and old names that still work."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.cli.old_names import RENAMED, renamed

SERVICES = {"slurm resume", "slurm lab", "slurm snapshot", "slurm watchdog", "slurm dashboard"}  # they run or write
OLD = {name for names in RENAMED.values() for name in names} - {"--from", "--to"}


def commands(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands(typer.main.get_command(app)))
ALL = {name: {option for one in command.params for option in one.opts} for name, command in COMMANDS.items()}
READING = [
    name for name, command in COMMANDS.items() if any(one.metavar in ("TRACE", "HISTORY") for one in command.params)
]


@pytest.mark.parametrize("name", sorted(set(ALL) - SERVICES))
def test_every_command_prints_json_and_shows_no_old_name(name):
    assert "--json" in ALL[name]
    assert not ALL[name] & OLD


@pytest.mark.parametrize("name", READING)
def test_every_command_that_reads_jobs_takes_what_says_how(name):
    assert {"--format", "--columns", "--on-bad-row"} <= ALL[name]


def test_old_names_are_those_of_options_that_are_there():
    for command, names in RENAMED.items():
        assert set(names.values()) <= ALL[" ".join(command)]


@pytest.mark.parametrize(("given", "read"), [
    ("trace slice a.csv b.csv --from +1 --to=+2", "trace slice a.csv b.csv --since +1 --until=+2"),
    ("advise --output x.html site", "advise --report x.html site"),
    ("trace synth a.csv --from b.csv", "trace synth a.csv --from b.csv"),
])  # fmt: skip
def test_old_names_become_present_ones(given, read):
    assert renamed(given.split()) == read.split()


def test_an_old_name_still_works_and_json_is_all_that_is_printed(tmp_path):
    out = tmp_path / "part.csv"
    found = CliRunner().invoke(
        app, ["trace", "slice", "synthetic:jobs=50", str(out), "--from", "+0.01", "--json"], catch_exceptions=False
    )
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    assert record["file"] == str(out)
    assert 0 < record["jobs"] < record["of"] == 50
