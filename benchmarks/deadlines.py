"""Whether forecasts of ends hold: ``python -m benchmarks.deadlines [EVERY] [MOMENTS]``.

AAIC's jobs are forecast at their submission, from what was known then, every EVERY-th of them, as ``shunter deadline
--offline`` does. MOMENTS submissions before and after are also forecast by simulation, as on a live cluster, with
calibrated run times but without corrections from past waits. Settings were chosen on jobs before November 2018; later
months are judged. P50 and P90 should hold for 50 and 90 % of the jobs.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.forecasting import JUDGED_FROM, plain_nodes
from shunter.live.end_forecast import of_waiting, run_times
from shunter.live.past_ends import RUN, PastEnds, held
from shunter.live.rules import Rules
from shunter.live.waits import Ask, past, spread
from shunter.model import Trace
from shunter.safe_files import data_folder
from shunter.setup import read_trace
from shunter.world import F64, I64

EVERY, MOMENTS = 10, 100
SAMPLES = 50
NODES = 36  # of 8 GPUs, as in benchmarks.forecasting
LEVELS = (0.5, 0.75, 0.9)
MONTH_FORMAT = "datetime64[M]"


def report(submit: I64, found: F64) -> str:
    """How often each level held, month by month, and in those that are judged."""
    lines = ["| month | jobs | " + " | ".join(f"by P{100 * level:.0f}" for level in LEVELS) + " |", "|---" * 5 + "|"]
    month = (submit.astype("datetime64[ms]")).astype(MONTH_FORMAT)
    known = np.isfinite(found[:, 0])
    parts = [(str(each), month == each) for each in np.unique(month)] + [("judged", submit >= JUDGED_FROM)]
    for name, some in parts:
        rows = found[some & known]
        shares = " | ".join(f"{share:.1%}" for share in rows.mean(axis=0)) if len(rows) else " | ".join("-" * 3)
        lines.append(f"| {name} | {len(rows):,} | {shares} |")
    return "\n".join(lines) + "\n"


def simulated(trace: Trace, first: int, last: int, count: int) -> str:
    """The same levels at submissions between two instants, with starts from simulations of the cluster as it was."""
    rows = np.flatnonzero((trace.submit >= first) & (trace.submit < last) & (trace.recorded_wait >= 0))
    when = [Ask(int(trace.submit[row]), int(row)) for row in spread(rows, count)]
    walk, asked, found = PastEnds(trace), 0, []
    for outlook, jobs in past(trace, plain_nodes(NODES), when, Rules(), SAMPLES):
        while asked < len(trace) and trace.submit[asked] < outlook.snapshot.now:
            walk.ask(asked)
            asked += EVERY
        for job in jobs:
            runs = run_times(outlook, job, walk.ranks(RUN))
            end = of_waiting(outlook, outlook.rolled(job)[0], runs)
            by = [end.at(level) for level in LEVELS]
            found.append([each is None or walk.end_of(int(job.id)) <= each for each in by])
    shares = " | ".join(f"{share:.1%}" for share in np.mean(found, axis=0))
    return f"| {len(found):,} | {shares} |\n"


def main(every: int = EVERY, moments: int = MOMENTS) -> None:
    """Print the table."""
    folder = data_folder()
    if folder is None:
        raise SystemExit("AAIC's trace is needed; SHUNTER_DATA names the folder with aaic/")
    trace = read_trace(str(folder / "aaic" / "aaicwl-201807-201812.csv.gz"))
    rows = np.arange(0, len(trace), max(every, 1))
    sys.stdout.write(report(trace.submit[rows], held(PastEnds(trace), rows, LEVELS)))
    if moments:
        begin = int(np.datetime64("2018-09-01", "ms").astype(np.int64))
        sys.stdout.write(f"| simulated, September and October {simulated(trace, begin, JUDGED_FROM, moments)}")
        sys.stdout.write(f"| simulated, judged {simulated(trace, JUDGED_FROM, int(trace.submit[-1]), moments)}")


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:3]))
