"""Measures how training loops share a GPU: each alone, then every two together, watched from outside through NVML.

One file that needs only PyTorch and NumPy, so that it can be taken to a machine that has nothing else:
``python measuring.py --out FOLDER``. It writes solo.csv, pairs.csv and about.json there, a row as soon as it is
measured, and goes on where it was when it finds them. Speeds in pairs.csv are relative to the first row of a loop in
solo.csv; every loop is measured alone again at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import ctypes
import importlib.util
import json
import multiprocessing
import os
import platform
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement, pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SOLO = ("name", "kind", "batch", "amp", "steps_per_s", "gpu_util", "mem_util", "mem_mib")
PAIRS = ("name1", "name2", "speed1", "speed2", "gpu_util", "mem_util", "mem_mib")
LEAD = 1.0  # seconds of load before anything counts: NVML's utilisation looks back as far as that
TAIL = 0.2  # seconds of load afterwards, so that who ends first doesn't leave the other alone
EVERY = 0.1  # seconds between samples
STARTING = 300.0  # seconds that a worker has to import PyTorch, or to build its model
MIB = 2**20

Step = Callable[[], Any]


class MeasuringError(Exception):
    """What is missing or wrong, and what to do about it."""


class WorkerError(Exception):
    """A worker died, hangs, or ran out of memory."""


# --- the training loops


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


def texts(kit: Kit, words: int, length: int, hidden: float) -> Callable[[], list[Any]]:
    """Batches of text: the next word is to be told, or with ``hidden`` that share of the words."""
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


class Form(NamedTuple):
    """The sizes of a transformer."""

    layers: int
    width: int
    words: int
    length: int
    causal: bool = False


def transformer(kit: Kit, form: Form) -> Step:
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
        told = model["head"](torch.cat([product, deep], 1)).squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(told, y)

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


class Walker:
    """A simulated machine of hinged bodies, many copies side by side, integrated with NumPy on the CPU."""

    def __init__(self, rng: np.random.Generator, copies: int, actions: int, substeps: int) -> None:
        self.angle, self.speed = rng.standard_normal((2, copies, actions))
        self.substeps = substeps

    def see(self) -> Any:
        """What the agent is told."""
        parts = [np.sin(self.angle), np.cos(self.angle), self.speed]
        return np.concatenate(parts, 1).astype(np.float32)

    def move(self, action: Any) -> tuple[Any, Any]:
        """What is seen after an action, and the reward."""
        for _ in range(self.substeps):
            force = action - np.sin(self.angle) - 0.1 * self.speed + 0.2 * (np.roll(self.angle, 1, 1) - self.angle)
            self.speed = np.clip(self.speed + 0.01 * force, -8, 8)
            self.angle = self.angle + 0.01 * self.speed
        return self.see(), np.cos(self.angle).mean(1) - 0.001 * (action**2).mean(1)


def ppo(kit: Kit) -> Step:
    """An actor and a critic that play a while, then learn from it several times."""
    torch, actions, moves, copies = kit.torch, 4, 64, 16
    world = Walker(kit.rng, copies, actions, 24)
    actor = kit.dense(3 * actions, 64, 64, actions).to(kit.device)
    critic = kit.dense(3 * actions, 64, 64, 1).to(kit.device)
    optimizer = kit.adam(actor, critic)

    def play() -> list[Any]:
        seen, done, gains = [world.see()], [], []
        for _ in range(moves):
            (x,) = kit.put(seen[-1])
            with torch.no_grad():
                action = torch.distributions.Normal(actor(x), 0.5).sample().cpu().numpy()
            after, gain = world.move(action)
            seen.append(after)
            done.append(action)
            gains.append(gain)
        returns = np.zeros((moves, copies), np.float32)
        last = np.zeros(copies)
        for t in reversed(range(moves)):
            last = returns[t] = gains[t] + 0.99 * last
        return [np.concatenate(seen[:-1]), np.concatenate(done), returns.reshape(-1)]

    def loss(x: Any, action: Any, target: Any, before: Any) -> Any:
        value = critic(x).squeeze(1)
        log = torch.distributions.Normal(actor(x), 0.5).log_prob(action).sum(1)
        ratio, gain = (log - before).exp(), (target - value).detach()
        return (value - target).pow(2).mean() - torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()

    def step() -> None:
        x, action, target = kit.put(*play())
        with torch.no_grad():
            before = torch.distributions.Normal(actor(x), 0.5).log_prob(action).sum(1)
        for part in torch.randperm(len(x), device=kit.device).repeat(2).split(kit.batch):
            rows = (x[part], action[part], target[part], before[part])
            kit.learn(optimizer, partial(loss, *rows))

    return step


def td3(kit: Kit) -> Step:
    """Twin critics and an actor with slow targets that learn from a replay buffer after every move."""
    torch, nn, actions = kit.torch, kit.nn, 4
    see = 3 * actions
    world = Walker(kit.rng, 1, actions, 40)

    def nets() -> tuple[Any, Any]:
        pair = nn.ModuleList([kit.dense(see + actions, 256, 256, 1) for _ in range(2)])
        return nn.Sequential(kit.dense(see, 256, 256, actions), nn.Tanh()).to(kit.device), pair.to(kit.device)

    (actor, critics), (slow_actor, slow_critics) = nets(), nets()
    acts, judges = kit.adam(actor), kit.adam(critics)
    buffer = kit.rng.standard_normal((100_000, 2 * see + actions + 1), np.float32)
    place = 0

    def judged(pair: Any, x: Any, action: Any) -> list[Any]:
        return [critic(torch.cat([x, action], 1)) for critic in pair]

    def move() -> None:
        nonlocal place
        before = world.see()
        with torch.no_grad():
            action = actor(kit.put(before)[0]).cpu().numpy() + 0.1 * kit.rng.standard_normal((1, actions))
        after, gain = world.move(action)
        buffer[place % len(buffer)] = np.concatenate([before[0], action[0], after[0], gain])
        place += 1

    def step() -> None:
        move()
        (rows,) = kit.put(buffer[kit.rng.integers(0, len(buffer), kit.batch)])
        x, action, after, gain = rows.split([see, actions, see, 1], 1)
        with torch.no_grad():
            next_action = (slow_actor(after) + 0.2 * torch.randn_like(action).clamp(-0.5, 0.5)).clamp(-1, 1)
            target = gain + 0.99 * torch.min(*judged(slow_critics, after, next_action))
        kit.learn(judges, lambda: sum((told - target).pow(2).mean() for told in judged(critics, x, action)))
        if place % 2 == 0:
            kit.learn(acts, lambda: -judged(critics[:1], x, actor(x))[0].mean())
            with torch.no_grad():
                for net, slow in ((actor, slow_actor), (critics, slow_critics)):
                    torch._foreach_lerp_(list(slow.parameters()), list(net.parameters()), 0.005)

    return step


@dataclass(frozen=True)
class Configuration:
    """A training loop with its settings."""

    name: str
    kind: str  # of model
    batch: int
    amp: bool
    build: Callable[[Kit], Step]


CONFIGURATIONS = (
    Configuration("ppo-b256", "reinforcement", 256, False, ppo),
    Configuration("td3-b256", "reinforcement", 256, False, td3),
    Configuration("neumf-b1024", "recommender", 1024, False, partial(neumf, users=60_000, items=30_000)),
    Configuration("pointnet-b32", "pointcloud", 32, False, partial(pointnet, points=1024)),
    Configuration("lstm-b20", "recurrent", 20, False, partial(lstm, width=256, words=10_000, length=35)),
    Configuration("mobilenet-cifar-b64", "convolutional", 64, False, mobilenet),
    Configuration("transformer-b64-amp", "transformer", 64, True, partial(transformer, form=Form(4, 256, 8_000, 32))),
    Configuration("resnet-cifar-b128-amp", "convolutional", 128, True, partial(resnet, side=32, blocks=1)),
    Configuration("dcgan-b128", "generative", 128, False, partial(dcgan, width=64)),
    Configuration("resnet-imagenet-b64", "convolutional", 64, False, partial(resnet, side=224, blocks=2)),
    Configuration("bert-b32-amp", "transformer", 32, True, partial(transformer, form=Form(12, 768, 30_000, 256))),
    Configuration("gpt-b8", "language model", 8, False, partial(transformer, form=Form(6, 512, 16_000, 512, True))),
)


# --- the workers


def work(connection: Connection, name: str, device: str, seed: int) -> None:
    """The process of one training loop: it tells its versions, builds when told, and runs when told."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    loop = next(each for each in CONFIGURATIONS if each.name == name)
    with contextlib.suppress(EOFError, BrokenPipeError):  # the parent is gone
        try:
            import torch

            if device != "cpu" and not torch.cuda.is_available():
                raise MeasuringError(f"PyTorch {torch.__version__} can't use the GPU; install its build for CUDA")
            connection.send({"torch": torch.__version__, "cuda": torch.version.cuda or "none"})
            connection.recv()
            step = loop.build(Kit(device, loop.batch, loop.amp, seed))
            finish = torch.cuda.synchronize if device != "cpu" else lambda: None
            _steps(step, finish, 0.5)
            _steps(step, finish, 0.5)
            connection.send(())
            while True:
                lead, seconds, tail = connection.recv()
                _steps(step, finish, lead)
                connection.send(_steps(step, finish, seconds))
                _steps(step, finish, tail)
        except (MeasuringError, RuntimeError, MemoryError, ImportError) as error:
            connection.send((str(error) or type(error).__name__).splitlines()[0])


