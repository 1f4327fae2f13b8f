"""What a policy can do beyond deciding is declared, never guessed from names."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import shunter
from shunter import registry, simulation
from shunter.capabilities import Describes, Explains, Learns, Ranks, Shares, Wraps, capability
from shunter.cluster import Cluster
from shunter.drive import drive
from shunter.errors import PolicyError
from shunter.model import Plan, Refusal, Start, View
from shunter.protocols import Memory, Policy
from shunter.setup import set_up
from shunter.sim import Simulator

SOURCES = Path(shunter.__file__).parent
PROBED = {  # where attributes are probed, and which: none of a policy, but where its class is resolved
    ("registry.py", "decide"),
    ("extensions.py", ""),  # a name in a third party's module
    ("traces/readers/__init__.py", ""),  # the parts of a reader, where it is resolved
    ("traces/frames.py", "to_csv"),  # a pandas frame
    ("processes.py", "sched_getaffinity"),  # not on every system
    ("compiled.py", "py_func"),  # functions that numba has compiled
    *(("numba_errors.py", name) for name in ("fields", "loc", "name")),
}
TRACE, CLUSTER = "synthetic:jobs=60,gpus=16,load=1.2", "4x4"
NAMES = (
    "compiled",
    "due",
    "estimate_source",
    "forecasts",
    "groups",
    "inner",
    "pairs",
    "placement",
    "predictions",
    "predictor",
    "profiled",
    "ranking",
    "refresh",
    "remarks",
    "remember",
    "sharing_scores",
    "shares",
    "timer_changes",
)


@dataclass(frozen=True)
class FirstFit:
    """Starts the first waiting job that fits."""

    needs: frozenset[str] = frozenset()

    def start(self, cluster: Cluster, previous: Memory | None = None) -> list[int]:
        return []

    def decide(self, view: View, memory: list[int]) -> Plan:
        free = [gpu for node in range(len(view.nodes.total)) for gpu in view.free_gpus(node).tolist()]
        for job in view.pending.tolist():
            wanted = int(view.jobs.gpus[job])
            if wanted <= len(free):
                memory.append(job)
                return Plan([Start(job, free[:wanted])])
        return Plan()


class Busy(FirstFit):
    """The same, with attributes whose names mean something in policies of ours."""

    def __init__(self) -> None:
        for name in NAMES:
            object.__setattr__(self, name, f"my {name}")
        super().__init__()


@dataclass(frozen=True)
class LastFirst(FirstFit, Ranks):
    """Knows an order, the last submitted job first."""

    def ranking(self, view: View, memory: list[int]) -> Any:
        return view.pending[::-1]


class HalfLearner(FirstFit, Learns):
    """Declares that it learns, and does not say from what."""

    predictor = "history"


@dataclass(frozen=True)
class Around(Wraps):
    """Adds nothing to another policy."""

    policy: Any

    @property
    def needs(self) -> frozenset[str]:
        return self.inner.needs

    @property
    def inner(self) -> Policy:
        found: Policy = self.policy
        return found

    def inner_memory(self, memory: dict[str, Memory]) -> Memory:
        return memory["inner"]

    def start_around(self, cluster: Cluster, inner: Memory) -> dict[str, Memory]:
        return {"inner": inner}

    def start(self, cluster: Cluster, previous: Memory | None = None) -> dict[str, Memory]:
        return self.start_around(cluster, self.inner.start(cluster, previous))

    def decide(self, view: View, memory: dict[str, Memory]) -> Plan:
        return self.inner.decide(view, memory["inner"])


class Ordered(Simulator):
    """A simulator that uses the order of the waiting jobs, as a live cluster does."""

    def _view(self) -> View:
        view = super()._view()
        view.order_wanted = True
        self.orders: list[list[int]] = []
        return view

    def apply(self, plan: Plan) -> Any:
        refusals: list[Refusal] = list(super().apply(plan))
        if plan.order is not None:
            assert sorted(plan.order) == View(self.world).pending.tolist()
            self.orders.append(list(plan.order))
        return refusals


def test_names_that_mean_something_elsewhere_do_no_harm() -> None:
    plain, busy = (shunter.simulate(TRACE, CLUSTER, policy, decisions=True) for policy in (FirstFit(), Busy()))
    assert busy.digest == plain.digest
    assert busy.summary["estimate"] == "none"
    assert "prediction" not in busy.summary


def probes(tree: ast.AST) -> Iterator[str]:
    """The names that a module probes with hasattr, or getattr with a default; "" where the name is computed."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        if call.func.id == "hasattr" or (call.func.id == "getattr" and len(call.args) == 3):
            name = call.args[1].value if isinstance(call.args[1], ast.Constant) else ""
            if not str(name).startswith("__"):
                yield str(name)


def test_attributes_are_probed_only_where_something_is_resolved() -> None:
    found = {
        (path.relative_to(SOURCES).as_posix(), name)
        for path in SOURCES.rglob("*.py")
        for name in probes(ast.parse(path.read_text()))
    }
    assert found == PROBED


def test_a_half_implemented_capability_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("mylab_half")
    module.HalfLearner = HalfLearner  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mylab_half", module)
    with pytest.raises(PolicyError, match="HalfLearner declares Learns and lacks 'start_with'"):
        registry.policy("mylab_half.HalfLearner")


@pytest.mark.parametrize("text", ["fifo", "sjf:estimate=rolling", "tiresias", "dally", "lucid:estimate=rolling"])
def test_a_wrapper_has_what_its_inner_policy_has(text: str) -> None:
    inner = registry.policy(text)
    for kind in (Learns, Ranks, Describes, Explains, Shares):
        assert capability(kind, Around(Around(inner))) is capability(kind, inner)


@pytest.mark.parametrize(("text", "shares"), [("gandiva", False), ("gandiva:packing=true", True), ("lucid", True)])
def test_a_configuration_decides_whether_gpus_are_shared(text: str, shares: bool) -> None:
    found = capability(Shares, Around(registry.policy(text)))
    assert found is not None
    assert found.shares is shares


def test_a_wrapped_policy_learns_the_same() -> None:
    place = set_up("synthetic:jobs=400,gpus=16,load=1.2", CLUSTER, since="+1")
    policy = registry.policy("sjf:estimate=rolling")
    alone, wrapped = (simulation.run(place, each) for each in (policy, Around(policy)))
    assert wrapped.digest == alone.digest
    assert wrapped.about["estimate"] == "rolling"
    assert wrapped.summary["prediction"] == alone.summary["prediction"]


@pytest.mark.parametrize("policy", [LastFirst(), Around(LastFirst())], ids=["alone", "wrapped"])
def test_a_plan_carries_the_order_where_it_is_wanted(policy: Policy) -> None:
    backend = Ordered(set_up(TRACE, CLUSTER).trace, set_up(TRACE, CLUSTER).cluster)
    drive(backend, policy)
    assert max(map(len, backend.orders)) > 1
    assert all(order == sorted(order, reverse=True) for order in backend.orders)
