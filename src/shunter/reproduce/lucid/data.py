"""The data sets as scenes; a stand-in where the files are missing."""

from __future__ import annotations

from collections.abc import Sequence

from shunter import traces
from shunter.files import data_folder
from shunter.model import Trace
from shunter.reproduce import venus
from shunter.reproduce.lucid.design import DATA, RESTART, STOPS
from shunter.reproduce.standin import NODES, begin_of, stand_in
from shunter.reproduce.venus import assigned, divided, nodes_in
from shunter.scenes import Scene, scene


def scenes_of(names: Sequence[str], seed: int) -> tuple[dict[str, Scene], bool]:
    """What is simulated, by workload; or, where files are missing, made-up stand-ins, and True."""
    folder = data_folder(venus.JOBS, venus.NODES)
    if folder is None:
        jobs, nodes = stand_in(seed), NODES
    else:
        jobs, nodes = traces.read(folder / venus.JOBS, "helios"), nodes_in(folder / venus.NODES)
    found: dict[str, Scene] = {}
    for name in names:
        since, until = (begin_of(jobs), "") if folder is None else (DATA[name].since, DATA[name].until)
        found |= _scenes(name, assigned(jobs, nodes, seed, apart=name == "venus-apart"), nodes, since, until)
    return found, folder is None


def _scenes(name: str, trace: Trace, nodes: dict[str, int], since: str, until: str) -> dict[str, Scene]:
    """The same jobs where stopping is free, and where it is not."""
    return {
        key: scene(trace, divided(key, nodes, restart), since=since, until=until)
        for key, restart in ((name, ()), (name + STOPS, RESTART))
    }
