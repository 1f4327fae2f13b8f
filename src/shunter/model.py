"""The data that everything else uses: traces, actions, plans and the view a policy gets."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shunter import world as w
from shunter.errors import InvariantError
from shunter.instances import CPU_POWER, training_by_width
from shunter.world import F64, I64, World

Strings: TypeAlias = NDArray[np.object_]

GPU = 1000  # thousandths in a whole GPU: the unit of Trace.gpus
EARLIEST_DATE_MS = 315_532_800_000  # 1980: a trace that begins earlier is counted from its own beginning


@dataclass(frozen=True)
class Column:
    """One column of a trace: what people write, and what it becomes inside (``scale`` x, int64; names become codes)."""

    doc: str
    unit: str = ""  # the unit in a CSV file
    scale: int = 0  # inside = round(written * scale); 0: a name, kept as a code
    default: int = 0
    low: float = 0
    high: float = float("inf")


def column(doc: str, unit: str = "", **about: Any) -> Any:
    """Declare a trace column."""
    return dataclasses.field(metadata={"column": Column(doc, unit, **about)})


@dataclass(frozen=True, eq=False)
class Renumbering:
    """How rows that stood for jobs stand for others now."""

    moved: I64  # (rows before,) where each is now, -1: gone
    taken: I64  # (rows now,) the row before whose request each has, -1: none

    def of_jobs(self, values: NDArray[Any], fill: float = 0) -> NDArray[Any]:
        """What is known of each job (the last axis) by its present row; ``fill`` of new ones."""
        before, now = self._stay
        found = np.full((*values.shape[:-1], len(self.taken)), fill, values.dtype)
        found[..., now] = values[..., before]
        return found

    @cached_property
    def _stay(self) -> tuple[I64, I64]:
        """The jobs that are still there, by both rows."""
        stay = np.flatnonzero(self.moved >= 0)
        return stay, self.moved[stay]

    def of_requests(self, values: NDArray[Any]) -> NDArray[Any]:
        """What depends on a job's request alone (the last axis), of new ones too."""
        found: NDArray[Any] = values[..., self.taken]
        return found


