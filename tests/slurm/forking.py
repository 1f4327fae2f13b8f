"""A process that is ready to run a controller, and forks one for every line that it reads: many can be killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shunter.registry import policy
from shunter.slurm.backend import Rhythm
from shunter.slurm.client import Client
from shunter.slurm.controller import Bounds, Mode
from shunter.slurm.levers import levers_from
from shunter.slurm.running import Settings, run


def main(conf: Path, journal: Path) -> None:
    def control(mode: Mode, rounds: int) -> None:
        bounds, levers = Bounds(changes=30), levers_from("nice,requeue")
        settings = Settings(mode, Rhythm(0.2, 0.1), bounds=bounds, levers=levers, rounds=rounds)
        run(policy("sjf"), Client(conf), journal, settings)

    control(Mode.WATCH, 1)  # all is loaded and compiled
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            control(Mode.ACT, 0)
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
