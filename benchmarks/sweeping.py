"""What a sweep costs besides its runs, and how large one run can be: ``python -m benchmarks.sweeping --only share``.

CPU time counts wherever it can, so that a busy machine changes little; lines with "elapsed" are wall-clock time.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from shunter.sim import Simulator
from shunter.sweeps.engines import opener
from shunter.sweeps.form import of
from shunter.sweeps.places import Ground, code_version, ground_of
from shunter.sweeps.plan import SweepPlan, plan
from shunter.sweeps.running import BATCH_S, keys_of, run_all
from shunter.sweeps.store import MEASURED, Store
from shunter.sweeps.work import Batch, Row, SweepRunner

ROOT = Path(__file__).parents[1]
POLICIES = ("fifo", "saf", "f1", "las")
TASKS = 2000  # of the scheduler's ceiling
BATCH = 300  # short runs that take about two seconds
SIMULATING = f"{MEASURED}simulator_cpu_s"
MIB = 2**20
TICKS = os.sysconf("SC_CLK_TCK")
Numbers = Mapping[str, Any]


def planned(runs: int, jobs: int) -> tuple[SweepPlan, Ground]:
    """Many short runs: several policies at one place, with seeds."""
    axes = {"traces": [f"synthetic:jobs={jobs},gpus=64"], "clusters": ["8x8"], "policies": list(POLICIES)}
    made = plan(of(**axes, seeds=max(runs // len(POLICIES), 1)))
    return made, ground_of(made)


def cpu_s() -> float:
    """CPU seconds of this process and of those that it started and that have ended."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def share(wanted: argparse.Namespace) -> Numbers:
    """How much of the time of many short runs is spent in runs, from opening the engine to the last file."""
    made, ground = planned(wanted.runs, wanted.jobs)
    before = time.process_time()
    keys = keys_of(made, ground)
    planning = time.process_time() - before
    workers = wanted.workers
    engine = opener(f"local:{workers}") if wanted.dask else opener(workers=workers)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "runs", ground.version)
        begun, used, here = time.monotonic(), cpu_s(), time.process_time()
        done = run_all(dict(zip(keys, made.runs, strict=True)), Timed(SweepRunner(ground)), store, engine)
        elapsed, used, here = time.monotonic() - begun, cpu_s() - used, time.process_time() - here
        rows = store.read()
    inside, simulating = (float(rows[name].sum()) for name in ("cpu_s", SIMULATING))
    return {
        "runs": done.done, "failed": done.failed, "workers": workers,
        "share of CPU time in runs, %": 100 * inside / used,
        "share of CPU time in the simulator alone, %": 100 * simulating / used,
        "share of elapsed time of workers in runs, %": 100 * done.busy_s / (workers * elapsed),
        "CPU ms per run": 1000 * inside / done.done, "of them in the simulator": 1000 * simulating / done.done,
        "CPU ms per run outside of it": 1000 * (used - inside) / done.done,
        "of them in the command itself": 1000 * here / done.done,
        "CPU ms per run to find its key": 1000 * planning / done.done, "elapsed s": elapsed,
    }  # fmt: skip


@dataclass(frozen=True)
class Timed:
    """Runs of a sweep whose rows also have the CPU time of the simulator: its arrays, the policy's, and the loop."""

    runner: SweepRunner

    @property
    def version(self) -> str:
        """That of the sweep."""
        return self.runner.version

    def row(self, run: Any, key: str) -> Row:
        """The row of the run, and what the simulator took of it."""
        spent = _simulator_clock()
        spent.seconds = 0.0
        return {**self.runner.row(run, key), SIMULATING: spent.seconds}

    def lost(self, run: Any, key: str, why: str) -> Row:
        """Not expected."""
        raise AssertionError(why)


@dataclass
class Spent:
    """CPU time of this process in the simulator since it was last set to 0."""

    seconds: float = 0.0


@cache
def _simulator_clock() -> Spent:
    """Have the simulator's two entries count their CPU time, in this process from now on."""
    spent = Spent()
    for name in ("__init__", "run"):
        setattr(Simulator, name, _counted(getattr(Simulator, name), spent))
    return spent


def _counted(method: Callable[..., Any], spent: Spent) -> Callable[..., Any]:
    def counting(*given: Any, **named: Any) -> Any:
        begun = time.process_time()
        try:
            return method(*given, **named)
        finally:
            spent.seconds += time.process_time() - begun

    return counting


