"""What is printed: Tables II and III, and the claims of section VI; and whether they come out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from shunter.report.bootstrap import Estimate
from shunter.reproduce.dally.design import (
    CONSOLIDATED,
    DALLY,
    GANDIVA,
    MANUAL,
    NETWORK,
    NO_WAIT,
    RACKS,
    SCHEDULERS,
    SHOWN,
    TIRESIAS,
    Design,
    Scheduler,
)
from shunter.reproduce.trials import Trials
from shunter.world import F64

Over: TypeAlias = Literal["each", "most", "mean"]  # at each cluster size, at the one where it is most, in the mean

MEASURES = ("jct_mean_s", "jct_p50_s", "jct_p95_s", "jct_p99_s")
PRINTED = {  # JCT in seconds on 8 racks: mean, median, P95, P99
    "batch": {
        GANDIVA: (5828719, 183717, 17485823, 39214710),
        TIRESIAS: (4461998, 2547080, 17841606, 25696135),
        MANUAL: (3128566, 2552189, 7097646, 8868401),
        DALLY: (2828955, 2401390, 5983042, 8395214),
    },
    "poisson": {
        GANDIVA: (17371514, 22722917, 71362014, 208939883),
        TIRESIAS: (4329941, 4212795, 15059080, 15390860),
        MANUAL: (4960727, 2787855, 39298828, 39817762),
        DALLY: (2831880, 2595529, 16469069, 16681241),
    },
}
TABLES = {"batch": "Table II", "poisson": "Table III"}


def printed(workload: str, scheduler: Scheduler, measure: str) -> float | None:
    """The figure of Table II or III, if there is one."""
    found = PRINTED[workload].get(scheduler)
    return float(found[MEASURES.index(measure)]) if found and measure in MEASURES else None


@dataclass(frozen=True)
class Claim:
    """By which part a measure of one scheduler is above (below: negative) that of others; of several, the best one."""

    text: str
    workload: str
    measure: str
    against: tuple[Scheduler, ...]
    low: float  # the printed change, from .. to; of one number both are the same
    high: float
    told: str = ""  # what is printed; made of the numbers if empty
    whose: Scheduler = DALLY
    racks: tuple[int, ...] = RACKS
    over: Over = "each"

    @property
    def below(self) -> bool:
        """Whether it says: below."""
        return self.low < 0

    @property
    def sized(self) -> bool:
        """Whether it says by how much."""
        return bool(np.isfinite(self.low + self.high))

    @property
    def printed(self) -> str:
        """What is printed, in words."""
        if self.told or not self.sized:
            return self.told or ("below" if self.below else "above")
        ends = sorted({f"{100 * abs(end):.0f}" for end in (self.low, self.high)}, key=float)
        return f"{' to '.join(ends)} % {'below' if self.below else 'above'}"


def _claims() -> Iterator[Claim]:
    below, above = (-np.inf, -np.inf), (np.inf, np.inf)
    tiresias, gandiva, dally = (TIRESIAS,), (GANDIVA,), (DALLY,)
    others = tuple(s for s in SCHEDULERS if s is not DALLY)
    larger = tuple(n for n in RACKS if n > 2)

    b, m = "batch", "makespan_s"
    yield Claim(
        "makespan, Dally against Tiresias, largest", b, m, tiresias, -0.69, -0.69, "up to 69 % below", over="most"
    )
    yield Claim("makespan, Dally against Tiresias, mean of sizes", b, m, tiresias, -0.68, -0.68, over="mean")
    yield Claim(
        "makespan, Dally against Gandiva, largest", b, m, gandiva, -0.92, -0.92, "up to 92 % below", over="most"
    )
    yield Claim("makespan, Dally-manual against Dally", b, m, dally, *above, whose=MANUAL)
    yield Claim("makespan, Dally-manual against Tiresias", b, m, tiresias, *below, whose=MANUAL)
    yield Claim("makespan, Dally-manual against Gandiva", b, m, gandiva, *below, whose=MANUAL)
    yield Claim("makespan, Dally-noWait against Tiresias", b, m, tiresias, *above, whose=NO_WAIT, racks=larger)
    yield Claim("makespan, Dally-noWait against Tiresias", b, m, tiresias, *below, whose=NO_WAIT, racks=(2,))
    yield Claim("makespan, Dally-fullyConsolidated against Dally", b, m, dally, *above, whose=CONSOLIDATED)
    yield Claim("makespan, Dally-fullyConsolidated against Tiresias", b, m, tiresias, *below, whose=CONSOLIDATED)
    yield Claim("mean queueing delay, Dally against Tiresias", b, "wait_mean_s", tiresias, -0.31, -0.18)
    yield Claim("P95 of queueing delay, Dally against Tiresias", b, "wait_p95_s", tiresias, -0.71, -0.58)
    yield Claim("P99 of queueing delay, Dally against Tiresias", b, "wait_p99_s", tiresias, -0.78, -0.67)
    for point in ("P95", "P99"):
        text, tail = f"{point} of queueing delay, Dally against Gandiva, largest", f"wait_{point.lower()}_s"
        yield Claim(text, b, tail, gandiva, -0.81, -0.81, "up to 81 % below", over="most")
    c = "communication_mean_s"
    yield Claim("communication time, Dally against Tiresias", b, c, tiresias, -0.83, -0.53)
    yield Claim("communication time, Dally against Tiresias, mean of sizes", b, c, tiresias, -0.66, -0.66, over="mean")
    yield Claim("communication time, Dally against the least of the others", b, c, others, *below, "least of all")
    j = "jct_mean_s"
    yield Claim("mean JCT, Dally against Tiresias", b, j, tiresias, -0.36, -0.19)
    yield Claim("mean JCT, Dally against Tiresias, mean of sizes", b, j, tiresias, -0.26, -0.26, over="mean")
    yield Claim("mean JCT, Dally against Gandiva", b, j, gandiva, -0.51, -0.23, racks=larger)
    yield Claim("mean JCT, Dally against Gandiva", b, j, gandiva, 0.39, 0.39, racks=(2,))
    yield Claim("mean JCT, Dally against the least of the others", b, j, others, *below, "least of all", racks=(SHOWN,))

    p = "poisson"
    yield Claim("mean JCT, Dally against Tiresias", p, j, tiresias, -0.34, -0.16, racks=(2, 8, 16))
    yield Claim("mean JCT, Dally against Tiresias", p, j, tiresias, *above, racks=(4,))
    yield Claim("mean JCT, Dally against Gandiva", p, j, gandiva, -0.51, -0.23)
    yield from _table_claims(p)


def _table_claims(p: str) -> Iterator[Claim]:
    """What section VI reads off Table III."""
    said = {
        TIRESIAS: ((-0.35, ""), (-0.38, ""), (0.10, "within 10 %"), (0.10, "within 10 %")),
        GANDIVA: ((-0.83, ""), (-0.88, ""), (-0.76, ""), (-0.92, "")),
    }
    for against, numbers in said.items():
        for name, measure, (change, told) in zip(("mean", "median", "P95", "P99"), MEASURES, numbers, strict=True):
            low, high = (-change, change) if told else (change, change)
            text = f"{name} JCT, Dally against {against.label}"
            yield Claim(text, p, measure, (against,), low, high, told, racks=(SHOWN,))


CLAIMS = tuple(_claims())


@dataclass(frozen=True)
class Finding:
    """What became of a claim."""

    claim: Claim
    ours: dict[str, Estimate]  # the change by cluster size; "most" or "mean" where it is one of all sizes
    holds: tuple[str, ...]  # where the whole interval is on the printed side
    fails: tuple[str, ...]  # where it is on the other side

    @property
    def direction(self) -> str:
        """Whether it is below or above as printed."""
        if self.claim.told.startswith("within"):
            return "-"
        if len(self.holds) == len(self.ours):
            return "yes"
        if len(self.fails) == len(self.ours):
            return "no"
        if self.holds:
            return f"at {_racks(self.holds)}"
        return "not clear" if not self.fails else f"not at {_racks(self.fails)}"

    @property
    def size(self) -> str:
        """Whether it is as large as printed: our intervals and the printed range have something in common."""
        if not self.claim.sized:
            return "-"
        inside = [name for name, ours in self.ours.items() if _meets(ours, self.claim)]
        return "yes" if len(inside) == len(self.ours) else f"at {_racks(inside)}" if inside else "no"

    @property
    def comes_out(self) -> bool:
        """Whether all of it does."""
        return self.direction in ("yes", "-") and self.size in ("yes", "-")


def _racks(names: tuple[str, ...] | list[str]) -> str:
    return f"{', '.join(names)} racks"


def _ends(ours: Estimate) -> tuple[float, float]:
    """The interval; of a single repeat the value."""
    return (ours.low, ours.high) if np.isfinite(ours.low) else (ours.value, ours.value)


def _meets(ours: Estimate, claim: Claim) -> bool:
    low, high = _ends(ours)
    half = 0.005  # printed numbers are rounded
    return low <= claim.high + half and high >= claim.low - half


def findings(design: Design, trials: Trials, network: str = NETWORK) -> list[Finding]:
    """What becomes of the claims about what was run."""
    return [found for claim in CLAIMS if (found := _finding(claim, design, trials, network))]


def _finding(claim: Claim, design: Design, trials: Trials, network: str) -> Finding | None:
    racks = [size for size in claim.racks if size in design.racks]
    if claim.workload not in design.workloads or not racks or not design.has(claim.whose, *claim.against):
        return None
    draws = {str(size): _changes(claim, design, trials, size, network) for size in racks}
    if claim.over != "each":
        table = np.stack(list(draws.values()))
        draws = {claim.over: table.mean(axis=0) if claim.over == "mean" else table.min(axis=0)}
    ours = {name: trials.estimate(changes) for name, changes in draws.items()}
    sides = {name: [np.sign(end) for end in _ends(one)] for name, one in ours.items()}
    right = -1.0 if claim.below else 1.0
    holds = tuple(name for name, ends in sides.items() if ends == [right, right])
    fails = tuple(name for name, ends in sides.items() if ends == [-right, -right])
    return Finding(claim, ours, holds, fails)


def _changes(claim: Claim, design: Design, trials: Trials, racks: int, network: str) -> F64:
    cases = [design.case(claim.workload, racks, s.policy, network) for s in (claim.whose, *claim.against)]
    best = min(cases[1:], key=lambda case: trials.of(case, claim.measure).value)
    return trials.changes(cases[0], best, claim.measure)
