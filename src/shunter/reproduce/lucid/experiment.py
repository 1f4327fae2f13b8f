"""The experiment as a whole."""

from __future__ import annotations

from shunter.reproduce.lucid.data import scenes_of
from shunter.reproduce.lucid.design import ANEW, DATA, LUCID, QUICK, TIRESIAS
from shunter.reproduce.lucid.paper import CLAIMS, TITLE
from shunter.reproduce.numbers import PREDICTED, SHARED, about_sharing
from shunter.reproduce.study import Experiment
from shunter.reproduce.trials import POINTS

MEASURES = (
    *(f"{name}_{point}_s" for name in ("jct", "wait") for point in POINTS), "wait_p99.9_s",
    *(f"{size} {name}_mean_s" for size in ("large", "small") for name in ("jct", "wait")),
    "makespan_s", "utilization", "preemptions", *(f"predicted {name}" for name in PREDICTED), *SHARED,
)  # fmt: skip
EXPERIMENT = Experiment("lucid", TITLE, DATA, QUICK, TIRESIAS, LUCID, ANEW, CLAIMS, MEASURES, about_sharing, scenes_of)
