"""The experiment as a whole."""

from __future__ import annotations

from shunter.reproduce.numbers import about_estimates
from shunter.reproduce.qssf.data import setups_of
from shunter.reproduce.qssf.design import ANEW, DATA, FIFO, QSSF, QUICK
from shunter.reproduce.qssf.paper import CLAIMS, TITLE
from shunter.reproduce.study import MEASURES, Experiment

EXPERIMENT = Experiment("qssf", TITLE, DATA, QUICK, FIFO, QSSF, ANEW, CLAIMS, MEASURES, about_estimates, setups_of)
