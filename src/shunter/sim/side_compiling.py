"""The engine, compiled by a second process while this one compiles the policy: a first run takes half as long."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from shunter import compiled, lowered

# isort: split
import numba
from numba import types

from shunter.arrays import type_of
from shunter.processes import usable_cores
from shunter.sim import loop
from shunter.sim.state import SimulationState
from shunter.world import Decision, World

LAST = "loop.perform"  # what ``main`` compiles last


@contextmanager
def engine() -> Iterator[None]:
    """Compile a policy in here; afterwards the engine is in the kernel cache too, unless the second process failed."""
    process = _helper()
    try:
        yield
    except BaseException:
        if process is not None:
            process.kill()
        raise
    finally:
        if process is not None:
            process.wait()


@cache
def _helper() -> subprocess.Popen[bytes] | None:
    """The second process, for the first run in this one; None: it is not needed."""
    return _start() if _needed() else None


def _needed() -> bool:
    """Only in the first process of a command: those that it starts find what it has compiled."""
    if multiprocessing.parent_process() is not None or usable_cores() < 2 or numba.config.DISABLE_JIT:
        return False
    if sys.flags.ignore_environment:  # the other process would look where PYTHONPATH says
        return False
    return not is_done()


def is_done() -> bool:
    """Whether the engine is in the kernel cache, as machine code."""
    found = compiled.cache_folder().rglob(f"{LAST}-*.nbi")
    return any(compiled.TRANSLATED not in path.parts for path in found)


def _start() -> subprocess.Popen[bytes] | None:
    """The process; None: it could not be started, and this one does it all."""
    path = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", ""))
    none = subprocess.DEVNULL
    with suppress(OSError):
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))},
            stdin=none, stdout=none, stderr=none,
        )  # fmt: skip
    return None


def main() -> None:
    """Compile what the loop of every compiled policy calls."""
    with compiled.compiling():
        lowered.translate_ahead(loop.have_started, type_of(World), types.Array(types.int64, 1, "C"))
        lowered.translate_ahead(loop.keep_reasons, type_of(SimulationState), type_of(Decision))
        loop.engine()


if __name__ == "__main__":
    main()
