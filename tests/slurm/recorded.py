"""A Slurm that answers from a recording, for loads that no virtual cluster takes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from shunter.seeding import rng
from shunter.slurm.client import Client
from shunter.slurm.squeue import FIELD, JOB_FIELDS, RECORD
from shunter.slurm.watcher import NODE_FIELDS


class Recorded(Client):
    """So many waiting jobs on nodes of 8 GPUs that are all in use; priorities grow from answer to answer."""

    release = (20, 11)  # one that has no JSON

    def __init__(self, waiting: int, running: int = 256) -> None:
        super().__init__()
        self.answers = 0
        self.nodes = running // 4
        draw = rng(0, "recorded")
        gpus = draw.choice(np.array([1, 2, 4, 8, 16]), waiting, p=[0.5, 0.2, 0.15, 0.1, 0.05])
        minutes, users = draw.integers(1, 2880, waiting), draw.integers(0, 300, waiting)
        self.waiting = [
            self._job(number, "PENDING", int(size), int(limit), int(user), "")
            for number, size, limit, user in zip(range(1000, 1000 + waiting), gpus, minutes, users, strict=True)
        ]
        self.running = [
            self._job(number, "RUNNING", 2, 600, number % 300, f"n{number // 4 + 1:03d}") for number in range(running)
        ]
        self.base = draw.integers(1000, 5000, waiting)

    def _job(self, number: int, state: str, gpus: int, minutes: int, user: int, node: str) -> dict[str, str]:
        values = dict.fromkeys(JOB_FIELDS, "N/A")
        values |= {"JobID": str(number), "JobArrayID": str(number), "State": state, "Reason": "Priority", "Nice": "0"}
        values |= {"UserName": f"u{user}", "Account": f"a{user % 20}", "Partition": "main", "Name": f"train{user % 7}"}
        values |= {"SubmitTime": "2026-01-05T08:00:00", "EligibleTime": "2026-01-05T08:00:00", "NumNodes": "1"}
        values |= {"TimeLimit": f"{minutes // 1440}-{minutes // 60 % 24:02d}:{minutes % 60:02d}:00", "RestartCnt": "0"}
        values |= {
            "TimeUsed": "10:00",
            "NodeList": node,
            "NumCPUs": str(4 * gpus),
            "NumTasks": "1",
            "PriorityLong": "1",
        }
        values |= {"tres-alloc": f"cpu={4 * gpus},mem={16 * gpus}G,node=1,gres/gpu={gpus}", "Comment": "(null)"}
        if state == "RUNNING":
            values |= {"StartTime": "2026-01-05T08:10:00", "Reason": "None"}
        return values

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        """What the recording says."""
        self.calls[program] += 1
        if program == "scontrol":
            return ""  # a flat network
        if program == "sdiag":
            return f"Jobs submitted: {self.answers}"
        mark = re.search(r"(;[0-9a-f]{12})", str(more or arguments))[1]
        if program == "sinfo":
            row = ["main", "allocated", "gpu:a100:8", "gpu:a100:8(IDX:0-7)", "32/32/0/64", "1000000", "9", "(null)"]
            rows = [[f"n{number + 1:03d}", *row] for number in range(self.nodes)]
            assert len(rows[0]) == len(NODE_FIELDS)
            return "".join((mark + FIELD).join(row) + mark + RECORD + "\n" for row in rows)
        self.answers += 1
        for job, base in zip(self.waiting, self.base, strict=True):
            job["PriorityLong"] = str(base + self.answers)
        jobs = [*self.waiting, *self.running]
        return "".join((mark + FIELD).join(job.values()) + mark + RECORD + "\n" for job in jobs)
