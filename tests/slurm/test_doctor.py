"""The doctor on a real Slurm: what it finds is so, what it advises helps, and it changes nothing."""

from __future__ import annotations

import json
import os
import shlex
import socket
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.compiled import KernelFolder
from shunter.live.daemons import wait
from shunter.live.journal import Journal
from shunter.live.locks import only_controller
from shunter.slurm import doctor
from shunter.slurm.client import Client
from shunter.slurm.doctor import CheckStatus, Patient, examine


def verdicts(findings):
    return {finding.check: finding.verdict for finding in findings}


def finding(findings, check):
    (found,) = (each for each in findings if each.check == check)
    return found


def as_user(lab, name, monkeypatch):
    """The doctor as another account: its calls to Slurm are this account's."""

    class Other(Client):
        def run(self, program, *arguments, **more):
            return lab.run(program, *arguments, user=name, **more)

    monkeypatch.setattr(doctor, "user_name", lambda: name)
    return Other(lab.conf)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "state"
    made.mkdir(mode=0o750)
    return made


def test_live_a_sound_site_has_no_failures_and_nothing_is_changed(lab, folder, monkeypatch):
    number = lab.submit("--gpus=1", "--hold")

    def state():  # of this job alone: Slurm forgets those of tests before, one after the other
        shown = {key: value for key, value in lab.job(number).items() if key != "LastSchedEval"}
        return shown, lab.run("scontrol", "show", "config").splitlines()[1:]

    before = state()
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    options = ["--mode", "act", "--journal", str(folder / "j.db"), "--json"]
    said = CliRunner().invoke(app, ["slurm", "doctor", *options])
    assert said.exit_code == 0, said.stdout
    found = {each["check"]: each for each in json.loads(said.stdout)}
    assert found["nodes"]["text"] == "9 nodes with 22 GPUs"
    assert "1 job" in found["polls"]["text"]
    assert found["accounting"]["verdict"] == "warn"  # this lab has no slurmdbd
    missing = [each["text"] for each in json.loads(said.stdout) if each["check"] == "not modelled"]
    assert any(text.startswith("PreemptType=preempt/partition_prio") for text in missing), missing
    assert all(each["remedy"] for each in found.values() if each["verdict"] != "ok")
    assert list(folder.iterdir()) == []
    assert before == state()
    shown = CliRunner().invoke(app, ["slurm", "doctor"])
    assert shown.exit_code == 0
    assert "9 nodes" in shown.stdout


@pytest.mark.parametrize("user", ["nobody", "games"])  # one that accounting knows, and one that it doesn't
def test_live_the_advice_makes_an_account_an_operator(user, lab_with_database, folder, monkeypatch):
    lab = lab_with_database
    client = as_user(lab, user, monkeypatch)
    rights = finding(examine(client, folder / "j.db", acts=True), "rights")
    assert rights.verdict is CheckStatus.FAIL
    assert finding(examine(client, folder / "j.db", acts=False), "rights").verdict is CheckStatus.WARN
    try:
        lab.run(*shlex.split(rights.remedy))
        known = ("scontrol", "show", "assoc_mgr", f"users={user}", "flags=users")
        assert wait(lambda: "AdminLevel=Operator" in lab.run(*known), 180)  # slurmctld hears of it a little later
        found = examine(client, folder / "j.db", acts=True)
        assert finding(found, "rights").verdict is CheckStatus.OK
        assert "can't mark" in finding(found, "marks").text
        number = lab.submit("--gpus=1", "--hold")  # root's
        client.run("scontrol", "update", f"jobid={number}", "nice=5")
        assert lab.job(number)["Nice"] == "5"
    finally:
        lab.run("sacctmgr", "-i", "modify", "user", user, "set", "adminlevel=none")
    assert not Patient(client, folder, True, user, {"accountingstoragetype": "x/slurmdbd"}).rules


def test_live_where_slurm_hides_jobs_an_ordinary_account_is_warned(lab_with_database, folder, monkeypatch):
    lab = lab_with_database
    client = as_user(lab, "nobody", monkeypatch)
    text = lab.conf.read_text()
    try:
        lab.conf.write_text(f"PrivateData=jobs,usage\n{text}")
        lab.run("scontrol", "reconfigure")
        found = finding(examine(client, folder / "j.db", acts=True), "privacy")
        assert (found.verdict, "hides jobs of others" in found.text) == (CheckStatus.FAIL, True)
        monkeypatch.undo()
        assert (
            finding(examine(Client(lab.conf), folder / "j.db", acts=True), "privacy").verdict is CheckStatus.OK
        )  # root
    finally:
        lab.conf.write_text(text)
        lab.run("scontrol", "reconfigure")


