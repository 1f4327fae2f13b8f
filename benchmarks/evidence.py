"""Which policy suits which site: ``./scripts/evidence``, every policy on every trace, window by window.

Each window of a recorded trace (a week; half a week of the shortest trace) is one run.  Policies that learn, learn from
the jobs before it.  The first half of a trace's windows is for choosing settings (``--months early``), the second half
for judging (the default).  A policy is compared with ``saf:backfill=easy`` on the same windows: the ratio of the mean
waits of all jobs, with a 95 % interval over windows drawn with replacement.  Runs are kept and never repeated.

``-p`` adds a policy of your own; it gets the same row.  ``--write`` puts the tables into ``docs/evidence.md``.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import shunter
from shunter.errors import ShunterError
from shunter.report.bootstrap import RESAMPLES, Estimate, estimate
from shunter.safe_files import data_folder
from shunter.seeding import rng
from shunter.simulation import resolve
from shunter.sweeps.work import ARRIVALS
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

BASELINE = "saf:backfill=easy"
DRAWS = 5  # of each window: the recorded arrivals, and four times moved by up to 30 seconds
PAGE = Path(__file__).parents[1] / "docs" / "evidence.md"
BEGIN, END = "<!-- evidence: begin -->", "<!-- evidence: end -->"


class Site(NamedTuple):
    """A recorded trace on a cluster on which its jobs queue."""

    file: str
    format: str
    cluster: str
    load: float | None  # to which each window is stretched; None: as recorded
    first: float  # days before the first window
    days: float  # of a window
    half: int  # windows for choosing, and as many later ones for judging
    like: str = ""  # the twin that stands in for it; "": one like the published traces in general

    def windows(self, months: str) -> dict[str, float]:
        """Its windows as a sweep has them."""
        first = self.first + (0 if months == "early" else self.half * self.days)
        return {"first": first, "days": self.days, "count": self.half}


# Clusters are smaller than the real ones where the public files have only a part of the jobs. Philly has half as many
# jobs in its later weeks, so its weeks are brought to one load.
SITES = {
    "Philly": Site("philly/philly_jobs.csv.gz", "philly", "52x8", 0.95, 14, 7, 6, "philly"),
    "Venus": Site("helios/venus_gpu_jobs.csv.gz", "helios", "70x8", None, 14, 7, 12, "helios-venus"),
    "AAIC": Site("aaic/aaicwl-201807-201812.csv.gz", "aaic", "24x8", None, 3, 7, 13),
    "PAI": Site("pai/pai_tasks_sample.csv.gz", "pai", "52x8", None, 3, 3.5, 6, "pai"),
}
ORDERS = ("fifo", "lifo", "smallest", "largest", "sjf", "ljf", "saf", "laf", "f1", "f2", "f3", "f4", "unicep", "wfp3")
POLICIES = (
    BASELINE,
    *ORDERS,
    *(f"{order}:backfill=easy" for order in ("fifo", "smallest", "sjf", "f1", "wfp3", "multifactor")),
    "multifactor", "easypp", "qssf", "qssf:backfill=easy", "saf:backfill=easy,placement=tight",
    "saf:backfill=easy,placement=weighed", "saf:backfill=easy,placement=weighed-ahead",
    "saf:backfill=easy,estimate=gbm", "saf:backfill=easy,estimate=oracle",
    "saf:bound=0.5,backfill=easy,placement=tight", "express",
    "gittins", "gittins:backfill=none,blocking=skip", "srsf:backfill=easy", "srsf:backfill=easy,placement=tight",
    "las", "srtf", "tiresias", "tiresias:order=gittins", "las:blocking=skip,placement=tight",
    "themis", "gandiva", "lucid", "dally", "marshal", "ces", "kubeflow",
    "elastic", "qoredl", "optimus", "slaq",
)  # fmt: skip
_DEADLINES = "none of these traces has deadlines; without them it is `fifo`"
NOT_APPLICABLE = {  # why a policy has no row
    "edf": _DEADLINES,
    "llf": _DEADLINES,
    "pedf": _DEADLINES,
    "scored": "its model is trained first; [Reproduce](reference/reproduce.md#rltune) judges such models",
    "inspected": "as `scored`",
}
# what a policy with shorter mean waits may cost elsewhere and still be called better
WORST_P99 = 1.10  # of the baseline's
WORST_UTILIZATION = -0.02
WORST_FAIRNESS = -0.05  # Jain's index
LEAST_WAIT_S = 1.0  # shorter mean waits count as this: no wait at all is no infinite gain


class Score(NamedTuple):
    """A policy on a site, beside the baseline on the same windows."""

    wait: Estimate  # the ratio of mean waits
    p99: float  # the ratio of the means of the windows' 99th percentiles
    bsld: float  # the ratio of mean bounded slowdowns
    utilization: float  # difference
    fairness: float  # difference
    windows: int
    better: int  # windows with a mean wait below the baseline's

    @property
    def word(self) -> str:
        """What the numbers show."""
        if math.isnan(self.wait.low) or self.wait.low <= 1 <= self.wait.high:
            return "no difference shown"
        if self.wait.low > 1:
            return "worse"
        costs = {
            f"p99 {self.p99 - 1:+.0%}": self.p99 > WORST_P99,
            f"utilisation {100 * self.utilization:+.1f} points": self.utilization < WORST_UTILIZATION,
            f"fairness {self.fairness:+.2f}": self.fairness < WORST_FAIRNESS,
        }
        paid = [text for text, holds in costs.items() if holds]
        return f"shorter waits, but {', '.join(paid)}" if paid else "better"


def sweep_of(
    policies: Sequence[str], months: str, draws: int, folder: Path | None, names: Sequence[str] = tuple(SITES)
) -> dict[str, Any]:
    """The axes of the sweep; made-up traces stand in where the recorded ones are missing."""
    sites = [_axes(name, SITES[name], months, folder) for name in names]
    return {**sites[-1], "include": sites[:-1], "policies": list(policies), "seeds": draws, "drop_unfit": True}


def _axes(name: str, site: Site, months: str, folder: Path | None) -> dict[str, Any]:
    if folder is None:
        like = f"like={site.like}," if site.like else ""
        made = f"synthetic:{like}jobs=600,gpus=64,load=1.1"
        return {"traces": [{"trace": made, "name": f"stand-in for {name}"}], "clusters": ["8x8"]}
    trace = {"trace": str(folder / site.file), "name": name, "format": site.format}
    axes = {"traces": [{**trace, "equal_windows": site.windows(months)}], "clusters": [site.cluster]}
    return axes if site.load is None else {**axes, "loads": [site.load]}


def scores(runs: pl.DataFrame, baseline: str = BASELINE) -> dict[str, dict[str, Score]]:
    """By policy and trace; a policy of which a run failed has no score there."""
    import polars as pl

    means = ("wait_s.mean", "wait_s.p99", "bsld.mean", "utilization", "fairness.jain", "finished")
    # draws of a recorded window have the same jobs; those of a made-up trace have others, as another window has
    own_jobs = pl.when(pl.col("varies") == ARRIVALS).then(0).otherwise("seed").alias("drawn")
    units = runs.with_columns(pl.col("window").fill_null(""), own_jobs)
    windows = units.group_by("policy", "trace", "window", "drawn", maintain_order=True).agg(
        *(pl.col(name).mean() for name in means), pl.col("error").is_not_null().any().alias("failed")
    )
    broken = set(windows.filter("failed").select("policy", "trace").iter_rows())
    found: dict[str, dict[str, Score]] = {}
    for (policy, trace), own in windows.group_by("policy", "trace", maintain_order=True):
        base = windows.filter(pl.col("policy") == baseline, pl.col("trace") == trace)
        paired = own.join(base, on=["window", "drawn"], suffix=" of the baseline", maintain_order="left")
        if (policy, trace) not in broken and (baseline, trace) not in broken and paired.height:
            found.setdefault(str(policy), {})[str(trace)] = _score(paired)
    return found


def _score(paired: pl.DataFrame) -> Score:
    """The score from one row per window, with the numbers of both."""

    def of(name: str, whose: str = "") -> F64:
        return paired[name + whose].to_numpy().astype(np.float64)

    other = " of the baseline"
    count = paired.height
    drawn = np.vstack([np.ones(count), rng(0, "evidence").multinomial(count, np.full(count, 1 / count), RESAMPLES)])
    jobs = of("finished")
    waits, theirs = (drawn @ (jobs * np.maximum(of("wait_s.mean", whose), LEAST_WAIT_S)) for whose in ("", other))
    return Score(
        wait=estimate(waits / theirs, count),
        p99=float(of("wait_s.p99").mean() / of("wait_s.p99", other).mean()),
        bsld=float((jobs @ of("bsld.mean")) / (jobs @ of("bsld.mean", other))),
        utilization=float((of("utilization") - of("utilization", other)).mean()),
        fairness=float((of("fairness.jain") - of("fairness.jain", other)).mean()),
        windows=count,
        better=int((of("wait_s.mean") < of("wait_s.mean", other)).sum()),
    )


def mean_over_sites(of_policy: Mapping[str, Score]) -> float:
    """The geometric mean of the ratios of waits."""
    return math.exp(sum(math.log(max(score.wait.value, 1e-3)) for score in of_policy.values()) / len(of_policy))


def tables(found: Mapping[str, Mapping[str, Score]], sites: Sequence[str], baseline: str = BASELINE) -> Iterator[str]:
    """The matrix and what each policy costs, as Markdown; the policy with the shortest waits first."""
    order = sorted(found, key=lambda policy: (len(found[policy]) < len(sites), mean_over_sites(found[policy])))
    yield f"| policy | {' | '.join(sites)} | mean | windows won |"
    yield f"|---|{'---|' * (len(sites) + 2)}"
    for policy in order:
        own = found[policy]
        cells = [_cell(own[site]) if site in own else "failed" for site in sites]
        mean = f"{mean_over_sites(own):.2f}" if len(own) == len(sites) else ""
        won, all_of_them = sum(score.better for score in own.values()), sum(score.windows for score in own.values())
        yield f"| `{policy}` | {' | '.join(cells)} | {mean} | {won} of {all_of_them} |"
    yield ""
    yield "| policy | trace | wait | p99 of waits | slowdown | utilisation | fairness | what it shows |"
    yield "|---|---|---|---|---|---|---|---|"
    for policy in order:
        for site, score in found[policy].items():
            if policy != baseline:
                yield (
                    f"| `{policy}` | {site} | {_cell(score)} | {score.p99:.2f} | {score.bsld:.2f}"
                    f" | {100 * score.utilization:+.1f} | {score.fairness:+.2f} | {score.word} |"
                )


def not_applicable() -> Iterator[str]:
    """Policies without a row, and why, as Markdown."""
    yield "| policy | why it has no row |"
    yield "|---|---|"
    for policy, why in NOT_APPLICABLE.items():
        yield f"| `{policy}` | {why} |"


def _cell(score: Score) -> str:
    value, low, high = score.wait
    return f"{value:.2f}" if math.isnan(low) else f"{value:.2f} ({low:.2f} to {high:.2f})"


def written(page: str, lines: Sequence[str]) -> str:
    """The page with these lines between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"error: {PAGE} must have the lines {BEGIN} and {END}")
    return "\n".join((before + BEGIN, *lines, END + after))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(prog="./scripts/evidence", description="Every policy on every trace, by windows.")
    parser.add_argument("-p", "--policy", action="append", default=[], help="one more policy, such as mylab.Mine")
    parser.add_argument("--only", action="append", help="these policies instead of all; the baseline is added")
    parser.add_argument("--against", default=BASELINE, help=f"compare with this policy (default {BASELINE})")
    parser.add_argument("--site", action="append", choices=SITES, help="these traces instead of all; repeatable")
    parser.add_argument("--months", choices=("early", "late"), default="late", help="early: for choosing settings")
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"runs of each window (default {DRAWS})")
    parser.add_argument("--out", type=Path, default=Path("evidence"), help="the folder of the runs (default evidence)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes (default: one per core)")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/evidence.md")
    asked = parser.parse_args(arguments)
    against = resolve(asked.against).text
    policies = list(dict.fromkeys([against, BASELINE, *(asked.only or POLICIES), *asked.policy]))
    folder = data_folder(*(site.file for site in SITES.values()))
    if folder is None:
        sys.stderr.write("the recorded traces are not there (SHUNTER_DATA names their folder): twins stand in\n")
    partly = asked.months == "early" or asked.only or asked.site or against != BASELINE
    if asked.write and (folder is None or partly):
        raise SystemExit(
            "error: --write needs all recorded traces, the late months, all policies and the usual baseline"
        )
    try:
        made = shunter.sweep(
            out=asked.out, workers=asked.workers, any_version=False, on_progress=_show,
            **sweep_of(policies, asked.months, asked.draws, folder, asked.site or tuple(SITES)),
        )  # fmt: skip
    except ShunterError as problem:
        raise SystemExit(f"error: {problem}") from None
    for error in sorted(set(made.failed["error"].to_list())):
        sys.stderr.write(f"failed: {error}\n")
    windows = made.runs.select("trace", "window").n_unique()
    head = f"{windows} windows, {asked.draws} {'run' if asked.draws == 1 else 'runs'} of each, {shunter.__version__}."
    sites = sorted(set(made.runs["trace"].to_list()), key=_place_of)
    lines = [head, "", *tables(scores(made.runs, against), sites, against), "", *not_applicable()]
    sys.stdout.write("\n".join(lines) + "\n")
    if asked.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), lines), encoding="utf-8")


def _place_of(trace: str) -> int:
    """Where a trace, or what stands in for it, is among the sites."""
    return next(at for at, name in enumerate(SITES) if trace.endswith(name))


def _show(progress: Any) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{progress.found + progress.done:,} of {progress.total:,} runs ")
        sys.stderr.flush()


if __name__ == "__main__":
    main()
