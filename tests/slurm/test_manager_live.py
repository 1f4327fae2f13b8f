"""A real Slurm passes the suite that every resource manager must pass."""

from __future__ import annotations

import pytest

from shunter.live.daemons import wait
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab
from shunter.slurm.manager import SlurmManager
from shunter.testing.manager_conformance import ManagerConformance


class TestSlurm(ManagerConformance):
    @pytest.fixture
    def manager(self, lab: Lab) -> SlurmManager:
        """All GPUs are in use; three jobs wait, the longest first."""
        lab.wait_job(lab.submit("--gpus=22", "--time=120", script="sleep 600"), "RUNNING")
        for minutes in (60, 30, 10):
            lab.submit("--gpus=2", f"--time={minutes}", script="sleep 600")
        manager = SlurmManager(Client(lab.conf))
        assert wait(lambda: sum(job.waits for job in manager.snapshot().jobs) == 3, 180)
        return manager
