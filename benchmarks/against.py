"""How fast this checkout simulates compared with another one: ``python -m benchmarks.against ../older``.

Each checkout runs in a process of its own, and the two take turns, so that a busy moment hits both.  A ratio is the
other's CPU time over ours: above 1, this checkout is faster.  Where the event logs differ, the two don't do the same
work, and the ratio is that of the CPU time per event.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parents[1]
POLICIES = ("fifo", "sjf", "saf", "wfp3", "qssf", "fifo:backfill=easy", "srtf:estimate=oracle", "las", "tiresias",
            "dally", "themis", "gandiva", "marshal", "lucid", "ces")  # fmt: skip
JOBS = 25_000
FEWER = {"ces": 1_000, "lucid": 2_000}  # plain Python, or it was before

# Uses only names that every checkout has. One line of input is a policy and a number of jobs, one of output a run.
RUNNER = """
import hashlib, json, sys, time
import numpy as np
import shunter
from benchmarks import measures, workload

trace, _ = workload.jobs()
for line in sys.stdin:
    policy, jobs = json.loads(line)
    some = trace.select(np.arange(jobs))
    begin = time.process_time()
    if policy in ("lucid", "ces"):  # they need what simulate() adds to a trace
        run = shunter.simulate(some, workload.cluster(), policy)
    else:
        run = measures.simulated(some, policy)
    cpu = time.process_time() - begin
    digest = hashlib.sha256(np.ascontiguousarray(run.events).tobytes()).hexdigest()
    print(json.dumps([cpu, len(run.events), digest]), flush=True)
"""


class TimedRun(NamedTuple):
    """One run in one checkout."""

    cpu: float  # seconds
    events: int
    digest: str


class Checkout:
    """A process that simulates with the sources of one checkout."""

    def __init__(self, folder: Path) -> None:
        path = "import sys; sys.path[:0] = ['src', '.']\n"
        command = [sys.executable, "-c", path + RUNNER]
        self._process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Checkout:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, policy: str, jobs: int) -> TimedRun:
        """Simulate once."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps([policy, jobs]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{policy} did not run there; see above")
        return TimedRun(*json.loads(line))


class SpeedRatio(NamedTuple):
    """What the turns of one policy say."""

    policy: str
    jobs: int
    same: bool  # whether the event logs are equal
    ours: float  # least CPU seconds
    theirs: float
    ratio: float
    median: float  # of the ratios of each turn


def compared(policy: str, ours: Sequence[TimedRun], theirs: Sequence[TimedRun], jobs: int) -> SpeedRatio:
    """The ratio of the least times, and the median of the turns' ratios."""
    same = ours[0].digest == theirs[0].digest
    work = 1.0 if same else ours[0].events / theirs[0].events
    mine, other = (np.array([run.cpu for run in runs]) for runs in (ours, theirs))
    ratios = work * other / mine
    return SpeedRatio(
        policy, jobs, same, mine.min(), other.min(), work * other.min() / mine.min(), float(np.median(ratios))
    )


def measured(other: Path, policies: Sequence[str], turns: int, jobs: int) -> Iterator[SpeedRatio]:
    """Every policy in both checkouts, in turn, after one run that compiles."""
    with ExitStack() as stack:
        here, there = (stack.enter_context(Checkout(folder)) for folder in (HERE, other))
        for policy in policies:
            count = min(jobs, FEWER.get(policy.partition(":")[0], jobs))
            for checkout in (here, there):  # compiles
                checkout.run(policy, count)
            runs = [(here.run(policy, count), there.run(policy, count)) for _ in range(turns)]
            yield compared(policy, [ours for ours, _ in runs], [theirs for _, theirs in runs], count)


def table(found: Sequence[SpeedRatio]) -> Table:
    """One row per policy."""
    made = Table("policy", "jobs", "events", "other, s", "this, s", "ratio", "median of turns")
    for row in found:
        events = "equal" if row.same else "differ"
        times = (f"{value:.3f}" for value in (row.theirs, row.ours, row.ratio, row.median))
        made.add_row(row.policy, f"{row.jobs:,}", events, *times)
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__.partition(":")[0])
    parser.add_argument("other", type=Path, help="the folder of the other checkout")
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    parser.add_argument("--turns", type=int, default=7, help="runs of each policy in each checkout")
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs of the Philly file, the first ones")
    chosen = parser.parse_args()
    found = []
    for row in measured(chosen.other, chosen.policies, chosen.turns, chosen.jobs):
        found.append(row)
        Console(stderr=True).print(f"{row.policy}: {row.ratio:.3f}")
    Console(width=120).print(table(found))


if __name__ == "__main__":
    main()
