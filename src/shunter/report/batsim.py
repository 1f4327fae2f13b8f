"""A run in the layout of Batsim's ``jobs.csv``, for tools that draw from it; resources are GPUs, numbered node by node.

Times are seconds since the first submission.  A job that was stopped and started again is one row: from its first start
to its end, with the GPUs of its last run.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from shunter import world as w
from shunter.errors import RunError
from shunter.model import GPU
from shunter.safe_files import whole

if TYPE_CHECKING:
    from shunter.run_folder import Run

COLUMNS = (
    "job_id",
    "workload_name",
    "profile",
    "submission_time",
    "requested_number_of_resources",
    "requested_time",
    "success",
    "final_state",
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
    "allocated_resources",
    "consumed_energy",
    "metadata",
)
STATES = {"done": "COMPLETED_SUCCESSFULLY", "failed": "COMPLETED_FAILED"}


def write(run: Run, file: Path) -> None:
    """Write that file."""
    with whole(file, RunError) as made:
        made.write_text(jobs_csv(run), encoding="utf-8")


def jobs_csv(run: Run) -> str:
    """One row per job that started, in the order of submission."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    gpus = _gpus_of_last_runs(run)
    first = run.jobs["submit"].min() if len(run.jobs) else 0
    for row, job in enumerate(run.jobs.iter_rows(named=True)):
        if row not in gpus:
            continue
        ended = job["end"] is not None
        submit, start = job["submit"] - first, job["start"] - first
        turnaround = job["jct"] if ended else None
        writer.writerow(
            (
                job["job_id"],
                "w0",
                job["user"] or "none",
                f"{submit:.3f}",
                max(int(job["gpus"]), 1),
                -1 if job["limit"] is None else f"{job['limit']:.3f}",
                int(job["state"] == "done"),
                STATES.get(job["state"], "COMPLETED_KILLED"),
                f"{start:.3f}",
                f"{job['run']:.3f}",
                f"{job['end'] - first:.3f}" if ended else "",
                f"{job['wait'] - job['lost']:.3f}",
                f"{turnaround:.3f}" if ended else "",
                f"{turnaround / max(job['run'], 0.001):.6f}" if ended else "",
                intervals(gpus[row]),
                -1,
                "",
            )
        )
    return text.getvalue()


def intervals(numbers: Iterable[int]) -> str:
    """Numbers as Batsim writes sets of them: ``0-3 8``."""
    runs = groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0])
    edges = [[number for _, number in group] for _, group in runs]
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in edges)


def _gpus_of_last_runs(run: Run) -> dict[int, list[int]]:
    """GPUs for each job that started.  The log says how many on which node; the first free ones are taken for them."""
    sizes = run.cluster.node_gpus.tolist()
    first = [0, *accumulate(sizes)]
    used = [[0] * size for size in sizes]  # thousandths in use, per node and GPU
    held: dict[int, list[tuple[int, int, int]]] = {}
    last: dict[int, list[int]] = {}
    for _, kind, job, node, amount in run.events.tolist():
        if kind == w.START:
            if job not in held:
                last[job] = []
            for gpu, part in _take(used[node], amount):
                held.setdefault(job, []).append((node, gpu, part))
                last[job].append(first[node] + gpu)
        elif kind in (w.FINISH, w.FAIL, w.PREEMPT, w.MOVE):
            for other, gpu, part in held.pop(job, []):
                used[other][gpu] -= part
    return last


def _take(used: list[int], amount: int) -> list[tuple[int, int]]:
    """GPUs of a node for this many thousandths: whole free ones, or the first with room for a share of one."""
    share = min(amount, GPU)
    free = sorted(range(len(used)), key=lambda gpu: used[gpu] + share > GPU)  # those with room first, in order
    taken = [(gpu, share) for gpu in free[: max(amount // GPU, 1)]]
    for gpu, part in taken:
        used[gpu] += part
    return taken
