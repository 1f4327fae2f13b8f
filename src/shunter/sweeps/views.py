"""The numbers of a sweep that pages and figures show: means over seeds with intervals, never single runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.clusters.stop_costs import USUAL
from shunter.report.bootstrap import Estimate, estimate, means_of_repeats
from shunter.report.terminal.tables import duration, number, share
from shunter.sweeps.analysis import LARGER_IS_BETTER, PLACE, Ranking, over_places, pareto, settings_of

if TYPE_CHECKING:
    import polars as pl

GROUND = tuple(name for name in PLACE if name != "load")  # a place at any load
SHARES = ("utilization", "fragmentation", "fairness.rho_at_most_1")
WORDS = {"jct_s": "JCT", "wait_s": "wait", "bsld": "bounded slowdown", "communication_s": "communication"}
NAMES = {"utilization": "GPUs in use", "makespan_s": "makespan", "fairness.jain": "fairness (Jain)"}
FRONTS = (("wait_s.mean", "wait_s.p99"), ("wait_s.mean", "fairness.jain"))
MOST_VALUES = 12  # of a parameter along an axis; more are put together
BINS = 8
MOST_PARAMETERS = 4  # of a policy, of which pairs are shown


def name_of(measure: str) -> str:
    """A measure in words: ``mean JCT``, ``p99 of wait``."""
    head, _, point = measure.rpartition(".")
    if measure in NAMES or head not in WORDS:
        return NAMES.get(measure, measure)
    return f"{point} {WORDS[head]}" if point in {"mean", "max"} else f"{point} of {WORDS[head]}"


def is_time(measure: str) -> bool:
    """Whether it is in seconds."""
    return "_s." in measure or measure.endswith("_s")


def text_of(value: float, measure: str) -> str:
    """A value in its unit."""
    return duration(value) if is_time(measure) else share(value) if measure in SHARES else number(value)


def family(policy: str) -> str:
    """The name of a policy without its settings."""
    return policy.partition(":")[0]


def described(place: dict[str, Any], besides: Sequence[str] = ()) -> str:
    """A place in words; ``besides``: what need not be said."""
    load = place.get("load")
    named = {"window": "window", "network": "network", "overhead": "overhead", "checkpointable": "checkpointable"}
    parts = [str(place[key]) for key in ("trace", "cluster") if key not in besides]
    parts += [f"load {load:g}"] if load is not None and "load" not in besides else []
    parts += [
        f"{word} {place[key]}"
        for key, word in named.items()
        if key not in besides and place[key] not in {None, "", USUAL}
    ]
    return ", ".join(parts)


def paired(frame: pl.DataFrame, measure: str) -> pl.DataFrame:
    """Runs with a value, and of each place only the seeds with which every policy there has one."""
    import polars as pl

    runs = frame.filter(pl.col("error").is_null() & pl.col(measure).is_not_null() & pl.col(measure).is_finite())
    here = pl.col("policy").n_unique().over(PLACE)
    return runs.filter(pl.col("policy").n_unique().over([*PLACE, "seed"]) == here)


def chosen(ranking: Ranking, fewest: int, most: int) -> list[str]:
    """The policies of a chart, best first: the best settings of each, and where these are few the next best of any."""
    order = [row.policy for row in ranking.rows]
    firsts = [next(policy for policy in order if family(policy) == name) for name in dict.fromkeys(map(family, order))]
    kept = set([*firsts, *(policy for policy in order if policy not in firsts)][: min(max(len(firsts), fewest), most)])
    return [policy for policy in order if policy in kept]


def interval(values: Sequence[float]) -> Estimate:
    """The mean over seeds with its 95 % interval; NaN: too few."""
    array = np.asarray(values, np.float64)
    return estimate(means_of_repeats(array), len(array))


def _with_intervals(cells: pl.DataFrame, measure: str) -> pl.DataFrame:
    """Lists of values as ``value``, ``low`` and ``high``."""
    import polars as pl

    found = [interval(values) for values in cells[measure].to_list()]
    columns = {key: [getattr(one, key) for one in found] for key in ("value", "low", "high")}
    ends = [pl.Series(name, values, dtype=pl.Float64).fill_nan(None) for name, values in columns.items()]
    return cells.drop(measure).with_columns(ends)


def over_load(frame: pl.DataFrame, measure: str, policies: Sequence[str]) -> pl.DataFrame:
    """The measure by place, policy and load, where there are several loads, with intervals over seeds."""
    import polars as pl

    runs = paired(frame, measure).filter(pl.col("policy").is_in(policies), pl.col("load").is_not_null())
    runs = runs.filter(pl.col("load").n_unique().over(GROUND) > 1)
    rank = {policy: at for at, policy in enumerate(policies)}
    cells = runs.sort("seed").group_by([*GROUND, "policy", "load"], maintain_order=True).agg(pl.col(measure))
    order = pl.col("policy").replace_strict(rank, return_dtype=pl.Int64)
    return _with_intervals(cells.sort([*GROUND, order, "load"]), measure)


def by_place(frame: pl.DataFrame, measure: str) -> pl.DataFrame:
    """Per place the best policy and the next one, and how much worse that one is, with an interval over seeds."""
    import polars as pl

    runs = paired(frame, measure).sort("seed")
    cells = runs.group_by([*PLACE, "policy"], maintain_order=True).agg(
        pl.col(measure), pl.col(measure).mean().alias("mean")
    )
    rows = []
    for place, own in cells.sort("mean", descending=measure in LARGER_IS_BETTER).group_by(PLACE, maintain_order=True):
        best, *others = own.select("policy", measure, "mean").rows()
        row: dict[str, Any] = {**dict(zip(PLACE, place, strict=True)), "best": best[0], "value": best[2]}
        row |= {"next": None, "worse": None, "low": None, "high": None, "policies": own.height}
        if others:
            row |= {"next": others[0][0], **_ratio(np.array(others[0][1]), np.array(best[1]))}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None).sort(PLACE)


def _ratio(values: Any, best: Any) -> dict[str, float | None]:
    """How many times as much as the best, paired over seeds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = estimate(means_of_repeats(values) / means_of_repeats(best), len(best))
    known = {"worse": found.value, "low": found.low, "high": found.high}
    return {key: float(value) if np.isfinite(value) else None for key, value in known.items()}


