"""A Slurm that is played: a priority is what a job has by itself + its age - nice."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shunter.slurm.client import Client, declined
from shunter.slurm.squeue import FIELD, JOB_FIELDS, RECORD
from shunter.slurm.watcher import NODE_FIELDS

TEXT = {"ReqNodeList": "ReqNodes", "admincomment": "admin_comment"}  # scontrol's name: squeue's
PENDING = {"State": "PENDING", "Reason": "Priority"}
NODE = ["main", "mixed", "gpu:a100:8", "gpu:a100:0(IDX:N/A)", "0/64/0/64", "1000000", "0", "(null)"]


@dataclass
class Played:
    """One job."""

    base: int
    gpus: int = 1
    user: str = "ann"
    minutes: int = 60
    nice: int = 0
    came: int = 0  # in rounds
    said: dict[str, str] = field(default_factory=dict)  # what it says of itself besides

    def priority(self, now: int) -> int:
        return max(self.base + 3 * (now - self.came) - self.nice, 1)


class Pretend(Client):
    """Answers and obeys; ``decline`` may say why not."""

    release = (20, 11)  # one that has no JSON

    def __init__(self, jobs: dict[str, Played], nodes: int = 2) -> None:
        super().__init__()
        self.jobs, self.now = jobs, 0
        self.nodes = {f"n{number}": list(NODE) for number in range(nodes)}
        self.more: list[list[str]] = []  # rows of nodes for their other partitions
        self.updates: list[tuple[str, str, str]] = []
        self.booted = "2020-01-01T00:00:00"
        self.decline: Callable[[str, str], str] = lambda _handle, _name: ""

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        self.calls[program] += 1
        if program == "scontrol" and arguments[0] == "update":
            return self._update(*arguments[1:])
        if program == "scontrol":
            return f"BOOT_TIME = {self.booted}\nPriorityType = priority/basic\n"
        if program == "sdiag":
            return f"Jobs submitted: {len(self.jobs)}"
        if program == "sprio":
            return ""
        if arguments[1].startswith("--jobs="):
            return arguments[1]  # it still waits
        mark = re.search(r"(;[0-9a-f]{12})", str(more or arguments))[1]
        nodes = [[name, *row] for name, row in self.nodes.items()] + self.more
        rows = nodes if program == "sinfo" else self._rows()
        assert all(len(row) == len(NODE_FIELDS if program == "sinfo" else JOB_FIELDS) for row in rows)
        return "".join((mark + FIELD).join(row) + mark + RECORD + "\n" for row in rows)

    def _update(self, jobid: str, *changes: str) -> str:
        target = jobid.removeprefix("jobid=")
        handle = self._named(target)
        for name, _, value in (change.partition("=") for change in changes):
            if name != "admincomment":
                self.updates.append((handle, name, value))
            why = self.decline(handle, name) or ("" if handle in self.jobs else "Invalid job id specified")
            if why:
                raise declined(f"scontrol update: {why}")
            if name == "nice":
                self.jobs[handle].nice = int(value)
            else:
                self.jobs[handle].said[TEXT[name]] = value or "(null)"
        return ""

    def _named(self, target: str) -> str:
        """The number of the record that scontrol would change."""
        array, _, tasks = target.partition("_")
        own = (number for number, job in self.jobs.items() if job.said.get("JobArrayID") == target)
        return array if tasks.startswith("[") else next(own, target)

    def _rows(self) -> list[list[str]]:
        rows = []
        for number, job in self.jobs.items():
            values = dict.fromkeys(JOB_FIELDS, "N/A") | PENDING
            values |= {"JobID": number, "JobArrayID": number, "UserName": job.user, "Partition": "main"}
            values |= {"SubmitTime": "2026-01-05T08:00:00", "EligibleTime": "2026-01-05T08:00:00", "NumNodes": "1"}
            values |= {"TimeLimit": f"{job.minutes}:00", "NumCPUs": "4", "NumTasks": "1", "RestartCnt": "0"}
            values |= {"PriorityLong": str(job.priority(self.now)), "Nice": str(job.nice), "ReqNodes": "(null)"}
            values |= {"tres-alloc": f"cpu=4,mem=16G,node=1,gres/gpu={job.gpus}" if job.gpus else "cpu=4"}
            rows.append(list((values | job.said).values()))
        return rows

    def order(self) -> list[str]:
        """The jobs as Slurm would start them."""
        return sorted(self.jobs, key=lambda job: (-self.jobs[job].priority(self.now), int(job)))
