"""A cluster for as long as a command runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.live.daemons import environments, wait
from shunter.slurm.lab import MARK, Lab

SAY_AND_WAIT = "echo $SLURM_CONF; exec sleep 300"
SCRIPT = """
sinfo -h -N -o '%N %G'
job=$(sbatch --parsable --wait --gres=gpu:2 --output=$1 --wrap 'echo $CUDA_VISIBLE_DEVICES')
echo $SLURM_CONF; exit 7
"""


@pytest.mark.slurm
@pytest.mark.skipif(bool(Lab.missing()), reason=Lab.missing() or "-")
def test_a_command_has_a_cluster_and_its_exit_code_comes_back(tmp_path):
    said = tmp_path / "said"
    ours = [sys.executable, "-m", "shunter", "slurm", "lab", "--nodes", "1x2:k80+1x1:m40", "--"]
    theirs = ["sh", "-c", SCRIPT, "-", str(said)]
    ended = subprocess.run([*ours, *theirs], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 7, ended.stderr
    *nodes, conf = ended.stdout.split("\n")[:-1]
    assert nodes[0] == "k80-1 gpu:k80:2"
    assert "m40-1 gpu:m40:1" in nodes
    assert said.read_text() == "0,1\n"
    assert not Path(conf).exists()


def left(folder: bytes) -> list[str]:
    """The processes of a lab."""
    return [str(pid) for pid, given in environments() if MARK.encode() + b"=" + folder in given]


@pytest.mark.slurm
@pytest.mark.skipif(bool(Lab.missing()), reason=Lab.missing() or "-")
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_behind_when_it_is_ended_from_outside(sign):
    command = [sys.executable, "-m", "shunter", "slurm", "lab", "--nodes", "1x1:a", "--", "sh", "-c", SAY_AND_WAIT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        conf = process.stdout.readline().strip()
        process.send_signal(sign)
        assert process.wait(180) == 128 + sign
    assert conf
    assert not Path(conf).exists()
    folder = str(Path(conf).parents[1]).encode()
    assert wait(lambda: not left(folder), 180), left(folder)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "PriorityMaxAge"], "--set must be KEY=VALUE"),
        (["--nodes", "2x4:p100+1x1:p100"], "a type of its own"),
        (["--nodes", "many"], "there is no cluster 'many'"),
    ],
)
def test_what_can_not_be_is_refused(options, said):
    ended = CliRunner().invoke(app, ["slurm", "lab", *options, "--", "true"])
    assert ended.exit_code == 2
    assert said in " ".join(ended.stderr.split())
