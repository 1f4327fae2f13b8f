"""The experiment as a whole."""

from __future__ import annotations

from shunter.reproduce.numbers import PREDICTED, about_estimates
from shunter.reproduce.qssf.data import scenes_of
from shunter.reproduce.qssf.design import ANEW, DATA, FIFO, QSSF, QUICK
from shunter.reproduce.qssf.paper import CLAIMS, TITLE
from shunter.reproduce.study import Experiment
from shunter.reproduce.trials import POINTS

MEASURES = (
    *(f"{name}_{point}_s" for name in ("jct", "wait") for point in POINTS), "makespan_s", "utilization", "preemptions",
    *(f"predicted {name}" for name in PREDICTED),
)  # fmt: skip
EXPERIMENT = Experiment("qssf", TITLE, DATA, QUICK, FIFO, QSSF, ANEW, CLAIMS, MEASURES, about_estimates, scenes_of)