@dataclass(frozen=True)
class Same:
    """Runs that take no time: each gives the row of a run that was done before, as large as any, under its own key."""

    rows: tuple[Row, ...]
    version: str

    def row(self, run: Any, key: str) -> Row:
        """Another row each time, so that nothing is sent once for many."""
        return {**self.rows[int(key[:8], 16) % len(self.rows)], "key": key, "begun": time.time()}

    def lost(self, run: Any, key: str, why: str) -> Row:
        """Not expected."""
        raise AssertionError(why)


def peak(who: int = resource.RUSAGE_SELF) -> float:
    """The most memory that this process, or one of those that it started, has had, in MiB."""
    return resource.getrusage(who).ru_maxrss / 1024


@dataclass(frozen=True)
class Watched:
    """Runs of a sweep whose rows also report on their process."""

    runner: SweepRunner

    @property
    def version(self) -> str:
        """That of the sweep."""
        return self.runner.version

    def row(self, run: Any, key: str) -> Row:
        """The row of the run, and what the process has used before and after it."""
        before = {"cpu_before": time.process_time(), "rss_before": peak()}
        return {**self.runner.row(run, key), **before, "pid": os.getpid(), "rss": peak()}

    def lost(self, run: Any, key: str, why: str) -> Row:
        """Not expected."""
        raise AssertionError(why)


def workers(wanted: argparse.Namespace) -> Numbers:
    """What a worker takes before its first run, and what it has after some."""
    made, ground = planned(40, wanted.jobs)
    keys = keys_of(made, ground)
    batches = [Batch(n, (run,), (key,)) for n, (run, key) in enumerate(zip(made.runs, keys, strict=True))]
    found: dict[str, Any] = {}
    for name, engine in (("process", opener(workers=2)), ("Dask", opener("local:2"))):
        with engine(Watched(SweepRunner(ground))) as hands:
            rows = [row for future in [hands.submit(batch) for batch in batches] for row in future.result()]
        first = {row["pid"]: row for row in reversed(rows)}
        found[f"{name}: CPU s before its first run"] = max(row["cpu_before"] for row in first.values())
        found[f"{name}: CPU s of its first run (loads kernels)"] = max(row["cpu_s"] for row in first.values())
        found[f"{name}: MiB before its first run"] = max(row["rss_before"] for row in first.values())
        found[f"{name}: MiB after its runs"] = max(row["rss"] for row in rows)
    return found


def ceiling(wanted: argparse.Namespace) -> Numbers:
    """CPU time of a Dask scheduler and of the command per batch, with rows of real runs that take no time."""
    made, ground = planned(BATCH, wanted.jobs)
    keys, runner = keys_of(made, ground), SweepRunner(ground)
    rows = tuple(runner.row(run, key) for run, key in zip(made.runs[:20], keys, strict=False))
    batch = Batch(1, made.runs, tuple(keys))
    with _cluster(4) as (address, scheduler), opener(address)(Same(rows, code_version())) as hands:
        size = len(pickle.dumps(hands.submit(batch).result()))
        pending: set[Future[Any]] = set()
        scheduler_cpu, here, begun = cpu_of(scheduler), time.process_time(), time.monotonic()
        for _ in range(TASKS):
            if len(pending) >= 16:
                _, pending = wait(pending, return_when="FIRST_COMPLETED")
            pending.add(hands.submit(batch))
        wait(pending)
        elapsed, here = time.monotonic() - begun, time.process_time() - here
        scheduler_cpu = cpu_of(scheduler) - scheduler_cpu
    per_batch, client = scheduler_cpu / TASKS, here / TASKS
    return {
        "kB of rows per batch": size / 1000, "runs per batch": BATCH,
        "scheduler: CPU ms per batch": 1000 * per_batch, "scheduler: batches/s at most": 1 / per_batch,
        "command: CPU ms per batch, without the store": 1000 * client, "batches/s here": TASKS / elapsed,
        f"workers that one scheduler feeds, batches of {BATCH_S:g} s": BATCH_S / per_batch,
    }  # fmt: skip


def cpu_of(pid: int) -> float:
    """CPU seconds of another process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def _cluster(workers: int) -> Iterator[tuple[str, int]]:
    """A scheduler and workers as processes; the address and the scheduler's process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        common = ("--scheduler-file", str(file), "--no-dashboard")
        scheduling = ("scheduler", "--host", "127.0.0.1", "--port", "0")
        working = ("worker", "--nthreads", "1", "--nworkers", str(workers))
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        quiet: dict[str, Any] = {"stderr": subprocess.DEVNULL, "env": os.environ | {"PYTHONPATH": paths}}
        begun = [
            subprocess.Popen([sys.executable, "-m", "dask", *command, *common], cwd=folder, **quiet)
            for command in (scheduling, working)
        ]
        try:
            while not file.exists() or not file.read_text():
                time.sleep(0.1)
            yield json.loads(file.read_text())["address"], begun[0].pid
        finally:
            for process in reversed(begun):
                process.terminate()
                process.wait()


