"""Measuring: two processes that run loops, a GPU that is watched, and a walk through the pairs."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .errors import HostError, MeasuringError
from .hosts import STARTING, Host
from .loops import CONFIGURATIONS, Configuration
from .nvml import Gpu, NoGpu, mps_runs
from .plan import Pair, planned, walk
from .tables import Tables

LEAD = 0.3  # seconds of load before anything counts
EVERY = 0.05  # seconds between samples
BACK = 0.25  # seconds that NVML's utilisation looks back


@dataclass(frozen=True)
class BenchSettings:
    """What is to be measured."""

    out: Path
    seconds: float = 1.5
    minutes: float | None = None
    only: tuple[str, ...] = ()
    partners: int = 12
    device: str = "cuda"
    gpu: int = 0


class Measurement(NamedTuple):
    """One measurement."""

    at: float  # seconds since 1970
    rates: list[float]  # steps per second
    cpu_s: list[float]  # of CPU time per second
    gpu: tuple[float, ...]  # GPU and memory utilisation
    rest: tuple[float, ...]  # watts and the counters of NVML


class Bench:
    """The GPU and the processes that use it."""

    def __init__(self, gpu: Gpu | NoGpu, device: str, seconds: float) -> None:
        self.gpu, self.device, self.seconds = gpu, device, seconds
        self.before = gpu.memory()[1]
        self.hosts: list[Host] = []
        self.versions: dict[str, str] = {}
        self.mib: dict[str, float] = {}  # of each loop, without the context
        self.context = 0.0  # MiB of the context of a process

    def start(self, names: list[str]) -> None:
        """Start both processes and build all loops in both; those that can't be built are left out."""
        self.hosts = [Host(self.device, number) for number in range(2)]
        for host in self.hosts:
            try:
                self.versions |= host.hear(STARTING)
            except HostError as error:
                raise MeasuringError(f"no process starts: {error}") from None
        for name in names:
            try:
                self._build(self.hosts, name)
            except HostError as error:
                say(f"{name}: left out, because {error}")
        used = self.gpu.memory()[1] - self.before - sum(host.kept for host in self.hosts)
        self.context = max(0.0, used / len(self.hosts))

    def _build(self, hosts: list[Host], name: str) -> None:
        """In several processes at once."""
        try:
            for host in hosts:
                host.order(name)
            for host in hosts:
                self.mib[name], host.kept = host.hear(STARTING)
                host.built.add(name)
        except HostError:
            self._restart()
            raise

    def _restart(self) -> None:
        """Begin again with fresh processes, which build loops when they are next needed."""
        self.close()
        self.hosts = [Host(self.device, number) for number in range(2)]
        for host in self.hosts:
            host.hear(STARTING)

    def close(self) -> None:
        """End the processes."""
        for host in self.hosts:
            host.kill()
        self.hosts = []

    def run(self, names: tuple[str, ...]) -> Measurement:
        """Run one loop, or two side by side."""
        hosts = self.hosts[: len(names)]
        for host, name in zip(hosts, names, strict=True):
            if name not in host.built:
                self._build([host], name)
        at, begin = time.time(), time.perf_counter() + LEAD
        try:
            for host, name in zip(hosts, names, strict=True):
                host.order(name, begin, begin + self.seconds)
            watched, rest = self._watch(begin)
            ran = [host.hear(60.0 + 10 * self.seconds) for host in hosts]
            for host in hosts:
                host.halt()
            for host in hosts:
                host.hear(60.0)
        except HostError:
            with contextlib.suppress(HostError):
                self._restart()
            raise
        rates, cpu = [each.steps / each.seconds for each in ran], [each.cpu_s / each.seconds for each in ran]
        return Measurement(at, rates, cpu, watched, rest)

    def _watch(self, begin: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean utilisations while loops run; power at the end, and what NVML counted."""
        time.sleep(max(0.0, begin - time.perf_counter()))
        counted = self.gpu.counters()
        seen = list(self._samples(begin))
        rest = (self.gpu.power(), *self.gpu.between(counted, self.gpu.counters()))
        gpu, memory = np.mean(seen or [self.gpu.utilisation()], axis=0)
        return (float(gpu), float(memory)), rest

    def _samples(self, begin: float) -> Iterator[tuple[float, float]]:
        at = begin + max(0.0, BACK - LEAD) + EVERY
        while at < begin + self.seconds:
            time.sleep(max(0.0, at - time.perf_counter()))
            yield self.gpu.utilisation()
            at += EVERY


def say(text: str) -> None:
    """Report progress."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def chosen(only: tuple[str, ...]) -> list[Configuration]:
    """The configurations of these names; all if none are given."""
    unknown = [name for name in only if name not in {each.name for each in CONFIGURATIONS}]
    if unknown:
        raise MeasuringError(
            f"there is no configuration {unknown[0]}; known: {', '.join(c.name for c in CONFIGURATIONS)}"
        )
    return [each for each in CONFIGURATIONS if not only or each.name in only]


def measure(settings: BenchSettings) -> int:
    """Measure what isn't in the folder yet; how many pairs are still missing then."""
    began = time.perf_counter()
    loops = chosen(settings.only)
    if importlib.util.find_spec("torch") is None:
        raise MeasuringError("PyTorch is missing; install it with: pip install torch")
    if not settings.seconds > 0:
        raise MeasuringError(f"seconds must be more than 0, got {settings.seconds}")
    gpu = NoGpu() if settings.device == "cpu" else Gpu(settings.gpu)
    tables = Tables(settings.out)
    missing = [pair for pair in planned([loop.name for loop in loops], settings.partners)
               if tuple(sorted(pair)) not in tables.pairs]  # fmt: skip
    if not missing:
        say(f"{settings.out}: all is there")
        return 0
    os.environ["OMP_NUM_THREADS"] = "1"  # two loops must not fight for CPUs
    bench = Bench(gpu, settings.device, settings.seconds)
    until = math.inf if settings.minutes is None else began + 60 * settings.minutes
    try:
        bench.start([loop.name for loop in loops])
        return _Round(bench, tables, until).all(missing)
    finally:
        bench.close()


class _Round:
    """One go through what is missing."""

    def __init__(self, bench: Bench, tables: Tables, until: float) -> None:
        self.bench, self.tables, self.until = bench, tables, until
        self.loops = {loop.name: loop for loop in CONFIGURATIONS}

    def all(self, pairs: list[Pair]) -> int:
        """Measure; how many pairs are missing at the end."""
        bench, left = self.bench, len(pairs)
        built = [pair for pair in pairs if set(pair) <= set(bench.mib)]
        cost = LEAD + bench.seconds + 0.1
        for names in walk(built):
            if time.perf_counter() + cost > self.until:
                say(f"time is up with {left} pairs to do; the same command goes on with them")
                break
            what = " + ".join(names)
            try:
                say(f"{what}: {self._measure(names)}")
            except HostError as error:
                say(f"{what}: left out, because {error}")
                continue
            left -= len(names) - 1
        return left

    def _measure(self, names: tuple[str, ...]) -> str:
        seen = self.bench.run(names)
        self.tables.check(self._about())
        rates = " and ".join(f"{rate:.1f}" for rate in seen.rates)
        if len(names) == 1:
            mib = self.bench.mib[names[0]] + self.bench.context
            cpu = 100 * seen.cpu_s[0]
            row = (seen.at, self.bench.seconds, seen.rates[0], *seen.gpu, mib, cpu, *seen.rest)
            self.tables.add_solo(self.loops[names[0]], row)
        else:
            self.tables.add_pair((*names, seen.at, self.bench.seconds, *seen.rates, *seen.gpu, *seen.rest))
        return f"{rates} steps/s, GPU {seen.gpu[0]:.0f} %"

    def _about(self) -> dict[str, Any]:
        bench = self.bench
        return {
            "gpu": bench.gpu.name, "gpu_mib": round(bench.gpu.memory()[0]), "driver": bench.gpu.driver,
            **bench.versions, "numpy": np.__version__, "python": platform.python_version(), "cpus": os.cpu_count(),
            "mps": mps_runs(), "context_mib": round(bench.context), "date": time.strftime("%Y-%m-%d"),
        }  # fmt: skip
