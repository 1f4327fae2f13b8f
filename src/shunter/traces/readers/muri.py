"""Muri's CSV of Philly virtual clusters: Tiresias' layout in milliseconds, with stage times that were assigned."""

from __future__ import annotations

from shunter.model import Trace
from shunter.traces.delimited import read_table
from shunter.traces.readers import Reader
from shunter.traces.source import Source

REQUIRED = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "iteration_time")


def recognises(source: Source) -> bool:
    """By its columns."""
    return source.has(*REQUIRED)


def read(source: Source) -> Trace:
    """Milliseconds become seconds."""
    table = read_table(source, REQUIRED)
    table.remarks.append("times are taken as milliseconds, as Muri writes them; models and iterations were assigned")
    return table.trace(
        table.text("job_id"),
        submit=table.number("submit_time", "submit", 0.001, "ms"),
        duration=table.number("duration", "duration", 0.001, "ms"),
        gpus=table.number("num_gpu", "gpus"),
        model=table.text("model_name"),
        iterations=table.number("iterations", "iterations"),
    )


READER = Reader("Muri's simulator: Tiresias' columns and iteration_time; milliseconds", recognises, read)
