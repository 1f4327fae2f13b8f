"""A process that is ready to run a controller, and forks one for every line that it reads: many can be killed.

A line is the levers and a seed: ``nice,pin,requeue,shard 7``.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from shunter.capabilities import Ranks
from shunter.cluster import Cluster
from shunter.errors import LiveError
from shunter.live.backend import Rhythm
from shunter.live.controller import ChangeLimits, Mode
from shunter.live.levers import levers_from
from shunter.live.running import ControllerSettings, run
from shunter.live.stops import StopLimits
from shunter.model import Plan, Preempt, Start, View
from shunter.slurm.client import Client
from shunter.slurm.manager import SlurmManager


class Restless(Ranks):
    """A policy that never wants the same twice: any order, any free node, any job stopped, any GPU shared."""

    needs = frozenset[str]()

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def start(self, _cluster: Cluster, _previous: Any = None) -> dict[str, Any]:
        """Nothing is remembered but what is still to be said of this view."""
        return {"now": -1, "plans": []}

    def ranking(self, view: View, _memory: Any) -> np.ndarray:
        """All that wait, in any order."""
        return np.array(self.draw.sample(view.pending.tolist(), len(view.pending)), np.int64)

    def decide(self, view: View, memory: dict[str, Any]) -> Plan:
        """Some starts one by one, and a job to be stopped, which may be refused."""
        if memory["now"] != view.now:
            memory |= {"now": view.now, "plans": [*self._starts(view), *self._stops(view)]}
        return Plan((memory["plans"].pop(0),) if memory["plans"] else ())

    def _starts(self, view: View) -> list[Start]:
        free = {node: view.free_gpus(node).tolist() for node in range(len(view.nodes.total))}
        waiting, found = view.pending.tolist(), []
        for job in self.draw.sample(waiting, min(len(waiting), 6)):
            wanted = int(view.jobs.gpus[job])
            nodes = [node for node, gpus in free.items() if len(gpus) >= wanted]
            if wanted == 1 and self.draw.random() < 0.3:
                gpu = self.draw.randrange(len(view.gpus.node))  # it may have a tenant
                found.append(Start(job, (gpu,), shared=True))
            elif nodes:
                found.append(Start(job, tuple(free.pop(self.draw.choice(nodes))[:wanted])))
        return found

    def _stops(self, view: View) -> list[Preempt]:
        running = view.running.tolist()
        return [Preempt(self.draw.choice(running))] if running and self.draw.random() < 0.3 else []


def main(conf: Path, journal: Path) -> None:
    def control(mode: Mode, rounds: int, levers: str, seed: int) -> None:
        bounds = ChangeLimits(changes=30, stops=StopLimits(per_hour=10_000, per_job=10_000, min_run_s=0.0))
        settings = ControllerSettings(mode, Rhythm(0.2, 0.1), bounds=bounds, levers=levers_from(levers), rounds=rounds)
        run(Restless(seed), SlurmManager(Client(conf, timeout_s=1.0)), journal, settings)

    control(Mode.WATCH, 1, "nice", 0)  # all is loaded and compiled
    for line in sys.stdin:
        levers, seed = line.split()
        child = os.fork()
        if child == 0:
            try:
                control(Mode.ACT, 0, levers, int(seed))
            except LiveError as error:
                sys.stderr.write(f"{error}\n")
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
