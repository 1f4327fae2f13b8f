"""Qore-DL's network for loss curves: three LSTM layers that continue 20 normalised losses by 10. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter import extras
from shunter.predictors.progress.curves import BINS
from shunter.predictors.progress.extrapolating import joined
from shunter.seeding import rng
from shunter.world import F64

WINDOW, AHEAD = 20, 10  # losses seen, and expected next
LAYERS = (16, 64, 128)
DROPOUT = 0.2
EPOCHS, PATIENCE, BATCH = 100, 10, 64
EVERY = 4  # bins between two windows of a curve: neighbours differ little
VALIDATED = 0.1  # share of the windows, by whose error training stops
LEAST = BINS // 2  # the paper never expects less than half of the declared iterations


@dataclass(frozen=True, eq=False)
class Lstm:
    """A trained network; rolled forward, it continues a curve."""

    network: Any
    name: str = "lstm"
    least: int = LEAST

    def continued(self, seen: F64) -> F64:
        """Ten more losses at a time, up to the end of the run."""
        torch = extras.load("torch", "the method 'lstm'")
        scale = float(seen.max()) or 1.0
        known = (seen / scale).tolist()
        with torch.no_grad():
            while len(known) < BINS:
                window = torch.tensor(known[-WINDOW:], dtype=torch.float32).reshape(1, WINDOW, 1)
                known += np.maximum(self.network(window).numpy()[0], 0.0).astype(float).tolist()
        return joined(seen, np.array(known[:BINS]) * scale)


def trained(curves: Sequence[F64], seed: int = 0) -> Lstm:
    """A network trained on whole binned curves, each divided by its largest loss."""
    torch = extras.load("torch", "the method 'lstm'")
    windows = [curve / (curve.max() or 1.0) for curve in curves]
    rows = [
        (curve[at : at + WINDOW], curve[at + WINDOW : at + WINDOW + AHEAD])
        for curve in windows
        for at in range(0, len(curve) - WINDOW - AHEAD + 1, EVERY)
    ]
    draw = rng(seed, "lstm")
    order = draw.permutation(len(rows))
    inputs, targets = (
        torch.tensor(np.array([row[part] for row in rows])[order], dtype=torch.float32) for part in (0, 1)
    )
    held = max(int(VALIDATED * len(rows)), 1)
    torch.manual_seed(seed)
    network = _network(torch)
    _fit(torch, network, (inputs[held:, :, None], targets[held:]), (inputs[:held, :, None], targets[:held]), draw)
    return Lstm(network.eval())


def _fit(torch: Any, network: Any, learned: Any, held: Any, draw: np.random.Generator) -> None:
    """Adam on the squared error, until the windows that are held back are predicted no better for a while."""
    optimiser = torch.optim.Adam(network.parameters())
    best, kept, since = float("inf"), network.state_dict(), 0
    for _ in range(EPOCHS):
        network.train()
        for part in np.array_split(draw.permutation(len(learned[0])), max(len(learned[0]) // BATCH, 1)):
            optimiser.zero_grad()
            torch.nn.functional.mse_loss(network(learned[0][part]), learned[1][part]).backward()
            optimiser.step()
        network.eval()
        with torch.no_grad():
            error = float(torch.nn.functional.mse_loss(network(held[0]), held[1]))
        since += 1
        if error < best:
            best, since = error, 0
            kept = {name: value.clone() for name, value in network.state_dict().items()}
        if since >= PATIENCE:
            break
    network.load_state_dict(kept)


def _network(torch: Any) -> Any:
    """LSTM 16, dropout, LSTM 64, LSTM 128, dropout, 10 outputs."""

    class Stack(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            sizes = (1, *LAYERS)
            self.layers = torch.nn.ModuleList(
                torch.nn.LSTM(before, after, batch_first=True) for before, after in zip(sizes[:-1], LAYERS, strict=True)
            )
            self.dropout = torch.nn.Dropout(DROPOUT)
            self.out = torch.nn.Linear(LAYERS[-1], AHEAD)

        def forward(self, losses: Any) -> Any:
            first, _ = self.layers[0](losses)
            second, _ = self.layers[1](self.dropout(first))
            third, _ = self.layers[2](second)
            return self.out(self.dropout(third[:, -1]))

    return Stack()
