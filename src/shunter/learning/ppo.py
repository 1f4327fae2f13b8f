"""Proximal policy optimisation with the settings of RLScheduler, SchedInspector and RLTune (Spinning Up's PPO).

Only this module needs torch. Decisions are cut into a fixed number of parts whose gradients are added in their order,
so that the same seed gives the same weights on one thread or several. A GPU, too, gives the same
weights for the same seed, but not those of a CPU: it adds in another order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from shunter import extras
from shunter.errors import ModelError
from shunter.learning.agents import KERNEL, Agent, flat, with_numbers
from shunter.learning.episodes import INSPECT, SKIP, Record
from shunter.policies.scored.models import ScoreModel
from shunter.seeding import rng
from shunter.world import F64, I64

CPU, CUDA = "cpu", "cuda"  # where the networks are trained; episodes are played on the CPU
PARTS = {CPU: 2, CUDA: 1}  # of the decisions of an epoch


@dataclass(frozen=True)
class Settings:
    """PPO as the three papers set it."""

    discount: float = 1.0
    trace_decay: float = 0.97  # lambda of generalised advantages
    clip: float = 0.2
    policy_rate: float = 3e-4
    value_rate: float = 1e-3
    policy_steps: int = 80
    value_steps: int = 80
    most_divergence: float = 0.01  # policy steps stop at 1.5 times this


@dataclass(frozen=True, eq=False)
class LearningBatch:
    """The decisions of an epoch, in the order in which they were made."""

    seen: F64  # (rows, inputs)
    begin: I64  # (decisions + 1,)
    chosen: I64  # (decisions,)
    log_probability: F64  # (decisions,)
    reward: F64  # (decisions,) of the last decision of an episode, what that was worth; else 0
    last: Any  # (decisions,) whether it is the last of its episode


def batch_of(records: list[Record], rewards: F64) -> LearningBatch:
    """All decisions of several records, whose episodes follow each other; each episode has a reward."""
    seen = np.concatenate([record.seen[: record.rows] for record in records])
    offsets = np.cumsum([0, *(record.rows for record in records)])
    parts = list(zip(records, offsets[:-1], strict=True))
    begin = np.concatenate([*(record.begin[: record.decisions] + offset for record, offset in parts), offsets[-1:]])
    chosen = np.concatenate([record.chosen[: record.decisions] for record in records])
    known = np.concatenate([record.log_probability[: record.decisions] for record in records])
    episode = np.concatenate([record.episode[: record.decisions] for record in records])
    last = np.append(episode[1:] != episode[:-1], True) if len(episode) else np.zeros(0, np.bool_)
    return LearningBatch(seen, begin, chosen, known, np.where(last, rewards[episode], 0.0), last)


def advantages(values: F64, reward: F64, last: Any, settings: Settings) -> tuple[F64, F64]:
    """Generalised advantages and returns of each decision (Schulman et al., 2016)."""
    found, returns = np.zeros(len(values)), np.zeros(len(values))
    ahead, after, value_after = 0.0, 0.0, 0.0
    for at in range(len(values) - 1, -1, -1):
        if last[at]:
            ahead, after, value_after = 0.0, 0.0, 0.0
        delta = reward[at] + settings.discount * value_after - values[at]
        ahead = delta + settings.discount * settings.trace_decay * ahead
        after = reward[at] + settings.discount * after
        found[at], returns[at], value_after = ahead, after, values[at]
    return found, returns


class Learner:
    """A policy network, a value network, and their optimisers."""

    def __init__(
        self, agent: Agent, seed: int, settings: Settings | None = None, threads: int = 1, device: str = CPU
    ) -> None:
        self._torch = _torch_on(device)
        self._device, self._parts = device, PARTS[device]
        self.settings, self._agent, self._threads = settings or Settings(), agent, threads
        draws = rng(seed, "networks")
        self._form = agent.untrained(draws)
        self._policy = self._tensors(flat(self._form), len(agent.inputs), agent.widths)
        states = 2 * len(agent.inputs) + 1
        self._value = self._tensors(_untrained(states, draws), states, KERNEL)
        self._policy_steps = self._torch.optim.Adam(self._policy, lr=self.settings.policy_rate)
        self._value_steps = self._torch.optim.Adam(self._value, lr=self.settings.value_rate)

    # -- the networks

    def _tensor(self, numbers: Any) -> Any:
        return self._torch.tensor(numbers, device=self._device)

    def _tensors(self, numbers: F64, width: int, widths: tuple[int, ...]) -> list[Any]:
        """Weights and constants of each layer."""
        made, begin = [], 0
        for outputs in widths:
            for shape in ((width, outputs), (outputs,)):
                size = int(np.prod(shape))
                part = numbers[begin : begin + size].reshape(shape).astype(np.float32)
                made.append(self._tensor(part).requires_grad_())
                begin += size
            width = outputs
        return made

    def _forward(self, tensors: list[Any], rows: Any) -> Any:
        for at in range(0, len(tensors), 2):
            rows = self._torch.addmm(tensors[at + 1], rows, tensors[at])
            rows = self._torch.relu(rows) if at + 2 < len(tensors) else rows
        return rows[:, 0]

    @property
    def model(self) -> ScoreModel:
        """The policy as it is."""
        return with_numbers(self._form, self.numbers)

    @property
    def numbers(self) -> F64:
        """The policy's numbers."""
        return _joined(self._policy)

    # -- learning

    def learn(self, batch: LearningBatch) -> dict[str, float]:
        """One epoch; returns how often each network was changed, and how far the policy moved."""
        states = _states(batch)
        known = self._forward(self._value, self._tensor(states)).detach().cpu().numpy().astype(np.float64)
        ahead, returns = advantages(known, batch.reward, batch.last, self.settings)
        ahead = (ahead - ahead.mean()) / (ahead.std() + 1e-8)
        parts = [self._part(batch, ahead, part) for part in _cut(batch, self._parts)]
        with ThreadPoolExecutor(self._threads) as pool:
            each = pool.map if min(self._threads, self._parts) > 1 else map
            steps, moved = self._improve_policy(parts, each)
            self._fit_value(states, returns, each)
        return {"policy_steps": steps, "divergence": moved}

    def _part(self, batch: LearningBatch, ahead: F64, part: slice) -> tuple[Any, ...]:
        """The tensors of some decisions."""
        begin = batch.begin[part.start : part.stop + 1]
        sizes = np.diff(begin)
        arrays = (
            batch.seen[begin[0] : begin[-1]].astype(np.float32),
            sizes,
            (begin[:-1] - begin[0] + batch.chosen[part]) if self._agent.mode != INSPECT else begin[:-1],
            batch.chosen[part] == SKIP,
            batch.log_probability[part].astype(np.float32),
            ahead[part].astype(np.float32),
        )
        return tuple(map(self._tensor, arrays))

    def _log_probability(self, rows: Any, sizes: Any, chosen: Any, skipped: Any) -> Any:
        """Of what was chosen at each decision, by the policy as it is."""
        torch = self._torch
        values = self._forward(self._policy, rows)
        if self._agent.mode == INSPECT:
            return -torch.nn.functional.softplus(torch.where(skipped, -values, values))
        score = -values
        most = torch.segment_reduce(score.detach(), "max", lengths=sizes, unsafe=True)
        spread = torch.repeat_interleave(most, sizes, output_size=len(score))
        total = torch.segment_reduce(torch.exp(score - spread), "sum", lengths=sizes, unsafe=True)
        return score.index_select(0, chosen) - most - torch.log(total)

    def _improve_policy(self, parts: list[tuple[Any, ...]], each: Callable[..., Iterable[Any]]) -> tuple[int, float]:
        torch, settings = self._torch, self.settings
        decisions = sum(len(part[4]) for part in parts)

        def gradient(part: tuple[Any, ...]) -> tuple[float, Any]:
            rows, sizes, chosen, skipped, before, ahead = part
            now = self._log_probability(rows, sizes, chosen, skipped)
            ratio = torch.exp(now - before)
            bounded = torch.clamp(ratio, 1 - settings.clip, 1 + settings.clip)
            loss = -torch.minimum(ratio * ahead, bounded * ahead).sum() / decisions
            return float((before - now).detach().sum()) / decisions, torch.autograd.grad(loss, self._policy)

        moved = 0.0
        for step in range(settings.policy_steps):
            found = list(each(gradient, parts))
            moved = sum(part for part, _ in found)
            if moved > 1.5 * settings.most_divergence:
                return step, moved
            _step(self._policy_steps, self._policy, [gradients for _, gradients in found])
        return settings.policy_steps, moved

    def _fit_value(self, states: Any, returns: F64, each: Callable[..., Iterable[Any]]) -> None:
        torch = self._torch
        cut = np.array_split(np.arange(len(returns)), self._parts)
        parts = [(self._tensor(states[rows]), self._tensor(returns[rows].astype(np.float32))) for rows in cut]

        def gradient(part: tuple[Any, Any]) -> Any:
            loss = ((self._forward(self._value, part[0]) - part[1]) ** 2).sum() / len(returns)
            return torch.autograd.grad(loss, self._value)

        for _ in range(self.settings.value_steps):
            _step(self._value_steps, self._value, list(each(gradient, parts)))

    # -- to go on later

    def state(self) -> dict[str, F64]:
        """All numbers, for a checkpoint."""
        found = {"policy": _joined(self._policy), "value": _joined(self._value)}
        for name, steps, tensors in self._optimisers():
            for key in ("exp_avg", "exp_avg_sq"):
                parts = [steps.state[tensor].get(key, self._torch.zeros_like(tensor)) for tensor in tensors]
                found[f"{name}.{key}"] = _joined(parts)
            done = [float(steps.state[tensor].get("step", 0)) for tensor in tensors]
            found[f"{name}.step"] = np.array(done)
        return found

    def restore(self, state: dict[str, F64]) -> None:
        """Go on from a checkpoint."""
        self._put(self._policy, state["policy"])
        self._put(self._value, state["value"])
        for name, steps, tensors in self._optimisers():
            for at, tensor in enumerate(tensors):
                steps.state[tensor] = {"step": self._torch.tensor(float(state[f"{name}.step"][at]))}
            for key in ("exp_avg", "exp_avg_sq"):
                parts = [self._torch.zeros_like(tensor) for tensor in tensors]
                self._put(parts, state[f"{name}.{key}"])
                for tensor, part in zip(tensors, parts, strict=True):
                    steps.state[tensor][key] = part

    def _optimisers(self) -> list[tuple[str, Any, list[Any]]]:
        return [("policy", self._policy_steps, self._policy), ("value", self._value_steps, self._value)]

    def _put(self, tensors: list[Any], numbers: F64) -> None:
        begin = 0
        with self._torch.no_grad():
            for tensor in tensors:
                part = numbers[begin : begin + tensor.numel()].astype(np.float32).reshape(tuple(tensor.shape))
                tensor.copy_(self._tensor(part))
                begin += tensor.numel()


