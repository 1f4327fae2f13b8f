"""Every built-in policy in every mode, and the simulator, pass the suites that are shipped for others."""

import importlib
from collections.abc import Iterable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from shunter import placers, registry
from shunter.errors import PolicyError
from shunter.scheduling.queue.ordering import Ordering
from shunter.sim.engine import Simulator
from shunter.testing.cases import CASES, Case
from shunter.testing.conformance import BackendConformance, PolicyConformance

EXAMPLES = str(Path(__file__).parents[2] / "examples")
MODES = ("backfill=none,blocking=strict", "backfill=none,blocking=skip", "backfill=easy", "backfill=conservative")
PREEMPTIVE = ("las", "pedf", "srsf", "srtf", "gittins", "express")
ORDERS = [name for name in registry.names() if issubclass(registry.policy_class(name), Ordering)]
PERIODS = (
    "multifactor:period=20,size_by=cpus,bill_cpu=2,max_age=60",
    "multifactor:period=45,fair_tree=true,decay=60,backfill=conservative",
)
LEASING = (
    "marshal",
    "marshal:order=attained,lease=60,probe=10",
    "marshal:renewal=again,patience=0,lease=30",
    "dally",
    "dally:timers=none,renewal=keep,spread=even",
    "dally:timers=manual,machine_timer=50,rack_timer=90,lease=40,fit=best,spread=pack",
    "dally:timers=infinite,lease=0,spread=scatter",
    "dally:backfill=easy",
    "dally:backfill=easy,timers=none,lease=40,renewal=keep,spread=scatter,estimate=oracle",
    "gandiva:lease=60",
    "gandiva:lease=45,draw=list,renewal=keep",
    "gandiva:slicing=true,look_again=7",
    "gandiva:growth=3,lease=50,look_again=10",
    "gandiva:slicing=true,growth=2,look_again=4,draw=list,migration=false",
    "themis:lease=20",
    "themis:lease=60,lease_by=service,renewal=again,fraction=0.3,auction=exact,objective=value",
    "themis:lease=15,fraction=1,ideal=alone,threshold=1,auction=greedy,spread=even,estimate=oracle",
    "themis:lease=0,fraction=0,estimate=history",
    "themis:lease=30,estimate=rolling",
    "tiresias",
    "tiresias:limits=50/200,promote=2,loose=scatter",
    "tiresias:order=gittins,limits=none,loose=list",
    "tiresias:order=time,limits=none,lease=60,starve=100",
    "tiresias:lease=30,renewal=keep,skewed=tiers,spread=even",
    "tiresias:backfill=easy",
    "tiresias:backfill=easy,lease=30,limits=50/200,estimate=history",
)


@cache
def combinations() -> list[str]:
    """Every policy in every mode; the placements take turns so that each meets every policy and mode; some oracles."""
    chosen, placements = [], placers.names()
    for (row, name), (column, mode) in product(enumerate(ORDERS), enumerate(MODES)):
        if not (name in PREEMPTIVE and mode == "backfill=conservative"):
            placement = placements[(row + column) % len(placements)]
            oracle = ",estimate=oracle" if (row + column) % 3 == 0 else ""
            chosen.append(f"{name}:{mode},placement={placement}{oracle}")
    return chosen


def by_policy(texts: Iterable[str]) -> list[Any]:
    """Parameters; all tests of a policy run in one process, so that it is not compiled in two at the same time."""
    return [pytest.param(text, marks=pytest.mark.xdist_group(text.partition(":")[0])) for text in texts]


def taking_over() -> list[str]:
    """Each order in one of its modes, the modes in turn."""
    of_order = [[text for text in combinations() if text.startswith(f"{name}:")] for name in ORDERS]
    return [texts[row % len(texts)] for row, texts in enumerate(of_order)]


BUILT_IN = [*taking_over(), *PERIODS, *LEASING]


class TestBuiltIn(PolicyConformance):
    """Each order in one mode, and those that lease GPUs with several settings.

    Each keeps the rules in all cases. It takes over and is cut out in a third of them; all settings of a policy, and
    all orders, which share one memory, meet every case; scripts/test-slow tries the others.
    """

    @staticmethod
    def is_slow(test: str, policy: str, case: Case) -> bool:
        return test != "test_keeps_the_rules" and (BUILT_IN.index(policy) + CASES.index(case)) % 3 != 0

    @pytest.fixture(params=by_policy(BUILT_IN))
    def policy(self, request):
        return request.param


OTHER_MODES = sorted({*combinations()} - {*taking_over()})


class TestOtherModes(PolicyConformance):
    """The orders in their other modes. They share one memory, so that it takes over is tested in one mode each.

    Each mode of an order meets a third of the cases, and together they meet all; scripts/test-slow tries the others.
    """

    test_memory_takes_over = None

    @staticmethod
    def is_slow(_test: str, policy: str, case: Case) -> bool:
        return (OTHER_MODES.index(policy) + CASES.index(case)) % 3 != 0

    @pytest.fixture(params=by_policy(OTHER_MODES))
    def policy(self, request):
        return request.param


class TestResizing(PolicyConformance):
    """Those that give jobs more or fewer GPUs."""

    @pytest.fixture(
        params=[
            "elastic:interval=7",
            "elastic:rest=0,pays=0,patience=0.01,remaining=oracle",
            "optimus:interval=20",
            "slaq:interval=15",
            "qoredl",
            "qoredl:flip=false,search=genetic",
            "qoredl:adjust=false,remaining=oracle",
        ]
    )
    def policy(self, request):
        return request.param


