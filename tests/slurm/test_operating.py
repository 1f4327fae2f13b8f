"""docs/operating.md can be followed: its commands exist with their options, and those for Slurm work on a real one."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from shunter.cli.main import app
from shunter.live.daemons import wait
from shunter.live.metrics import Metrics
from shunter.slurm.client import Client

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operating.md"
PAGES = [PAGE, *sorted((ROOT / "docs" / "reference").glob("slurm-*.md"))]
SETTINGS, UNITS = ROOT / "packaging" / "shunter.conf", ROOT / "packaging" / "systemd"
OTHERS = {"apt-get", "git", "cd", "journalctl", "sed", "sacctmgr"}
AS_SERVICE = ["sudo", "-u", "shunter"]


def steps():
    """The commands that the page asks for, one after the other."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def without_sudo(words):
    return words[len(AS_SERVICE) :] if words[: len(AS_SERVICE)] == AS_SERVICE else words


def parsed(words):
    """Read a command line as ``shunter`` does, and run nothing; a wrong option or command raises."""
    command, context = typer.main.get_command(app), None
    while hasattr(command, "get_command"):  # a group
        context, name = command.make_context(command.name, [], parent=context, resilient_parsing=True), words[0]
        command, words = command.get_command(context, name), words[1:]
        assert command is not None, f"there is no command {name}"
    command.make_context(command.name, list(words), parent=context)


def mentioned():
    """Command lines of ours that any page about Slurm shows, in text or in blocks, unless they leave something out."""
    for page in PAGES:
        text = page.read_text()
        inline = re.findall(r"`(shunter [a-z][^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        blocks = re.findall(r"```(?:sh)?\n(.*?)```", text, re.DOTALL)
        lines = [line.removeprefix("$ ") for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        ours = re.compile(r"(sudo -u shunter )?shunter ")
        for line in [*inline, *(line for line in lines if ours.match(line))]:
            if "..." not in line:
                yield pytest.param(without_sudo(shlex.split(line, comments=True)), id=line[:70])


@pytest.mark.parametrize("words", list(mentioned()))
def test_a_command_that_a_page_shows_exists_with_its_options(words):
    end = next((at for at, word in enumerate(words) if word in (">", "|")), len(words))
    try:
        parsed(words[1:end])
    except Exception as problem:
        if type(problem).__name__ != "MissingParameter":  # a text need not name them all
            raise


def test_a_command_that_does_not_exist_is_found():
    for wrong in (["slurm", "doctor", "--no-such-option"], ["slurm", "run"], ["slurm", "why"]):
        with pytest.raises(Exception, match=r"No such option|Missing") as refused:
            parsed(wrong)
        assert type(refused.value).__name__ in ("NoSuchOption", "MissingParameter")
    with pytest.raises(AssertionError, match="no command nurse"):
        parsed(["slurm", "nurse"])


@pytest.mark.parametrize("words", steps(), ids=" ".join)
def test_a_step_asks_for_what_there_is(words):
    program, *rest = without_sudo(words)
    if program == "systemctl":
        units = [f"{word}.service" for word in rest[1:] if not word.startswith("-")]
        assert units
        assert all((UNITS / unit).is_file() for unit in units)
    elif program == "curl":
        assert "--metrics-port 9123" in SETTINGS.read_text()
        assert rest[0].removeprefix("http://127.0.0.1:9123") in Metrics(Client()).pages
    elif program.startswith("./"):
        assert os.access(ROOT / program, os.X_OK)
        assert all(f"{option})" in (ROOT / program).read_text() for option in rest)
    else:
        assert program in OTHERS | {"shunter"}


def test_live_the_steps_for_slurm_work_one_after_the_other(lab_with_database, tmp_path):
    lab = lab_with_database
    (tmp_path / "state").mkdir(mode=0o750)
    settings = tmp_path / "shunter.conf"
    settings.write_text(SETTINGS.read_text())
    places = {"/var/lib/shunter": str(tmp_path / "state"), "/etc/shunter/shunter.conf": str(settings)}
    ended = lab.submit("--gpus=1", script="true")
    lab.wait_job(ended, "COMPLETED")
    listing = "jobid,state,alloctres"
    history = ("sacct", "-a", "-X", "-n", "-P", "-o", listing, "-S", "now-90days", "-E", "now")
    row = rf"(?m)^{ended}\|COMPLETED\|.*gres/gpu"
    assert wait(lambda: re.search(row, lab.run(*history)) is not None, 180)  # slurmdbd hears of it a little later
    for limit in (50, 40, 30):
        lab.submit("--gpus=22", f"--time={limit}", script="sleep 3000")
    ran = []
    try:
        for words in map(without_sudo, steps()):
            for theirs, ours in places.items():
                words = [word.replace(theirs, ours) for word in words]  # noqa: PLW2901
            if words[:2] == ["shunter", "slurm"] or words[0] in ("sacctmgr", "sed"):
                ran.append(" ".join(words[:3]))
                done = executed(lab, tmp_path, words)
                assert done.returncode == 0, (words, done.stdout, done.stderr)
            elif words[:2] == ["systemctl", "restart"]:
                done = executed(lab, tmp_path, [*service_command(settings, places), "--rounds", "1"])
                assert done.returncode == 0, done.stderr
                assert "1 changed" in done.stderr, done.stderr
            if "show" in words:
                assert done.stdout == "shunter|Operator\n"
    finally:
        lab._succeeds("sacctmgr", "-i", "delete", "user", "shunter")
    assert {"shunter slurm import", "shunter slurm run", "shunter slurm doctor", "shunter slurm audit"} < set(ran)


def executed(lab, folder, words):
    command = [sys.executable, "-m", *words] if words[0] == "shunter" else words
    environment = {**os.environ, "SLURM_CONF": str(lab.conf)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def service_command(settings, places):
    """What the unit would run with these settings, as systemd reads them."""
    values = dict(line.split("=", 1) for line in settings.read_text().splitlines() if re.match(r"[A-Z_]+=", line))
    start = re.search(r"^ExecStart=(.*)$", (UNITS / "shunter.service").read_text(), re.MULTILINE)[1]
    words = start.replace("$SHUNTER_OPTIONS", values["SHUNTER_OPTIONS"].replace("9123", "0")).split()
    assert Path(words[0]).name == "shunter"
    return ["shunter", *(word.replace("/var/lib/shunter", places["/var/lib/shunter"]) for word in words[1:])]