def _steps(step: Step, finish: Callable[[], None], seconds: float) -> tuple[int, float]:
    """Steps for some time; launches may run ahead of the GPU by some 50 ms."""
    began = last = time.perf_counter()
    steps = 0
    while True:
        step()
        steps += 1
        now = time.perf_counter()
        if now - last > 0.05 or now - began >= seconds:
            finish()
            last = time.perf_counter()
            if last - began >= seconds:
                return steps, last - began


class Worker:
    """The parent's side of a worker."""

    def __init__(self, name: str, device: str, copy: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.name, self.built = name, False
        self.connection, other = spawn.Pipe()
        os.environ["PYTHONSAFEPATH"] = "1"  # it is started as python -c, which would import from the present folder
        self.process = spawn.Process(target=work, args=(other, name, device, copy + 1), daemon=True)
        self.process.start()
        other.close()

    def hear(self, seconds: float) -> Any:
        """Its next answer."""
        try:
            if not self.connection.poll(seconds):
                raise WorkerError(f"{self.name} says nothing for {seconds:.0f} s")
            answer = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(1)
            raise WorkerError(f"{self.name} died with exit code {self.process.exitcode}") from None
        if isinstance(answer, str):
            raise WorkerError(f"{self.name}: {answer}")
        return answer

    def tell(self, what: Any) -> None:
        """Give an order."""
        try:
            self.connection.send(what)
        except OSError:
            raise WorkerError(f"{self.name} is dead") from None

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.join()
        self.connection.close()


# --- the GPU, seen from outside


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class Gpu:
    """One GPU through NVML."""

    def __init__(self, index: int) -> None:
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            raise MeasuringError(
                "NVML (libnvidia-ml.so.1 of NVIDIA's driver) is missing; run this on a machine with an NVIDIA GPU"
            ) from None
        self._call("nvmlInit_v2")
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        if index >= count.value:
            raise MeasuringError(f"GPU {index} is not there: the driver knows {count.value}, counted from 0")
        self.handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(self.handle))
        if count.value > 1:
            os.environ["CUDA_VISIBLE_DEVICES"] = self._text("nvmlDeviceGetUUID", self.handle)
        self.name = self._text("nvmlDeviceGetName", self.handle)
        self.driver = self._text("nvmlSystemGetDriverVersion")

    def _call(self, function: str, *arguments: Any) -> None:
        code = getattr(self.library, function)(*arguments)
        if code:
            self.library.nvmlErrorString.restype = ctypes.c_char_p
            raise MeasuringError(f"{function} of NVML fails: {self.library.nvmlErrorString(code).decode()}")

    def _text(self, function: str, *arguments: Any) -> str:
        text = ctypes.create_string_buffer(96)
        self._call(function, *arguments, text, ctypes.c_uint(len(text)))
        return text.value.decode()

    def utilisation(self) -> tuple[float, float]:
        """Per cent of the time in which a kernel ran, and in which memory was read or written."""
        now = _Utilisation()
        self._call("nvmlDeviceGetUtilizationRates", self.handle, ctypes.byref(now))
        return now.gpu, now.memory

    def memory(self) -> tuple[float, float, float]:
        """MiB in all, free, used."""
        now = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(now))
        return now.total / MIB, now.free / MIB, now.used / MIB

    def memory_of(self, pid: int) -> float | None:
        """MiB of a process; None where NVML doesn't tell, as in many containers and virtual machines."""
        count, found = ctypes.c_uint(256), (_Process * 256)()
        with contextlib.suppress(MeasuringError, AttributeError):
            self._call("nvmlDeviceGetComputeRunningProcesses_v3", self.handle, ctypes.byref(count), found)
            for each in found[: count.value]:
                if each.pid == pid and 0 < each.used < 2**60:
                    return float(each.used / MIB)
        return None


