"""The processes in which loops run: each has all loops, builds them when ordered to, and runs one at a time.

Two such processes make any pair, also one of two equal loops, and nothing is started for a measurement.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from .errors import HostError, MeasuringError
from .kit import Kit, Step
from .loops import CONFIGURATIONS

STARTING = 300.0  # seconds that a host has to import PyTorch, or to build a loop
MIB = 2**20


class Ran(NamedTuple):
    """What a loop did in the seconds that count."""

    steps: int
    seconds: float
    cpu_s: float  # of all of its threads


def work(connection: Connection, device: str, seed: int) -> None:
    """The process: it sends its versions, then obeys orders until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    with contextlib.suppress(EOFError, BrokenPipeError):  # the parent is gone
        try:
            import torch

            if device != "cpu" and not torch.cuda.is_available():
                raise MeasuringError(f"PyTorch {torch.__version__} can't use the GPU; install its build for CUDA")
            connection.send({"torch": torch.__version__, "cuda": torch.version.cuda or "none"})
            loops = _Loops(torch, device, seed)
            while True:
                name, begin, end = connection.recv()
                if begin is None:
                    connection.send(loops.build(name))
                else:
                    loops.run(name, begin, end, connection)
        except (MeasuringError, RuntimeError, MemoryError, ImportError) as error:
            connection.send((str(error) or type(error).__name__).splitlines()[0])


class _Loops:
    """The loops of one host."""

    def __init__(self, torch: Any, device: str, seed: int) -> None:
        self.torch, self.device, self.seed = torch, device, seed
        self.steps: dict[str, Step] = {}
        self.finish: Callable[[], None] = torch.cuda.synchronize if device != "cpu" else lambda: None

    def build(self, name: str) -> tuple[float, float]:
        """MiB of GPU memory that a loop takes at most, and that this process keeps once it rests."""
        loop = next(each for each in CONFIGURATIONS if each.name == name)
        cuda = self.torch.cuda if self.device != "cpu" else None
        before = 0
        if cuda:
            before = cuda.memory_reserved()
            cuda.reset_peak_memory_stats()
        step = self.steps[name] = loop.build(Kit(self.device, loop.batch, loop.amp, self.seed))
        now = time.perf_counter()
        _steps(step, self.finish, now + 0.3)
        gc.collect()
        gc.freeze()  # what other loops have is no burden to this one's garbage collector
        if not cuda:
            return 0.0, 0.0
        most = cuda.max_memory_reserved() - before
        cuda.empty_cache()
        return most / MIB, cuda.memory_reserved() / MIB

    def run(self, name: str, begin: float, end: float, connection: Connection) -> None:
        """Run up to ``begin``, count up to ``end``, and run on until ordered to stop."""
        step = self.steps[name]
        _steps(step, self.finish, begin)
        cpu = time.process_time()
        steps, seconds = _steps(step, self.finish, end)
        connection.send(Ran(steps, seconds, time.process_time() - cpu))
        while not connection.poll():
            _steps(step, self.finish, time.perf_counter() + 0.02)
        connection.recv()
        if self.device != "cpu":
            free, total = self.torch.cuda.mem_get_info()
            if free < total / 2:
                self.torch.cuda.empty_cache()
        connection.send(())


def _steps(step: Step, finish: Callable[[], None], until: float) -> tuple[int, float]:
    """Steps up to some time; launches may run ahead of the GPU by some 50 ms."""
    began = last = time.perf_counter()
    steps = 0
    while True:
        step()
        steps += 1
        now = time.perf_counter()
        if now - last > 0.05 or now >= until:
            finish()
            last = time.perf_counter()
            if last >= until:
                return steps, last - began


class Host:
    """The parent's side of such a process."""

    def __init__(self, device: str, number: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.number, self.built = number, set[str]()
        self.kept = 0.0  # MiB that it has on the GPU while it rests, without its context
        self.connection, other = spawn.Pipe()
        os.environ["PYTHONSAFEPATH"] = "1"  # it is started as python -c, which would import from the current folder
        self.process = spawn.Process(target=work, args=(other, device, number + 1), daemon=True)
        self.process.start()
        other.close()

    def hear(self, seconds: float) -> Any:
        """Its next answer."""
        try:
            if not self.connection.poll(seconds):
                raise HostError(f"process {self.number} has not answered for {seconds:.0f} s")
            answer = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(1)
            raise HostError(f"process {self.number} died with exit code {self.process.exitcode}") from None
        if isinstance(answer, str):
            raise HostError(answer)
        return answer

    def order(self, name: str, begin: float | None = None, end: float | None = None) -> None:
        """Build a loop, or run it and count between two times of ``time.perf_counter``."""
        self._send((name, begin, end))

    def halt(self) -> None:
        """End what runs."""
        self._send(())

    def _send(self, what: Any) -> None:
        try:
            self.connection.send(what)
        except OSError:
            raise HostError(f"process {self.number} is dead") from None

    def kill(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()
