"""Measures how training loops share a GPU: alone and in pairs, by turns, watched from outside through NVML.

A folder that needs only PyTorch and NumPy, so that it can be taken to a machine that has nothing else:
``python -m measuring --out FOLDER``. It writes solo.csv, pairs.csv and about.json there, a row as soon as it is
measured, and goes on where it was when it finds them.
"""

from .bench import BenchSettings, measure
from .errors import MeasuringError
from .loops import CONFIGURATIONS
from .tables import PAIRS, SOLO

__all__ = ["CONFIGURATIONS", "PAIRS", "SOLO", "BenchSettings", "MeasuringError", "measure"]
