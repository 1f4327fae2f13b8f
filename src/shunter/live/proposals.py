"""What a controller would change: one round that changes nothing, and a round as data."""

from __future__ import annotations

import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from shunter.errors import LiveError
from shunter.live import running
from shunter.live.controller import Mode, RoundResult
from shunter.live.levers import Order
from shunter.live.manager import ResourceManager
from shunter.protocols import Policy


def proposed(
    policy: Policy, manager: ResourceManager, journal: Path, settings: running.ControllerSettings
) -> RoundResult:
    """One round in mode watch or dry-run; it reads the journal, and writes nothing."""
    if settings.mode is Mode.ACT:
        raise ValueError("a controller that acts does not propose")
    found: list[RoundResult] = []
    silences: list[LiveError] = []
    stop = threading.Event()

    def silent(problem: LiveError) -> None:
        silences.append(problem)
        stop.set()  # one try is enough

    once = replace(settings, rounds=1)
    running.run(policy, manager, journal, once, stop=stop, on_round=found.append, on_silence=silent)
    if not found:
        raise LiveError(f"{silences[0] if silences else 'the cluster did not answer'}; try again")
    return found[0]


def record(result: RoundResult, manager: ResourceManager) -> dict[str, Any]:
    """A round as data: what ``shunter slurm run --json`` prints."""
    current = result.round
    return {
        "round": current.number,
        "now": current.snapshot.now,
        "pending": current.waiting,
        "running": len(current.view.running),
        "orders": [_order(order, manager) for order in result.orders],
        "postponed": result.postponed,
        "done": result.done,
        "failed": [{"job": order.handle, "lever": order.lever, "why": why} for order, why in result.failed],
        "respected": result.respected,
        "unread": result.unread,
        "paused": result.paused,
        "silence": result.silence,
        "stale_s": result.stale_s,
        "guard_ratio": result.ratio,
        "policy": result.policy,
        "remark": result.remark,
        "switch": asdict(result.switch) if result.switch is not None else None,
    }


def _order(order: Order, manager: ResourceManager) -> dict[str, Any]:
    values = {"comment" if name == "annotation" else name: value for name, value in vars(order).items()}
    return values | {"commands": manager.commands(order)}
