"""The training loops that are measured, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from .kit import Kit, Step
from .reinforcement import ppo, td3
from .supervised import (
    TransformerSize,
    dcgan,
    lstm,
    mobilenet,
    neumf,
    pointnet,
    resnet,
    rows,
    sage,
    transformer,
    unet,
    vit,
)

TRANSFORMER = partial(transformer, form=TransformerSize(4, 256, 8_000, 32))
BERT = partial(transformer, form=TransformerSize(12, 768, 30_000, 256))
GPT = partial(transformer, form=TransformerSize(6, 512, 16_000, 512, True))
CIFAR = partial(resnet, side=32, blocks=1)
IMAGENET = partial(resnet, side=224, blocks=2)
LSTM = partial(lstm, width=256, words=10_000, length=35)
NEUMF = partial(neumf, users=60_000, items=30_000)


@dataclass(frozen=True)
class Configuration:
    """A training loop with its settings."""

    name: str
    kind: str  # of model
    batch: int
    amp: bool
    build: Callable[[Kit], Step]


def _sizes(model: str, kind: str, build: Callable[[Kit], Step], *sizes: str) -> list[Configuration]:
    """One model with several sizes of a batch, ``64`` or ``64-amp``."""
    found = []
    for size in sizes:
        batch, _, amp = size.partition("-")
        found.append(Configuration(f"{model}-b{size}", kind, int(batch), amp == "amp", build))
    return found


CONFIGURATIONS = (
    *_sizes("ppo", "reinforcement", ppo, "256", "64"),
    *_sizes("td3", "reinforcement", td3, "256", "4096"),
    *_sizes("neumf", "recommender", NEUMF, "256", "1024", "16384"),
    *_sizes("pointnet", "pointcloud", partial(pointnet, points=1024), "8", "32", "64-amp"),
    *_sizes("mlp", "tabular", partial(rows, columns=512), "4096"),
    *_sizes("sage", "graph", partial(sage, nodes=200_000), "1024", "8192"),
    *_sizes("lstm", "recurrent", LSTM, "20", "128-amp"),
    *_sizes("transformer", "transformer", TRANSFORMER, "64-amp", "256"),
    *_sizes("mobilenet-cifar", "convolutional", mobilenet, "64", "256-amp"),
    *_sizes("resnet-cifar", "convolutional", CIFAR, "32", "128-amp", "512"),
    *_sizes("dcgan", "generative", partial(dcgan, width=64), "32-amp", "128"),
    *_sizes("unet", "generative", partial(unet, width=64), "4", "16-amp"),
    *_sizes("vit", "transformer", partial(vit, layers=6, width=384), "16", "64-amp"),
    *_sizes("resnet-imagenet", "convolutional", IMAGENET, "16-amp", "64", "128-amp"),
    *_sizes("bert", "transformer", BERT, "4", "32-amp"),
    *_sizes("gpt", "language model", GPT, "2-amp", "8", "32-amp"),
)