def bytes_shipped(wanted: argparse.Namespace) -> Numbers:
    """What goes to a worker and comes back, and what it takes to keep it."""
    made, ground = planned(200, wanted.jobs)
    keys = keys_of(made, ground)
    batch, runner = Batch(1, made.runs, tuple(keys)), SweepRunner(ground)
    rows = [runner.row(run, key) for run, key in zip(made.runs, keys, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "runs", ground.version)
        store.add(rows)
        size = store.files()[0].stat().st_size
        few, many = (_cpu_of(lambda times=times: store.add(rows * times)) for times in (1, 50))  # type: ignore[misc]
    return {
        f"bytes to a worker, once (traces of {wanted.jobs:,} jobs)": len(pickle.dumps(runner)),
        "bytes to a worker per run": len(pickle.dumps(batch)) / len(rows),
        "bytes back per run": len(pickle.dumps(rows)) / len(rows),
        "bytes on disk per run, files of 200": size / len(rows),
        "CPU ms of the command to keep 200 runs": 1000 * few, "to keep 10,000 runs": 1000 * many,
    }  # fmt: skip


def _cpu_of(what: Callable[[], None]) -> float:
    before = time.process_time()
    what()
    return time.process_time() - before


def large(wanted: argparse.Namespace) -> Numbers:
    """Runs of a million jobs on 65,536 GPUs, as a sweep; with ``--out`` they are kept, and a stopped one goes on."""
    axes = {"traces": ["synthetic:jobs=1000000,gpus=65536"], "clusters": ["8192x8"], "policies": [wanted.policy]}
    before = time.process_time()
    made = plan(of(**axes, seeds=wanted.large))
    ground = ground_of(made)
    keys = keys_of(made, ground)
    preparing = time.process_time() - before
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(wanted.out or Path(folder) / "runs", ground.version)
        runs = dict(zip(keys, made.runs, strict=True))
        done = run_all(runs, SweepRunner(ground), store, opener(workers=wanted.workers))
        rows = store.read(keys=keys)
    cpu = float(rows["cpu_s"].sum())
    return {
        "runs": rows.height, "failed": rows["error"].count(), "of them now": done.done, "policy": wanted.policy,
        "utilization, mean": rows["utilization"].mean(), "digests": rows["digest"].n_unique(),
        "CPU s to make the jobs and to find the keys": preparing, "CPU min of all runs": cpu / 60,
        "CPU s per run": cpu / rows.height, "of them in the engine (elapsed)": rows["engine_s"].mean(),
        "elapsed min of all runs": float(rows["seconds"].sum()) / 60,
        "MiB of a worker at most": peak(resource.RUSAGE_SELF if wanted.workers == 1 else resource.RUSAGE_CHILDREN),
        "MiB to a worker, once": len(pickle.dumps(SweepRunner(ground))) / MIB,
    }  # fmt: skip


PARTS: dict[str, Callable[[argparse.Namespace], Numbers]] = {
    "share": share, "workers": workers, "ceiling": ceiling, "bytes": bytes_shipped, "large": large,
}  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweeping", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this; may be repeated")
    parser.add_argument("--runs", type=int, default=10_000, help="of 'share'")
    parser.add_argument("--jobs", type=int, default=1_000, help="of each short run")
    parser.add_argument("--workers", type=int, default=2, help="of 'share' and 'large'")
    parser.add_argument("--dask", action="store_true", help="'share' on a Dask cluster of this machine")
    parser.add_argument("--large", type=int, default=1, help="runs of 'large'; 100 take half a CPU hour")
    parser.add_argument("--out", type=Path, help="keep the runs of 'large' in this folder")
    parser.add_argument("--policy", default="saf", help="of 'large'")
    wanted = parser.parse_args()
    for part in wanted.only or PARTS:
        print(json.dumps({part: PARTS[part](wanted)}, indent=2), flush=True)  # noqa: T201


if __name__ == "__main__":
    from benchmarks import sweeping  # noqa: PLW0406  by its name, so that workers can import what is defined here

    sweeping.main()
