"""Every exception that shunter raises on purpose.

ShunterError
 ├─ InputError            what the user gave is wrong; the command line prints it and exits with code 2
 │   ├─ TraceError        a trace file or its contents
 │   ├─ ClusterError      a cluster description
 │   ├─ PolicyError       a policy string, class or parameter
 │   │   └─ AbandonedError  a run that was given up: without progress, or after its budget of decisions
 │   ├─ ModelError        a learned model, its settings or its file
 │   ├─ NetworkError      a network, a model that trains on it, or a placement
 │   ├─ SharingError      what was measured of workloads that share a GPU, or measuring it
 │   ├─ ScalingError      curves of speed by number of GPUs
 │   ├─ EnergyError       a node series, a forecast of it, or what nodes draw
 │   ├─ LiveError         what can't be done on a live cluster, and the journal of what was done there
 │   │   └─ SlurmError    what Slurm said, or didn't
 │   └─ RunError          a run folder or an experiment file
 └─ InvariantError        the engine or a policy broke a rule that must hold; carries the job's history
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ShunterError(Exception):
    """Every exception that Shunter raises on purpose is one of these.

    Examples:
        >>> import shunter
        >>> issubclass(shunter.InputError, shunter.ShunterError)
        True
    """


class InputError(ShunterError):
    """Input that can't be used; the message says where, what, and what to do.

    Examples:
        >>> import shunter
        >>> try:
        ...     shunter.simulate("jobs.csv", "8x8", "fifo:backfill=maybe")
        ... except shunter.InputError as error:
        ...     print(type(error).__name__)
        TraceError
    """

    job_id: str | None = None  # the job that the error is about, so that the reader of the file can name the line


class TraceError(InputError):
    """A trace file, or a job in it, is wrong."""


class ClusterError(InputError):
    """A cluster description is wrong."""


class PolicyError(InputError):
    """A policy name, class or parameter is wrong."""


class AbandonedError(PolicyError):
    """A run was given up: it made no progress, or its budget of decisions was used."""


class ModelError(InputError):
    """A learned model, its settings or its file is wrong."""


class NetworkError(InputError):
    """A network, a model that trains on it, or a placement is wrong."""


class SharingError(InputError):
    """What was measured of workloads that share a GPU is wrong, or can't be measured here."""


class ScalingError(InputError):
    """A file of scaling curves is wrong."""


class EnergyError(InputError):
    """A node series, a forecast of it, or what nodes draw is wrong."""


class LiveError(InputError):
    """A live cluster can't be reached or won't do what is asked, or the journal of a controller can't be used."""


class SlurmError(LiveError):
    """Slurm prints something that can't be parsed, or its commands or settings are wrong."""


class RunError(InputError):
    """A run folder or an experiment file is wrong."""


class InvariantError(ShunterError):
    """A rule that must always hold was broken: a defect in the engine or in a policy."""


# -- names may come from a file of others, millions of them, each as long as the file
MOST_LISTED = 60  # the policies and formats are fewer
MOST_COMPARED = 10_000
LONGEST_NAME = 100  # characters


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known name, if any is near, and lists them all, or many."""
    names = sorted(known)
    compared = [each for each in names if len(each) <= LONGEST_NAME][:MOST_COMPARED]
    near = difflib.get_close_matches(name.lower()[:LONGEST_NAME], compared, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    listed = ", ".join(
        each if len(each) <= LONGEST_NAME else f"{each[:LONGEST_NAME]}..." for each in names[:MOST_LISTED]
    )
    more = f" and {len(names) - MOST_LISTED:,} more" if len(names) > MOST_LISTED else ""
    return f"{hint}known: {listed}{more}"
