"""Keys of orders: compiled, and tried on made-up jobs before those of third parties are used.

A key is a few lines, so most of what can be wrong with it shows on a few hundred jobs: a value that is no number, a
read beyond its parameters, and a change with time that its class doesn't declare.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from shunter import numba_config  # noqa: F401 before numba

# isort: split
import numba
import numpy as np
from numba import types

from shunter import world as w
from shunter.arrays import type_of
from shunter.compiled import inner, is_ours, pointer, with_bounds, with_names
from shunter.errors import PolicyError
from shunter.numba_errors import body
from shunter.scheduling.queue.queue import Queue
from shunter.scheduling.queue.ranking import describe
from shunter.world import F64, Job, World

if TYPE_CHECKING:
    from shunter.scheduling.queue.policy import Queued

MADE_UP = 256  # jobs
LATER = (1.0, 600.0, 86_400.0, 1e7)  # seconds of waiting that are added
SLACK = 1e-9  # relative; rounding is no rise
POOL = ("pool_nodes", "pool_gpus", "free", "largest", "partly", "waiting", "demand", "fits")  # fields of Job
MONTH = 30 * 86_400.0


ORDER: Any = None  # stands for an order's key in ``key_at``


def key_at(world: World, queue: Queue, job: int, now: int) -> float:
    """The key of a job now; for a later time the least that it can be until then."""
    total = queue.state.total_usage
    if queue.config.period > 0:
        now = queue.state.counted_at
    ahead = now - world.clock[w.NOW]
    if ahead > 0 and queue.config.half_life > 0:  # the user may use nothing meanwhile, and the others every GPU
        total = (total + world.gpus.shape[1] * ahead) * 2.0 ** (ahead / queue.config.half_life)
    key = float(ORDER(describe(world, queue, job, total, now), queue.params))
    if math.isnan(key):
        queue.state.no_number = job
        return math.inf
    return key


@functools.cache
def key_pointer(key: Callable[[Job, F64], float]) -> Any:
    """``key_at`` for an order's key, compiled as one, so that of a job only what this key reads is looked up."""
    signature = types.float64(type_of(World), type_of(Queue), types.int64, types.int64)
    order = inner(key, forceinline=True, cache=is_ours(key))
    return pointer(with_names(key_at, f"{key.__qualname__}_at", key.__module__, ORDER=order), signature)


@functools.cache
def _with_bounds(key: Callable[[Job, F64], float]) -> Any:
    """A third party's key for Python; where it can't be compiled, the error says why."""
    return with_bounds(key, w.signatures()["key"])


class Flags(NamedTuple):
    """What a class says about its key."""

    varying: bool
    ageing: bool
    uses_estimate: bool
    sees_pool: bool = False


def check_key(policy: Queued) -> None:
    """Refuse a third party's key that is no number, reads beyond ``p``, or changes with what its class doesn't declare.

    A policy that configures its queue itself may have more in ``p`` and in ``job``: only compiling is tried then.
    The flags say when the queue computes keys again: a wrong one silently gives another order.
    """
    if not is_ours(type(policy)):
        _check_class(policy)
    key = type(policy).key
    if is_ours(key) or numba.config.DISABLE_JIT:
        return
    _with_bounds(key)
    if not _configures(policy):
        _try(
            key, _params(policy).tobytes(), Flags(policy.varying, policy.ageing, policy.uses_estimate, policy.sees_pool)
        )


def _check_class(policy: Queued) -> None:
    """Refuse a class that would run with another order than its author meant, or with settings of another kind."""
    from shunter.scheduling.queue.ordering import Ordering

    cls = type(policy)
    if not isinstance(policy, Ordering):
        return
    if not isinstance(inspect.getattr_static(cls, "key"), staticmethod):
        raise _wrong(cls.key, "must be a static function of job and p; write @staticmethod above it")
    if cls.key is Ordering.key:
        own = [
            name for name, value in vars(cls).items() if isinstance(value, staticmethod) or inspect.isfunction(value)
        ]
        near = difflib.get_close_matches("key", own, 1, cutoff=0.5)
        meant = f"; rename '{near[0]}' to 'key'" if near else "; write one: @staticmethod def key(job, p)"
        raise PolicyError(f"{cls.__name__} has no 'key', so it would serve jobs as they come{meant}")
    for field in dataclasses.fields(Ordering):
        found = getattr(policy, field.name)
        if type(found) is not type(field.default) and not (isinstance(field.default, float) and isinstance(found, int)):
            raise PolicyError(
                f"{cls.__name__}.{field.name} is a parameter of every order ({field.default!r} by default), got"
                f" {found!r}; choose another name for your field"
            )


def no_number(key: Any, whose: str) -> PolicyError:
    """The error for a key that is NaN: it is neither before nor after any other."""
    return _wrong(key, f"must be a number, but is NaN {whose}; don't divide by 0, or take a root or log below 0")


def _configures(policy: Queued) -> bool:
    """Whether a class of the policy has a ``configured`` of its own."""
    return sum("configured" in vars(base) for base in type(policy).__mro__) > 1


