"""Orders whose keys fall while a job waits: bounds kept ahead of time must give exactly the order of the present."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.cluster import Cluster, NodeGroup
from shunter.model import GPU, Trace
from shunter.policies.multifactor import Multifactor
from shunter.policies.unicep import Unicep
from shunter.policies.wfp3 import Wfp3
from shunter.seeding import rng
from shunter.sim.engine import Simulator
from shunter.world import Job

AGEING = (Wfp3, Unicep, Multifactor)
POSITIVE = st.floats(0.001, 1e7)


def test_these_are_all():
    from shunter import registry

    assert {cls for cls in map(registry.policy_class, registry.names()) if getattr(cls, "ageing", False)} == set(AGEING)


@pytest.mark.parametrize("cls", AGEING)
@given(
    known=st.fixed_dictionaries({"gpus": st.floats(0.001, 1e4), "estimate": POSITIVE, "size": st.floats(0, 1)}),
    waits=st.tuples(st.floats(0, 1e7), st.floats(0, 1e7)),
    usages=st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)),
)
def test_a_key_never_rises_while_a_job_waits_and_its_user_uses_no_more(cls, known, waits, usages):
    policy = cls()
    now, later = sorted(waits)
    less, more = sorted(usages)

    def key(wait, usage):
        return cls.key(
            Job(**(dict.fromkeys(Job._fields, 0.0) | known | {"wait": wait, "usage": usage})), policy.key_params()
        )

    assert key(later, less) <= key(now, more)


# -- the same orders, with every key evaluated at every instant


@dataclass(frozen=True)
class EveryWfp3(Wfp3):
    ageing = False


@dataclass(frozen=True)
class EveryUnicep(Unicep):
    ageing = False


@dataclass(frozen=True)
class EveryMultifactor(Multifactor):
    ageing = False


def crowd(seed, users, jobs=250, spread=100_000):
    """A long queue: jobs of seconds to hours from many users."""
    draw = rng(seed, "crowd")
    return Trace.of(
        "crowd",
        [str(i) for i in range(jobs)],
        submit=np.sort(draw.integers(0, spread, jobs)) * 1000,
        duration=(10 ** draw.uniform(0, 4.5, jobs) * 1000).astype(np.int64),
        gpus=draw.choice([1, 1, 2, 4, 8], jobs) * GPU,
        user=draw.integers(0, users, jobs),
        users=tuple(f"u{i}" for i in range(users)),
        qos=draw.integers(0, 1001, jobs),
    )


@pytest.mark.parametrize(
    "mode", [{}, {"blocking": "skip"}, {"backfill": "easy"}, {"backfill": "conservative"}], ids=str
)
@pytest.mark.parametrize(
    ("bounded", "exact", "more"),
    [
        (Wfp3, EveryWfp3, {"estimate": "oracle"}),
        (Unicep, EveryUnicep, {"estimate": "history"}),
        (Multifactor, EveryMultifactor, {"estimate": "oracle"}),
        (Multifactor, EveryMultifactor, {"age": 1.0, "fairshare": 5000.0, "size": 0.0, "qos": 50.0, "decay": 3600.0}),
        (Multifactor, EveryMultifactor, {"age": 100.0, "fairshare": 1.0, "max_age": 5000.0, "decay": 600.0}),
    ],
)
@pytest.mark.parametrize(("seed", "users"), [(1, 2), (2, 30), (3, 120)])
def test_bounds_give_the_order_of_the_present(bounded, exact, more, mode, seed, users):
    trace, cluster = crowd(seed, users), Cluster("c", (NodeGroup(3, 8),))
    digests = []
    for cls in (bounded, exact):
        simulator = Simulator(trace, cluster)
        simulator.run(cls(**mode, **more))
        digests.append(simulator.digest)
    assert digests[0] == digests[1]


def test_bounds_are_used_at_all():
    """Otherwise the test above compares a thing with itself."""
    simulator = Simulator(crowd(1, 5), Cluster("c", (NodeGroup(3, 8),)))
    memory = simulator.run(Wfp3(), until=60_000_000)
    assert memory.form.memory.state.horizon > simulator.now
