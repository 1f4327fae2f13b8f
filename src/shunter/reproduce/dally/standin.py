"""Stand-ins for the published workloads where their files are missing: as many jobs of each model and size.

Run times have the published quantiles of GPU time (those of large models apart from those of small ones, which stop
after three hours), and which job gets which is drawn; Poisson arrivals are drawn over the published week.
"""

from __future__ import annotations

import numpy as np

from shunter.model import GPU, Trace
from shunter.seeding import rng
from shunter.world import F64

SIZES = (1, 2, 3, 4, 8, 16, 32, 40, 48, 56)
COUNTS = {  # jobs of each size, by model
    "batch": {
        "MobileNetV3": (17, 2, 0, 15, 52, 26, 10, 1, 1, 1),
        "BERT": (94, 4, 0, 7, 15, 5, 0, 0, 0, 0),
        "ResNet50": (67, 7, 0, 16, 27, 7, 1, 0, 0, 0),
        "ResNet18": (35, 0, 0, 3, 0, 0, 0, 0, 0, 0),
        "AlexNet": (27, 0, 0, 9, 13, 4, 0, 0, 0, 0),
        "VGG": (30, 0, 0, 2, 2, 0, 0, 0, 0, 0),
    },
    "poisson": {
        "MobileNetV3": (0, 2, 0, 15, 64, 28, 13, 1, 1, 1),
        "BERT": (0, 26, 1, 33, 51, 11, 3, 0, 0, 0),
        "ResNet50": (0, 13, 0, 34, 59, 12, 7, 0, 0, 0),
        "ResNet18": (0, 0, 0, 3, 0, 0, 0, 0, 0, 0),
        "AlexNet": (0, 0, 0, 9, 14, 5, 0, 1, 0, 0),
        "VGG": (0, 0, 0, 2, 2, 0, 0, 0, 0, 0),
    },
}
SHARES = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 1)
LARGE = (36_000, 41_000, 48_000, 80_000, 155_000, 225_000, 400_000, 1_200_000)  # GPU time, s, at these shares
SMALL = (7_200, 7_500, 8_000, 9_000, 10_000, 10_300, 10_600, 11_000)
LONG = ("MobileNetV3", "BERT", "ResNet50")
ITERATION_US = (767, 8340, 1491, 567, 1228, 281)  # on one GPU, by model
WEEK_MS = 600_000_000


def standin(workload: str, seed: int = 0) -> Trace:
    """The stand-in for ``batch`` or ``poisson``."""
    draw = rng(seed, f"dally.{workload}")
    models, table = tuple(COUNTS[workload]), np.array(list(COUNTS[workload].values()))
    model, size = (np.repeat(index, table.ravel()) for index in np.divmod(np.arange(table.size), len(SIZES)))
    gpus = np.array(SIZES)[size]
    work = np.concatenate([_work(int(row.sum()), name in LONG, draw) for name, row in zip(models, table, strict=True)])
    order = draw.permutation(len(gpus))
    submit = np.zeros(len(gpus), np.int64) if workload == "batch" else np.sort(draw.integers(WEEK_MS, size=len(gpus)))
    return Trace.of(
        f"{workload} (stand-in)",
        [str(number) for number in range(1, len(gpus) + 1)],
        submit=submit,
        duration=np.rint(work / gpus * 1000).astype(np.int64)[order],
        gpus=(gpus * GPU)[order],
        model=model[order],
        models=models,
        iterations=np.rint(work / np.array(ITERATION_US)[model] * 1e6).astype(np.int64)[order],
        remarks=("a made-up stand-in for the published workload, whose file was not found",),
    )


def _work(jobs: int, large: bool, draw: np.random.Generator) -> F64:
    """GPU time in seconds: the quantiles at even steps, log-linear between the known ones, in any order."""
    even = (np.arange(jobs) + 0.5) / max(jobs, 1)
    return draw.permutation(np.exp(np.interp(even, SHARES, np.log(LARGE if large else SMALL))))
