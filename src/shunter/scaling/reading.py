"""The TOML form of scaling curves, declared once: the package's own file and those of users."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import Field

from shunter.errors import ScalingError
from shunter.network.models import plain
from shunter.scaling.curves import Efficiencies, ScalingCurve
from shunter.toml_forms import Form, Name, filled

MOST_CURVES, MOST_WIDTH = 1000, 10**6
Width = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,6})$")]  # each is written in one way, so none occurs twice
Efficiency = Annotated[float, Field(ge=1e-6, le=1, allow_inf_nan=False)]  # speeds are divided by each other
Widths = Annotated[dict[Width, Efficiency], Field(min_length=1, max_length=64)]


class CurveForm(Form):
    """``[[curve]]``: the efficiency of a model by its number of GPUs."""

    model: Name
    gpu_type: str = ""
    together: Widths
    apart: Widths = Field(default_factory=dict)
    source: str = ""

    def curve(self) -> ScalingCurve:
        """The same as the simulator has it."""
        together, apart = _ascending(self.together), _ascending(self.apart)
        return ScalingCurve(self.model, together, apart, self.gpu_type, self.source)


class ScalingForm(Form):
    """A whole file."""

    curve: list[CurveForm] = Field(min_length=1, max_length=MOST_CURVES)


def _ascending(widths: dict[str, float]) -> Efficiencies:
    return tuple(sorted((int(width), value) for width, value in widths.items()))


def parse(text: str, source: str) -> tuple[ScalingCurve, ...]:
    """The curves in this TOML text; ``source`` is its file, for messages."""
    curves = tuple(form.curve() for form in filled(ScalingForm, text, source, ScalingError, lines=True).curve)
    for curve in curves:
        for width, _ in (*curve.together, *curve.apart):
            if not 1 <= width <= MOST_WIDTH:
                raise ScalingError(
                    f"{source}: [[curve]] '{curve.model}': GPUs must be from 1 to {MOST_WIDTH:,}, got {width}"
                )
    names = Counter((plain(curve.model), curve.gpu_type) for curve in curves)
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise ScalingError(f"{source}: [[curve]] '{twice[0]}' on '{twice[1]}' is given twice; remove one")
    return curves
