"""Layers from the shapes of published architectures: how many weights, how many multiply-adds for one sample.

Weights are those of convolutions, linear maps and embeddings; biases and normalisations (under 2 % of any model here)
are left out.  Convolutional networks are those for images of 224 x 224 and 1,000 classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

IMAGE, CLASSES = 224, 1000


class LayerShape(NamedTuple):
    """One layer."""

    name: str
    weights: int
    macs: int  # multiply-adds with the weights, for one sample
    mixing_macs: int = 0  # those between activations, as in attention


def _convolution(name: str, ins: int, outs: int, kernel: int, side: int, groups: int = 1) -> LayerShape:
    """A square kernel that gives ``side`` x ``side`` points."""
    weights = ins // groups * outs * kernel**2
    return LayerShape(name, weights, weights * side**2)


def _linear(name: str, ins: int, outs: int, tokens: int = 1) -> LayerShape:
    return LayerShape(name, ins * outs, ins * outs * tokens)


def _classifier(widths: Sequence[int], names: Sequence[int]) -> Iterator[LayerShape]:
    for index, name in enumerate(names):
        yield _linear(f"classifier.{name}", widths[index], widths[index + 1])


def alexnet() -> Iterator[LayerShape]:
    """AlexNet with the widths of its one-tower form."""
    yield _convolution("features.0", 3, 64, 11, 55)
    yield _convolution("features.3", 64, 192, 5, 27)
    yield _convolution("features.6", 192, 384, 3, 13)
    yield _convolution("features.8", 384, 256, 3, 13)
    yield _convolution("features.10", 256, 256, 3, 13)
    yield from _classifier((256 * 6**2, 4096, 4096, CLASSES), (1, 4, 6))


def vgg(stages: Sequence[int]) -> Iterator[LayerShape]:
    """VGG with this many 3 x 3 convolutions in each of its five stages."""
    ins, side, place = 3, IMAGE, 0
    for outs, depth in zip((64, 128, 256, 512, 512), stages, strict=True):
        for _ in range(depth):
            yield _convolution(f"features.{place}", ins, outs, 3, side)
            ins, place = outs, place + 2  # an activation follows each convolution,
        side, place = side // 2, place + 1  # and a pooling each stage
    yield from _classifier((512 * 7**2, 4096, 4096, CLASSES), (0, 3, 6))


def resnet(stages: Sequence[int], bottleneck: bool) -> Iterator[LayerShape]:
    """ResNet with this many blocks in each of its four stages, of two 3 x 3 or of 1 x 1, 3 x 3, 1 x 1 convolutions."""
    yield _convolution("conv1", 3, 64, 7, IMAGE // 2)
    ins, side, growth = 64, IMAGE // 4, 4 if bottleneck else 1
    for stage, depth in enumerate(stages):
        width = 64 << stage
        for block in range(depth):
            name, before = f"layer{stage + 1}.{block}", side
            if stage and not block:
                side //= 2
            if bottleneck:
                yield _convolution(f"{name}.conv1", ins, width, 1, before)
                yield _convolution(f"{name}.conv2", width, width, 3, side)
                yield _convolution(f"{name}.conv3", width, growth * width, 1, side)
            else:
                yield _convolution(f"{name}.conv1", ins, width, 3, side)
                yield _convolution(f"{name}.conv2", width, width, 3, side)
            if ins != growth * width:
                yield _convolution(f"{name}.downsample.0", ins, growth * width, 1, side)
            ins = growth * width
    yield _linear("fc", ins, CLASSES)


def mobilenet_v3(rows: Sequence[Sequence[int]], head: int) -> Iterator[LayerShape]:
    """MobileNetV3; a row is a block: kernel, channels inside, channels out, 1 for squeeze-and-excite, stride."""
    yield _convolution("features.0.0", 3, 16, 3, IMAGE // 2)
    ins, side = 16, IMAGE // 2
    for block, (kernel, inside, outs, squeezes, stride) in enumerate(rows, 1):
        part = 0
        if inside != ins:
            yield _convolution(f"features.{block}.block.{part}.0", ins, inside, 1, side)
            part += 1
        side //= stride
        yield _convolution(f"features.{block}.block.{part}.0", inside, inside, kernel, side, groups=inside)
        part += 1
        if squeezes:
            squeezed = _eights(inside // 4)
            yield _linear(f"features.{block}.block.{part}.fc1", inside, squeezed)
            yield _linear(f"features.{block}.block.{part}.fc2", squeezed, inside)
            part += 1
        yield _convolution(f"features.{block}.block.{part}.0", inside, outs, 1, side)
        ins = outs
    yield _convolution(f"features.{len(rows) + 1}.0", ins, 6 * ins, 1, side)
    yield from _classifier((6 * ins, head, CLASSES), (0, 3))


def _eights(channels: int) -> int:
    """The nearest multiple of 8, but not a tenth below."""
    rounded = max(8, (channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def transformer(  # noqa: PLR0913
    blocks: int,
    hidden: int,
    feed_forward: int,
    sequence: int,
    *,
    vocabulary: int = 0,  # of the embedding; 0: none
    positions: int = 0,  # learned ones
    patch: int = 0,  # side of an image patch, for those that look at images
    outputs: int = 0,  # of the last map; 0: none
    tied: bool = False,  # the last map has the embedding's weights
    fused: bool = False,  # query, key and value are one map
    gated: bool = False,  # the feed-forward part has a gate
) -> Iterator[LayerShape]:
    """Equal blocks of attention and feed-forward maps, for ``sequence`` tokens a sample."""
    if patch:
        yield _linear("patches", 3 * patch**2, hidden, sequence)
    if vocabulary or positions:
        yield LayerShape("embeddings", (vocabulary + positions) * hidden, 0)
    mixing = 2 * sequence**2 * hidden  # scores, and what they weigh
    for block in range(blocks):
        name = f"layer.{block}"
        if fused:
            yield _linear(f"{name}.attention.self.qkv", hidden, 3 * hidden, sequence)
        else:
            for part in ("query", "key", "value"):
                yield _linear(f"{name}.attention.self.{part}", hidden, hidden, sequence)
        yield _linear(f"{name}.attention.output.dense", hidden, hidden, sequence)._replace(mixing_macs=mixing)
        if gated:
            yield _linear(f"{name}.intermediate.gate", hidden, feed_forward, sequence)
        yield _linear(f"{name}.intermediate.dense", hidden, feed_forward, sequence)
        yield _linear(f"{name}.output.dense", feed_forward, hidden, sequence)
    if outputs:
        last = _linear("outputs", hidden, outputs, 1 if patch else sequence)
        yield last._replace(weights=0) if tied else last


ARCHITECTURES: dict[str, Callable[..., Iterator[LayerShape]]] = {
    function.__name__.replace("_", "-"): function for function in (alexnet, vgg, resnet, mobilenet_v3, transformer)
}


def shapes(architecture: str, settings: dict[str, Any]) -> list[LayerShape]:
    """The layers of an architecture, first to last."""
    return list(ARCHITECTURES[architecture](**settings))
