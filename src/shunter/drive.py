"""The one control loop: it calls policies, they never loop."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shunter.capabilities import Ranks, capability_and_memory
from shunter.errors import InvariantError, PolicyError, ShunterError
from shunter.extensions import place_of
from shunter.model import Plan, Timer, View
from shunter.protocols import Backend, Memory, Observer, Policy

PATIENCE = 100  # plans refused in a row before the policy is called broken; a live cluster may refuse for ever


def asked(policy: Policy, view: View, memory: Memory) -> Plan:
    """The policy's plan, if it is one; a mistake in a third party's policy is reported with its own file and line."""
    try:
        plan = policy.decide(view, memory)
    except ShunterError:
        raise
    except Exception as error:
        if type(policy).__module__.startswith("shunter."):
            raise
        own = getattr(sys.modules[type(policy).__module__], "__file__", "") or ""
        where = place_of(error, own)
        raise PolicyError(f"policy {type(policy).__name__}: {type(error).__name__}: {error}\n  {where}") from error
    if not isinstance(plan, Plan):
        raise PolicyError(f"{type(policy).__name__}.decide must return a Plan (NOTHING for none), got {plan!r}")
    return plan


def mistake_of(policy: Policy, what: str) -> ShunterError:
    """The error for a policy that can't go on: a defect of ours, or an error in a third party's policy, by its name."""
    if type(policy).__module__.startswith("shunter."):
        return InvariantError(f"{policy}: {what}")
    return PolicyError(f"policy {type(policy).__name__}: {what}")


def drive(
    backend: Backend,
    policy: Policy,
    observers: Sequence[Observer] = (),
    memory: Memory | None = None,
    patience: float = PATIENCE,
) -> Memory:
    """Ask the policy at every decision point and do what it plans; returns the policy's memory at the end.

    A ``memory`` given is used as it is: go on with what an earlier call returned, or with what
    ``policy.start(cluster, previous)`` made of it for a new configuration.
    """
    backend.prepare(policy.needs)
    if memory is None:
        memory = policy.start(backend.cluster)
    refused = 0
    for view in backend:
        refused = decide(backend, policy, view, memory, observers, refused, patience)
    return memory


def decide(
    backend: Backend,
    policy: Policy,
    view: View,
    memory: Memory,
    observers: Sequence[Observer] = (),
    refused: int = 0,
    patience: float = PATIENCE,
) -> int:
    """Ask the policy at one view until its plan is empty; returns how many plans in a row were refused."""
    while (plan := asked(policy, view, memory)).actions or plan.reasons:
        refusals = backend.apply(plan)
        if not plan.actions:
            break
        for observer in observers:
            observer.decided(view, plan, refusals)
        refused = refused + 1 if refusals else 0
        if refused >= patience:
            last = f"{refusals[0].action}: {refusals[0].why}"
            raise mistake_of(policy, f"{refused} plans refused in a row, the last at {view.now} ms: {last}")
        if refusals or all(isinstance(action, Timer) for action in plan.actions):
            break
    if view.order_wanted and (found := capability_and_memory(Ranks, policy, memory)):
        ranks, own = found
        backend.apply(Plan(order=ranks.ranking(view, own).tolist()))
    return refused
