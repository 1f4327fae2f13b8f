"""Gandiva: Xiao et al., OSDI 2018; by default as Dally's authors compare with it, Sharma et al., IEEE Big Data 2025."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter import world as w
from shunter.capabilities import Shares
from shunter.model import View
from shunter.params import Among, Between, param
from shunter.policies.gandiva import moves as g
from shunter.policies.gandiva.decide import decide
from shunter.policies.gandiva.turns import MOST_MODELS
from shunter.scheduling.leasing.memory import Offers
from shunter.scheduling.leasing.policy import Leasing, Placing
from shunter.scheduling.queue.policy import MIN_RUN, MIN_RUN_DOC, Mask
from shunter.scheduling.queue.queue import Queue
from shunter.scheduling.tiers import AFFINE, LIST, SCATTER
from shunter.world import F64, I64, Job, World


@dataclass(frozen=True)
class Gandiva(Leasing, Shares):
    """Keeps jobs of a size on the same machines, else takes any GPUs and moves later; can slice, pack and grow."""

    draw: str = param(
        "random",
        "which GPUs a job gets if no machine has room: at random, or in their order (list)",
        choices=("random", "list"),
    )
    migration: bool = param(
        True,
        "a running job moves to free GPUs that are closer together, and out of a pair once no job waits",
        search=Among(("true", "false")),
    )
    move_again: float = param(
        60.0,
        "seconds between two searches for closer GPUs, in addition to those when GPUs become free; 0: only then",
        low=0,
        high=86_400,
    )
    slicing: bool = param(
        False,
        "jobs run in turns while others wait: at each check the one that ran longest gives way; replaces leases",
        search=Among(("false", "true")),
    )
    packing: bool = param(
        False,
        "a job that finds no free GPUs shares those of a running job of its size, drawn at random; pairs that do less "
        "work than one job alone are separated at the next check",
    )
    growth: float = param(
        1.0, "a job grows into idle GPUs of its machine, up to this many times its request", low=1, high=64
    )
    look_again: float = param(
        60.0,
        "seconds between two checks, which is the length of a turn",
        low=1,
        high=86_400,
        scale="log",
        search=Between(60, 3600, log=True),
    )

    min_run: float = param(MIN_RUN, MIN_RUN_DOC, low=0, high=1000, search=Between(1, 100, log=True))

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """In turns the job that waited longest first; else the last to start first, jobs that never started last."""
        return job.queued if p[0] == 1 else -job.started

    def key_params(self) -> F64:
        """Whether jobs run in turns."""
        return np.array([float(self.slicing)])

    def placing(self, view: View, sample: I64, holds: Mask) -> Placing:
        """One machine by affinity, else any GPUs of the cluster."""
        takes = holds.copy()
        takes[1:-1] = False
        return Placing(AFFINE, SCATTER if self.draw == "random" else LIST, takes)

    @staticmethod
    def took(world: World, offers: Offers, job: int, tier: int) -> None:
        """A job that is not on one machine may gain by moving later."""
        if tier > 0:
            g.may_gain(offers, job)

    @staticmethod
    def ended(world: World, offers: Offers, job: int, tier: int) -> None:
        """When it gets GPUs again they are to be as close together."""
        g.keep_seat(offers, job, tier)

    @property
    def shares(self) -> bool:
        """Whether it packs."""
        return self.packing

    def decision(self) -> Any:
        """Its own."""
        return decide

    def knowledge(self, sizes: I64, tiers: int, jobs: int) -> g.Moves:
        """An empty memory of jobs that may gain by moving, and of slow pairs."""
        config = g.GandivaConfig(
            quantum=round(self.look_again * 1000),
            slicing=self.slicing,
            packing=self.packing,
            migration=self.migration,
            growth=int(self.growth * 1000),
            moving=round(self.move_again * 1000),
        )
        names = ("listed", "is_listed", "alone", "runners", "position", "next_of_size")
        lists = {name: np.zeros(jobs, np.int64) for name in names}
        lists["first_of_size"] = np.zeros(len(sizes), np.int64)
        return g.Moves(config=config, bad=np.zeros((0, 0), np.int64), **lists)

    def memory(self, view: View, queue: Queue) -> Offers:
        """Also which models are slow beside which, and where jobs were; turns take the place of leases."""
        offers, world = super().memory(view, queue), view.world
        models = min(int(world.jobs[w.MODEL].max(initial=-1)) + 1, MOST_MODELS)
        return offers.replace(
            config=offers.config.replace(lease=w.NEVER) if self.slicing else offers.config,
            own=offers.own.replace(bad=np.zeros((models, models), np.int64)),
            seat=np.zeros(world.jobs.shape[1], np.int64),
        )
