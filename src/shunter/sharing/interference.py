"""How fast two workloads run beside each other if they were never measured together.

Both profiles go in, both speeds come out. The speed of one is a sum of terms of what both do alone; ``u`` is GPU
utilisation, ``m`` memory utilisation, both from 0 to 1:

    u_own, u_other, max(0, u_own + u_other - 1), u_own * u_other, u_own * m_other, w_own, w_own * u_other

``w = exp(-u / 0.07)`` is near 1 for loops of tiny kernels, which wait for a turn at each of them where a GPU is shared
in turns. What a workload loses beside others (fragile) and what it makes them lose (heavy) have weights of their own.
The weights are those of a ridge regression to the measured pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, pairwise

import numpy as np

from shunter.errors import SharingError
from shunter.sharing.profiles import Mask, Profiles
from shunter.world import F64

TERMS = ("own GPU", "neighbour's GPU", "beyond one GPU", "both GPUs", "own GPU x neighbour's memory", "waiting",
         "waiting x neighbour's GPU")  # fmt: skip
TINY = 0.07  # the GPU utilisation at which little is left of ``waiting``
RIDGE = 10.0  # how much large weights cost, in measured speeds
FLOOR = 0.1  # the slowest that a pair that was not measured is taken to be
FEWEST = 3  # speeds that weights can be fitted to


@dataclass(frozen=True)
class Interference:
    """The weights of the terms."""

    constant: float
    weights: tuple[float, ...]

    @classmethod
    def fit(cls, profiles: Profiles) -> Interference:
        """The weights that fit the measured pairs best; speeds above 1 are noise and count as 1."""
        own, other = np.nonzero(~np.isnan(profiles.pair))
        if len(own) < FEWEST:
            raise SharingError(
                f"there are {len(own)} measured speeds of pairs; the interference model needs {FEWEST}; "
                "measure more with 'shunter profile'"
            )
        speed = np.minimum(profiles.pair[own, other], 1.0)
        inputs = terms(profiles)[own, other]
        middle, scale = inputs.mean(axis=0), np.maximum(inputs.std(axis=0), 1e-9)
        scaled = (inputs - middle) / scale
        weights = np.linalg.solve(scaled.T @ scaled + RIDGE * np.eye(len(TERMS)), scaled.T @ (speed - speed.mean()))
        weights /= scale
        return cls(float(speed.mean() - middle @ weights), tuple(map(float, weights)))

    def speeds(self, profiles: Profiles) -> F64:
        """Speed of each workload beside each."""
        said: F64 = self.constant + terms(profiles) @ np.array(self.weights)
        return np.clip(said, FLOOR, 1.0)


def terms(profiles: Profiles) -> F64:
    """(workloads, workloads, terms): what the speed of the first beside the second depends on."""
    busy, traffic = profiles.gpu_util / 100, profiles.mem_util / 100
    own, other, waiting = busy[:, None], busy[None, :], np.exp(-busy / TINY)[:, None]
    beyond = np.maximum(0.0, own + other - 1)
    each = (own, other, beyond, own * other, own * traffic[None, :], waiting, waiting * other)
    return np.stack(np.broadcast_arrays(*each), axis=-1)


def without(profiles: Profiles, by_model: bool) -> Iterator[tuple[Mask, Mask]]:
    """For every two workloads, or models, that were measured together: those pairs, and all pairs without either.

    Both are masks of (workloads, workloads); of each only what was measured.
    """
    groups = np.array(profiles.models if by_model else profiles.names)
    measured = ~np.isnan(profiles.pair)
    for one, two in combinations_with_replacement(dict.fromkeys(groups), 2):
        of_one, of_two = groups == one, groups == two
        tested = measured & (np.outer(of_one, of_two) | np.outer(of_two, of_one))
        if tested.any():
            unseen = of_one | of_two
            yield tested, measured & ~unseen[:, None] & ~unseen[None, :]


def held_out(profiles: Profiles, by_model: bool = True) -> F64:
    """For each measured speed what weights say that were fitted without either workload, or any of their models."""
    said = np.full_like(profiles.pair, np.nan)
    for tested, shown in without(profiles, by_model):
        seen = replace(profiles, pair=np.where(shown, profiles.pair, np.nan))
        said[tested] = Interference.fit(seen).speeds(profiles)[tested]
    return said


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
