"""The watchdog of a controller on Slurm, as a process of its own.

It imports next to nothing, so that what breaks the controller does not break it:

    python -m shunter.slurm.watchdog JOURNAL
"""

from __future__ import annotations

import sys

from shunter.live.watchdog import main
from shunter.slurm.client import Client
from shunter.slurm.manager import SlurmManager
from shunter.slurm.watcher import OutputFormat


def manager() -> SlurmManager:
    """Slurm, polled in text: that needs least."""
    return SlurmManager(Client(), OutputFormat.TEXT)


if __name__ == "__main__":
    sys.exit(main("shunter.slurm.watchdog", manager))