def front(frame: pl.DataFrame, measures: tuple[str, str]) -> pl.DataFrame:
    """Two measures per policy, as the ranking counts them, and whether it is on the front; nothing where one lacks."""
    import polars as pl

    known = frame.filter(pl.col("error").is_null(), *(pl.col(name).is_finite() for name in measures))
    if known.is_empty():
        return pl.DataFrame(schema={"policy": pl.String, **dict.fromkeys(measures, pl.Float64), "front": pl.Boolean})
    found = pareto(known, measures)
    return found.with_columns(policy_name=found["policy"].str.split(":").list.first()).sort(measures[0])


# ------------------------------------------------------------------------------------------- two parameters


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A measure by two parameters of a policy, or by one and the load: means, over places geometric ones."""

    policy: str
    x: str
    y: str
    columns: list[str]  # values of x
    rows: list[str]  # values of y
    values: list[list[float | None]]  # [row][column]

    def table(self) -> pl.DataFrame:
        """A row per cell."""
        import polars as pl

        cells = itertools.product(enumerate(self.rows), enumerate(self.columns))
        rows = [(self.policy, column, row, self.values[i][j]) for (i, row), (j, column) in cells]
        kinds = {"policy": pl.String, self.x: pl.String, self.y: pl.String, "value": pl.Float64}
        return pl.DataFrame(rows, schema=kinds, orient="row")


def heat_maps(frame: pl.DataFrame, policy: str, measure: str) -> list[HeatMap]:
    """One per pair of the parameters that matter most, the most important pair first; nothing where none varies."""
    own = settings_of(paired_alone(frame, policy, measure), policy)
    axes = [name for name in own.columns if name.startswith("set.") and _few(own, name)]
    matter = {name: _effect(own, name, measure) for name in axes}
    axes = sorted(axes, key=lambda name: -matter[name])[:MOST_PARAMETERS]
    if len(axes) == 1 and own["load"].n_unique() > 1:
        axes.append("load")
        own = own.filter(own["load"].is_not_null())
    pairs = sorted(itertools.combinations(axes, 2), key=lambda pair: -sum(matter.get(name, 0.0) for name in pair))
    return [_heat_map(own, policy, pair, measure) for pair in pairs]


def paired_alone(frame: pl.DataFrame, policy: str, measure: str) -> pl.DataFrame:
    """The runs of one policy with all its settings, of each place the seeds that all settings there have."""
    import polars as pl

    return paired(frame.filter(pl.col("policy").str.split(":").list.first() == policy), measure)


def _few(own: pl.DataFrame, name: str) -> bool:
    """Numbers can be put together; many words can't."""
    numeric = own[name].dtype.is_numeric()
    return bool(own[name].is_finite().all()) if numeric else own[name].n_unique() <= MOST_VALUES


def _effect(own: pl.DataFrame, name: str, measure: str) -> float:
    """How much the measure changes with a parameter."""
    _, texts = _binned(own[name])
    means = over_places(own.with_columns(texts), [name], [measure])[measure].to_numpy()
    return float(means.max() - means.min())


def _binned(column: pl.Series) -> tuple[list[str], pl.Series]:
    """A column as texts, and all of these in order; many numbers are ranges that have as many runs each."""
    column = column if column.dtype.is_numeric() else column.fill_null("–")  # where a store of others lacks it
    values = column.unique().sort().to_list()
    if not column.dtype.is_numeric() or len(values) <= MOST_VALUES:
        texts = [value if isinstance(value, str) else f"{value:g}" for value in values]
        known = dict(zip(values, texts, strict=True))
        return texts, _texts(column.name, [known[value] for value in column.to_list()])
    numbers = column.to_numpy()
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, BINS + 1)))
    texts = [f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(edges)]
    at = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(texts) - 1)
    return list(dict.fromkeys(texts)), _texts(column.name, [texts[i] for i in at.tolist()])


def _texts(name: str, values: Sequence[str]) -> pl.Series:
    import polars as pl

    return pl.Series(name, values, dtype=pl.String)


def _heat_map(own: pl.DataFrame, policy: str, pair: tuple[str, str], measure: str) -> HeatMap:
    sides = {name: _binned(own[name]) for name in pair}
    x, y = sorted(pair, key=lambda name: -len(sides[name][0]))
    means = over_places(own.with_columns(sides[x][1], sides[y][1]), [x, y], [measure])
    at = {(column, row): value for column, row, value in means.select(x, y, measure).iter_rows()}
    columns, rows = sides[x][0], sides[y][0]
    values = [[at.get((column, row)) for column in columns] for row in rows]
    return HeatMap(policy, x.removeprefix("set."), y.removeprefix("set."), columns, rows, values)
