"""The experiment as a whole."""

from __future__ import annotations

from shunter.reproduce.numbers import about_estimates
from shunter.reproduce.qssf.data import setups_of
from shunter.reproduce.qssf.design import DATA, FIFO, QSSF, QUICK, REFITTED
from shunter.reproduce.qssf.paper import CLAIMS, TITLE
from shunter.reproduce.study import MEASURES, PublishedExperiment

EXPERIMENT = PublishedExperiment(
    "qssf", TITLE, DATA, QUICK, FIFO, QSSF, REFITTED, CLAIMS, MEASURES, about_estimates, setups_of
)