@dataclass(frozen=True, eq=False)
class Trace:
    """Jobs in the order of their submission, one array per column.

    Code refers to jobs by row; ``job_id`` is the name that people use. Times are in milliseconds, GPUs in thousandths,
    and names are codes: ``trace.users[trace.user[row]]`` is the user of a job. ``columns()`` lists all columns.
    ``duration`` is the truth: only policies that declare themselves oracles see it. ``declared`` is what a user stated.

    ``read_trace`` reads a trace from a file, and ``of`` makes one from arrays. A trace is never changed: ``select``
    returns a new one.

    Examples:
        >>> import shunter
        >>> jobs = shunter.Trace.of(
        ...     "two", ["a", "b"], submit=[0, 5000], duration=[60_000, 30_000], gpus=[1000, 500], user=[0, 0],
        ...     users=("ann",),
        ... )
        >>> len(jobs), jobs.users[jobs.user[1]], float(jobs.gpus[1] / 1000)  # half a GPU
        (2, 'ann', 0.5)
        >>> jobs.select(jobs.gpus >= 1000).job_id.tolist()
        ['a']
    """

    name: str
    job_id: Strings  # (jobs,)
    submit: I64 = column("time of submission", "s", scale=1000, low=-float("inf"))
    duration: I64 = column("true run time on the requested GPUs at speed 1", "s", scale=1000, high=1e9)
    gpus: I64 = column("GPUs; below 1: a share of one", "GPUs", scale=GPU, low=0.001, high=1e6)
    user: I64 = column("the user that submitted it", scale=0, default=-1)
    vc: I64 = column("virtual cluster (partition) whose nodes it may use", default=-1)
    gpu_type: I64 = column("the only GPU type it may use", default=-1)
    model: I64 = column("workload, where known", default=-1)
    limit: I64 = column("run time that the user requested, taken at speed 1", "s", scale=1000, high=1e9)
    cpus: I64 = column("CPU cores in all", "cores", scale=1000, high=1e6)
    mem_gib: I64 = column("memory in all (MiB inside)", "GiB", scale=1024, high=1e6)
    after: I64 = column("job that must have ended before (row index inside)", "job_id", default=-1)
    deadline: I64 = column("wanted by, counted from submission", "s", scale=1000, high=1e9)
    qos: I64 = column("priority factor of the job, 0 to 1", "0..1", scale=1000, high=1)
    failures: I64 = column("attempts that fail before the one that succeeds (truth)", "attempts", scale=1, high=1e6)
    fail_after: I64 = column("run time after which such an attempt fails (truth)", "s", scale=1000, high=1e9)
    retries: I64 = column(
        "failed attempts after which it is tried again", "attempts", scale=1, default=1_000_000, high=1e6
    )
    checkpoint: I64 = column("interval of its own checkpoints; 0: none", "s", scale=1000, high=1e9)
    checkpointable: I64 = column(
        "whether a policy may stop it; 0: it keeps its GPUs until it ends", "0 or 1", scale=1, default=1, high=1
    )
    stop_cost: I64 = column(
        "time to save its work when it is stopped; empty: as the cluster says", "s", scale=1000, default=-1, high=86_400
    )
    start_cost: I64 = column(
        "time to start it again after a stop; empty: as the cluster says", "s", scale=1000, default=-1, high=86_400
    )
    saves_on_stop: I64 = column(
        "whether it saves its work when it is stopped; 0: work since the last of its own checkpoints is lost",
        "0 or 1", scale=1, default=1, high=1,
    )  # fmt: skip
    account: I64 = column("group or project that it is charged to", default=-1)
    job_name: I64 = column("what its user called it", default=-1)
    iterations: I64 = column("training iterations in all, as declared", "iterations", scale=1, high=1e15)
    declared: I64 = column(
        "run time at speed 1 that its user declared; 0: exact if iterations are given, else none",
        "s", scale=1000, high=1e9,
    )  # fmt: skip
    recorded_wait: I64 = column(
        "time in the queue as recorded, for comparison; empty: not recorded", "s", scale=1000, default=-1, high=1e9
    )
    outcome: I64 = column("how it ended as recorded: completed, failed, cancelled, timeout ...", default=-1)
    min_gpus: I64 = column("fewest GPUs that it can run on; 0: as many as gpus", "GPUs", scale=1, high=1e6)
    max_gpus: I64 = column("most GPUs that it can run on; 0: as many as gpus", "GPUs", scale=1, high=1e6)
    loss_curve: I64 = column("the course of its loss, by name, in equal steps of its work (truth)", default=-1)
    min_cpus: I64 = column("fewest CPU cores that each of its instances can do with", "cores", scale=1000, high=1e6)
    max_cpus: I64 = column("most CPU cores that each of its instances can use", "cores", scale=1000, high=1e6)
    min_mem_gib: I64 = column("least memory that each of its instances can do with", "GiB", scale=1024, high=1e6)
    max_mem_gib: I64 = column("most memory that each of its instances can use", "GiB", scale=1024, high=1e6)
    servers: I64 = column(
        "instances that are parameter servers, of its gpus; 0: none, its workers all-reduce", "instances", scale=1,
        high=1e6,
    )  # fmt: skip
    users: tuple[str, ...] = ()
    vcs: tuple[str, ...] = ()
    gpu_types: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    job_names: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    loss_curves: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()  # what its reader left out or assumed, in words

    def __len__(self) -> int:
        return len(self.submit)

    @classmethod
    def columns(cls) -> dict[str, Column]:
        """Every column but ``job_id``, with its declaration."""
        return {f.name: f.metadata["column"] for f in dataclasses.fields(cls) if "column" in f.metadata}

    @classmethod
    def names_of(cls, column: str) -> str:
        """The field that holds the names behind a column of codes: ``user`` -> ``users``."""
        return column + "s"

    @classmethod
    def of(cls, name: str, job_id: Sequence[str], **given: Any) -> Trace:
        """A trace from arrays in internal units, sorted by submission; columns not given take their default.

        ``after`` refers to row indices before sorting.  Names (``users``, ``vcs`` ...) come with their codes.
        """
        n = len(job_id)
        order = np.argsort(np.asarray(given["submit"], np.int64), kind="stable")
        values: dict[str, Any] = {"name": name, "job_id": np.asarray(job_id, dtype=object)[order]}
        for key, about in cls.columns().items():
            raw = np.asarray(given.pop(key), np.int64) if key in given else np.full(n, about.default, np.int64)
            values[key] = np.ascontiguousarray(raw[order])
        if (values["after"] >= 0).any():
            place = np.empty(n, np.int64)
            place[order] = np.arange(n)
            values["after"] = np.where(values["after"] >= 0, place[values["after"]], -1)
        return cls(**values, **given)

    def select(self, rows: NDArray[Any]) -> Trace:
        """The trace of these rows alone (indices or a mask); a dependency on a job left out is dropped."""
        index = np.arange(len(self))[rows]
        arrays: dict[str, Any] = {key: getattr(self, key)[index] for key in self.columns()}
        place = np.full(len(self) + 1, -1, np.int64)
        place[index] = np.arange(len(index))
        arrays["after"] = place[arrays["after"]]  # after = -1 reads the last entry, which is -1
        return dataclasses.replace(self, job_id=self.job_id[index], **arrays)

    @cached_property
    def digest(self) -> str:
        """A hash of the whole content: equal traces, equal digests.

        Columns in which nothing stands are left out, so that columns to come don't change it; so are names that no
        job has, and the order of the names, so that a trace written as text keeps its digest.
        """
        digest = hashlib.blake2b(digest_size=8)
        digest.update("\x00".join(self.job_id.tolist()).encode())
        for key, about in self.columns().items():
            values = getattr(self, key)
            if (values != about.default).any():
                names: tuple[str, ...] = ()
                if not about.scale and key != "after":
                    values, names = renamed(values, getattr(self, self.names_of(key)))
                digest.update(key.encode() + values.tobytes() + (repr(names).encode() if names else b""))
        return digest.hexdigest()

    @property
    def dated(self) -> bool:
        """Whether submissions are counted from 1970 (UTC), so that they have a date, or from a beginning of its own."""
        return bool(len(self)) and int(self.submit[0]) >= EARLIEST_DATE_MS

    @property
    def may_stop(self) -> NDArray[np.bool_]:
        """Which jobs a policy may stop: not those that neither save their work then nor make checkpoints before."""
        return (self.checkpointable > 0) & ((self.saves_on_stop > 0) | (self.checkpoint > 0))

    @property
    def elastic(self) -> NDArray[np.bool_]:
        """Which jobs say that they can run on more or fewer GPUs than they ask for."""
        return (self.min_gpus > 0) | (self.max_gpus > 0)

    @property
    def widths(self) -> tuple[I64, I64]:
        """The fewest and the most GPUs that each job can run on."""
        asked = np.maximum(self.gpus // GPU, 1)
        return np.where(self.min_gpus > 0, self.min_gpus, asked), np.where(self.max_gpus > 0, self.max_gpus, asked)

    @property
    def each(self) -> tuple[I64, I64]:
        """The CPU (milli-cores) and memory (MiB) that each job asks for beside each GPU."""
        gpus = np.maximum(self.gpus // GPU, 1)
        return -(-self.cpus // gpus), -(-self.mem_gib // gpus)

    @property
    def equipped(self) -> NDArray[np.bool_]:
        """Which jobs say something of their instances: a range of CPU or memory, or parameter servers."""
        given = (self.min_cpus, self.max_cpus, self.min_mem_gib, self.max_mem_gib, self.servers)
        found: NDArray[np.bool_] = np.any([column > 0 for column in given], axis=0)
        return found

    @property
    def declarations(self) -> I64:
        """The declared run times that policies see (ms), 0: none; iterations without a declared time are exact."""
        return np.where(self.declared > 0, self.declared, np.where(self.iterations > 0, self.duration, 0))


def widths_are_wrong(gpus: I64, least: I64, most: I64) -> NDArray[np.bool_]:
    """Which ranges (0: not given) don't hold the number of GPUs that the job asks for, or are of a share of one."""
    given, asked = (least > 0) | (most > 0), gpus // GPU
    outside = (np.where(least > 0, least, asked) > asked) | (np.where(most > 0, most, asked) < asked)
    wrong: NDArray[np.bool_] = given & (outside | (gpus < GPU))
    return wrong


def amounts_are_wrong(each: I64, least: I64, most: I64) -> NDArray[np.bool_]:
    """Which ranges of CPU or memory (0: not given) don't hold what each instance asks for."""
    given = (least > 0) | (most > 0)
    outside = (np.where(least > 0, least, each) > each) | (np.where(most > 0, most, each) < each)
    wrong: NDArray[np.bool_] = given & (outside | (each == 0))
    return wrong


def servers_are_wrong(gpus: I64, least: I64, servers: I64) -> NDArray[np.bool_]:
    """Which jobs have servers but no worker, as they ask or at their fewest GPUs (0: not given)."""
    fewest = np.where(least > 0, least, gpus // GPU)
    wrong: NDArray[np.bool_] = (servers > 0) & ((servers >= gpus // GPU) | (fewest < 2))
    return wrong


def renamed(codes: I64, names: Sequence[str]) -> tuple[I64, tuple[str, ...]]:
    """The same names in order of their first appearance, without those that are not in use; -1, none, stays."""
    first = np.full(len(names) + 1, len(codes), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the earliest is written last; -1 goes to the end
    used = np.flatnonzero(first[:-1] < len(codes))
    order = used[np.argsort(first[used])]
    place = np.full(len(names) + 1, -1, np.int64)
    place[order] = np.arange(len(order))
    return place[codes], tuple(names[code] for code in order)


# ---------------------------------------------------------------------------------------------- actions and plans


@dataclass(frozen=True, slots=True)
class Start:
    """Run a pending job on these GPUs: as many as it asks for, or any number in the range that it gives.

    On a job whose lease has just ended, and on the same GPUs, it renews the lease at no cost. Where the job gives a
    range, its instances, one on each GPU, may have other CPU and memory than it asks for; where it has parameter
    servers, another number of its instances may serve.

    Examples:
        Job 3 gets GPUs 0 and 1 for at most an hour, if it is 12:00 (times are in milliseconds):

        >>> import shunter
        >>> noon = 12 * 3_600_000
        >>> shunter.Start(3, [0, 1], until=noon + 3_600_000)
        Start(job=3, gpus=[0, 1], until=46800000, shared=False, cpu=None, mem=None, servers=None)
    """

    job: int
    gpus: Sequence[int]
    until: int | None = None  # ms; at most this long (a profiler's slot, a lease); no end if it isn't checkpointable
    shared: bool = False  # the GPUs may already have a tenant
    cpu: int | None = None  # milli-cores of each instance; None: as it asks for
    mem: int | None = None  # MiB of each instance; None: as it asks for
    servers: int | None = None  # instances that are parameter servers; None: as usual


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stop a running job and put it back into the queue; refused for a job that is not ``checkpointable``.

    Examples:
        Stop job 3 at a checkpoint, and job 4 at once:

        >>> import shunter
        >>> shunter.Preempt(3), shunter.Preempt(4, keep=False)
        (Preempt(job=3, keep=True), Preempt(job=4, keep=False))
    """

    job: int
    keep: bool = True  # True: checkpoint first; False: kill, what was done since the last checkpoint is lost


@dataclass(frozen=True, slots=True)
class Migrate:
    """Move a running job to other GPUs, as many as it has; costs a checkpoint and a restart.

    Examples:
        >>> import shunter
        >>> shunter.Migrate(3, [8, 9])
        Migrate(job=3, gpus=[8, 9])
    """

    job: int
    gpus: Sequence[int]


@dataclass(frozen=True, slots=True)
class Resize:
    """Give a running job more or fewer GPUs, or its instances other CPU and memory; costs a checkpoint and a restart.

    The job's speed by width is in ``View.speeds``, by CPU in ``View.cpu_speed``. What is outside of the ranges that the
    job gives is refused.

    Examples:
        >>> import shunter
        >>> shunter.Resize(3, [0, 1, 2, 3], cpu=6000)
        Resize(job=3, gpus=[0, 1, 2, 3], cpu=6000, mem=None, servers=None)
    """

    job: int
    gpus: Sequence[int]
    cpu: int | None = None  # milli-cores of each instance; None: as it has
    mem: int | None = None  # MiB of each instance; None: as it has
    servers: int | None = None  # instances that are parameter servers; None: as usual


@dataclass(frozen=True, slots=True)
class Power:
    """Put an idle node to sleep, or wake it.

    Examples:
        >>> import shunter
        >>> shunter.Power(node=5, on=False)
        Power(node=5, on=False)
    """

    node: int
    on: bool


@dataclass(frozen=True, slots=True)
class Assign:
    """Move a node to another virtual cluster; jobs that run there continue.

    Examples:
        >>> import shunter
        >>> shunter.Assign(node=5, vc=1)
        Assign(node=5, vc=1)
    """

    node: int
    vc: int


@dataclass(frozen=True, slots=True)
class Timer:
    """Call the policy again at that time, even if nothing else happens then.

    Examples:
        In ``decide``, "call me again in one minute" is ``shunter.Timer(view.now + 60_000)``.

        >>> import shunter
        >>> shunter.Timer(at=60_000)
        Timer(at=60000)
    """

    at: int  # ms


Action: TypeAlias = Start | Preempt | Migrate | Resize | Power | Assign | Timer


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job still waits: a code and its numbers, as in ``shunter.reasons``, or a code of your own.

    It holds until another is given. ``scope`` is ``job``, or ``class``, ``pool`` or ``all`` for many jobs at once.

    Examples:
        >>> import shunter
        >>> shunter.Reason(3, "licence", (2,))  # job 3 waits for two licences
        Reason(job=3, code='licence', numbers=(2,), scope='job')
    """

    job: int  # or the class or pool
    code: str
    numbers: tuple[int, ...] = ()  # at most three
    scope: str = "job"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, in order: a ``Preempt`` frees what a later ``Start`` takes.

    The backend checks the whole plan before it applies any of it. If it refuses one action, it applies none. After a
    plan with actions, the policy is called again at the same instant; an empty plan ends its turn.

    Attributes:
        actions: What to do: ``Start``, ``Preempt``, ``Migrate``, ``Resize``, ``Power``, ``Assign``, ``Timer``.
        reasons: Why jobs still wait, if the backend keeps reasons (``View.reasons_wanted``).
        order: All waiting jobs, first to serve first, if the backend uses it (``View.order_wanted``).

    Examples:
        Job 4 takes the GPU of job 1:

        >>> import shunter
        >>> plan = shunter.Plan([shunter.Preempt(1), shunter.Start(4, [0])])
        >>> len(plan.actions)
        2
    """

    actions: Sequence[Action] = ()
    reasons: Sequence[Reason] = ()
    order: Sequence[int] | None = None  # all waiting jobs, first to serve first; see ``View.order_wanted``


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action that the backend did not apply, and why.

    Examples:
        >>> import shunter
        >>> from shunter.cluster import NodeGroup
        >>> jobs = shunter.Trace.of("one", ["a"], submit=[0], duration=[60_000], gpus=[2000])
        >>> simulator = shunter.Simulator(jobs, shunter.Cluster("small", (NodeGroup(count=1, gpus=2),)))
        >>> view = simulator.present()
        >>> simulator.apply(shunter.Plan([shunter.Start(0, [1])]))[0].why
        'wrong number of GPUs for the job'
    """

    action: Action
    why: str


NOTHING = Plan()


# ---------------------------------------------------------------------------------------------- the view


class JobColumns:
    """The jobs' columns by name; index them with job ids."""

    def __init__(self, world: World) -> None:
        table = world.jobs
        self.submit, self.gpus, self.share = table[w.SUBMIT], table[w.GPUS], table[w.SHARE]
        self.user, self.vc, self.gpu_type, self.model = table[w.USER], table[w.VC], table[w.TYPE], table[w.MODEL]
        self.limit, self.deadline, self.after = table[w.LIMIT], table[w.DEADLINE], table[w.AFTER]
        self.declared = table[w.DECLARED]  # run time at speed 1 that the user declared, ms; 0: none
        self.cpu, self.mem = table[w.CPU], table[w.MEM]  # per GPU: milli-cores, MiB
        self.state, self.started, self.attempts = table[w.STATE], table[w.STARTED], table[w.ATTEMPTS]
        self.workers, self.until = table[w.WORKERS], table[w.UNTIL]
        self.min_gpus, self.max_gpus = table[w.MIN_GPUS], table[w.MAX_GPUS]  # both 0: it gives no range
        self.checkpointable = table[w.CHECKPOINTABLE]  # 1: a policy may stop it
        self.stop_cost, self.start_cost = table[w.STOP_COST], table[w.RESTART]  # ms
        self.job_name, self.account = table[w.NAME], table[w.ACCOUNT]
        own, told = world.instances, bool(world.instances.shape[1])
        if not told:  # nothing of instances
            own = np.broadcast_to(np.int64(0), (w.INSTANCE_COLUMNS, table.shape[1]))
        self.min_cpu, self.max_cpu = own[w.MIN_CPU], own[w.MAX_CPU]  # of each instance; both 0: no range
        self.min_mem, self.max_mem = own[w.MIN_MEM], own[w.MAX_MEM]
        self.servers, self.servers_now = own[w.SERVERS], own[w.SERVERS_NOW]
        self.cpu_now, self.mem_now = (own[w.CPU_NOW], own[w.MEM_NOW]) if told else (self.cpu, self.mem)


class NodeColumns:
    """The nodes' columns by name."""

    def __init__(self, world: World) -> None:
        table = world.nodes
        self.free, self.total, self.first_gpu = table[w.FREE], table[w.TOTAL], table[w.FIRST_GPU]
        self.gpu_type, self.vc = table[w.NODE_TYPE], table[w.NODE_VC]
        self.domains = world.domains  # racks first, then outwards
        self.rack = self.domains[0]
        self.cpu_free, self.mem_free = table[w.CPU_FREE], table[w.MEM_FREE]
        self.state, self.outage = table[w.NODE_STATE], table[w.OUTAGE]


class GpuColumns:
    """The GPUs' columns by name."""

    def __init__(self, world: World) -> None:
        table = world.gpus
        self.node, self.tenants, self.used = table[w.NODE], table[w.TENANTS], table[w.USED]


class View:
    """What a policy sees: one instant, read-only, without the truth.

    A view is a window on the backend's arrays and is valid until the next ``apply``. Jobs, nodes and GPUs are numbers.
    ``jobs``, ``nodes`` and ``gpus`` have one array per column: ``view.jobs.gpus[job]``, ``view.nodes.free[node]``,
    ``view.gpus.node[gpu]``. Lists of jobs are in the order of submission. Times are in milliseconds.

    Attributes:
        jobs: Columns of jobs. The request: ``submit``, ``gpus``, ``share`` (thousandths of each GPU), ``cpu`` and
            ``mem`` per GPU, ``limit``, ``deadline``, ``declared``, ``after``, ``checkpointable`` (1: may be stopped),
            ``stop_cost``, ``start_cost``, ``min_gpus`` and ``max_gpus`` (0: it gives no range). Codes: ``user``,
            ``vc``, ``gpu_type``, ``model``, ``job_name``, ``account``. Of each of its instances, one per GPU:
            ``min_cpu``, ``max_cpu``, ``min_mem`` and ``max_mem`` (0: no range); ``servers`` of them are parameter
            servers. So far: ``state``, ``started``, ``attempts``, ``workers`` (GPUs), ``until``, ``cpu_now``,
            ``mem_now`` and ``servers_now`` (as it asks while it waits).
        nodes: Columns of nodes: ``free`` and ``total`` GPUs, ``first_gpu``, ``gpu_type``, ``vc``, ``rack``,
            ``domains``, ``cpu_free``, ``mem_free``, ``state``, ``outage``.
        gpus: Columns of GPUs: ``node``, ``tenants`` (jobs on it), ``used`` (the sum of their shares).
        names: The names behind codes, by column: ``view.names["user"][view.jobs.user[job]]``.
        truth: True run times, for a policy that declares itself an oracle; else None.

    Examples:
        >>> import shunter
        >>> from shunter.cluster import NodeGroup
        >>> jobs = shunter.Trace.of("two", ["a", "b"], submit=[0, 0], duration=[60_000, 60_000], gpus=[2000, 1000])
        >>> simulator = shunter.Simulator(jobs, shunter.Cluster("small", (NodeGroup(count=1, gpus=2),)))
        >>> view = simulator.present()
        >>> view.now, view.pending.tolist(), view.jobs.gpus.tolist(), view.free_gpus(0).tolist()
        (0, [0, 1], [2, 1], [0, 1])
        >>> refusals = simulator.apply(shunter.Plan([shunter.Start(1, [0])]))
        >>> view = simulator.present()
        >>> view.pending.tolist(), view.running.tolist(), view.placement(1), view.nodes.free.tolist()
        ([0], [1], (0,), [1])
    """

    generation = 0  # rows stand for the same jobs in all views of one generation ...
    moved: I64 | None = None  # ... and where each row of the one before is now, -1: gone
    taken: I64 | None = None  # in an excerpt: the row of the one before whose request each row has
    past: Trace | None = None  # on a live cluster: jobs that ended before, which have no rows
    leases = True  # whether a job is stopped when its lease ends; if not, a lease means nothing
    reached = 0  # ms; up to when nothing more happens, where that is known to be later than now
    order_wanted = False  # whether the backend uses the order of all waiting jobs, as one that sets priorities does

    def __init__(
        self,
        world: World,
        truth: F64 | None = None,
        names: Mapping[str, Sequence[str]] = MappingProxyType({}),
        reports: Callable[[int, float], F64] | None = None,
    ) -> None:
        self.world = world = world.read_only()
        self.names = names  # behind the codes of a column: user, vc, model, job_name, account
        self.jobs = JobColumns(world)
        self.nodes = NodeColumns(world)
        self.gpus = GpuColumns(world)
        if truth is not None:
            truth.flags.writeable = False
        self._reports = reports  # the losses of a job up to a share of its declared work
        self.truth = truth  # true durations in ms, for a policy that declares itself an oracle; else None

    def moved_since(self, generation: int) -> I64:
        """Where each row of the views of a generation is now, -1: gone; none: that is not known."""
        return self.moved if self.moved is not None else np.zeros(0, np.int64)

    def renumbering(self, rows: int, generation: int) -> Renumbering:
        """How rows have changed since the views of a generation, with this many; all are gone where it is not known."""
        jobs = self.world.jobs.shape[1]
        moved = self.moved_since(generation)
        if len(moved) != rows:
            moved = np.full(rows, -1, np.int64)  # there was a view that it did not see
        return Renumbering(moved, self.taken if self.taken is not None else np.full(jobs, -1, np.int64))

    @property
    def now(self) -> int:
        """The present, ms."""
        return int(self.world.clock[w.NOW])

    @property
    def models(self) -> tuple[str, ...]:
        """The names behind ``jobs.model``."""
        return tuple(self.names.get("model", ()))

    @property
    def reasons_wanted(self) -> bool:
        """Whether the reasons that a plan gives are recorded."""
        return bool(self.world.clock[w.REASONS])

    def _list(self, row: int, length: int) -> I64:
        return np.sort(self.world.lists[row, : self.world.clock[length]])

    @property
    def pending(self) -> I64:
        """Jobs that wait, in submit order."""
        return self._list(w.L_PENDING, w.N_PENDING)

    @property
    def running(self) -> I64:
        """Jobs that run, in submit order; not those that are being stopped."""
        jobs = self._list(w.L_RUNNING, w.N_RUNNING)
        running: I64 = jobs[self.world.jobs[w.STATE, jobs] == w.RUNNING]
        return running

    @property
    def ended(self) -> I64:
        """Jobs that ended since the last view: what they took is known now."""
        return self._list(w.L_ENDED, w.N_ENDED)

    @property
    def arrived(self) -> I64:
        """Jobs that came into the queue since the last view, for the first time or again."""
        return self._list(w.L_ARRIVED, w.N_ARRIVED)

    def executed(self, jobs: I64) -> I64:
        """Run time of these jobs so far, ms."""
        table = self.world.jobs
        executed: I64 = table[w.EXECUTED, jobs] + np.where(self._runs(jobs), self.now - table[w.BEGUN, jobs], 0)
        return executed

    def attained(self, jobs: I64) -> I64:
        """GPU time of these jobs so far, GPU-ms."""
        table = self.world.jobs
        gpus = table[w.WORKERS, jobs] * table[w.SHARE, jobs]
        present = np.where(self._runs(jobs), (self.now - table[w.BEGUN, jobs]) * gpus // GPU, 0)
        attained: I64 = table[w.ATTAINED, jobs] + present
        return attained

    def waited(self, jobs: I64) -> I64:
        """Time that these jobs have spent in the queue so far, ms."""
        table = self.world.jobs
        waits = table[w.STATE, jobs] == w.PENDING
        waited: I64 = table[w.WAITED, jobs] + np.where(waits, self.now - table[w.WAITING_SINCE, jobs], 0)
        return waited

    def rate(self, jobs: I64) -> F64:
        """Present speed of these jobs; 1 is the speed that the trace was recorded at, 0 is standing still."""
        rate: F64 = self.world.progress[w.RATE, jobs]
        return rate

    def work(self, jobs: I64) -> F64:
        """Work that these jobs have done so far, in ms at speed 1, as a live cluster knows it from their iterations."""
        progress, since = self.world.progress, self.world.jobs[w.SINCE, jobs]
        running = np.where(self._runs(jobs), np.maximum(self.now - since, 0) * progress[w.RATE, jobs], 0.0)
        work: F64 = progress[w.WORK, jobs] + running
        return work

    @property
    def knows_losses(self) -> bool:
        """Whether any job's losses are known; ``losses`` has them."""
        return self._reports is not None

    def losses(self, job: int, at: int | None = None) -> F64:
        """The losses that a job has reported, up to now or an earlier time: pairs of declared work done, and loss.

        The work is a share of what its user declared. There are none of a job that declares nothing, that reports no
        losses, or whose losses the backend does not know. Losses to come are never shown.
        """
        when, declared = self.now if at is None else at, int(self.jobs.declared[job])
        if when > max(self.now, self.reached):
            raise InvariantError(f"the losses of job {job} at {when} ms are not known at {self.now} ms")
        if self._reports is None or not declared:
            return np.zeros((0, 2))
        progress, since = self.world.progress, int(self.world.jobs[w.SINCE, job])
        done = float(progress[w.WORK, job])
        if self._runs(np.array([job]))[0]:
            done += max(when - since, 0) * float(progress[w.RATE, job])
        return self._reports(job, min(done / declared, 1.0))

    def speeds(self, job: int) -> F64:
        """A job's speed by its number of GPUs, from 0 on: on one machine, and across; 1 is that of the trace."""
        row, asked, servers = (int(x[job]) for x in (self.world.jobs[w.CURVE], self.jobs.gpus, self.jobs.servers))
        most = max(int(self.jobs.max_gpus[job]), asked)
        at_work = training_by_width(asked, servers, most)
        if row < 0:
            return np.tile(at_work / at_work[asked], (2, 1))
        curves = self.world.scaling[2 * row : 2 * row + 2, at_work]
        speeds: F64 = curves / curves[0, asked]
        return speeds

    def cpu_speed(self, job: int, cpu: int) -> float:
        """A job's speed with so many milli-cores for each instance over that with what it asks for; 1: no range."""
        return float((cpu / self.jobs.cpu[job]) ** CPU_POWER) if self.jobs.max_cpu[job] else 1.0

    def _runs(self, jobs: I64) -> NDArray[np.bool_]:
        """Which of these jobs hold GPUs now."""
        states = self.world.jobs[w.STATE, jobs]
        runs: NDArray[np.bool_] = (states == w.RUNNING) | (states == w.STOPPING)
        return runs

    def placement(self, job: int) -> tuple[int, ...]:
        """The GPUs that a job holds now, ascending."""
        slot, found = int(self.world.jobs[w.HEAD, job]), []
        while slot >= 0:
            found.append(slot // int(self.world.clock[w.SLOTS_PER_GPU]))
            slot = int(self.world.slots[w.SLOT_NEXT, slot])
        return tuple(sorted(found))

    def tenants(self, gpu: int) -> tuple[int, ...]:
        """The jobs on a GPU, ascending."""
        per_gpu = int(self.world.clock[w.SLOTS_PER_GPU])
        jobs = self.world.slots[w.SLOT_JOB, gpu * per_gpu : (gpu + 1) * per_gpu]
        return tuple(sorted(int(j) for j in jobs if j >= 0))

    def free_gpus(self, node: int) -> I64:
        """The wholly free GPUs of a node, ascending; none if the node is not up."""
        if self.nodes.state[node] != w.UP:
            return np.empty(0, np.int64)
        first, total = int(self.nodes.first_gpu[node]), int(self.nodes.total[node])
        return first + np.flatnonzero(self.gpus.tenants[first : first + total] == 0)

    def room(self, job: int, without: Sequence[int] = ()) -> tuple[int, ...]:
        """GPUs on which a waiting job may start now, node by node; () if there are too few.

        They are wholly free, or held by the jobs ``without``, which the same plan stops. The nodes are those of the
        job's virtual cluster and GPU type, as far as their CPUs and memory suffice.
        """
        wanted, found = int(self.jobs.gpus[job]), []
        freed = {gpu for other in without for gpu in self.placement(other)}
        for node in range(len(self.nodes.total)):
            if self.admits(node, job):
                mine = sorted({*self.free_gpus(node).tolist(), *(g for g in freed if self.gpus.node[g] == node)})
                found += mine[: self._most(node, job, without)]
        return tuple(found[:wanted]) if len(found) >= wanted else ()

    def admits(self, node: int, job: int) -> bool:
        """Whether a node is of the virtual cluster and the GPU type that a job asks for."""
        vc, kind = self.jobs.vc[job], self.world.jobs[w.TYPE, job]
        return bool(
            (vc < 0 or self.nodes.vc[node] in (w.OPEN, vc)) and (kind < 0 or self.world.admits[kind, node] == 1)
        )

    def _most(self, node: int, job: int, without: Sequence[int]) -> int:
        """How many GPUs of a node its CPUs and memory suffice for."""
        most = int(self.nodes.total[node])
        cpu = (self.nodes.cpu_free, self.jobs.cpu, self.jobs.cpu_now)
        for free, each, now in (cpu, (self.nodes.mem_free, self.jobs.mem, self.jobs.mem_now)):
            if each[job]:
                held = sum(int(now[o]) * sum(self.gpus.node[g] == node for g in self.placement(o)) for o in without)
                most = min(most, (int(free[node]) + held) // int(each[job]))
        return most