PAIRS = (
    "gandiva:packing=true,lease=40,renewal=keep,look_again=10",
    "gandiva:packing=true,slicing=true,look_again=5",
    "gandiva:packing=true,slicing=true,growth=2,look_again=12,migration=false",
    "lucid:estimate=rolling,profile_time=20",
    "lucid:estimate=none,dynamic=false,profile_time=5,profile_nodes=1,scores=thresholds",
    "lucid:estimate=oracle,dynamic=false,profile_time=3,profile_gpus=2,scaling=false",
    "lucid:estimate=rolling,packing=false",
    "lucid:estimate=rolling,profiling=false,dynamic=false",
)
SLEEPING = (
    "ces:forecast=last,step=5,buffer=0,least=1,keep=1,past=1,fell=0",
    "ces:policy=las:look_again=60,forecast=last,step=6,buffer=0,least=1,keep=0,past=1,fell=0,patience=20",
)
EXAMPLE_POLICIES = ("03_a_policy_from_scratch", "10_a_preemptive_policy", "11_a_policy_that_leases")


class TestPairs(PolicyConformance):
    """Those that put two jobs on the same GPUs; as with ``TestBuiltIn``, they take turns at the cases."""

    tenants = 2

    @staticmethod
    def is_slow(test: str, policy: str, case: Case) -> bool:
        return test != "test_keeps_the_rules" and (PAIRS.index(policy) + CASES.index(case)) % 3 != 0

    @pytest.fixture(params=by_policy(PAIRS))
    def policy(self, request):
        return request.param


class TestSleeping(PolicyConformance):
    """Ces lets nodes sleep under another policy. Each of the two keeps the rules, and every second case is its own."""

    @staticmethod
    def is_slow(test: str, policy: str, case: Case) -> bool:
        return test != "test_keeps_the_rules" and (SLEEPING.index(policy) + CASES.index(case)) % 2 != 0

    @pytest.fixture(params=SLEEPING)
    def policy(self, request):
        return request.param


class TestExamples(PolicyConformance):
    """Policies in plain Python that are shown to others pass what others are asked to pass; they take turns, too."""

    @staticmethod
    def is_slow(test: str, policy: str, case: Case) -> bool:
        return test != "test_keeps_the_rules" and (EXAMPLE_POLICIES.index(policy) + CASES.index(case)) % 3 != 0

    @pytest.fixture(params=EXAMPLE_POLICIES)
    def policy(self, request, monkeypatch):
        monkeypatch.syspath_prepend(EXAMPLES)
        found = vars(importlib.import_module(request.param)).values()
        return next(
            item
            for item in found
            if isinstance(item, type) and item.__module__ == request.param and hasattr(item, "decide")
        )()


class TestSimulator(BackendConformance):
    @pytest.fixture(params=[case for case in CASES if case.name not in ("shares of a GPU",)], ids=str)
    def backend(self, request):
        return Simulator(request.param.trace, request.param.cluster, scenario=request.param.scenario)


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_meets_every_case_in_its_other_modes(name):
    modes = [text for text in OTHER_MODES if text.startswith(f"{name}:")]
    met = [case.name for text in modes for case in CASES if not TestOtherModes.is_slow("", text, case)]
    assert len(modes) in (2, 3)
    assert len(met) == len(set(met)) == 4 * len(modes)


@pytest.mark.parametrize("kind", ["orders", *sorted({text.partition(":")[0] for text in LEASING})])
def test_every_kind_takes_over_in_every_case(kind):
    texts = [text for text in BUILT_IN if text.startswith(kind) or (kind == "orders" and text not in LEASING)]
    met = {
        case.name for text in texts for case in CASES if not TestBuiltIn.is_slow("test_memory_takes_over", text, case)
    }
    assert met == {case.name for case in CASES}


@pytest.mark.parametrize(
    ("suite", "policies"),
    [(TestPairs, PAIRS[:3]), (TestPairs, PAIRS[3:]), (TestSleeping, SLEEPING), (TestExamples, EXAMPLE_POLICIES)],
    ids=["gandiva", "lucid", "ces", "examples"],
)
def test_those_that_take_turns_meet_every_case_together(suite, policies):
    met = {case.name for text in policies for case in CASES if not suite.is_slow("test_memory_takes_over", text, case)}
    assert met == {case.name for case in CASES}


def test_every_mode_meets_every_placement():
    pairs = {
        (text.split(",placement")[0].partition(":")[2], text.split("placement=")[1].split(",")[0])
        for text in combinations()
    }
    assert pairs == set(product(MODES, placers.names()))


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
@pytest.mark.parametrize("name", ORDERS)
def test_skipping_contradicts_backfilling(name, backfill):
    with pytest.raises(PolicyError, match="blocking=skip contradicts backfill"):
        registry.policy(f"{name}:blocking=skip,backfill={backfill}")


@pytest.mark.parametrize("name", PREEMPTIVE)
def test_promises_contradict_preemption(name):
    with pytest.raises(PolicyError, match="promises start times that a preemptive policy breaks"):
        registry.policy(f"{name}:backfill=conservative")
