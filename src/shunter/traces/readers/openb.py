"""Alibaba's GPU pods of 2023, "openb": shares of GPUs, several types."""

from __future__ import annotations

import numpy as np

from shunter.model import GPU, Trace
from shunter.traces.delimited import read_table
from shunter.traces.readers import Reader
from shunter.traces.source import Source

REQUIRED = ("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time")
OUTCOMES = {"succeeded": "completed", "running": "cancelled"}  # a pod that ran until it was deleted
QOS = {"LS": "1", "Guaranteed": "1", "Burstable": "0.5", "BE": "0"}  # latency sensitive ... best effort


def recognises(source: Source) -> bool:
    """By its columns."""
    return source.has(*REQUIRED)


def read(source: Source) -> Trace:
    """A pod runs from when it was scheduled until it was deleted; ``gpu_milli`` counts where it asks for one GPU."""
    import polars as pl

    table = read_table(source, REQUIRED)
    whole, milli = table.gpus("num_gpu"), table.number("gpu_milli")
    created, scheduled, deleted = (table.time(f"{name}_time") for name in ("creation", "scheduled", "deletion"))
    table.leave_out(np.isnan(scheduled) & ~np.isnan(deleted), "pods that were deleted before they started")
    table.unfinished(np.isnan(deleted), "deletion_time")
    table.before("creation_time", created, "scheduled_time", scheduled)
    table.before("scheduled_time", scheduled, "deletion_time", deleted)
    types = table.text("gpu_spec", none=("nan",))
    if several := int(types.str.contains("|", literal=True).sum() or 0):
        table.remarks.append(f"{several:,} pods may use several GPU types: the first is taken")
    return table.trace(
        table.text("name"),
        submit=created,
        duration=deleted - scheduled,
        gpus=np.where(whole == 1, milli / GPU, whole),
        gpu_type=types.str.split("|").list.get(0, null_on_oob=True),
        cpus=table.number("cpu_milli", "cpus", 0.001, "thousandths of a core"),
        mem_gib=table.number("memory_mib", "mem_gib", 1 / 1024, "MiB"),
        qos=table.text("qos").replace_strict(QOS, default=None, return_dtype=pl.String).cast(pl.Float64).to_numpy(),
        recorded_wait=scheduled - created,
        outcome=table.outcome("pod_phase", OUTCOMES),
    )


READER = Reader("Alibaba's GPU pods of 2023: openb_pod_list_*.csv", recognises, read)
