"""A fitted model as a page: what matters, the shape of every term, and the factors of one estimate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shunter.predictors.explaining import Reasons, Shape
from shunter.predictors.features import FEATURES
from shunter.predictors.fitted import Fitted
from shunter.report.html import charts, page
from shunter.report.html.charts import Axis
from shunter.report.html.page import Section
from shunter.report.terminal.predict import explanation, model_facts
from shunter.report.terminal.tables import duration, number
from shunter.texts import counted

MOST_BARS = 25
MOST_SHAPES = 16


def model_page(fitted: Fitted, drawn: Sequence[Shape], why: Reasons | None) -> str:
    """The whole page."""
    lead = f"{counted(fitted.rows, 'job')}; mean |log error| {fitted.error:.3f} on the last fifth of them"
    sections = [Section("Overview", [page.facts(model_facts(fitted)), page.note(explanation(fitted))])]
    if fitted.importance:
        sections.append(_importance(fitted))
    if drawn:
        sections.append(Section("Shapes", [page.grid(_figure(shape) for shape in drawn[:MOST_SHAPES])]))
    if why is not None:
        sections.append(_job(why))
    return page.render(f"Model {fitted.name}", lead, sections)


def _importance(fitted: Fitted) -> Section:
    names = list(fitted.importance)[:MOST_BARS]
    bars = charts.bars(names, {"matters": [fitted.importance[name] for name in names]}, "", Axis("matters"))
    figure = page.figure("What matters", f"{names[0]} matters most.", bars)
    words = [[name, FEATURES[name]] for name in names if name in FEATURES]
    return Section("What matters", [figure, page.table("Features", ["feature", "what it is"], words, words={1})])


def _figure(shape: Shape) -> str:
    first = shape.features[0]
    series = {name or "factor": np.exp(curve) for name, curve in shape.curves.items()}
    extremes = [float(value) for curve in series.values() for value in (curve.min(), curve.max())]
    finding = f"Run time times {min(extremes):.2f} to {max(extremes):.2f}; if {first} is unknown, "
    finding += f"times {np.exp(shape.missing):.2f}."
    chart = charts.lines(shape.x, series, Axis(first), Axis("factor"))
    return page.figure(shape.term, finding, chart, FEATURES.get(shape.term, ""))


def _job(why: Reasons) -> Section:
    low, middle, _, high = (duration(seconds) for seconds in why.quantiles_s)
    pairs = [
        ("estimate", duration(why.estimate_s)),
        ("P10, P50, P90", f"{low}, {middle}, {high}"),
        ("it took", duration(why.actual_s)),
        ("begins with", f"{duration(why.recent_s)}, the run time of the nearest ended job"),
    ]
    rows = [["any job", f"{np.exp(why.base):.2f}", ""]]
    for part in why.parts:
        values = ", ".join("not known" if np.isnan(value) else number(value) for value in part.value)
        rows.append([part.name, f"{np.exp(part.log_factor):.2f}", values])
    return Section(
        f"Job {why.job}", [page.facts(pairs), page.table("Its estimate", ["times", "factor", "value"], rows)]
    )