class NoGpu:
    """In place of a GPU where loops are only tried, on the CPU: nothing is seen."""

    name, driver = platform.processor() or "CPU", "none"

    def utilisation(self) -> tuple[float, float]:
        """Nothing."""
        return 0.0, 0.0

    def memory(self) -> tuple[float, float, float]:
        """Room enough, none used."""
        return 1e6, 1e6, 0.0

    def memory_of(self, pid: int) -> float | None:
        """Nothing."""
        return None


def mps_runs() -> bool:
    """Whether NVIDIA's multi-process service does."""
    for file in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if file.read_text().startswith("nvidia-cuda-mps"):
                return True
    return False


# --- measuring


def say(text: str) -> None:
    """Tell how it goes."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Bench:
    """The GPU and the workers on it, which stay as long as there is room."""

    def __init__(self, gpu: Gpu | NoGpu, device: str, seconds: float) -> None:
        self.gpu, self.device, self.seconds = gpu, device, seconds
        self.workers: dict[tuple[str, int], Worker] = {}
        self.versions: dict[str, str] = {}
        self.before: dict[str, float] = {}  # MiB of the device in use before a loop came
        self.memory_from = "NVML, per process"

    def launch(self, names: list[str]) -> None:
        """Start the processes of these loops at once; importing PyTorch takes long and needs no GPU."""
        self.workers |= {(name, 0): Worker(name, self.device, 0) for name in names}
        trouble = None
        for key, worker in list(self.workers.items()):
            try:
                self.versions |= worker.hear(STARTING)
            except WorkerError as error:
                trouble = error
                self.stop(key)
        if not self.workers:
            raise MeasuringError(f"no worker starts: {trouble}")

    def worker(self, key: tuple[str, int], keys: tuple[tuple[str, int], ...]) -> Worker:
        """A worker whose model is on the GPU; others than ``keys`` go if there's little room."""
        name, copy = key
        worker = self.workers.get(key)
        if worker is not None and worker.built:
            return worker
        self._make_room(keys)
        try:
            if worker is None:
                worker = self.workers[key] = Worker(name, self.device, copy)
                worker.hear(STARTING)
            self.before[name] = self.gpu.memory()[2]
            worker.tell("build")
            worker.hear(STARTING)
        except WorkerError:
            self.stop(key)
            raise
        worker.built = True
        return worker

    def memory_of(self, name: str) -> float:
        """MiB of a loop that has just run alone."""
        told = self.gpu.memory_of(self.workers[name, 0].process.pid or 0)
        if told is None:
            self.memory_from = "NVML, what the device's used memory grew by when the process came"
            told = max(0.0, self.gpu.memory()[2] - self.before[name])
        return told

    def _make_room(self, keys: tuple[tuple[str, int], ...]) -> None:
        total, free, _ = self.gpu.memory()
        if free < max(total / 4, 8 * 1024):
            for other in [k for k, each in self.workers.items() if each.built and k not in keys]:
                self.stop(other)

    def stop(self, key: tuple[str, int]) -> None:
        """End one worker."""
        if key in self.workers:
            self.workers.pop(key).stop()

    def close(self) -> None:
        """End all workers."""
        for key in list(self.workers):
            self.stop(key)

    def run(self, keys: tuple[tuple[str, int], ...]) -> tuple[list[float], float, float]:
        """Steps per second of loops side by side, GPU utilisation and memory utilisation."""
        workers = [self.worker(key, keys) for key in keys]
        try:
            for worker in workers:
                worker.tell((LEAD, self.seconds, TAIL))
            seen = list(self._watch())
            answers = [worker.hear(60.0 + 10 * self.seconds) for worker in workers]
        except WorkerError:
            for key in keys:  # who lives may have been told to run, so both begin anew
                self.stop(key)
            raise
        time.sleep(TAIL)
        gpu, memory = np.mean(seen[1:-1] or seen or [(0.0, 0.0)], axis=0)
        return [steps / seconds for steps, seconds in answers], float(gpu), float(memory)

    def _watch(self) -> Iterator[tuple[float, float]]:
        began = time.perf_counter()
        at = LEAD
        while at < LEAD + self.seconds:
            time.sleep(max(0.0, began + at - time.perf_counter()))
            yield self.gpu.utilisation()
            at += EVERY


