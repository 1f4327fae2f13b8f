"""How fast a workload runs beside another that it was never measured with.

A step takes longer by a sum of terms that grow with what the neighbour does:

    time beside / time alone = 1 + a * u_own * u_other + b * max(0, u_own + u_other - 1) + c * u_own * m_other

``u`` is GPU utilisation, ``m`` memory utilisation, both from 0 to 1 and measured alone. The weights are never negative,
so a busier neighbour never makes anything faster; they are those that fit the measured pairs best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np

from shunter.errors import SharingError
from shunter.sharing.profiles import Profiles
from shunter.world import F64

TERMS = ("both busy", "more than one GPU's time", "neighbour's memory traffic")
FLOOR = 0.3  # the slowest that two on a GPU are ever taken to be
FEWEST = 3  # pairs that weights can be fitted to


@dataclass(frozen=True)
class Interference:
    """The weights of the terms."""

    weights: tuple[float, ...]
    bounds: tuple[float, float] = (FLOOR, 1.0)

    @classmethod
    def fit(cls, profiles: Profiles) -> Interference:
        """The weights that fit the measured pairs best, in squares of the time that is lost."""
        own, other = np.nonzero(~np.isnan(profiles.pair))
        if len(own) < FEWEST:
            raise SharingError(
                f"there are {len(own)} measured speeds of pairs; the interference model needs {FEWEST}; "
                "measure more with 'shunter profile'"
            )
        lost = 1 / np.clip(profiles.pair[own, other], FLOOR, 1.0) - 1
        return cls(tuple(map(float, nonnegative(terms(profiles)[own, other], lost))))

    def speeds(self, profiles: Profiles) -> F64:
        """Speed of each workload beside each."""
        longer: F64 = 1 + terms(profiles) @ np.array(self.weights)
        return np.clip(1 / longer, *self.bounds)


def terms(profiles: Profiles) -> F64:
    """(workloads, workloads, terms): what each loses beside each, before weights."""
    busy, traffic = profiles.gpu_util / 100, profiles.mem_util / 100
    own, other = busy[:, None], busy[None, :]
    return np.stack([own * other, np.maximum(0.0, own + other - 1), own * traffic[None, :]], axis=-1)


def nonnegative(factors: F64, wanted: F64) -> F64:
    """The weights of least squares, none below 0: the best of the plain solutions of all subsets of columns."""
    columns = factors.shape[1]
    best, least = np.zeros(columns), float(wanted @ wanted)
    for size in range(1, columns + 1):
        for chosen in map(list, combinations(range(columns), size)):
            weights = np.linalg.lstsq(factors[:, chosen], wanted, rcond=None)[0]
            left = float(np.sum((factors[:, chosen] @ weights - wanted) ** 2))
            if left < least and weights.min() >= 0:
                best, least = np.zeros(columns), left
                best[chosen] = weights
    return best


def held_out(profiles: Profiles) -> tuple[F64, F64]:
    """Measured speeds, and what is said about them by weights fitted without any workload of either's model."""
    own, other = np.nonzero(~np.isnan(profiles.pair))
    models = np.array(profiles.models)
    said = np.empty(len(own))
    for pair in {tuple(sorted(pair)) for pair in zip(models[own], models[other], strict=True)}:
        unseen = np.isin(models, pair)
        shown = np.where(unseen[:, None] | unseen[None, :], np.nan, profiles.pair)
        fitted = Interference.fit(replace(profiles, pair=shown)).speeds(profiles)
        here = np.array([set(pair) == {a, b} for a, b in zip(models[own], models[other], strict=True)])
        said[here] = fitted[own[here], other[here]]
    return profiles.pair[own, other], said


def curve(profiles: Profiles) -> list[dict[str, float]]:
    """Mean measured speed by the sum of both utilisations."""
    own, other = np.nonzero(~np.isnan(profiles.pair))
    speed, busy = profiles.pair[own, other], profiles.gpu_util[own] + profiles.gpu_util[other]
    rows = []
    for low, high in pairwise((*range(0, 200, 25), 200.1)):
        inside = (busy >= low) & (busy < high)
        if inside.any():
            rows.append({"from": low, "to": high, "pairs": int(inside.sum()), "speed": float(speed[inside].mean())})
    return rows
