"""Checks a job log in Batsim's layout by itself: what it says of times and GPUs must be possible.

It reads the text alone and shares no code with what wrote it, so a log of any simulator can be checked.  Rows of jobs
that were stopped say too little to be checked; ``stopped`` names them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

CLOSE = 2e-3  # seconds: times are written in thousandths


def check(text: str, gpus: int, stopped: Collection[str] = ()) -> int:
    """Raise ``AssertionError`` with the job at the first contradiction; returns how many rows were checked."""
    spans: dict[int, list[tuple[float, float, str]]] = {gpu: [] for gpu in range(gpus)}
    checked = 0
    for row in csv.DictReader(io.StringIO(text)):
        if row["finish_time"] and row["job_id"] not in stopped:
            held = list(numbers(row["allocated_resources"]))
            _check_row(row, held, gpus)
            checked += 1
            for gpu in held:
                spans[gpu].append((float(row["starting_time"]), float(row["finish_time"]), row["job_id"]))
    for gpu, of_gpu in spans.items():
        for (_, end, one), (begin, _, other) in pairwise(sorted(of_gpu)):
            assert end <= begin + CLOSE, f"jobs {one} and {other} hold GPU {gpu} at the same time"
    return checked


def _check_row(row: Mapping[str, str], held: list[int], gpus: int) -> None:
    job = f"job {row['job_id']}"
    submit, start, end = (float(row[name]) for name in ("submission_time", "starting_time", "finish_time"))
    assert submit <= start + CLOSE, f"{job} starts before it is submitted"
    assert abs(start - submit - float(row["waiting_time"])) <= CLOSE, f"{job}: its wait is not start less submission"
    assert abs(end - start - float(row["execution_time"])) <= CLOSE, f"{job}: its run time is not end less start"
    assert abs(end - submit - float(row["turnaround_time"])) <= CLOSE, (
        f"{job}: its turnaround is not end less submission"
    )
    assert len(held) == len(set(held)) == int(row["requested_number_of_resources"]), (
        f"{job} holds other GPUs than asked"
    )
    assert all(0 <= gpu < gpus for gpu in held), f"{job} holds a GPU that the cluster lacks"


def numbers(text: str) -> Iterator[int]:
    """The numbers of a set as Batsim writes it: ``0-3 8``."""
    for part in text.split():
        low, _, high = part.partition("-")
        yield from range(int(low), int(high or low) + 1)
