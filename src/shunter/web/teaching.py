"""Policies for people who don't know them yet: what each does, where it comes from, and a small example."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from inspect import cleandoc
from typing import Any

import numpy as np

from shunter import registry, simulation
from shunter.clusters.stop_costs import USUAL
from shunter.errors import ShunterError
from shunter.model import GPU, Trace
from shunter.scheduling.queue.policy import Queued
from shunter.setup import set_up
from shunter.web.choices import ParameterField, fields_of, policy_class
from shunter.web.stepping import Stretch, stretch

CLUSTER = "2x4"
FIRST = "fifo"  # what is shown first
MINUTE = 60_000
# minute of submission, minutes of run time, GPUs: some large jobs among small ones, so that orders differ
JOBS = (
    (0, 30, 2), (0, 12, 4), (1, 45, 2), (2, 6, 1), (3, 20, 8), (4, 3, 1), (5, 9, 2), (6, 40, 1), (8, 4, 4), (10, 25, 2),
    (12, 2, 1), (13, 15, 4), (15, 8, 2), (18, 30, 8), (20, 5, 1), (22, 3, 2), (26, 18, 1), (30, 10, 4), (34, 4, 2),
    (40, 6, 1),
)  # fmt: skip
USERS = ("ann", "bob", "cid")


@dataclass(frozen=True)
class PolicyLesson:
    """One policy."""

    name: str
    meaning: str
    order: str  # what is compared, in words; "": it is no plain order
    source: str  # who published it; "": everybody knows it
    facts: tuple[str, ...]
    fields: tuple[ParameterField, ...]


def lesson(name: str) -> PolicyLesson:
    """What a policy does, from its own documentation."""
    cls: Any = policy_class(name)
    meaning = cleandoc(cls.__doc__ or "")
    origin = (sys.modules[cls.__module__].__doc__ or "").strip()
    order, facts = _of_order(cls) if issubclass(cls, Queued) else ("", ())
    source = origin if any(letter.isdigit() for letter in origin) else ""
    return PolicyLesson(name, meaning, order, source, facts, tuple(fields_of(name)))


def _of_order(cls: type[Queued]) -> tuple[str, tuple[str, ...]]:
    """What an order compares, and what its class declares."""
    own = cls.key.__qualname__.startswith(cls.__name__)
    known = (
        (cls.uses_estimate, "It needs an estimate of each job's run time."),
        (cls.preemptive, "It stops running jobs for others."),
        (cls.varying, "A job's place in the queue changes while it waits."),
    )
    return _as_part((cls.key.__doc__ or "").strip()) if own else "", tuple(text for holds, text in known if holds)


def _as_part(sentence: str) -> str:
    """A sentence as the second half of another one: its first letter is small, unless it begins with a name."""
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def lessons() -> list[tuple[str, str]]:
    """Every policy with its first sentence."""
    return [(name, (registry.policy_class(name).__doc__ or "").partition("\n")[0]) for name in registry.names()]


def example_trace() -> Trace:
    """Twenty jobs with limits, of three users."""
    table = np.array(JOBS, np.int64)
    return Trace.of(
        "example", [f"{number}" for number in range(1, len(JOBS) + 1)], submit=table[:, 0] * MINUTE,
        duration=table[:, 1] * MINUTE, gpus=table[:, 2] * GPU, limit=table[:, 1] * MINUTE * 3 // 2,
        user=np.arange(len(JOBS)) % len(USERS), users=USERS,
    )  # fmt: skip


@dataclass(frozen=True)
class Example:
    """A small run of a policy, or why there is none."""

    stretch: Stretch | None
    mean_wait_s: float = 0.0
    mean_jct_s: float = 0.0
    problem: str = ""


@lru_cache(maxsize=64)
def example(text: str) -> Example:
    """Twenty jobs on two nodes with four GPUs each, under a policy."""
    try:
        result = simulation.run(set_up(example_trace(), CLUSTER, overhead=USUAL), text, decisions=True)
    except ShunterError as error:
        return Example(None, problem=str(error))
    wait, jct = (float(result.summary[key]["mean"]) for key in ("wait_s", "jct_s"))
    return Example(stretch(result.kept), wait, jct)
