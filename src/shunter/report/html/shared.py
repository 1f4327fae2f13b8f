"""Which jobs shared GPUs, how much slower that made them, and what the profiler saw of the jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shunter.report.html.charts import Axis, bars
from shunter.report.html.findings import Row
from shunter.report.html.page import Cell, choice, figure, note, paragraph, table, text_of
from shunter.report.html.words import span_of
from shunter.report.terminal.tables import share
from shunter.sharing.score import SCORES, THRESHOLDS, ScoreTree, shipped_tree
from shunter.sharing.tree_svg import drawn
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

    from shunter.run_folder import Run

MOST_PAIRS = 15  # of workloads, in a table
SLOWDOWNS = (
    ("1", 1.0),
    ("to 1.02", 1.02),
    ("to 1.05", 1.05),
    ("to 1.1", 1.1),
    ("to 1.2", 1.2),
    ("to 1.5", 1.5),
    ("to 2", 2.0),
    ("over 2", math.inf),
)  # name, up to this many times as long
GENTLY = 4  # of these: up to a tenth longer


def shared(names: Sequence[str], runs: Sequence[Run], rows: Sequence[Row]) -> list[str]:
    """Numbers and charts for the policies that let jobs share GPUs; nothing if none does."""
    every = zip(names, runs, rows, strict=True)
    found = [(name, run, row) for name, run, row in every if run.pairs is not None and row.get("sharing")]
    if not found:
        return []
    named = {name: row for name, _, row in found}
    packed = {name: run for name, run, _ in found if run.pairs is not None and len(run.pairs)}
    tables = {name: [_workloads(run)] for name, run in packed.items()}
    parts = [_table(named)]
    if packed:
        parts.append(_slowdowns(packed))
        parts += [choice("Policy", tables)] if len(tables) > 1 else next(iter(tables.values()))
    else:
        parts.append(paragraph("No two jobs shared a GPU."))
    return [*parts, *map(_tree, dict.fromkeys(_scored_by(run, row) for _, run, row in found))]


def _table(named: dict[str, Row]) -> str:
    lines = []
    for name, row in named.items():
        one, jobs = row["sharing"], max(float(row["jobs"]), 1.0)
        slower = "–" if one["mean_slowdown"] is None else f"{one['mean_slowdown']:.2f}x"
        shares = [f"{one[key]:,.0f} ({share(one[key] / jobs)})" for key in ("profiled", "ended_in_profiler")]
        lines.append([name, f"{one['pairs']:,.0f}", f"{one['packed_jobs']:,.0f}", slower, *shares])
    headings = ["policy", "pairs", "jobs that shared", "mean slowdown", "profiled", "ended in the profiler"]
    return table("Jobs that shared GPUs, and jobs that ran in the profiler first (of all jobs)", headings, lines)


def sharers(run: Run) -> pl.DataFrame:
    """The finished jobs that ever shared their GPUs."""
    import polars as pl

    assert run.pairs is not None
    rows = pl.concat([run.pairs["job"], run.pairs["partner"]]).unique().sort()
    return run.jobs[rows].drop_nulls("slowdown")


def _slowdowns(packed: dict[str, Run]) -> str:
    """Which share of the jobs that shared GPUs became how much slower."""
    samples = {name: sharers(run)["slowdown"].to_numpy() for name, run in packed.items()}
    shares = {name: slowed(values) for name, values in samples.items()}
    gently = {name: float(each[:GENTLY].sum()) for name, each in shares.items()}
    finding = (
        f"{span_of(gently, share)} of the jobs that ever shared their GPUs took at most a tenth longer than alone."
    )
    x = "run time over run time alone"
    chart = bars([name for name, _ in SLOWDOWNS], shares, x, Axis("share of jobs", "share"))
    left = "Over the whole run of a job, which may have shared GPUs only for a part of it; lost time does not count."
    return figure("Slowdown of jobs that shared GPUs", finding, chart, left)


def slowed(values: F64) -> F64:
    """The share of these slowdowns in each class; they are rounded first, as one of 1 may come out a little above."""
    group = np.searchsorted([top for _, top in SLOWDOWNS], np.round(values, 6))
    shares: F64 = np.bincount(group, minlength=len(SLOWDOWNS)) / max(len(values), 1)
    return shares


def _workloads(run: Run) -> str:
    """Which workloads were paired how often, how fast each is beside the other, and how these jobs ended."""
    import polars as pl

    assert run.pairs is not None
    slowdown = run.jobs["slowdown"]
    pairs = run.pairs.with_columns(own=slowdown[run.pairs["job"]], other=slowdown[run.pairs["partner"]])
    turned = pl.col("workload") > pl.col("partner_workload")  # the order does not matter

    def sided(first: str, second: str, name: str) -> pl.Expr:
        return pl.when(turned).then(pl.col(second)).otherwise(pl.col(first)).alias(name)

    sides = [
        expression
        for first, second, name in (
            ("workload", "partner_workload", "workload"), ("score", "partner_score", "score"),
            ("speed", "partner_speed", "speed"), ("own", "other", "slowdown"),
        )
        for expression in (sided(first, second, f"{name}_1"), sided(second, first, f"{name}_2"))
    ]  # fmt: skip
    means = [pl.col(f"{name}_{side}").mean() for name in ("speed", "slowdown") for side in (1, 2)]
    scores = [pl.col(f"score_{side}").first() for side in (1, 2)]
    groups = pairs.select(sides).group_by("workload_1", "workload_2").agg(pl.len().alias("pairs"), *scores, *means)
    groups = groups.sort(["pairs", "workload_1", "workload_2"], descending=[True, False, False])
    lines = [_line(group) for group in groups.head(MOST_PAIRS).iter_rows(named=True)]
    headings = ["workloads", "pairs", "measured speed of the first", "of the second",
                "slowdown of the first", "of the second"]  # fmt: skip
    left = f" The {MOST_PAIRS} most frequent of {len(groups)} kinds of pairs." if len(groups) > MOST_PAIRS else ""
    about = (
        "Speed: steps per second beside the other workload, relative to those alone, as measured on a GPU. Slowdown:"
        f" run time over run time alone, mean over the finished jobs.{left}"
    )
    return table("Workloads that shared GPUs", headings, lines) + note(about)


def _line(group: dict[str, object]) -> list[str | Cell]:
    names = " + ".join(str(group[f"workload_{side}"]) for side in (1, 2))
    scores = " + ".join(_score(group[f"score_{side}"]) for side in (1, 2))
    speeds = [f"{group[f'speed_{side}']:.2f}" for side in (1, 2)]
    slower = ["–" if (value := group[f"slowdown_{side}"]) is None else f"{value:.2f}x" for side in (1, 2)]
    return [Cell(names, hint=scores), f"{group['pairs']:,}", *speeds, *slower]


def _score(score: object) -> str:
    return SCORES[score] if isinstance(score, int) and score >= 0 else "not scored"


# ------------------------------------------------------------------------------------------- the tree


def _scored_by(run: Run, row: Row) -> ScoreTree:
    """The tree that scored the jobs of a run, by the text of its policy."""
    return THRESHOLDS if "scores=thresholds" in row["policy"] else shipped_tree(run.cluster.sharing)


def _tree(tree: ScoreTree) -> str:
    """The sharing tree as a drawing."""
    right = (
        "" if tree.accuracy is None else f" It is right for {share(tree.accuracy)} of workloads left out of training."
    )
    caption = f"Jobs share GPUs if their scores add up to no more than allowed. The tree: {tree.origin}.{right}"
    return (
        '<figure class="tree"><figcaption><h3>How light a job is</h3>'
        f'<p>{text_of(caption)}</p></figcaption><div class="wide" tabindex="0" role="img"'
        f' aria-label="{text_of("The tree: " + tree.as_text())}">{drawn(tree)}</div></figure>'
    )
