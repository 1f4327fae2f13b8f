"""The experiment as a whole."""

from __future__ import annotations

from shunter.reproduce.lucid.data import setups_of
from shunter.reproduce.lucid.design import DATA, LUCID, QUICK, REFITTED, TIRESIAS
from shunter.reproduce.lucid.paper import CLAIMS, TITLE
from shunter.reproduce.numbers import SHARED, about_sharing
from shunter.reproduce.study import MEASURES, PublishedExperiment

SIZES = tuple(f"{size} {name}_mean_s" for size in ("large", "small") for name in ("jct", "wait"))
FOUND = (*MEASURES, "wait_p99.9_s", *SIZES, *SHARED)
EXPERIMENT = PublishedExperiment(
    "lucid", TITLE, DATA, QUICK, TIRESIAS, LUCID, REFITTED, CLAIMS, FOUND, about_sharing, setups_of
)
