"""Compile every kernel ahead of its first use, for one account or for all accounts of a machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from shunter import compiled, registry
from shunter.errors import InputError
from shunter.extras import MissingError
from shunter.processes import Progress

SMALL = ("synthetic:jobs=40,gpus=8,load=1.0", "2x4")
VARIANTS = ("fifo:backfill=easy", "wfp3:backfill=easy", "fifo:backfill=conservative", "dally:backfill=easy")


def for_this_account(progress: Progress = lambda done, total: None) -> Path:
    """Compile into this account's cache; returns where that is. ``progress`` gets the policies done, and all."""
    from shunter.live import warming
    from shunter.simulation import simulate

    simulated, live = (*registry.names(), *VARIANTS), ("multifactor", *VARIANTS, "tiresias", "dally")
    total = len(simulated) + len(live) + 1
    for number, name in enumerate(simulated):
        progress(number, total)
        with suppress(MissingError):  # what can't run here need not be compiled
            _ = simulate(*SMALL, name, decisions=True).summary
    for number, name in enumerate(live, len(simulated)):
        progress(number, total)
        warming.rounds(registry.policy(name))
    progress(total - 1, total)
    warming.shadow(registry.policy("multifactor:backfill=easy"))
    warming.forecasts()
    return compiled.cache_folder()


def for_all() -> Path:
    """Compile into a folder beside the sources, from which the cache of every account begins; returns where that is."""
    goal = compiled.installed_folder()
    try:
        goal.parent.mkdir(mode=0o755, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".part-", dir=goal.parent) as part:
            _compile_into(Path(part))
            shutil.rmtree(goal, ignore_errors=True)
            (Path(part) / goal.name).rename(goal)
    except PermissionError:
        raise InputError(f"{goal.parent}: can't be written; run it as the account that installed shunter") from None
    _open_to_readers(goal)
    for old in goal.parent.iterdir():
        if old != goal:
            shutil.rmtree(old)
    return goal


def _compile_into(place: Path) -> None:
    """In a process of its own, whose cache is elsewhere."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "shunter", "compile"],
        env=os.environ | {compiled.VARIABLE: str(place)}, stdout=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode:
        raise InputError("the kernels were not compiled; see the messages above")


def _open_to_readers(folder: Path) -> None:
    """Whatever the umask: all accounts may read, only the owner may write."""
    folder.chmod(0o755)
    for entry in folder.rglob("*"):
        entry.chmod(0o755 if entry.is_dir() else 0o644)
