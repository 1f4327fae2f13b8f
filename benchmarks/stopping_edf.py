"""How much of ``elastic``'s lead a plain order that stops jobs has, too: ``python -m benchmarks.stopping_edf``.

The rivals of ``shunter reproduce qoredl`` that go by deadlines stop no job, and don't put off jobs that can't be in
time any more. These orders do one of the two, or both, and run jobs on what they ask for. Eight settings of each are
tried as those of the other rivals (``benchmarks.qoredl_search``), and the best is judged on the seeds of the
reproduction, beside ``edf`` and ``elastic``, the last one also with predictions.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product

from benchmarks.qoredl_search import BEST, FIRST, ranked
from shunter.reproduce.qoredl.design import ABLATIONS, NOISY, NONE, OURS, POLICIES, SEARCH_SEEDS, TRUE, Variant
from shunter.reproduce.qoredl.study import QoredlPart, QoredlStudy, one_run
from shunter.scheduling.queue.ordering import Ordering, Preempting
from shunter.world import F64, Job

LATE = 1e12  # seconds: after all others
LOOK_S = 120.0
ORDERS = ("blocking=skip", "backfill=easy")
PLACES = ("consolidate", "tight")
BOTH = "EDF, stops jobs, late jobs last"
SEARCHED = {
    "EDF, late jobs last": tuple(
        f"benchmarks.stopping_edf.HopefulEdf:{order},placement={place}"
        for order, place in product(("blocking=strict", *ORDERS, "backfill=conservative"), PLACES)
    ),
    **{
        label: tuple(
            f"benchmarks.stopping_edf.{name}:{order},placement={place},min_run={least}"
            for order, place, least in product(ORDERS, PLACES, (1, 10))
        )
        for label, name in (
            ("EDF, stops jobs", "StoppingEdf"),
            (BOTH, "HopefulStoppingEdf"),
        )
    },
}


@dataclass(frozen=True)
class HopefulEdf(Ordering):
    """Earliest deadline first; jobs that can't be in time any more, by their declared work, come last."""

    uses_estimate = True
    declared_first = True

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """When the job is wanted by."""
        late = job.submit + job.wait + job.executed + job.remaining > job.due
        return job.due + (LATE if late else 0.0)


@dataclass(frozen=True)
class StoppingEdf(Preempting):
    """Earliest deadline first; stops jobs for earlier ones."""

    @staticmethod
    def key(job: Job, p: F64) -> float:
        """When the job is wanted by."""
        return job.due


@dataclass(frozen=True)
class HopefulStoppingEdf(Preempting):
    """Both."""

    uses_estimate = True
    declared_first = True
    key = staticmethod(HopefulEdf.key)

    def quantum(self) -> float:
        """Which jobs are late changes as time passes."""
        return LOOK_S


def chosen(label: str) -> str:
    """The setting that meets most deadlines on the seeds that are not judged."""
    first = ranked(SEARCHED[label], SEARCH_SEEDS[:FIRST])
    best = ranked([policy for policy, *_ in first[:BEST]], SEARCH_SEEDS)
    sys.stdout.writelines(f"{label}: {policy}, {met:.1%}\n" for policy, met, _ in best)
    return best[0][0]


def main() -> None:
    """Print the settings that were tried last, and what the judged seeds show."""
    variants = {label: Variant(chosen(label)) for label in SEARCHED}
    for prediction in (NOISY, TRUE):
        variants[f"{BOTH}, {prediction} prediction"] = Variant(variants[BOTH].policy, prediction)
    variants |= {"EDF": POLICIES["EDF"], OURS: POLICIES[OURS]}
    variants |= {label: variant for label, variant in ABLATIONS.items() if variant.base == OURS}
    part, numbers = QoredlPart(), {}
    for (label, variant), (bed, load) in product(variants.items(), part.cells):
        runs = [one_run(variant, bed, load, part.seed + at, part.jobs) for at in range(part.seeds)]
        numbers[label, bed, load] = runs
    study = QoredlStudy(part, numbers)
    sys.stdout.write(
        "| | met | moves a job | Elastic, with the same prediction, is ahead by, points |\n|---|---|---|---|\n"
    )
    for label, variant in variants.items():
        ours = OURS if variant.prediction == NONE else f"{OURS}, {variant.prediction} prediction"
        ahead = [f"{100 * each:.1f}" for each in study.ahead(ours, label)]
        met, moves = study.of(label, "met").value, study.of(label, "moves").value
        cells = " ".join(f"{100 * study.of(label, 'met', [cell]).value:.1f}" for cell in part.cells)
        sys.stdout.write(f"| {label} ({cells}) | {met:.1%} | {moves:.2f} | {ahead[0]} ({ahead[1]} to {ahead[2]}) |\n")


if __name__ == "__main__":
    main()
