"""A live cluster at one instant, as data: its jobs and its nodes.

States, reasons and flags are written in Slurm's words, which a reader of another resource manager translates to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.errors import LiveError
from shunter.live import job_arrays, ranges
from shunter.live.hints import JobHints
from shunter.live.marks import Mark
from shunter.live.nodes import Node
from shunter.live.surroundings import Defaults, Licence, Preemption, Reservation
from shunter.safe_files import text_of, whole
from shunter.texts import unrepeated

if TYPE_CHECKING:
    from shunter.live.requests import Dialect, Requests

MOST_DIGITS = 14
FORMER = {"told": "hints", "admin_comment": "annotation"}
RUNS = frozenset({"RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
OVER = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
    | {"REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"}
)  # in a state that is in neither, of a release to come, a job is left alone
TURN = re.compile(r"(None|Priority|Resources|ReqNodeNotAvail.*|Nodes.required.*)?", re.DOTALL)
# why a job waits for nothing but its turn; the last two are said where nodes are down, and go on being said long after


@dataclass(frozen=True)
class LiveJob:
    """A job as the resource manager describes it, in our units."""

    id: str  # as people write it: 12, also for all that waits of an array, 12_3 for a task with a record of its own
    handle: str  # names it in the journal: as the id, but all parts of a heterogeneous job have one
    state: str
    reason: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    name: str = ""
    priority: int = 0
    nice: int = 0
    submit: int = 0  # ms since 1970
    eligible: int = 0
    start: int = -1  # of the present run; of a waiting job when the manager expects to start it; -1: not said
    end: int = -1  # when it ended, or when its limit ends it; -1: not said
    deadline: int = -1  # the manager's own: it ends the job then, or never starts it; -1: none
    limit: int = 0  # ms; 0: none
    ran: int = 0  # ms of the present run
    nodes: tuple[str, ...] = ()
    cpus: int = 0
    mem_mib: int = 0
    all_memory: bool = False  # all that its nodes have, whatever ``mem_mib`` says
    mem_unclear: bool = False  # the output in text does not say whether its memory is for each CPU
    gpus: int = 0
    shards: int = 0
    per_node: str = ""  # the generic resources that it asked for on each node, as the manager writes them
    per_job: str = ""  # and in all
    per_task: str = ""  # and for each of its processes
    processes: int = 1
    gpu_type: str = ""
    restarts: int = 0
    requeues: bool = False  # the manager may put it back into the queue
    wanted_nodes: str = ""
    reservation: str = ""
    features: str = ""  # the constraint (-C), as the manager writes it
    licenses: str = ""  # as the manager writes them: matlab:2,comsol:1
    excluded: str = ""  # nodes that it must not have, while it waits
    exclusive: str = ""  # which jobs may share its nodes: "" all, "node" none, else only jobs of the same user...
    min_nodes: int = 1
    max_nodes: int = -1  # 0: as many as it takes; -1: not known: the output in text does not say
    contiguous: bool = False
    dependency: str = ""  # as the manager writes it: afterok:12(unfulfilled)
    hints: JobHints = field(default_factory=JobHints)  # what it says of itself
    annotation: str = ""  # text that only administrators write; the resource manager may keep marks in it
    marks: tuple[Mark, ...] = ()  # at most one of each lever
    number: str = ""  # the manager's own, which for a task of an array is another than its id
    tasks: str = ""  # of what waits of an array, and of a task that was taken out of that: all its tasks, as 1-4,7
    throttle: int = 0  # of the same: how many tasks of the array may run at a time; 0: all

    @property
    def runs(self) -> bool:
        """Whether it holds resources."""
        return self.state in RUNS

    @property
    def waits(self) -> bool:
        """Whether it waits for nothing but its turn."""
        return self.state == "PENDING" and self.eligible >= 0 and TURN.fullmatch(self.reason) is not None

    @property
    def due(self) -> int:
        """By when it is wanted, ms since 1970: by the manager's deadline, or what its comment declares; -1: no time."""
        return min((each for each in (self.deadline, round(1000 * self.hints.deadline)) if each > 0), default=-1)

    @property
    def held(self) -> bool:
        """Whether its user or an administrator holds it."""
        return self.state == "PENDING" and self.priority == 0

    @property
    def over(self) -> bool:
        """Whether it has ended, one way or another."""
        return self.state in OVER

    @property
    def has_run(self) -> bool:
        """Whether it ran and has ended; one that was cancelled while it waited has a start, but no nodes."""
        return self.over and bool(self.nodes) and 0 <= self.start <= self.end

    @property
    def may_be_requeued(self) -> bool:
        """Whether it has agreed to be stopped and queued again, and the manager can do that."""
        return self.requeues and self.hints.requeue == "yes"

    @property
    def sizing(self) -> str:
        """What it asks for as the lever ``resize`` has it: GPUs in all, or of each node; "": in another form."""
        if self.id != self.handle or self.is_array or re.search(r"[_+]", self.id) or self.per_task or self.shards:
            return ""
        if "," in self.per_job + self.per_node:
            return ""  # it asks for something else, too
        if self.per_job and not self.per_node:
            return f"job:{self.per_job}"
        return f"node:{self.per_node}" if self.per_node and not self.per_job else ""

    @property
    def widths(self) -> tuple[int, int]:
        """The fewest and the most GPUs that it may be given; (0, 0): it has not agreed, or can't be resized.

        Never more than its own request, before any change of ours: the manager has checked its user's limits for that.
        """
        mark, (low, high) = self.marked.get("resize"), self.hints.widths
        own = size_in(mark.before if mark is not None else self.sizing)
        low, high = max(low, self.min_nodes) if low else 0, min(high, own)  # on each of its nodes there is a GPU
        nodes = len(self.nodes) if self.runs else self.max_nodes
        one = self.sizing.startswith("job:") or (self.sizing and nodes == 1)  # GPUs of several nodes are a product
        clear = one and size_in(self.sizing) == self.gpus  # its request is of these GPUs, and of nothing else
        agrees = self.may_be_requeued and clear and 0 < low <= self.gpus <= high
        return (low, high) if agrees else (0, 0)

    @property
    def whole(self) -> str:
        """The name of all that a change to it changes too: its array, its heterogeneous job, or itself."""
        return self.id.partition("_")[0] if "_" in self.id else self.handle

    @property
    def target(self) -> str:
        """The name of exactly this record. ``12`` alone would mean every task of an array, whatever its own.

        A task that its user has changed has a record of its own, and so has one that runs or ran.
        """
        return f"{self.handle}_[{self.tasks}]" if self.tasks else self.handle

    @property
    def marked(self) -> dict[str, Mark]:
        """Its marks by lever."""
        return {mark.lever: mark for mark in self.marks}

    @property
    def is_array(self) -> bool:
        """Whether it stands for all that waits of an array."""
        return bool(self.tasks) and "_" not in self.id

    @property
    def count(self) -> int:
        """How many jobs it stands for: of an array all tasks that wait."""
        return job_arrays.count(job_arrays.numbers(self.tasks)) if self.is_array else 1

    def task(self, number: int) -> LiveJob:
        """One task of an array as a job."""
        return replace(self, id=f"{self.id}_{number}")

    def first_tasks(self, most: int) -> tuple[LiveJob, ...]:
        """The first tasks of an array as jobs; a job that is none by itself."""
        if not self.is_array:
            return (self,)
        return tuple(self.task(number) for number in job_arrays.part(job_arrays.numbers(self.tasks), 0, most))

    def with_priority(self, priority: int) -> LiveJob:
        """The same, with another priority; these change all the time, and ``replace`` takes ten times as long."""
        twin = object.__new__(LiveJob)
        twin.__dict__.update(self.__dict__, priority=priority)
        return twin

    def ended_at(self, time: int) -> LiveJob:
        """The same, ended then: it is no longer listed."""
        return replace(self, state="COMPLETED", end=max(time, self.start))

    @property
    def done_ms(self) -> int:
        """How much of its work is done, as far as it is known."""
        return self.hints.done_ms or self.ran


