"""The data sets as setups: public traces on clusters in virtual clusters, or stand-ins where files are missing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from shunter import traces
from shunter.model import GPU, Trace
from shunter.reproduce import venus
from shunter.reproduce.qssf.design import DATA, LOAD, LUCIDS, RESTART, VENUS, WITH_LUCIDS
from shunter.reproduce.standin import NODES, begin_of, stand_in, with_loose_limits
from shunter.reproduce.venus import ANY, NODE_GPUS, divided, drawn, nodes_in
from shunter.safe_files import data_folder
from shunter.setup import Setup, set_up, window_of

PHILLY, PHILLY_NODES = "philly/philly_jobs.csv.gz", "philly/vc_nodes.csv"
AAIC, AAIC_NODES = "aaic/aaicwl-201807-201812.csv.gz", 40
FILES = {
    "philly": (PHILLY, PHILLY_NODES),
    "philly-fewer": (PHILLY, PHILLY_NODES),
    **dict.fromkeys(VENUS, (venus.JOBS, venus.NODES)),
    "aaic": (AAIC,),
}


def setups_of(names: Sequence[str], seed: int) -> tuple[dict[str, Setup], bool]:
    """What is simulated, by workload; or, where files are missing, made-up stand-ins, and True."""
    folder = data_folder(*(file for name in names for file in FILES[name]))
    found: dict[str, Setup] = {}
    for name in names:
        found |= _stand_in(name, seed) if folder is None else _published(folder, name, seed)
    return found, folder is None


def _published(folder: Path, name: str, seed: int) -> dict[str, Setup]:
    about = DATA[name]
    if name in VENUS:
        trace, nodes = venus.venus(folder, seed), nodes_in(folder / venus.NODES)
        jobs = {name: trace}
        if LUCIDS in about.schedulers:
            jobs[name + WITH_LUCIDS] = with_lucids_predictions(trace, folder)
    elif name == "aaic":
        jobs, nodes = {name: traces.read(folder / AAIC, "aaic")}, {"": AAIC_NODES}
    else:
        nodes = nodes_in(folder / PHILLY_NODES)
        trace = traces.read(folder / PHILLY, "philly")
        trace = trace.select(np.isin(trace.vc, [code for code, vc in enumerate(trace.vcs) if vc in nodes]))
        nodes = {vc: count for vc, count in nodes.items() if vc in trace.vcs}
        if name == "philly-fewer":
            nodes = fewer(nodes, window_of(trace, about.since, about.until)[1], LOAD)
        jobs = {name: trace}
    cluster = divided(name, nodes, RESTART)
    found = {key: set_up(trace, cluster, since=about.since, until=about.until) for key, trace in jobs.items()}
    return {key: drawn(one, ANY, nodes) for key, one in found.items()} if name in VENUS else found


def fewer(nodes: Mapping[str, int], window: Trace, load: float) -> dict[str, int]:
    """As many nodes as make the load of each virtual cluster so large; enough for its largest job, no more than now."""
    span = int(window.submit[-1] - window.submit[0])
    found = {}
    for vc, count in nodes.items():
        mine = window.vc == window.vcs.index(vc)
        work = float((window.duration[mine] * (window.gpus[mine] / GPU)).sum())
        largest = math.ceil(int(window.gpus[mine].max(initial=1)) / GPU / NODE_GPUS)
        found[vc] = min(count, max(math.ceil(work / (span * NODE_GPUS * load)), largest))
    return found


def with_lucids_predictions(trace: Trace, folder: Path) -> Trace:
    """The same jobs; what Lucid's artifact predicted for those of September stands in the place of a requested time."""
    import polars as pl

    column = pl.read_csv(folder / venus.JOBS, columns=["job_id", "lucid_lgb_pred"], infer_schema_length=None)
    known = dict(zip(column["job_id"].cast(pl.String), column["lucid_lgb_pred"].fill_null(0), strict=True))
    seconds = np.array([known[job] for job in trace.job_id], np.float64)
    return dataclasses.replace(trace, limit=np.rint(np.maximum(seconds, 0) * 1000).astype(np.int64))


def _stand_in(name: str, seed: int) -> dict[str, Setup]:
    made = stand_in(seed, users=name == "aaic")
    jobs = {name: made} | (
        {name + WITH_LUCIDS: with_loose_limits(made, seed)} if LUCIDS in DATA[name].schedulers else {}
    )
    cluster = divided(f"{name} (stand-in)", NODES, RESTART)
    found = {key: set_up(trace, cluster, since=begin_of(trace)) for key, trace in jobs.items()}
    return {key: drawn(one, ANY, NODES) for key, one in found.items()} if name in VENUS else found
