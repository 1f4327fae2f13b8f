"""From published throughputs to scaling curves: how ``published.toml`` was made.

The source is the file of throughputs that Gavel (OSDI'20) published: steps per second of a model and a batch size on
1, 2, 4 and 8 GPUs of three types, on one machine and ``unconsolidated``. Of a model the median over batch sizes
counts; entries of 0 (out of memory) are left out. Some efficiencies are above 1 and some rise with the width; they are
made to fall (``curves.cleaned``). GPUs across machines are never better than on one.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from shunter.errors import ScalingError
from shunter.scaling.curves import Efficiencies, ScalingCurve, cleaned

FILE = Path("throughput", "gavel_k80_p100_v100.json.gz")  # in the data folder
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
