"""Estimates of run times: how good they are, what a model has learned, and why it says what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.predictors.calibrating import NAMES as QUANTILE_NAMES
from shunter.report.gains import gain_text
from shunter.report.terminal.blocks import binned, columns
from shunter.report.terminal.tables import Below, duration, number, share, table
from shunter.traces.slicing import date

if TYPE_CHECKING:
    from shunter.predictors.explaining import Reasons, Shape
    from shunter.predictors.fitted import Fitted

SPARK = 16  # characters
MOST_TERMS = 15
_LEGEND = (
    "|log error|: mean, 0.69 is a factor of 2; rank: Spearman's, of all jobs, and of those that wait\n"
    " together; below P10 ...: % of the jobs, 10 / 50 / 75 / 90 is right; bias: of the sum of run times"
)
_GAINS = (
    "gain: how much less it errs, 95 % interval over days; below: P10 / ... / P90; give or take: half the 95 % interval"
    " of these over days, in points; inside: P10 to P90"
)


def eval_view(found: dict[str, Any]) -> RenderableType:
    """Rules and models side by side, the best of each column stands out; and what models gain, month by month."""
    rows = found["models"]
    head = Text(
        f" {found['trace']}: {found['trained_on']:,} jobs before {found['split']}; after it {found['jobs']:,} are\n"
        f" estimated, each at its {found['at']}; fitted again: {found['refit']}"
    )
    made = table(
        "model", "|log\nerror|", "rank", "rank in\nqueue", "below P10 /\nP50 / P75 / P90", "R2", "MAPE", "median\nAPE",
        "bias",
    )  # fmt: skip
    best = {key: _best(rows, key, how) for key, how in _BEST.items()}
    for at, row in enumerate(rows):
        cells = [
            _cell(row, key, write, at in best.get(key, ()))
            for key, write in (
                ("mean_abs_log_error", lambda value: f"{value:.3f}"),
                ("rank_correlation", lambda value: f"{value:.2f}"),
                ("queue_rank_correlation", lambda value: f"{value:.2f}"),
                ("held", _held),
                ("r2", lambda value: f"{value:.2f}" if value > -100 else "< -100"),
                ("mape", _percent),
                ("median_ape", _percent),
                ("bias", lambda value: f"{100 * value:+,.0f} %"),
            )
        ]
        made.add_row(_name(row, found["jobs"]), *cells)
    speeds = [row["estimates_per_s"] for row in rows if row.get("fits")]
    pace = (
        f"\n {max(row['fits'] for row in rows)} fits, at least {min(speeds):,.0f} estimates a second" if speeds else ""
    )
    return Group(head, made, Below(f"{_LEGEND}{pace}", style="dim"), *_months_view(found["months"]))


def _held(shares: dict[str, float]) -> str:
    return "/".join(f"{100 * shares[name]:.0f}" for name in QUANTILE_NAMES)


def _within(points: dict[str, float | None]) -> str:
    return "/".join("–" if part is None else f"{100 * part:.0f}" for part in points.values())


def _months_view(months: Sequence[dict[str, Any]]) -> list[RenderableType]:
    """What each model gains on the rules it is held against, and what its quantiles held."""
    learned = [name for name, model in months[0]["models"].items() if "gain" in model] if months else []
    if not learned:
        return []
    against = list(months[0]["models"][learned[0]]["gain"])
    made = table(
        "month",
        "jobs",
        "model",
        "|log\nerror|",
        *(f"gain on {rule}" for rule in against),
        "below",
        "give or\ntake",
        "inside",
    )
    made.columns[0].no_wrap = True
    for month in months:
        for at, name in enumerate(learned):
            model = month["models"][name]
            made.add_row(
                *((month["month"], f"{month['jobs']:,}") if at == 0 else ("", "")),
                name,
                f"{model['mean_abs_log_error']:.3f}",
                *(gain_text(model["gain"][rule]) for rule in against),
                _held(model["held"]),
                _within(model["held_within"]),
                f"{100 * model['held']['p10_p90']:.0f} %",
            )
    return [Text(""), made, Below(_GAINS, style="dim")]


_BEST = {"mean_abs_log_error": min, "r2": max, "mape": min, "median_ape": min}
_BEST |= {"rank_correlation": max, "queue_rank_correlation": max}


def _best(rows: Sequence[dict[str, Any]], key: str, how: Any) -> list[int]:
    known = [(row[key], at) for at, row in enumerate(rows) if row.get(key) is not None]
    return [at for value, at in known if value == how(known)[0]] if len(known) > 1 else []


def _cell(row: dict[str, Any], key: str, write: Any, best: bool) -> Text:
    value = row.get(key)
    return Text("" if value is None else write(value), style="bold green" if best else "")


def _percent(value: float) -> str:
    return f"{100 * value:,.0f} %" if value < 1e4 else f"{value:,.0f} x"


def _name(row: dict[str, Any], jobs: int) -> str:
    return row["model"] if row["jobs"] == jobs else f"{row['model']} ({row['jobs']:,} jobs)"


# ------------------------------------------------------------------------------------------- a model


def model_facts(fitted: Fitted) -> list[tuple[str, str]]:
    """What is known about a model, in words."""
    settings = ", ".join(f"{key}={value}" for key, value in fitted.settings.items())
    versions = ", ".join(f"{name} {version}" for name, version in fitted.versions.items())
    return [
        ("model", f"{fitted.name} ({settings})"),
        ("fitted to", f"{fitted.rows:,} jobs, submitted {date(fitted.span[0])} to {date(fitted.span[1])}"),
        ("known until", date(fitted.fitted_at)),
        ("|log error|", f"{fitted.error:.3f} on the last fifth of these jobs"),
        ("P10-P90", "; ".join(f"{math.exp(low):.2f} to {math.exp(high):,.1f} x" for low, _, _, high in fitted.spread)),
        *([("libraries", versions)] if versions else []),
    ]


def model_record(fitted: Fitted, drawn: Sequence[Shape]) -> dict[str, Any]:
    """A model for scripts, without its trees."""
    return {
        "model": fitted.name,
        "settings": fitted.settings,
        "jobs": fitted.rows,
        "known_until": date(fitted.fitted_at),
        "mean_abs_log_error": fitted.error,
        "importance": fitted.importance,
        "versions": fitted.versions,
        "shapes": [
            {
                "term": shape.term,
                "x": shape.x.tolist(),
                "log_factor": {name: curve.tolist() for name, curve in shape.curves.items()},
                "missing": shape.missing,
            }
            for shape in drawn
        ],
    }


def model_view(fitted: Fitted, drawn: Sequence[Shape]) -> RenderableType:
    """What a model has learned."""
    from shunter.predictors.features import FEATURES

    facts = Text("\n".join(f" {name:12} {text}" for name, text in model_facts(fitted)))
    curves = {shape.term: shape for shape in drawn}
    made = table(
        "term" if curves else "feature", "matters", *(["low to high", "factor"] if curves else []), "what it is"
    )
    made.columns[0].no_wrap, made.columns[-1].no_wrap, made.columns[-1].justify = True, False, "left"
    for name, weight in list(fitted.importance.items())[:MOST_TERMS]:
        what = FEATURES.get(name, "both together")
        cells = [_spark(curves[name]), _range(curves[name])] if curves else []
        made.add_row(name, f"{weight:.3f}", *cells, Text(what, style="dim"))
    return Group(facts, *([made] if fitted.importance else []), Below(explanation(fitted), style="dim"))


def explanation(fitted: Fitted) -> str:
    """How the table is to be read."""
    if fitted.terms:
        return "matters: mean |log| that a term adds; factor: what it multiplies run time by, from least to most"
    if fitted.importance:
        return "matters: share of the gain in error; gbm is a sum of trees, so it has no shapes: use ebm for those"
    return "rolling means of ended jobs: nothing was learned but how far they are off"


def _spark(shape: Shape) -> str:
    if len(shape.features) > 1:
        return ""
    (curve,) = shape.curves.values()
    values, _ = binned((curve - curve.min()).tolist(), SPARK)
    return columns([value + 1e-9 for value in values], 1, 1)[0]


def _range(shape: Shape) -> str:
    low = min(curve.min() for curve in shape.curves.values())
    high = max(curve.max() for curve in shape.curves.values())
    return f"{math.exp(low):.2f} - {math.exp(high):.2f}"


# ------------------------------------------------------------------------------------------- one estimate


def reasons_record(why: Reasons) -> dict[str, Any]:
    """An estimate taken apart, for scripts."""
    return {
        "job": why.job,
        "estimate_s": why.estimate_s,
        **{f"{name}_s": seconds for name, seconds in zip(QUANTILE_NAMES, why.quantiles_s, strict=True)},
        "actual_s": why.actual_s,
        "recent_s": why.recent_s,
        "history_s": None if math.isnan(why.history_s) else why.history_s,
        "base_factor": math.exp(why.base),
        "parts": [
            {
                "name": part.name,
                "value": [None if math.isnan(value) else value for value in part.value],
                "factor": math.exp(part.log_factor),
            }
            for part in why.parts
        ],
    }


def reasons_view(fitted: Fitted, why: Reasons) -> RenderableType:
    """Why a job is estimated so."""
    low, middle, _, high = (duration(seconds) for seconds in why.quantiles_s)
    lines = [
        f" job {why.job}: {duration(why.estimate_s)} (P10 {low}, P50 {middle}, P90 {high}); "
        f"it took {duration(why.actual_s)}"
    ]
    if fitted.alpha > 0:
        rolling = "nothing had ended" if math.isnan(why.history_s) else duration(why.history_s)
        lines.append(f" {share(fitted.alpha)} of it is the rolling mean, {rolling}")
    if not why.parts:
        return Text("\n".join(lines))
    lines.append(f" begins with the run time of the nearest ended job: {duration(why.recent_s)}")
    made = table("times", "factor", "its value")
    made.add_row("any job", f"{math.exp(why.base):.2f}", "")
    for part in why.parts[:MOST_TERMS]:
        made.add_row(part.name, f"{math.exp(part.log_factor):.2f}", ", ".join(map(_value, part.value)))
    rest = sum(part.log_factor for part in why.parts[MOST_TERMS:])
    if len(why.parts) > MOST_TERMS:
        made.add_row(f"{len(why.parts) - MOST_TERMS} others", f"{math.exp(rest):.2f}", "")
    return Group(Text("\n".join(lines)), made)


def _value(value: float) -> str:
    return "not known" if math.isnan(value) else number(value)
