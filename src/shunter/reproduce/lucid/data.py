"""The data sets as setups; a stand-in where the files are missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shunter import traces
from shunter.model import Trace
from shunter.reproduce import venus
from shunter.reproduce.lucid.design import AUTHORS, COSTS, DATA, DEARER, RULES
from shunter.reproduce.qssf.data import AAIC, AAIC_NODES, with_lucids_predictions
from shunter.reproduce.standin import NODES, begin_of, stand_in, with_loose_limits
from shunter.reproduce.venus import assigned, divided, drawn, nodes_in
from shunter.safe_files import data_folder
from shunter.setup import Setup, set_up


def setups_of(names: Sequence[str], seed: int) -> tuple[dict[str, Setup], bool]:
    """What is simulated, by workload; or, where files are missing, made-up stand-ins, and True."""
    files = {file for name in names for file in ((AAIC,) if name == "aaic" else (venus.JOBS, venus.NODES))}
    folder = data_folder(*sorted(files))
    found: dict[str, Setup] = {}
    for name in names:
        if name == "aaic":
            found |= _aaic(folder, seed)
        else:
            found |= _venus(folder, name, seed)
    return found, folder is None


def _aaic(folder: Path | None, seed: int) -> dict[str, Setup]:
    jobs = stand_in(seed, users=True) if folder is None else traces.read(folder / AAIC, "aaic")
    nodes = NODES if folder is None else {"": AAIC_NODES}
    return _on_machines("aaic", jobs, nodes, folder is None)


def _venus(folder: Path | None, name: str, seed: int) -> dict[str, Setup]:
    """Repeats are draws of the virtual clusters."""
    nodes = NODES if folder is None else nodes_in(folder / venus.NODES)
    jobs = stand_in(seed) if folder is None else traces.read(folder / venus.JOBS, "helios")
    jobs = assigned(jobs, nodes, seed, RULES[name])
    predicted = with_loose_limits(jobs, seed) if folder is None else with_lucids_predictions(jobs, folder)
    found = _on_machines(name, jobs, nodes, folder is None)
    same = found[name + DEARER]
    found[name + AUTHORS] = set_up(predicted, same.cluster, since=same.since, until=same.until)
    return {key: drawn(each, RULES[name], nodes) for key, each in found.items()}


def _on_machines(name: str, jobs: Trace, nodes: dict[str, int], made_up: bool) -> dict[str, Setup]:
    """The same jobs where stopping is free, and where it is not."""
    since, until = (begin_of(jobs), "") if made_up else (DATA[name].since, DATA[name].until)
    return {
        name + more: set_up(jobs, divided(name + more, nodes, restart), since=since, until=until)
        for more, restart in COSTS.items()
    }
