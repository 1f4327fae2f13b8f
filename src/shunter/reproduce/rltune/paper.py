"""What is printed: RLTune's tables and claims, and RLScheduler's figures for Lublin-1."""

from __future__ import annotations

from collections.abc import Iterator

from shunter.reproduce.claims import Claim
from shunter.reproduce.rltune.design import (
    ABLATION,
    BASES,
    CPU_LEARNED,
    CPU_ORDERS,
    F1,
    FIFO,
    FIFO_STRICT,
    FIGURE_12,
    FIGURE_17,
    INSPECTOR,
    NAIVE,
    ON_F1,
    ON_FIFO,
    ON_SJF,
    PRO,
    PUBLISHED_CPU,
    QSSF,
    RLSCHEDULER,
    RLTUNE,
    SJF,
    SLURM,
    TABLE_9,
    UNICEP,
    WFP3,
    Entrant,
    Panel,
)
from shunter.reproduce.trials import Scheduler

TITLE = "Hybrid learning and optimization-based dynamic scheduling for DL workloads on heterogeneous GPU clusters"
SECOND = "RLScheduler: an automated HPC batch job scheduler using reinforcement learning"
# Table 9: BSLD, wait (s), JCT (s), utilisation (%)
_TABLE_9 = {
    "philly": {
        FIFO_STRICT: (1298.06, 142391.50, 169650.84, 4.63), INSPECTOR: (1114.52, 120623.63, 150347.88, 4.85),
        RLSCHEDULER: (491.92, 86512.85, 112022.08, 4.64), RLTUNE: (232.82, 34199.93, 85761.51, 4.85),
    },
    "helios": {
        FIFO_STRICT: (161.77, 7264.58, 10483.16, 4.03), INSPECTOR: (152.16, 7187.54, 10715.42, 4.00),
        RLSCHEDULER: (117.83, 6178.47, 9211.55, 4.01), RLTUNE: (75.24, 4335.87, 7541.40, 4.09),
    },
    "pai": {
        FIFO_STRICT: (88.32, 14306.14, 19219.08, 0.08), INSPECTOR: (89.52, 14470.00, 19382.94, 0.09),
        RLSCHEDULER: (52.18, 9641.81, 14554.75, 0.06), RLTUNE: (44.05, 8726.45, 13639.38, 0.09),
    },
}  # fmt: skip
_COLUMNS = ("bsld", "wait", "jct", "utilization")
TABLE_8 = {"wait": (3748.14, 2830.01), "bsld": (28.17, 20.11), "jct": (35567.97, 33199.58)}  # QSSF, RLTune
TABLE_6 = {  # gains of utilisation in percent
    "philly": {FIFO: 4.83, SJF: 3.44, F1: 13.62},
    "helios": {FIFO: 1.00, SJF: 19.71, F1: 1.95},
    "pai": {FIFO: 2.40, SJF: 11.30, F1: 1.28},
}
TABLE_7 = {  # less wait in percent on Helios: by what it was trained on, against what
    FIFO: (14.95, 2.29, 4.73, 17.32), SJF: (14.22, 2.22, 4.70, 15.23), F1: (14.91, 1.66, 4.73, 13.81),
    WFP3: (3.76, -4.01, -4.31, 11.83),
}  # fmt: skip
# RLScheduler's README, bounded slowdown on Lublin-1, windows of 1,024 jobs
_STRICT = (7273.77, 19753.53, 22274.74, 277.35, 258.37)
_BACKFILLED = {FIFO: 235.82, WFP3: 133.87, UNICEP: 307.23, SJF: 73.31, F1: 75.07, CPU_LEARNED[1]: 58.64}
LUBLIN = {**dict(zip(CPU_ORDERS, _STRICT, strict=True)), CPU_LEARNED[0]: 254.67, **_BACKFILLED}
DECISION_S = {128: 7.8, 256: 9.8, 512: 14.3, 1024: 22.8}  # section 5.7, by waiting jobs
INFERENCE_MS, SOLVER_MS = 0.7, 0.2

