"""From published measurements to speeds: how ``published.toml`` and ``shunter.instances.CPU_POWER`` were made.

The source is the file of throughputs that Gavel (OSDI'20) published: steps per second of a model and a batch size on
1, 2, 4 and 8 GPUs of three types, on one machine and ``unconsolidated``. Of a model the median over batch sizes
counts; entries of 0 (out of memory) are left out. Some efficiencies are above 1 and some rise with the width; they are
made to fall (``curves.cleaned``). GPUs across machines are never better than on one.

Speed by CPU comes from the iteration times that Qore-DL's authors published: 123 models on CPUs, each with several
shares of the CPU that it uses at its peak. Within models, time falls as a power of that share (least squares of logs).
Shares below those that their adjuster gives are left out. Memory hardly changes the time and is taken
to be without effect.
"""

from __future__ import annotations

import ast
import csv
import gzip
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from shunter.errors import ScalingError
from shunter.predictors.iteration_time import TARGET, ratio_exponents
from shunter.scaling.curves import Efficiencies, ScalingCurve, cleaned
from shunter.world import F64, I64

FILE = Path("throughput", "gavel_k80_p100_v100.json.gz")  # in the data folder
ITERATION_FILES = tuple(Path("qoredl", f"resource_ietration_time_data{number}.csv.gz") for number in (1, 2))
LEAST_SHARE = 0.45  # of the CPU at the peak
FEWEST_ROWS, LEAST_SPREAD = (
    20,
    1.3,
)  # of a model that is looked at alone: measurements, and the most over the least share
TYPES = ("k80", "p100", "v100")
SOURCE = "throughputs published with Gavel (OSDI'20), median over batch sizes"


def derive(data: Path) -> tuple[ScalingCurve, ...]:
    """The curves of the published throughputs in a data folder."""
    try:
        tables = json.loads(gzip.decompress((data / FILE).read_bytes()))
    except OSError:
        raise ScalingError(f"{data / FILE}: is not there; it is Gavel's file of throughputs") from None
    curves = []
    for kind in TYPES:
        together, apart = _medians(tables[kind]), _medians(tables[f"{kind}_unconsolidated"])
        for model in sorted(together):
            inside = _clean(together[model])
            across = _clean({gpus: min(value, dict(inside)[gpus]) for gpus, value in apart[model].items()})
            curves.append(ScalingCurve(model, inside, across, kind, SOURCE))
    return tuple(curves)


def cpu_power(data: Path) -> float:
    """The power of its CPU to which a job's speed is in proportion, from the measured iteration times."""
    return -float(ratio_exponents(*_iteration_times(data))[0])


def cpu_powers(data: Path) -> list[float]:
    """The same of each model alone that was measured often enough, with shares far enough apart; ascending."""
    share, seconds, model = _iteration_times(data)
    found = []
    for code in range(int(model.max()) + 1):
        rows = model == code
        if rows.sum() > FEWEST_ROWS and np.ptp(share[rows]) > np.log(LEAST_SPREAD):
            found.append(-float(ratio_exponents(share[rows], seconds[rows], np.zeros(rows.sum(), np.int64))[0]))
    return sorted(found)


def _iteration_times(data: Path) -> tuple[F64, F64, I64]:
    """Logs of the share of CPU and of the time, and a code per model."""
    rows = []
    for file in ITERATION_FILES:
        try:
            with gzip.open(data / file, "rt", encoding="utf-8", newline="") as lines:
                rows += list(csv.DictReader(lines))
        except OSError:
            raise ScalingError(f"{data / file}: is not there; it is Qore-DL's file of iteration times") from None
    share, *model, seconds = (
        np.array([float(row[name]) for row in rows]) for name in ("cpu_normalized", "batch", "flops", "params", TARGET)
    )
    used = share >= LEAST_SHARE
    code = np.unique(np.column_stack(model)[used], axis=0, return_inverse=True)[1].reshape(-1)
    return np.log(share[used])[:, None], np.log(seconds[used]), code


def _medians(table: dict[str, dict[str, float]]) -> dict[str, dict[int, float]]:
    """The median efficiency of each model at each number of GPUs."""
    speeds: dict[str, dict[int, float]] = defaultdict(dict)
    for key, rows in table.items():
        name, gpus = ast.literal_eval(key)
        speeds[name][gpus] = rows["null"]
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, row in speeds.items():
        for gpus, speed in row.items():
            if gpus > 1 and speed > 0 and row.get(1, 0) > 0:
                found[_model(name)][gpus].append(speed / row[1] / gpus)
    return {model: {gpus: float(np.median(row[gpus])) for gpus in sorted(row)} for model, row in found.items()}


def _model(name: str) -> str:
    """``ResNet-50 (batch size 64)`` -> ``resnet-50``."""
    return name.partition(" (")[0].lower()


def _clean(row: dict[int, float]) -> Efficiencies:
    return tuple((gpus, round(value, 3)) for gpus, value in zip(row, cleaned(list(row.values())), strict=True))


def text(curves: tuple[ScalingCurve, ...]) -> str:
    """The curves as a TOML file."""
    lines = [
        f"# {SOURCE}, made by shunter.scaling.deriving: efficiencies by number of GPUs,",
        "# on one machine and across.",
    ]
    for curve in curves:
        lines += ["", "[[curve]]", f'model = "{curve.model}"', f'gpu_type = "{curve.gpu_type}"']
        for key, row in (("together", curve.together), ("apart", curve.apart)):
            lines.append(f"{key} = {{ {', '.join(f'{gpus} = {value:g}' for gpus, value in row)} }}")
        lines.append(f'source = "{curve.source}"')
    return "\n".join(lines) + "\n"
