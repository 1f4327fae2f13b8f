"""What is measured on: the Philly file where it is there, else a made-up trace of the same size."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np

from shunter.cluster import Cluster, NodeGroup, Overheads
from shunter.model import GPU, Trace
from shunter.traces.synthetic import synthetic
from shunter.world import I64

PHILLY_JOBS = 70_783
NODES, GPUS_PER_NODE, LOAD = 36, 8, 0.85
PHILLY = Path("philly", "philly_jobs.csv.gz")


def cluster(nodes: int = NODES) -> Cluster:
    """Equal nodes of 8 GPUs."""
    return Cluster(f"{nodes}x{GPUS_PER_NODE}", (NodeGroup(nodes, GPUS_PER_NODE),))


def jobs(count: int = PHILLY_JOBS) -> tuple[Trace, str]:
    """The first ``count`` jobs to measure on, and what they are in words."""
    folder = Path(os.environ.get("SHUNTER_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if (folder / PHILLY).is_file():
        return philly(folder / PHILLY).select(np.arange(count)), "the Philly file"
    return made_up(count), "a synthetic trace (SHUNTER_DATA names no folder with the Philly file)"


def made_up(count: int, load: float = LOAD) -> Trace:
    """A synthetic trace, by default at the load of the Philly file."""
    return synthetic(count, gpus=NODES * GPUS_PER_NODE, load=load)


def philly(path: Path) -> Trace:
    """The published Philly jobs, sorted by time."""
    import polars as pl

    table = pl.read_csv(path, columns=["timestamp", "duration", "num_gpus"])
    return Trace.of(
        "philly",
        [str(row) for row in range(len(table))],
        submit=table["timestamp"].str.to_datetime().dt.epoch("ms").to_numpy(),
        duration=np.rint(table["duration"].to_numpy() * 1000).astype(np.int64),
        gpus=table["num_gpus"].to_numpy() * GPU,
    )


def elastic(trace: Trace) -> Trace:
    """The same jobs with declared run times, half of them with a range of GPUs, a third with a deadline.

    Users declare up to twice the run time; a deadline is 1.2 to 4 times that; a range is a quarter to four times the
    GPUs asked for.
    """
    draws, count, asked = np.random.default_rng(0), len(trace), np.maximum(trace.gpus // GPU, 1)
    declared = np.rint(trace.duration * draws.uniform(1.0, 2.0, count))
    due = np.where(draws.random(count) < 1 / 3, np.rint(declared * draws.uniform(1.2, 4.0, count)) + 60_000, 0)
    ranged = draws.random(count) < 0.5
    return dataclasses.replace(
        trace,
        declared=declared.astype(np.int64),
        deadline=due.astype(np.int64),
        min_gpus=np.where(ranged, np.maximum(asked // 4, 1), 0),
        max_gpus=np.where(ranged, np.minimum(4 * asked, np.maximum(64, asked)), 0),
    )


def costly(nodes: int = NODES) -> Cluster:
    """Equal nodes of 8 GPUs, on which a change of width takes 25 s."""
    return dataclasses.replace(cluster(nodes), overheads=Overheads(restart=((1, 25.0),)))


def write_helios_log(path: Path, rows: int) -> None:
    """A made-up log in the layout of Helios' cluster_log.csv; one job in six has no GPU."""
    import polars as pl

    draws = np.random.default_rng(0)
    submit = 1_585_699_200 + np.sort(draws.integers(0, 180 * 86_400, rows))
    wait, run = draws.integers(0, 3_000, rows), draws.integers(1, 50_000, rows)

    def names(prefix: str, count: int) -> pl.Expr:
        return pl.format(prefix + "{}", pl.Series(draws.integers(0, count, rows)))

    def times(seconds: I64) -> pl.Expr:
        return (
            pl.lit(pl.Series(seconds)).cast(pl.Int64).mul(1000).cast(pl.Datetime("ms")).dt.strftime("%Y-%m-%d %H:%M:%S")
        )

    pl.select(
        job_id=pl.int_range(rows),
        user=names("u", 400),
        vc=names("vc", 27),
        jobname=names("job", 20_000),
        gpu_num=pl.Series(draws.choice([0, 1, 2, 4, 8, 16], rows)),
        cpu_num=pl.Series(draws.integers(1, 64, rows)),
        node_num=1,
        state=pl.Series(draws.choice(["COMPLETED", "CANCELLED", "FAILED"], rows).tolist()),
        submit_time=times(submit),
        start_time=times(submit + wait),
        end_time=times(submit + wait + run),
        duration=pl.Series(run),
        queue=pl.Series(wait),
    ).write_csv(path)
