"""The jobs and machines: recorded traces on clusters on which their jobs queue, with estimates that all share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shunter import traces
from shunter.cluster import Cluster
from shunter.learning.engine import LearningGround, ground_for
from shunter.learning.training import REFERENCE
from shunter.model import GPU, Trace
from shunter.reproduce import venus
from shunter.reproduce.rltune.design import WINDOW
from shunter.safe_files import data_folder
from shunter.setup import Setup, set_up
from shunter.traces.synthetic import synthetic

# RLTune's five virtual clusters of Helios (section 4.2)
HELIOS_NODES = {"VC1": 16, "VC2": 12, "VC3": 10, "VC4": 8, "VC5": 8}
STAND_IN_JOBS, STAND_IN_LOAD = 3000, 1.4


class TraceOnNodes(NamedTuple):
    """A recorded trace, the machines for it, and what one must know of both."""

    title: str
    file: str
    format: str
    cluster: str
    about: str


SITES = {
    "philly": TraceOnNodes(
        "Philly", "philly/philly_jobs.csv.gz", "philly", "10x8",
        "10 nodes of 8 GPUs in one pool. The public file lacks two virtual clusters and most of the large"
        " jobs, so on the 20 nodes of RLTune's code hardly any job of the later windows waits. With 10, FIFO's"
        " bounded slowdown in the windows that are learned from is near the printed one. The two sizes of nodes"
        " of its code can't be run: the file names no node type.",
    ),
    "helios": TraceOnNodes(
        "Helios (Venus)", venus.JOBS, "helios", "",
        "Five virtual clusters with 16, 12, 10, 8 and 8 nodes, as in the paper. Which real ones these are is not"
        " published, and the public file names none: each job is put into one that can hold it, by chance, in"
        " proportion to nodes. Jobs with more than 128 GPUs are left out. A draw is another draw of virtual clusters.",
    ),
    "pai": TraceOnNodes(
        "Alibaba (PAI)", "pai/pai_tasks_sample.csv.gz", "pai", "24x8",
        "24 nodes of 8 GPUs in one pool, as many as make FIFO wait about as long as printed in the windows that are"
        " learned from. The five GPU types can't be run: the public file names none. It has 8 % of the tasks.",
    ),
    "aaic": TraceOnNodes(
        "AAIC", "aaic/aaicwl-201807-201812.csv.gz", "aaic", "12x8",
        "12 nodes of 8 GPUs. Not in the paper: the one trace with users, so the one whose estimates are worth"
        " something. The AAIC workload log was graciously provided by AIRC, AIST.",
    ),
    "lublin": TraceOnNodes(
        "Lublin-256", "swf/lublin_256.swf.gz", "swf", "1x256",
        "RLScheduler's Lublin-1: 256 processors, no topology. Its other traces (SDSC-SP2, HPC2N, Lublin-2) are not"
        " at hand. NASA iPSC is, but on its 128 processors no job of the later windows waits.",
    ),
}  # fmt: skip


class Grounds:
    """All jobs, machines and estimates; each is made once."""

    def __init__(self, names: tuple[str, ...], seed: int) -> None:
        folder = data_folder(*(SITES[name].file for name in names))
        self.stands_in = folder is None
        self._setups = {name: _setup(name, folder, seed) for name in names}
        self._seed = seed
        self._made = cache(self._make)
        self._draw = cache(self._drawn)

    def jobs(self, data: str) -> int:
        """How many there are."""
        return len(self._setups[data].trace)

    def ground(self, data: str, estimate: str, length: int = WINDOW, draw: int = 0) -> LearningGround:
        """The jobs of a draw with these estimates, for windows of this length."""
        return dataclasses.replace(self._draw(data, estimate, draw), length=length)

    def _make(self, data: str, estimate: str) -> LearningGround:
        return ground_for(self._setups[data], estimate, WINDOW)

    def _drawn(self, data: str, estimate: str, draw: int) -> LearningGround:
        made = self._made(data, estimate)
        if draw == 0:
            return made
        moved = self._setups[data].repeat(self._seed, draw)
        trace = dataclasses.replace(moved, after=_none(moved), model=_none(moved), user=_none(moved))
        row_of = {job: at for at, job in enumerate(made.trace.job_id)}
        rows = [row_of[job] for job in trace.job_id]
        return dataclasses.replace(made, trace=trace, estimates=made.estimates[rows])


def _none(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.full(len(trace), -1, np.int64)


def _setup(name: str, folder: Path | None, seed: int) -> Setup:
    site = SITES[name]
    if folder is None:
        made = synthetic(STAND_IN_JOBS, seed, 32, STAND_IN_LOAD)
        return set_up(dataclasses.replace(made, user=_none(made), users=()), "4x8", [REFERENCE])
    if name == "helios":
        return _helios(traces.read(folder / site.file, site.format), HELIOS_NODES, seed)
    return set_up(str(folder / site.file), site.cluster, [REFERENCE], site.format, "skip")


def _helios(trace: Trace, nodes: Mapping[str, int], seed: int) -> Setup:
    """The jobs that some virtual cluster can hold, each in one of them."""
    held = trace.select(trace.gpus <= max(nodes.values()) * venus.NODE_GPUS * GPU)
    cluster: Cluster = venus.divided("helios", nodes)
    return venus.drawn(set_up(venus.assigned(held, nodes, seed), cluster), venus.ANY, nodes)