class Tables:
    """The rows in a folder, those of an earlier run first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        rows = self._read("solo.csv", SOLO)
        self.solo = {row["name"]: row for row in reversed(rows)}  # the first of each
        self.times = Counter(row["name"] for row in rows)
        self.pairs = {(row["name1"], row["name2"]): row for row in self._read("pairs.csv", PAIRS)}
        known = {each.name: each for each in CONFIGURATIONS}
        for name, row in self.solo.items():
            loop = known.get(name)
            if loop is None or [row["kind"], row["batch"], row["amp"]] != _settings(loop):
                raise MeasuringError(f"{folder}/solo.csv has {name} of another version; choose another folder")

    def _read(self, name: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
        file = self.folder / name
        if not file.exists():
            return []
        with file.open(newline="") as lines:
            rows = csv.DictReader(lines)
            if tuple(rows.fieldnames or ()) != columns:
                raise MeasuringError(f"{file}: must begin with {','.join(columns)}; choose another folder")
            found = list(rows)
        if any(None in (*row, *row.values()) for row in found):
            raise MeasuringError(f"{file}: a line has too few or too many fields; delete it")
        return found

    def check(self, about: dict[str, Any]) -> None:
        """Write what is measured on what, which must be as before."""
        file = self.folder / "about.json"
        if file.exists():
            try:
                before = json.loads(file.read_text())
            except ValueError:
                raise MeasuringError(f"{file}: is no JSON; choose another folder") from None
            for key in ("gpu", "driver", "torch", "seconds"):
                if before.get(key) != about[key]:
                    raise MeasuringError(
                        f"{file}: {key} was {before.get(key)} and is {about[key]} now; choose another folder"
                    )
        else:
            file.write_text(json.dumps(about, indent=2) + "\n")

    def add(self, name: str, columns: tuple[str, ...], values: tuple[Any, ...]) -> None:
        """Append a row."""
        file = self.folder / name
        new = not file.exists()
        with file.open("a", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerows([columns, values] if new else [values])

    def add_solo(self, loop: Configuration, rate: float, gpu: float, memory: float, mib: float) -> None:
        """A loop alone."""
        values = (loop.name, *_settings(loop), *_rounded(rate, gpu, memory, mib))
        self.solo.setdefault(loop.name, dict(zip(SOLO, values, strict=True)))
        self.add("solo.csv", SOLO, values)

    def add_pair(self, pair: tuple[str, str], speeds: list[float], gpu: float, memory: float) -> None:
        """Two loops together."""
        mib = sum(float(self.solo[name]["mem_mib"]) for name in pair)
        self.add("pairs.csv", PAIRS, (*pair, *(f"{speed:.4f}" for speed in speeds), *_rounded(gpu, memory, mib)))


def _settings(loop: Configuration) -> list[str]:
    return [loop.kind, str(loop.batch), str(int(loop.amp))]


def _rounded(*numbers: float) -> tuple[str, ...]:
    return tuple(f"{number:.2f}" for number in numbers)


@dataclass(frozen=True)
class Settings:
    """What is to be measured."""

    out: Path
    seconds: float = 8.0
    minutes: float | None = None
    only: tuple[str, ...] = ()
    alone: bool = False
    device: str = "cuda"
    gpu: int = 0


def chosen(only: tuple[str, ...]) -> list[Configuration]:
    """The configurations of these names; all if none are given."""
    unknown = [name for name in only if name not in {each.name for each in CONFIGURATIONS}]
    if unknown:
        raise MeasuringError(
            f"there is no configuration {unknown[0]}; known: {', '.join(c.name for c in CONFIGURATIONS)}"
        )
    return [each for each in CONFIGURATIONS if not only or each.name in only]


def measure(settings: Settings) -> int:
    """Measure what isn't in the folder yet; how many measurements are still missing then."""
    loops = chosen(settings.only)
    if importlib.util.find_spec("torch") is None:
        raise MeasuringError("PyTorch is missing; install it with: pip install torch")
    if not settings.seconds > 0:
        raise MeasuringError(f"seconds must be more than 0, got {settings.seconds}")
    gpu = NoGpu() if settings.device == "cpu" else Gpu(settings.gpu)
    tables = Tables(settings.out)
    os.environ["OMP_NUM_THREADS"] = "1"  # two loops must not fight for CPUs
    bench = Bench(gpu, settings.device, settings.seconds)
    try:
        return _Round(bench, tables, loops, settings).all()
    finally:
        bench.close()


