"""How fast a workload runs beside another that it was never measured with.

A step takes longer by a sum of terms:

    time beside / time alone = 1 + a + b * max(0, u_own + u_other - 1) + c * u_own * m_other

``u`` is GPU utilisation, ``m`` memory utilisation, both from 0 to 1 and measured alone. ``a`` is what it costs that the
GPU changes between processes at all. The weights are never negative, so a busier neighbour never makes anything faster;
they are those that fit the measured pairs best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np

from shunter.errors import SharingError
from shunter.sharing.profiles import Profiles
from shunter.world import F64

TERMS = ("taking turns", "more than one GPU's time", "neighbour's memory traffic")
FLOOR = 0.3  # the slowest that a pair that was not measured is taken to be
FEWEST = 3  # pairs that weights can be fitted to


@dataclass(frozen=True)
class Interference:
    """The weights of the terms."""

    weights: tuple[float, ...]

    @classmethod
    def fit(cls, profiles: Profiles) -> Interference:
        """The weights that fit the measured pairs best, in squares of the relative error of the time of a step."""
        own, other = np.nonzero(~np.isnan(profiles.pair))
        if len(own) < FEWEST:
            raise SharingError(
                f"there are {len(own)} measured speeds of pairs; the interference model needs {FEWEST}; "
                "measure more with 'shunter profile'"
            )
        speed = np.clip(profiles.pair[own, other], FLOOR, 1.0)
        factors = terms(profiles)[own, other] * speed[:, None]
        return cls(tuple(map(float, nonnegative(factors, 1 - speed))))

    def speeds(self, profiles: Profiles) -> F64:
        """Speed of each workload beside each."""
        longer: F64 = 1 + terms(profiles) @ np.array(self.weights)
        return np.maximum(1 / longer, FLOOR)


def terms(profiles: Profiles) -> F64:
    """(workloads, workloads, terms): what each loses beside each, before weights."""
    busy, traffic = profiles.gpu_util / 100, profiles.mem_util / 100
    own, other = busy[:, None], busy[None, :]
    return np.stack(np.broadcast_arrays(1.0, np.maximum(0.0, own + other - 1), own * traffic[None, :]), axis=-1)


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