def test_live_clocks_that_differ_are_found(lab, folder, monkeypatch):
    real = time.time
    for ahead, verdict in ((0, CheckStatus.OK), (20, CheckStatus.WARN), (-300, CheckStatus.FAIL)):
        monkeypatch.setattr(doctor.time, "time", lambda ahead=ahead: real() + ahead)
        assert finding(examine(Client(lab.conf), folder / "j.db", acts=False), "clock").verdict is verdict


def test_live_without_slurmctld_it_fails_and_says_so(lab, folder, monkeypatch):
    lab.stop_controller()
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    said = CliRunner().invoke(app, ["slurm", "doctor", "--journal", str(folder / "j.db"), "--json"])
    assert said.exit_code == 1
    found = {each["check"]: each for each in json.loads(said.stdout)}
    assert found["slurm"]["verdict"] == "fail"
    assert "start slurmctld" in found["slurm"]["remedy"]


# ------------------------------------------------------------------------------------------- this machine


def machine(journal, acts=True):
    """What is found where there is no Slurm at all."""
    client = Client()
    client.environment["PATH"] = "/nowhere"
    return examine(client, journal, acts)


def test_commands_that_are_missing_are_named(folder):
    found = finding(machine(folder / "j.db"), "commands")
    assert found.verdict is CheckStatus.FAIL
    assert "squeue" in found.text


def test_where_kernels_are_kept_is_checked(folder, monkeypatch):
    monkeypatch.setattr(doctor, "place", lambda: KernelFolder(folder))
    found = finding(machine(folder / "j.db"), "caches")
    assert (found.verdict, found.remedy) == (CheckStatus.WARN, "sudo shunter compile --for-all")
    (folder / "one.nbi").touch()
    assert finding(machine(folder / "j.db"), "caches").verdict is CheckStatus.OK
    monkeypatch.setattr(doctor, "place", lambda: KernelFolder(folder, "/x: others can write it; chmod go-w /x"))
    found = finding(machine(folder / "j.db"), "caches")
    assert (found.verdict, found.remedy) == (CheckStatus.WARN, "chmod go-w /x")


def test_a_controller_that_acts_is_seen_without_touching_its_lock(folder):
    journal = folder / "j.db"
    assert finding(machine(journal), "controller").verdict is CheckStatus.WARN
    with only_controller(journal):
        assert finding(machine(journal), "controller").text == "runs"
    assert finding(machine(journal), "controller").verdict is CheckStatus.WARN


def test_a_journal_that_was_handed_back_is_reported(folder):
    book = Journal(folder / "j.db")
    book.note("guard", "jobs waited longer")
    book.close()
    found = finding(machine(folder / "j.db"), "handed back")
    assert (found.verdict, found.text) == (CheckStatus.WARN, "jobs waited longer")


@pytest.mark.parametrize(
    ("spoil", "verdict"),
    [
        (lambda journal: journal.chmod(0o640), CheckStatus.OK),
        (lambda journal: journal.chmod(0o644), CheckStatus.WARN),
        (lambda journal: journal.chmod(0o666), CheckStatus.FAIL),
        (lambda journal: journal.parent.chmod(0o777), CheckStatus.FAIL),
        (lambda journal: os.chown(journal, 65534, 65534), CheckStatus.FAIL),
    ],
)
def test_access_of_others_to_the_journal_is_checked(spoil, verdict, folder):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    journal = folder / "j.db"
    Journal(journal).close()
    spoil(journal)
    found = finding(machine(journal), "journal")
    assert found.verdict is verdict
    assert bool(found.remedy) == (verdict is not CheckStatus.OK)


def test_a_folder_that_is_missing_matters_only_for_acting():
    assert finding(machine(Path("/no/such/folder/j.db")), "journal").verdict is CheckStatus.FAIL
    assert "journal" not in verdicts(machine(Path("/no/such/folder/j.db"), acts=False))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen as another account")
@pytest.mark.parametrize(
    ("user", "verdict", "words"),
    [(0, CheckStatus.OK, "served by root"), (65534, CheckStatus.WARN, "served by nobody, not by root")],
)
def test_a_stranger_on_the_metrics_port_is_not_taken_for_the_controller(tmp_path, user, verdict, words):
    (tmp_path / "j.db").touch()
    os.seteuid(user)
    try:
        listening = socket.create_server(("127.0.0.1", 0))
    finally:
        os.seteuid(0)
    with listening:
        patient = Patient(Client(), tmp_path / "j.db", True, "root", metrics_port=listening.getsockname()[1])
        (found,) = doctor._metrics(patient)
        assert (found.verdict, words in found.text) == (verdict, True), found
    (found,) = doctor._metrics(patient)
    assert "nothing answers" in found.text
