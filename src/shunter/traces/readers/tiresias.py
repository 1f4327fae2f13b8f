"""The CSV of Tiresias' simulator: seconds, and models with iterations."""

from __future__ import annotations

from shunter.model import Trace
from shunter.traces.delimited import read_table
from shunter.traces.readers import Reader
from shunter.traces.source import Source

REQUIRED = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration")


def recognises(source: Source) -> bool:
    """By its columns; Muri's are the same and some more."""
    return source.has(*REQUIRED) and not source.has("iteration_time")


def read(source: Source) -> Trace:
    """Columns as they are; ``interval`` is the gap to the job before, which submit_time says too."""
    table = read_table(source, REQUIRED)
    return table.trace(
        table.text("job_id"),
        submit=table.number("submit_time", "submit"),
        duration=table.number("duration", "duration"),
        gpus=table.number("num_gpu", "gpus"),
        model=table.text("model_name"),
        iterations=table.number("iterations", "iterations"),
    )


READER = Reader("Tiresias' simulator: job_id, num_gpu, submit_time, iterations, model_name, duration", recognises, read)