@dataclass(frozen=True)
class Snapshot:
    """Jobs and nodes at one instant."""

    now: int  # ms since 1970
    jobs: tuple[LiveJob, ...]
    nodes: tuple[Node, ...]
    unread: tuple[str, ...] = ()  # handles of jobs that are there and could not be read
    reservations: tuple[Reservation, ...] = ()
    licences: tuple[Licence, ...] = ()
    preemption: Preemption = field(default_factory=Preemption)
    defaults: tuple[Defaults, ...] = ()  # by partition; (): not known
    hidden: tuple[str, ...] = ()  # what the resource manager shows this user only in part: jobs, nodes, ...
    dialect: Dialect | None = field(default=None, compare=False, repr=False)  # how it writes requests; None: plainly

    @cached_property
    def words(self) -> Dialect:
        """What its requests and reasons are read by."""
        from shunter.live.requests import PlainDialect

        return self.dialect or PlainDialect()

    @cached_property
    def requests(self) -> Requests:
        """What its jobs ask for."""
        from shunter.live.requests import Requests

        return Requests(self.nodes, self.words)

    def unfolded(self, most: int = 100) -> Snapshot:
        """The same, with the first tasks of every array as jobs."""
        return replace(self, jobs=tuple(task for job in self.jobs for task in job.first_tasks(most)))

    def save(self, path: Path) -> None:
        """Keep it as JSON."""
        with whole(path, LiveError) as part:
            part.write_text(json.dumps(asdict(replace(self, dialect=None)), separators=(",", ":")))

    @classmethod
    def load(cls, path: Path, dialect: Dialect | None = None) -> Snapshot:
        """A recorded one; anyone may have written the file, so every field is checked."""
        from pydantic import ValidationError

        try:
            read = json.loads(text_of(path, LiveError), parse_int=_bounded, object_pairs_hook=unrepeated)
            around = {"hidden": _loaded(tuple[str, ...], read.get("hidden", ())), "dialect": dialect}
            for name, kind in AROUND.items():
                around |= {name: _loaded(kind, read[name])} if name in read else {}
            jobs = _loaded(tuple[LiveJob, ...], [_renamed(job) for job in read["jobs"]])
            nodes = _loaded(tuple[Node, ...], read["nodes"])
            unread = _loaded(tuple[str, ...], read.get("unread", ()))
            ranges.check(jobs, nodes)
            return cls(_loaded(int, read["now"]), jobs, nodes, unread, **around)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(step) for step in first["loc"])
            raise LiveError(f"{path}: {NOT_ONE}: {where}: {first['msg']}") from None
        except KeyError as missing:
            raise LiveError(f"{path}: {NOT_ONE}: {missing} is missing") from None
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise LiveError(f"{path}: {NOT_ONE}: {error}") from None


AROUND = {
    "reservations": tuple[Reservation, ...],
    "licences": tuple[Licence, ...],
    "preemption": Preemption,
    "defaults": tuple[Defaults, ...],
}
NOT_ONE = "must be a snapshot as 'shunter slurm snapshot' writes it"


def size_in(value: str) -> int:
    """The number of GPUs in a value of the lever ``resize``, which ends with it; 0: none."""
    found = re.search(r"(?<=[:=])[0-9]{1,6}\Z", value)  # the end of gres:gpu:a100 is none
    return int(found[0]) if found else 0


def _bounded(text: str) -> int:
    """A number; none is as large as this: as ms since 1970 it is the year 5138."""
    if len(text) > MOST_DIGITS:
        raise ValueError(f"{text[:MOST_DIGITS]}... is too large a number")
    return int(text)


def _renamed(job: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job, by their present names."""
    return {FORMER.get(name, name): value for name, value in job.items()}


def _loaded(kind: Any, value: Any) -> Any:
    """A value of exactly this type."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