def _params(policy: Queued) -> F64:
    """What the key receives as ``p``."""
    try:
        own = np.asarray(policy.key_params(), np.float64)
    except (TypeError, ValueError):
        own = np.zeros(())
    if own.ndim != 1:
        raise _wrong(type(policy).key_params, "must return an array of numbers, such as np.array([self.alpha])")
    return own


def _wrong(function: Any, what: str) -> PolicyError:
    return PolicyError(f"{function.__qualname__} {what}\n  {body(function)}")


@functools.cache
def _try(key: Any, params: bytes, flags: Flags) -> None:
    keys = _Keys(key, np.frombuffer(params).copy())
    now = keys.of(made_up())
    if not flags.uses_estimate and (keys.of(made_up(estimate=3.0, remaining=2.0)) != now).any():
        raise _wrong(key, "reads job.estimate or job.remaining, which are known only with uses_estimate = True; set it")
    if (keys.of(made_up(usage=1.0)) != now).any():
        raise _wrong(key, "reads job.usage, which only a policy that configures its queue counts, as multifactor does")
    if not flags.sees_pool and any((keys.of(made_up(**{name: 1.0})) != now).any() for name in POOL):
        raise _wrong(key, f"reads one of {', '.join(POOL)}, which are known only with sees_pool = True; set it")
    if flags.sees_pool:
        return  # keys are made again at every decision
    later = [keys.of(made_up(wait=seconds)) for seconds in LATER]
    if any((then != now).any() for then in later) and not flags.varying:
        remedy = "set varying = True, and ageing = True if it only falls"
        raise _wrong(key, f"reads job.wait, so it changes while a job waits; {remedy}")
    if flags.ageing and any((then > now + SLACK * np.abs(now)).any() for then in later):
        raise _wrong(key, "rises while a job waits, but ageing = True says that it only falls; leave ageing out")


class _Keys:
    """A key, compiled with bounds, and its parameters."""

    def __init__(self, key: Any, params: F64) -> None:
        self._key, self._params = key, params
        self._compiled = _with_bounds(key)

    def of(self, jobs: list[Job]) -> F64:
        """The keys of these jobs, if they are numbers."""
        try:
            keys = np.array([self._compiled(job, self._params) for job in jobs], np.float64)
        except IndexError:
            raise _wrong(
                self._key,
                f"reads beyond the {len(self._params)} values of p; p holds what key_params() returns, from p[0] on",
            ) from None
        if np.isnan(keys).any():
            job = jobs[int(np.isnan(keys).argmax())]
            read = [name for name in Job._fields if name in self._key.__code__.co_names]
            shown = ", ".join(f"{name}={getattr(job, name):g}" for name in read) or "any values"
            raise no_number(self._key, f"for a job with {shown}")
        return keys


def made_up(**more: float) -> list[Job]:
    """Waiting jobs as a key may see them: new ones and stopped ones, small and large; with so much added to fields."""
    return [job._replace(**{name: getattr(job, name) + added for name, added in more.items()}) for job in _drawn()]


@functools.cache
def _drawn() -> tuple[Job, ...]:
    rng = np.random.default_rng(0)
    return tuple(_one(rng, at) for at in range(MADE_UP))


def _one(rng: np.random.Generator, at: int) -> Job:
    """A waiting job; the first is a small new one, and every third was stopped."""
    submit, gpus = rng.uniform(0, MONTH) * (at > 0), float(rng.choice([1, 0.5, 2, 3, 4, 8, 16, 64, 512]))
    estimate = float(10 ** rng.uniform(0, 6))
    stopped = at % 3 == 1
    executed = estimate * rng.uniform(0, 2) * stopped
    nodes = int(rng.choice([1, 8, 128]))
    free = float(rng.integers(8 * nodes + 1))
    return Job(
        submit=submit,
        wait=rng.uniform(0, 1e6) * (at % 4 > 0),
        gpus=gpus,
        estimate=estimate,
        executed=executed,
        remaining=estimate - executed,
        attained=executed * gpus,
        declared=estimate * (at % 2),
        work=executed,
        started=submit + 1.0 if stopped else -1.0,
        queued=submit + executed,
        size=gpus / 1024,
        usage=float(rng.choice([0.0, 0.5, 1.0, 20.0])),
        partition=float(rng.choice([0.0, 1.0])),
        qos=float(rng.choice([0.0, 0.5])),
        begun=-1.0,
        checkpointable=float(at % 5 > 0),
        pool_nodes=float(nodes),
        pool_gpus=8.0 * nodes,
        free=free,
        largest=min(free, 8.0),
        partly=float(rng.integers(nodes + 1)),
        waiting=float(rng.integers(1, 1000)),
        demand=gpus + float(rng.integers(10_000)),
        fits=float(free >= gpus),
        ways=float(rng.integers(4)) * (free >= gpus),
        choice=float(rng.integers(2)),
        growth=rng.uniform(0, 10),
        skipped=600.0 * float(rng.integers(73)) * (at % 4 > 0),
        due=(submit + estimate) * (at % 2),
    )
