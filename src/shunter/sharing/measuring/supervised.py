"""Training from batches of made-up data: images, text, graphs, points, ratings, plain rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .kit import Kit, Step, pictures, texts


def resnet(kit: Kit, side: int, blocks: int) -> Step:
    """Residual convolutions."""
    nn, widths = kit.nn, (64, 128, 256, 512)
    layers = [*kit.conv(3, widths[0], 7 if side > 64 else 3, 2 if side > 64 else 1), nn.ReLU()]
    layers += [nn.MaxPool2d(3, 2, 1)] if side > 64 else []
    for before, width in zip((widths[0], *widths), widths, strict=False):
        layers += [*kit.conv(before, width, 3, 1 if before == width else 2), nn.ReLU()]
        layers += [
            kit.residual(*kit.conv(width, width, 3), nn.ReLU(), *kit.conv(width, width, 3)) for _ in range(blocks)
        ]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 100))
    return kit.classifying(model, pictures(kit, side, 100))


def mobilenet(kit: Kit) -> Step:
    """Inverted residuals with depthwise convolutions on small images."""
    nn = kit.nn

    def inverted(width: int) -> Any:
        wide = 6 * width
        return kit.residual(
            *kit.conv(width, wide, 1), nn.ReLU6(), *kit.conv(wide, wide, 3, groups=wide), nn.ReLU6(),
            *kit.conv(wide, width, 1),
        )  # fmt: skip

    layers = [*kit.conv(3, 24, 3), nn.ReLU6()]
    for before, width, blocks in ((24, 24, 2), (24, 32, 3), (32, 64, 4), (64, 96, 3), (96, 160, 3)):
        layers += [*kit.conv(before, width, 3, 1 if before == width else 2)]
        layers += [inverted(width) for _ in range(blocks)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 10))
    return kit.classifying(model, pictures(kit, 32, 10))


def dcgan(kit: Kit, width: int) -> Step:
    """A generator of 64x64 images and its critic, each updated in turn."""
    nn, torch = kit.nn, kit.torch

    def up(a: int, b: int) -> list[Any]:
        return [nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]

    def down(a: int, b: int) -> list[Any]:
        return [nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2)]

    w = width
    first = [nn.ConvTranspose2d(100, 8 * w, 4), nn.BatchNorm2d(8 * w), nn.ReLU()]
    last = [nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh()]
    generator = nn.Sequential(*first, *up(8 * w, 4 * w), *up(4 * w, 2 * w), *up(2 * w, w), *last).to(kit.device)
    layers = [*down(3, w), *down(w, 2 * w), *down(2 * w, 4 * w), *down(4 * w, 8 * w), nn.Conv2d(8 * w, 1, 4)]
    critic = nn.Sequential(*layers, nn.Flatten()).to(kit.device)
    makes, judges = kit.adam(generator), kit.adam(critic)
    data = pictures(kit, 64, 2)
    softplus = nn.functional.softplus

    def step() -> None:
        real, _ = kit.put(*data())
        noise = torch.randn(kit.batch, 100, 1, 1, device=kit.device)
        with torch.no_grad():
            made = generator(noise)
        real = kit.scaled(real)
        kit.learn(judges, lambda: softplus(-critic(real)).mean() + softplus(critic(made)).mean())
        kit.learn(makes, lambda: softplus(-critic(generator(noise))).mean())

    return step


class TransformerSize(NamedTuple):
    """The sizes of a transformer."""

    layers: int
    width: int
    words: int
    length: int
    causal: bool = False


def transformer(kit: Kit, form: TransformerSize) -> Step:
    """Attention over text: a language model if causal, else one of hidden words."""
    nn = kit.nn
    layers, width, words, length, causal = form
    layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    parts = {"word": nn.Embedding(words, width), "place": nn.Embedding(length, width), "body": body}
    model = nn.ModuleDict(parts | {"head": nn.Linear(width, words)}).to(kit.device)
    mask = nn.Transformer.generate_square_subsequent_mask(length, device=kit.device) if causal else None

    def loss(x: Any, y: Any) -> Any:
        state = model["body"](model["word"](x) + model["place"].weight, mask=mask, is_causal=causal)
        return nn.functional.cross_entropy(model["head"](state).flatten(0, 1), y.flatten())

    return kit.training(model, texts(kit, words, length, 0.0 if causal else 0.15), loss)


def lstm(kit: Kit, width: int, words: int, length: int) -> Step:
    """A recurrent language model."""
    nn = kit.nn
    parts = {"word": nn.Embedding(words, width), "body": nn.LSTM(width, width, 2, batch_first=True, dropout=0.2)}
    model = nn.ModuleDict(parts | {"head": nn.Linear(width, words)})

    def loss(x: Any, y: Any) -> Any:
        state, _ = model["body"](model["word"](x))
        return nn.functional.cross_entropy(model["head"](state).flatten(0, 1), y.flatten())

    return kit.training(model, texts(kit, words, length, 0.0), loss)


def neumf(kit: Kit, users: int, items: int) -> Step:
    """A recommender: two pairs of embeddings, one multiplied, one through a perceptron; negatives drawn on the CPU."""
    nn, torch = kit.nn, kit.torch
    tables = {name: nn.Embedding(n, 32) for name, n in (("u1", users), ("i1", items), ("u2", users), ("i2", items))}
    model = nn.ModuleDict(tables | {"mlp": kit.dense(64, 128, 64, 32), "head": nn.Linear(64, 1)})
    liked = np.unique(kit.rng.integers(0, users * items, 1_000_000))  # user * items + item, sorted

    def data() -> list[Any]:
        good = liked[kit.rng.integers(0, len(liked), kit.batch)]
        bad = np.repeat(good // items, 4) * items + kit.rng.integers(0, items, 4 * kit.batch)
        bad = bad[liked[np.minimum(np.searchsorted(liked, bad), len(liked) - 1)] != bad]
        both = np.concatenate([good, bad])
        order = kit.rng.permutation(len(both))
        return [both[order] // items, both[order] % items, (order < len(good)).astype(np.float32)]

    def loss(u: Any, i: Any, y: Any) -> Any:
        product = model["u1"](u) * model["i1"](i)
        deep = model["mlp"](torch.cat([model["u2"](u), model["i2"](i)], 1))
        clicks = model["head"](torch.cat([product, deep], 1)).squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(clicks, y)

    return kit.training(model, data, loss)


def pointnet(kit: Kit, points: int) -> Step:
    """A classifier of point clouds, which are thinned, turned and jittered on the CPU."""
    nn = kit.nn
    layers: list[Any] = []
    for a, b in ((3, 64), (64, 64), (64, 128), (128, 1024)):
        layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveMaxPool1d(1), nn.Flatten(), kit.dense(1024, 512, 256, 40))
    clouds = kit.rng.standard_normal((256, 2 * points, 3), np.float32)
    labels = kit.rng.integers(0, 40, 256)

    def data() -> list[Any]:
        chosen = kit.rng.integers(0, len(clouds), kit.batch)
        out = np.empty((kit.batch, 3, points), np.float32)
        for i, cloud in enumerate(chosen):
            angle = kit.rng.uniform(0, 2 * np.pi)
            turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
            kept = kit.rng.permutation(2 * points)[:points]
            out[i] = turn @ clouds[cloud, kept].T + 0.01 * kit.rng.standard_normal((3, points))
        return [out, labels[chosen]]

    return kit.classifying(model, data)


def vit(kit: Kit, layers: int, width: int) -> Step:
    """A transformer over the patches of images."""
    nn, side = kit.nn, 224
    layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    parts = {"patch": nn.Conv2d(3, width, 16, 16), "place": nn.Embedding((side // 16) ** 2, width), "body": body}
    model = nn.ModuleDict(parts | {"head": nn.Linear(width, 100)})

    def loss(x: Any, y: Any) -> Any:
        patches = model["patch"](kit.scaled(x)).flatten(2).transpose(1, 2)
        state = model["body"](patches + model["place"].weight)
        return nn.functional.cross_entropy(model["head"](state.mean(1)), y)

    return kit.training(model, pictures(kit, side, 100), loss)


def unet(kit: Kit, width: int) -> Step:
    """A diffusion model: it learns to say which noise was added to an image."""
    nn, torch, functional = kit.nn, kit.torch, kit.nn.functional
    widths = (width, 2 * width, 4 * width)

    def block(inside: int, outside: int) -> Any:
        return nn.Sequential(*kit.conv(inside, outside, 3), nn.SiLU(), *kit.conv(outside, outside, 3), nn.SiLU())

    down = nn.ModuleList([block(a, b) for a, b in zip((3, *widths), widths, strict=False)])
    up = nn.ModuleList([block(3 * b, b) for b in reversed(widths)])
    middle = block(widths[-1], 2 * widths[-1])
    model = nn.ModuleDict({"down": down, "up": up, "middle": middle, "head": nn.Conv2d(width, 3, 1)})

    def made(x: Any) -> Any:
        kept = []
        for each in model["down"]:
            x = each(x)
            kept.append(x)
            x = functional.avg_pool2d(x, 2)
        x = model["middle"](x)
        for each in model["up"]:
            x = each(torch.cat([functional.interpolate(x, scale_factor=2), kept.pop()], 1))
        return model["head"](x)

    def loss(x: Any, _: Any) -> Any:
        noise = torch.randn_like(clean := kit.scaled(x))
        share = torch.rand(len(x), 1, 1, 1, device=x.device)
        return (made(clean * share.sqrt() + noise * (1 - share).sqrt()) - noise).pow(2).mean()

    return kit.training(model, pictures(kit, 64, 2), loss)


def sage(kit: Kit, nodes: int) -> Step:
    """A graph network: neighbours of neighbours drawn on the CPU, their features gathered on the GPU."""
    nn, torch, width = kit.nn, kit.torch, 128
    features = torch.randn(nodes, width, device=kit.device)
    neighbours = kit.rng.integers(0, nodes, (nodes, 10))
    labels = kit.rng.integers(0, 40, nodes)
    parts = {"first": nn.Linear(2 * width, 256), "second": nn.Linear(512, 256), "head": nn.Linear(256, 40)}
    model = nn.ModuleDict(parts)

    def data() -> list[Any]:
        chosen = kit.rng.integers(0, nodes, kit.batch)
        near = neighbours[chosen]
        return [chosen, near, neighbours[near][:, :, :5], labels[chosen]]

    def joined(layer: str, own: Any, around: Any) -> Any:
        return model[layer](torch.cat([own, around], -1)).relu()

    def loss(chosen: Any, near: Any, far: Any, y: Any) -> Any:
        x = features[near]
        outer = joined("first", x, features[far].mean(2))
        inner = joined("first", features[chosen], x.mean(1))
        return nn.functional.cross_entropy(model["head"](joined("second", inner, outer.mean(1))), y)

    return kit.training(model, data, loss)


def rows(kit: Kit, columns: int) -> Step:
    """A perceptron on tables, whose rows are gathered on the CPU and sent."""
    table = kit.rng.standard_normal((20_000, columns), np.float32)
    labels = kit.rng.integers(0, 10, len(table))

    def data() -> list[Any]:
        chosen = kit.rng.integers(0, len(table), kit.batch)
        return [table[chosen], labels[chosen]]

    return kit.classifying(kit.dense(columns, 1024, 1024, 1024, 10), data)
