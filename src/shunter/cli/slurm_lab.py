"""``shunter slurm lab``: a real Slurm cluster of virtual nodes for as long as a command runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli.console import JsonOption, note, print_json
from shunter.errors import SlurmError
from shunter.texts import counted

if TYPE_CHECKING:
    from shunter.slurm.lab import Lab, LabNodes

EXAMPLES = """Examples:

shunter slurm lab -- bash   # a shell in which sinfo, sbatch and squeue speak to 9 nodes with 22 GPUs

shunter slurm lab --nodes 2x4:p100+2x2:k80 -- sinfo -N -l

shunter slurm lab --database --set PriorityWeightFairshare=1000 -- ./try-it.sh
"""


def lab(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The command to run while the cluster is up.")
    ],
    nodes: Annotated[
        str, typer.Option("--nodes", metavar="C", help="Its nodes: NODESxGPUS:TYPE, joined by +.")
    ] = "3x4:p100+4x2:k80+2x1:m40",
    database: Annotated[
        bool, typer.Option("--database", help="With accounting (slurmdbd, MariaDB), which age and fair share need.")
    ] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A line of slurm.conf; repeatable.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Start a real Slurm on this machine, run a command with it, and stop it again; needs root.

    Nodes and GPUs are virtual: jobs really run, CUDA_VISIBLE_DEVICES is set, and no GPU is needed. Nothing outside of a
    folder in /tmp is touched. The exit code is that of the command. With [bold]--json[/bold] the output of the command
    goes to standard error, and standard output gets its nodes and the exit code.
    """
    from shunter.slurm.lab import Lab

    settings = _settings(set_ or ())
    groups = _nodes(nodes)
    folder = Path(tempfile.mkdtemp(prefix="lab"))
    folder.chmod(0o755)  # so that other users can submit jobs, too
    cluster = Lab(folder, groups, database=database, settings=settings)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        with cluster:
            note(f"{counted(len(cluster.node_names), 'node')}; SLURM_CONF={cluster.conf}", "Slurm is up")
            code = _run(cluster, command, sys.stderr.fileno() if json else None)
    finally:
        cluster.remove()
    if json:
        print_json({"nodes": cluster.node_names, "slurm_conf": str(cluster.conf), "exit_code": code})
    raise typer.Exit(code)


def _end(number: int, _frame: object) -> None:
    """Leave by way of every ``finally``, so that no daemon is left behind."""
    raise SystemExit(128 + number)


def _settings(lines: Sequence[str]) -> dict[str, str]:
    for line in lines:
        if "=" not in line.strip("="):
            raise SlurmError(f"--set must be KEY=VALUE, as in slurm.conf, got '{line}'")
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def _nodes(text: str) -> list[LabNodes]:
    from shunter import clusters
    from shunter.slurm.lab import LabNodes

    groups = clusters.load(text).groups
    kinds = [group.gpu_type for group in groups]
    if len(set(kinds)) < len(kinds):
        raise SlurmError(
            f"--nodes: each group must have a type of its own, by which its nodes are called, got '{text}'"
        )
    return [LabNodes(group.gpu_type, group.count, group.gpus, cpus=max(16, 4 * group.gpus)) for group in groups]


def _run(cluster: Lab, command: Sequence[str], output: int | None) -> int:
    path = f"{os.environ.get('PATH', '')}:{cluster.env['PATH']}"
    env = {**os.environ, "PATH": path, "SLURM_CONF": str(cluster.conf)}
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the command
    try:
        return subprocess.run(command, env=env, stdout=output, check=False).returncode
    except OSError as problem:
        raise SlurmError(f"'{command[0]}' can't be run: {problem.strerror}") from None
    finally:
        signal.signal(signal.SIGINT, before)