CANNOT = (
    "Virtual clusters of Helios: the mapping is not published, and the public file names none. They are drawn.",
    "Alibaba's GPU types: the public sample names none, so all of its jobs may use all nodes.",
    "QSSF's published priorities for Philly: RLTune's file with them is not public. HeliosArtifact's are true"
    " run times with noise, so QSSF has these where the others know the truth, and rolling means of similar"
    " jobs where they have estimates. 'shunter reproduce qssf' runs QSSF with its whole predictor.",
    "SDSC-SP2, HPC2N and Lublin-2 of RLScheduler: the files are not at hand.",
    "Utilisation as in Tables 8 and 9, 4 to 5 % on Philly: it is not said what it is a share of. Ours is of"
    " all GPUs, from the first submission to the last end.",
    "Fig. 18 and 19, the live cluster: see 'shunter reproduce slurm'.",
)


def printed(panel: Panel, data: str, entrant: Entrant, measure: str) -> float | None:
    """The printed number, if there is one that can be compared."""
    if panel is TABLE_9 and measure != "utilization":
        found = _TABLE_9.get(data, {}).get(entrant)
        return found[_COLUMNS.index(measure)] if found else None
    if panel is FIGURE_12 and data == "philly" and measure in TABLE_8 and entrant in (QSSF, ON_FIFO):
        return TABLE_8[measure][(QSSF, ON_FIFO).index(entrant)]
    if panel is PUBLISHED_CPU and measure == "bsld":
        return LUBLIN.get(entrant)
    return None


def _named(entrant: Entrant) -> Scheduler:
    return Scheduler(entrant.label, entrant.policy, 0)


def claim(panel: Panel, data: str, measure: str, base: Entrant, better: Entrant, factor: float) -> Claim:
    """How many times as large a number is said to be under the one as under the other."""
    return Claim(data, measure, _named(base), _named(better), factor, source=panel.title)


def fallen(percent: float) -> float:
    """The factor that a fall by this many percent is."""
    return 1 / (1 - percent / 100)


def claims() -> Iterator[tuple[Panel, str, str, Entrant, Entrant, float]]:
    """Each claim: the table, the data, the measure, the base, what is better, and the factor."""
    for data, rows in _TABLE_9.items():
        for at, measure in enumerate(("bsld", "wait")):
            for base in (FIFO_STRICT, INSPECTOR, RLSCHEDULER):
                yield TABLE_9, data, measure, base, RLTUNE, rows[base][at] / rows[RLTUNE][at]
    yield FIGURE_12, "philly", "wait", FIFO, ON_FIFO, fallen(87.5)
    yield FIGURE_12, "helios", "bsld", F1, ON_F1, fallen(5.28)
    yield FIGURE_12, "pai", "bsld", SJF, ON_SJF, fallen(72.32)
    yield FIGURE_12, "philly", "jct", FIFO, ON_FIFO, fallen(70.68)
    for measure, (qssf, ours) in TABLE_8.items():
        yield FIGURE_12, "philly", measure, QSSF, ON_FIFO, qssf / ours
    for data, gains in TABLE_6.items():
        for base, gain in gains.items():  # the larger the better, so the other way round
            yield FIGURE_12, data, "utilization", BASES[base], base, 1 + gain / 100
    yield FIGURE_17, "philly", "jct", QSSF, ON_FIFO, fallen(48.43)
    yield ABLATION, "philly", "bsld", NAIVE, PRO, fallen(52.59)
    yield ABLATION, "philly", "bsld", SLURM, PRO, fallen(71.54)
    yield ABLATION, "helios", "bsld", SLURM, PRO, fallen(81.18)
    for pair in ((CPU_ORDERS[0], CPU_LEARNED[0]), (FIFO, CPU_LEARNED[1]), (SJF, CPU_LEARNED[1])):
        yield PUBLISHED_CPU, "lublin", "bsld", *pair, LUBLIN[pair[0]] / LUBLIN[pair[1]]
