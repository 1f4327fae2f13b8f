"""The GPU, seen from outside through NVML."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import platform
from pathlib import Path
from typing import Any

from .errors import MeasuringError

MIB = 2**20
METRICS = {"sm_util": 2, "sm_occupancy": 3, "dram_util": 10}  # NVML's numbers; all in per cent
ROOM = 512  # metrics that the driver's structure may have, and more


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Metric(ctypes.Structure):
    _fields_ = (
        ("number", ctypes.c_uint),
        ("code", ctypes.c_uint),
        ("value", ctypes.c_double),
        ("names", ctypes.c_void_p * 3),
    )


class _Metrics(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("samples", ctypes.c_void_p * 2),
        ("metrics", _Metric * ROOM),
    )


class Gpu:
    """One GPU."""

    def __init__(self, index: int) -> None:
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            raise MeasuringError(
                "NVML (libnvidia-ml.so.1 of NVIDIA's driver) is missing; run this on a machine with an NVIDIA GPU"
            ) from None
        self._call("nvmlInit_v2")
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        if index >= count.value:
            raise MeasuringError(f"GPU {index} is not there: the driver knows {count.value}, counted from 0")
        self.handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(self.handle))
        if count.value > 1:
            os.environ["CUDA_VISIBLE_DEVICES"] = self._text("nvmlDeviceGetUUID", self.handle)
        self.name = self._text("nvmlDeviceGetName", self.handle)
        self.driver = self._text("nvmlSystemGetDriverVersion")

    def _call(self, function: str, *arguments: Any) -> None:
        code = getattr(self.library, function)(*arguments)
        if code:
            self.library.nvmlErrorString.restype = ctypes.c_char_p
            raise MeasuringError(f"{function} of NVML fails: {self.library.nvmlErrorString(code).decode()}")

    def _text(self, function: str, *arguments: Any) -> str:
        text = ctypes.create_string_buffer(96)
        self._call(function, *arguments, text, ctypes.c_uint(len(text)))
        return text.value.decode()

    def utilisation(self) -> tuple[float, float]:
        """Per cent of the time in which a kernel ran, and in which memory was read or written."""
        now = _Utilisation()
        self._call("nvmlDeviceGetUtilizationRates", self.handle, ctypes.byref(now))
        return now.gpu, now.memory

    def memory(self) -> tuple[float, float]:
        """MiB in all, used."""
        now = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(now))
        return now.total / MIB, now.used / MIB

    def power(self) -> float:
        """Watts; NaN where the GPU doesn't say."""
        now = ctypes.c_uint()
        with contextlib.suppress(MeasuringError, AttributeError):
            self._call("nvmlDeviceGetPowerUsage", self.handle, ctypes.byref(now))
            return now.value / 1000
        return math.nan

    def counters(self) -> Any:
        """What the GPU has counted up to now, to be compared later; None where it doesn't say (before Hopper)."""
        sample = ctypes.c_void_p()
        with contextlib.suppress(MeasuringError, AttributeError):
            self._call("nvmlGpmSampleAlloc", ctypes.byref(sample))
            self._call("nvmlGpmSampleGet", self.handle, sample)
            return sample
        return None

    def between(self, before: Any, after: Any) -> tuple[float, ...]:
        """Per cent for each of ``METRICS`` between two such counts, which are freed; NaN where they don't say."""
        found = [math.nan] * len(METRICS)
        if before is None or after is None:
            return tuple(found)
        asked = _Metrics(version=1, count=len(METRICS), samples=(before, after))
        for place, number in enumerate(METRICS.values()):
            asked.metrics[place].number = number
        with contextlib.suppress(MeasuringError, AttributeError):
            self._call("nvmlGpmMetricsGet", ctypes.byref(asked))
            found = [each.value if each.code == 0 else math.nan for each in asked.metrics[: len(METRICS)]]
        for sample in (before, after):
            self.library.nvmlGpmSampleFree(sample)
        return tuple(found)


class NoGpu:
    """In place of a GPU where loops are only tried, on the CPU: nothing is seen."""

    name, driver = platform.processor() or "CPU", "none"

    def utilisation(self) -> tuple[float, float]:
        """Nothing."""
        return 0.0, 0.0

    def memory(self) -> tuple[float, float]:
        """Room enough, none used."""
        return 1e6, 0.0

    def power(self) -> float:
        """Unknown."""
        return math.nan

    def counters(self) -> Any:
        """Nothing."""
        return None

    def between(self, before: Any, after: Any) -> tuple[float, ...]:
        """Unknown."""
        return (math.nan,) * len(METRICS)


def mps_runs() -> bool:
    """Whether NVIDIA's multi-process service does."""
    for file in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if file.read_text().startswith("nvidia-cuda-mps"):
                return True
    return False
