"""The tables in ``shunter/slurm/run_times.py``, from AAIC's trace: ``python -m benchmarks.run_times``."""

from __future__ import annotations

import sys

import numpy as np

from shunter.live.run_times import LEVELS
from shunter.safe_files import data_folder
from shunter.setup import read_trace


def main() -> None:
    """Print run time over limit, and run time in seconds, at the levels."""
    folder = data_folder()
    if folder is None:
        raise SystemExit("AAIC's trace is needed; SHUNTER_DATA names the folder with aaic/")
    trace = read_trace(str(folder / "aaic" / "aaicwl-201807-201812.csv.gz"))
    for values, digits in ((np.minimum(trace.duration / trace.limit, 1), 2), (trace.duration / 1000, 3)):
        found = np.quantile(values, LEVELS)
        sys.stdout.write(", ".join(f"{float(f'{value:.{digits}g}'):g}" for value in found) + "\n")


if __name__ == "__main__":
    main()
