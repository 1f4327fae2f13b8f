"""The input of ``shunter slurm import``, read from Slurm itself: read-only commands, in explicit formats."""

from __future__ import annotations

import secrets
from pathlib import Path

from shunter.errors import SlurmError
from shunter.live.manager import DeclinedError
from shunter.slurm.client import Client
from shunter.slurm.importing import ImportFiles
from shunter.traces.readers.sacct import FORMAT

PATIENCE_S = 900.0  # accounting of months takes a while
SEPARATOR = "\x1f"


def ask(client: Client, folder: Path, since: str, until: str) -> ImportFiles:
    """Write what Slurm answers into a folder; jobs are those that ran between two times, as sacct takes them."""
    answers = {
        "jobs": _jobs(client, since, until),
        "nodes": client.run("scontrol", "show", "node"),
        "partitions": client.run("scontrol", "show", "partition"),
        "config": client.run("scontrol", "show", "config"),
        "topology": _topology(client),
    }
    places = {}
    for name, text in answers.items():
        places[name] = folder / f"{name}.txt"
        places[name].write_text(text, encoding="utf-8")
    return ImportFiles(**places)


def _jobs(client: Client, since: str, until: str) -> str:
    """All jobs, without steps and with every run of a requeued one.

    Names are hostile input: fields are divided by a mark drawn for each call, so that no name can pretend to be a job.
    """
    mark = secrets.token_hex(8)
    fields = f"{FORMAT},JobName"
    asked = ("-a", "-X", "-D", "-P", "-S", since, "-E", until, f"--delimiter={mark}", f"--format={fields}")
    said = client.run("sacct", *asked)
    rows: list[list[str]] = []
    for line in said.split("\n"):
        parts = line.split(mark)
        if len(parts) > 1:
            rows.append(parts)
        elif rows and line:
            rows[-1][-1] += f" {line}"  # a name with a line end in it
    if len(rows) < 2:
        raise SlurmError(f"sacct reports no job from {since} to {until}; give another time with --since and --until")
    return "".join(SEPARATOR.join(_plain(part) for part in row) + "\n" for row in rows)


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _topology(client: Client) -> str:
    """Nothing where the network is flat: some releases call that an error."""
    try:
        return client.run("scontrol", "show", "topology")
    except DeclinedError:
        return ""
