"""The lab: a real Slurm cluster, up in seconds, gone without a trace."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from shunter.errors import LiveError
from shunter.live.daemons import alive, free_ports, wait
from shunter.slurm import lab as lab_module
from shunter.slurm.lab import Lab, LabNodes

needs_slurm = pytest.mark.skipif(bool(Lab.missing()), reason=Lab.missing() or "-")
SMALL = (LabNodes("m40", 1, 1, shards=4), LabNodes("cpu", 1, 0, cpus=4, mem_mib=8000))


def test_nodes_are_as_said(lab):
    said = lab.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %G %c %m")
    assert len(said.splitlines()) == 9
    assert "p100-3 gpu:p100:4 16 64000" in said
    assert "m40-2 gpu:m40:1 16 64000" in said


def test_a_job_runs_and_sees_its_gpus(lab, tmp_path):
    saw = tmp_path / "saw"
    job = lab.submit("--gres=gpu:k80:2", "--time=5", script=f"echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES > {saw}")
    assert lab.wait_job(job, "COMPLETED", "FAILED") == "COMPLETED"
    node, devices = saw.read_text().split()
    assert node.startswith("k80-")
    assert devices == "0,1"


def test_a_failed_command_says_which_and_why(lab):
    with pytest.raises(LiveError, match=r"'scontrol show node nowhere' failed: .*not found"):
        lab.run("scontrol", "show", "node", "nowhere")


def test_a_killed_controller_knows_its_jobs_again(lab):
    running, waiting = lab.submit(script="sleep 60"), lab.submit("--hold")
    lab.wait_job(running, "RUNNING")
    lab.wait_saved()
    lab.stop_controller(kill=True)
    with pytest.raises(LiveError):
        lab.run("squeue", timeout=1)
    lab.start_controller()
    assert lab.jobs() == {running: "RUNNING", waiting: "PENDING"}


def test_reset_mends_what_a_test_broke(lab):
    lab.submit("--nodelist=m40-1", script="sleep 60")
    lab.run("scontrol", "update", "nodename=k80-1", "state=drain", "reason=test")
    lab.stop_node("p100-1", kill=True)
    lab.stop_controller(kill=True)
    lab.reset()
    assert lab.jobs() == {}
    assert lab.idle()


def test_a_job_that_queues_itself_again_as_it_is_cancelled_is_cancelled_again(lab, tmp_path):
    for number in range(5):  # on a busy machine Slurm may kill it before it has asked to be queued again
        script = f"trap 'scontrol requeue $SLURM_JOB_ID' TERM; touch {tmp_path}/{number}; sleep 600 & wait"
        job = lab.submit("--time=5", "--requeue", script=script)
        assert wait((tmp_path / str(number)).exists, 180)
        lab.cancel_all()
        assert lab.jobs() == {}
        assert lab.job(job)["JobState"] == "CANCELLED"
        if lab.job(job)["Restarts"] == "1":
            return
    pytest.fail("no job was queued again")


def test_accounts_and_ages_with_a_database(lab_with_database):
    lab = lab_with_database
    own = lab.submit(script="true", user="nobody")
    other = lab.submit("--account=blue", script="true", user="daemon")
    for job in (own, other):
        lab.wait_job(job, "COMPLETED")
    ask = ["sacct", "-n", "-P", "-X", "-S", "now-1hour", "-E", "now", "-o", "JobID,User,Account,State"]
    expected = [f"{own}|nobody|red|COMPLETED", f"{other}|daemon|blue|COMPLETED"]
    assert wait(lambda: lab.run(*ask).splitlines()[-2:] == expected, 180)  # slurmdbd is told a little later
    assert "age" in lab.run("sprio", "--weights").lower()


@needs_slurm
def test_two_live_side_by_side_and_none_leaves_anything(lab_folder):
    labs = [Lab(lab_folder / name, SMALL, settings={"PriorityWeightJobSize": "7"}) for name in "ab"]
    with labs[0], labs[1]:
        jobs = [lab.submit("--gres=shard:1", script="sleep 60") for lab in labs]
        for lab, job in zip(labs, jobs, strict=True):
            lab.wait_job(job, "RUNNING")
            assert "PriorityWeightJobSize   = 7" in lab.run("scontrol", "show", "config")
        # munged, the controller and its helper, two nodes, a step, and the shell, which comes a moment later
        assert all(wait(lambda lab=lab: len(lab.processes()) >= 7, 60) for lab in labs)
        pids = [set(lab.processes()) for lab in labs]
        assert not pids[0] & pids[1]
    assert not any(map(alive, pids[0] | pids[1]))
    assert [lab.processes() for lab in labs] == [[], []]


@needs_slurm
def test_what_a_killed_run_left_is_ended(lab_folder):
    lab = Lab(lab_folder, SMALL)
    lab.up()
    try:
        job = lab.submit(script="sleep 77")
        lab.wait_job(job, "RUNNING")
        lab.stop_controller(kill=True)
        lab.stop_node("m40-1", kill=True)
        assert lab.processes()
    finally:
        Lab(lab_folder, SMALL).down()
    assert lab.processes() == []


@needs_slurm
def test_a_pid_file_that_names_another_process_does_no_harm(lab_folder):
    (lab_folder / "pids").mkdir()
    (lab_folder / "pids" / "slurmctld.pid").write_text(str(os.getpid()))
    Lab(lab_folder, SMALL).down()
    assert alive(os.getpid())


@needs_slurm
def test_the_python_of_the_page_about_the_lab_runs(lab_folder, capsys):
    page = Path(__file__).parents[2] / "docs" / "reference" / "slurm-lab.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile(block.replace("/tmp/my-lab", str(lab_folder)), page.name, "exec"), {})
    assert '"job_state": "RUNNING"' in capsys.readouterr().out


def test_a_folder_too_deep_for_sockets_is_refused(tmp_path):
    with pytest.raises(LiveError, match="at most 60 characters"):
        Lab(tmp_path / ("x" * 60))


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(lab_module, "program", lambda name: None if name == "munged" else name)
    assert "no munged" in Lab.missing()
    monkeypatch.setattr(lab_module, "program", lambda name: name)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "root" in Lab.missing()


def test_free_ports_are_all_different():
    assert len(set(free_ports(50))) == 50