class _Round:
    """One go through what is missing."""

    def __init__(self, bench: Bench, tables: Tables, loops: list[Configuration], settings: Settings) -> None:
        self.bench, self.tables, self.loops, self.settings = bench, tables, loops, settings
        self.began = time.perf_counter()
        names = [loop.name for loop in loops]
        self.solos = [loop for loop in loops if loop.name not in tables.solo]
        every = [] if settings.alone else list(combinations_with_replacement(names, 2))
        self.pairs = [pair for pair in every if pair not in tables.pairs]
        self.again = [] if settings.alone else [loop for loop in loops if tables.times[loop.name] < 2]
        self.left = len(self.solos) + len(self.pairs) + len(self.again)
        self.cost = LEAD + settings.seconds + 2 * TAIL

    def all(self) -> int:
        """Measure; how many measurements are missing at the end."""
        if not self.left:
            say(f"{self.settings.out}: all is there")
            return 0
        self.bench.launch([loop.name for loop in self.loops])
        missing = 0
        for loop in self.solos:
            missing += not self._try(loop.name, partial(self._alone, loop))
        for pair in self.pairs:
            missing += not self._try(" + ".join(pair), partial(self._together, pair))
        for loop in self.again:  # the speed of the CPU drifts: before and after count, half each
            missing += not self._try(f"{loop.name} again", partial(self._alone, loop))
        return missing

    def _try(self, what: str, measured: Callable[[], str]) -> bool:
        passed = time.perf_counter() - self.began
        limit = self.settings.minutes
        if limit is not None and passed + self.cost > 60 * limit:
            if self.left:
                say(f"time is up with {self.left} measurements to do; the same command goes on with them")
            self.left = 0
            return False
        self.left -= 1
        try:
            say(f"{what}: {measured()}; about {self.left * self.cost / 60:.1f} min left")
        except WorkerError as error:
            say(f"{what}: left out, because {error}")
            return False
        return True

    def _alone(self, loop: Configuration) -> str:
        (rate,), gpu, memory = self.bench.run(((loop.name, 0),))
        before = self.tables.solo.get(loop.name)
        mib = self.bench.memory_of(loop.name) if before is None else float(before["mem_mib"])
        self._about()
        self.tables.add_solo(loop, rate, gpu, memory, mib)
        return f"{rate:.1f} steps/s, GPU {gpu:.0f} %, memory {memory:.0f} %, {mib:.0f} MiB"

    def _together(self, pair: tuple[str, str]) -> str:
        missing = [name for name in pair if name not in self.tables.solo]
        if missing:
            raise WorkerError(f"{missing[0]} was not measured alone")
        rates, gpu, memory = self.bench.run(((pair[0], 0), (pair[1], int(pair[0] == pair[1]))))
        self._about()
        alone = [float(self.tables.solo[name]["steps_per_s"]) for name in pair]
        speeds = [rate / before for rate, before in zip(rates, alone, strict=True)]
        self.tables.add_pair(pair, speeds, gpu, memory)
        return f"{speeds[0]:.2f} and {speeds[1]:.2f} of their speeds, GPU {gpu:.0f} %"

    def _about(self) -> None:
        bench = self.bench
        self.tables.check({
            "gpu": bench.gpu.name, "gpu_mib": round(bench.gpu.memory()[0]), "driver": bench.gpu.driver,
            **bench.versions, "numpy": np.__version__, "python": platform.python_version(), "cpus": os.cpu_count(),
            "seconds": bench.seconds, "mps": mps_runs(), "memory": bench.memory_from, "date": time.strftime("%Y-%m-%d"),
        })  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """The command line of this file alone."""
    parser = argparse.ArgumentParser(description="Measure how training loops share a GPU.")
    parser.add_argument("--out", type=Path, help="folder for solo.csv, pairs.csv and about.json")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement (8)")
    parser.add_argument("--minutes", type=float, help="stop after so many; the same command goes on later")
    parser.add_argument("--only", default="", metavar="NAME,NAME", help="these configurations")
    parser.add_argument("--alone", action="store_true", help="no pairs")
    parser.add_argument("--gpu", type=int, default=0, help="which, as nvidia-smi counts (0)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: only try the loops")
    parser.add_argument("--list", action="store_true", help="print the configurations")
    given = parser.parse_args(arguments)
    if given.list:
        sys.stdout.writelines(f"{c.name:24}{c.kind:16}{c.batch:>6}{' amp' if c.amp else ''}\n" for c in CONFIGURATIONS)
        return 0
    if given.out is None:
        parser.error("--out FOLDER is missing")
    only = tuple(name for name in given.only.split(",") if name)
    try:
        measure(Settings(given.out, given.seconds, given.minutes, only, given.alone, given.device, given.gpu))
    except MeasuringError as error:
        say(f"measuring: {error}")
        return 2
    except KeyboardInterrupt:
        say("stopped; the same command goes on where it was")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
