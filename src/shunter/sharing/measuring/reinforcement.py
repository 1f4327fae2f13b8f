"""Reinforcement learning: loops that play in a simulated world on the CPU and learn from it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .kit import Kit, Step


class Walker:
    """A simulated machine of hinged bodies, many copies side by side, integrated with NumPy on the CPU."""

    def __init__(self, rng: np.random.Generator, copies: int, actions: int, substeps: int) -> None:
        self.angle, self.speed = rng.standard_normal((2, copies, actions))
        self.substeps = substeps

    def see(self) -> Any:
        """What the agent observes."""
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
    torch, actions, moves, copies = kit.torch, 4, 16, 16
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
        kit.learn(judges, lambda: sum((value - target).pow(2).mean() for value in judged(critics, x, action)))
        if place % 2 == 0:
            kit.learn(acts, lambda: -judged(critics[:1], x, actor(x))[0].mean())
            with torch.no_grad():
                for net, slow in ((actor, slow_actor), (critics, slow_critics)):
                    torch._foreach_lerp_(list(slow.parameters()), list(net.parameters()), 0.005)

    return step