def _torch_on(device: str) -> Any:
    """torch, made ready to give the same numbers each time."""
    if device not in PARTS:
        raise ModelError(f"--device must be {' or '.join(PARTS)}, got '{device}'")
    if device == CUDA:  # read when the library begins
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch = extras.load("torch", "PPO")
    torch.set_num_threads(1)  # parts are what runs side by side
    if device == CUDA and not torch.cuda.is_available():
        raise ModelError(f"--device {CUDA}: torch {torch.__version__} finds no GPU here; leave it out for the CPU")
    return torch


def _step(optimiser: Any, tensors: list[Any], parts: list[Any]) -> None:
    """Change tensors by the sum of the gradients of all parts, added in their order."""
    for at, tensor in enumerate(tensors):
        whole = parts[0][at]
        for part in parts[1:]:
            whole = whole + part[at]
        tensor.grad = whole
    optimiser.step()


def _joined(tensors: list[Any]) -> F64:
    return np.concatenate([tensor.detach().cpu().numpy().ravel() for tensor in tensors]).astype(np.float64)


def _untrained(width: int, draws: np.random.Generator) -> F64:
    """Weights of a network as torch begins."""
    parts = []
    for outputs in KERNEL:
        parts.append(draws.uniform(-(width**-0.5), width**-0.5, (width + 1) * outputs))
        width = outputs
    return np.concatenate(parts)


def _states(batch: LearningBatch) -> Any:
    """What the value network sees of each decision: mean and maximum of each input over the jobs, and how many."""
    first, sizes = batch.begin[:-1], np.diff(batch.begin)
    mean = np.add.reduceat(batch.seen, first) / sizes[:, None]
    most = np.maximum.reduceat(batch.seen, first)
    return np.column_stack((mean, most, np.log1p(sizes) / 6.0)).astype(np.float32)


def _cut(batch: LearningBatch, parts: int) -> list[slice]:
    """The decisions in parts of about as many rows."""
    goals = batch.begin[-1] * np.arange(1, parts) // parts
    ends = [0, *np.searchsorted(batch.begin, goals).tolist(), len(batch.chosen)]
    return [slice(a, b) for a, b in pairwise(ends) if b > a]
