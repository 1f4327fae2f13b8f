"""CMA-ES (Hansen, "The CMA evolution strategy: a tutorial"): for orders with few numbers; needs nothing but NumPy."""

from __future__ import annotations

import math

import numpy as np

from shunter.world import F64


class Evolution:
    """A normal distribution that moves to where the function is lower: ``ask`` for points, ``tell`` their values."""

    def __init__(self, mean: F64, spread: float, population: int = 0) -> None:
        n = len(mean)
        self.mean, self.spread = mean.astype(np.float64).copy(), spread
        self.population = population or 4 + int(3 * math.log(n))
        parents = self.population // 2
        raw = math.log((self.population + 1) / 2) - np.log(np.arange(1, parents + 1))
        self._weights = raw / raw.sum()
        self._effective = 1 / (self._weights**2).sum()
        mu = self._effective
        self._c_sigma = (mu + 2) / (n + mu + 5)
        self._damping = 1 + 2 * max(0.0, math.sqrt((mu - 1) / (n + 1)) - 1) + self._c_sigma
        self._c_path = (4 + mu / n) / (n + 4 + 2 * mu / n)
        self._c_one = 2 / ((n + 1.3) ** 2 + mu)
        self._c_mu = min(1 - self._c_one, 2 * (mu - 2 + 1 / mu) / ((n + 2) ** 2 + mu))
        self._usual = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self.covariance, self._path, self._sigma_path = np.eye(n), np.zeros(n), np.zeros(n)
        self.rounds = 0

    def ask(self, draws: np.random.Generator) -> F64:
        """The points of a generation."""
        lengths, axes = self._axes()
        normal = draws.standard_normal((self.population, len(self.mean)))
        return np.asarray(self.mean + self.spread * (normal * lengths) @ axes.T)

    def tell(self, points: F64, values: F64) -> None:
        """Move to the better half of the points."""
        self.rounds += 1
        lengths, axes = self._axes()
        best = points[np.argsort(values, kind="stable")[: len(self._weights)]]
        steps = (best - self.mean) / self.spread
        step = self._weights @ steps
        self.mean = self.mean + self.spread * step
        whitened = axes @ ((axes.T @ step) / lengths)
        c, mu = self._c_sigma, self._effective
        self._sigma_path = (1 - c) * self._sigma_path + math.sqrt(c * (2 - c) * mu) * whitened
        length = float(np.linalg.norm(self._sigma_path))
        moves = length / math.sqrt(1 - (1 - c) ** (2 * self.rounds)) < (1.4 + 2 / (len(step) + 1)) * self._usual
        c = self._c_path
        self._path = (1 - c) * self._path + moves * math.sqrt(c * (2 - c) * mu) * step
        kept = 1 - self._c_one - self._c_mu + (0.0 if moves else self._c_one * c * (2 - c))
        self.covariance = kept * self.covariance + self._c_one * np.outer(self._path, self._path)
        self.covariance += self._c_mu * (steps.T * self._weights) @ steps
        self.spread *= math.exp(min(self._c_sigma / self._damping * (length / self._usual - 1), 1.0))

    def _axes(self) -> tuple[F64, F64]:
        """The lengths and the directions of the axes of the distribution."""
        squares, axes = np.linalg.eigh((self.covariance + self.covariance.T) / 2)
        signs = np.where(axes[np.abs(axes).argmax(0), np.arange(len(squares))] < 0, -1.0, 1.0)
        return np.sqrt(np.maximum(squares, 1e-20)), axes * signs

    def state(self) -> dict[str, F64]:
        """All numbers, for a checkpoint."""
        single = np.array([self.spread, self.rounds])
        paths = {"path": self._path, "sigma_path": self._sigma_path}
        return {"mean": self.mean, "covariance": self.covariance, "single": single, **paths}

    def restore(self, state: dict[str, F64]) -> None:
        """Go on from a checkpoint."""
        self.mean, self.covariance = state["mean"], state["covariance"]
        self._path, self._sigma_path = state["path"], state["sigma_path"]
        self.spread, self.rounds = float(state["single"][0]), int(state["single"][1])
