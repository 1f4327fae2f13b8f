"""What training loops are made of: layers, batches of made-up data, one update."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

Step = Callable[[], Any]


class Kit:
    """What loops are made of: PyTorch, the device, the size of a batch, mixed precision or not, random numbers."""

    def __init__(self, device: str, batch: int, amp: bool, seed: int) -> None:
        import torch

        self.torch: Any = torch
        self.nn: Any = torch.nn
        self.device = device
        self.batch = batch if device != "cpu" else max(2, batch // 32)  # the CPU is there to try the code
        self.amp = amp
        self.rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        torch.set_num_threads(1)

    def put(self, *arrays: Any) -> list[Any]:
        """Arrays on the device, by way of pinned memory as a loader does it."""
        tensors = [self.torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
        if self.device == "cpu":
            return tensors
        return [tensor.pin_memory().to(self.device, non_blocking=True) for tensor in tensors]

    def adam(self, *models: Any) -> Any:
        """An optimizer of all parameters."""
        return self.torch.optim.AdamW([p for model in models for p in model.parameters()], lr=1e-4)

    def learn(self, optimizer: Any, loss_of: Callable[[], Any]) -> Any:
        """One update: forward, backward, optimizer."""
        optimizer.zero_grad(set_to_none=True)
        with self.torch.autocast(self.device, dtype=self.torch.bfloat16, enabled=self.amp):
            loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    def training(self, model: Any, data: Callable[[], list[Any]], loss: Callable[..., Any]) -> Step:
        """The plain loop: a batch from the CPU, then one update."""
        model.to(self.device)
        optimizer = self.adam(model)

        def step() -> None:
            batch = self.put(*data())
            self.learn(optimizer, lambda: loss(*batch))

        return step

    def classifying(self, model: Any, data: Callable[[], list[Any]]) -> Step:
        """The plain loop of a classifier; images come as bytes."""

        def loss(x: Any, y: Any) -> Any:
            return self.nn.functional.cross_entropy(model(x if x.is_floating_point() else self.scaled(x)), y)

        return self.training(model, data, loss)

    @staticmethod
    def scaled(images: Any) -> Any:
        """Bytes as numbers from -1 to 1."""
        return images.float().div(127.5).sub(1)

    def dense(self, *widths: int) -> Any:
        """Layers of a perceptron."""
        nn = self.nn
        layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths[:-1])]
        return nn.Sequential(*layers, nn.Linear(*widths[-2:]))

    def conv(self, inside: int, outside: int, size: int, stride: int = 1, groups: int = 1) -> list[Any]:
        """A convolution with its norm."""
        nn = self.nn
        conv = nn.Conv2d(inside, outside, size, stride, size // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(outside)]

    def residual(self, *layers: Any) -> Any:
        """Layers whose output is added to their input."""
        plain = self.nn.Sequential
        kind = type("Residual", (plain,), {"forward": lambda self, x: x + plain.forward(self, x)})
        return kind(*layers)


def pictures(kit: Kit, side: int, classes: int) -> Callable[[], list[Any]]:
    """Batches of images from a pool in memory, cropped and flipped one by one on the CPU."""
    pad = side // 8
    pool = kit.rng.integers(0, 256, (256, 3, side + pad, side + pad), np.uint8)
    labels = kit.rng.integers(0, classes, 256)

    def batch() -> list[Any]:
        chosen = kit.rng.integers(0, 256, kit.batch)
        corners, flips = kit.rng.integers(0, pad, (kit.batch, 2)), kit.rng.integers(0, 2, kit.batch) * 2 - 1
        out = np.empty((kit.batch, 3, side, side), np.uint8)
        for i, (image, (top, left), flip) in enumerate(zip(chosen, corners, flips, strict=True)):
            out[i] = pool[image, :, top : top + side, left : left + side][:, :, ::flip]
        return [out, labels[chosen]]

    return batch


def texts(kit: Kit, words: int, length: int, hidden: float) -> Callable[[], list[Any]]:
    """Batches of text: predict the next word, or with ``hidden`` that share of the words."""
    corpus = kit.rng.zipf(1.2, 2**20) % words

    def batch() -> list[Any]:
        starts = kit.rng.integers(0, len(corpus) - length - 1, kit.batch)
        windows = np.stack([corpus[start : start + length + 1] for start in starts])
        if not hidden:
            return [windows[:, :-1], windows[:, 1:]]
        masked = kit.rng.random((kit.batch, length)) < hidden
        seen = windows[:, :-1]
        return [np.where(masked, 0, seen), np.where(masked, seen, -100)]

    return batch
