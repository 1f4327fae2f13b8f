"""What Slurm says at one instant: its jobs and its nodes, asked for in explicit text formats.

Names and comments are hostile input: fields are divided by a mark drawn anew for every call, so that no job can
pretend to be two.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from shunter.errors import SlurmError
from shunter.files import whole
from shunter.slurm.client import Client, DeclinedError
from shunter.slurm.comments import Told, told_in
from shunter.slurm.hostlist import expand
from shunter.slurm.tres import REMEMBERED, gres, resources

JOB_FIELDS = [
    "JobID",
    "JobArrayID",
    "HetJobID",
    "State",
    "Reason",
    "UserName",
    "Account",
    "Partition",
    "QOS",
    "PriorityLong",
    "Nice",
    "SubmitTime",
    "EligibleTime",
    "StartTime",
    "EndTime",
    "TimeLimit",
    "TimeUsed",
    "NumNodes",
    "NodeList",
    "NumCPUs",
    "NumTasks",
    "RestartCnt",
    "ReqNodes",
    "Reservation",
    "Dependency",
    "tres-alloc",
    "tres-per-job",
    "tres-per-node",
    "tres-per-task",
    "tres-per-socket",
    "Requeue",
    "Name",
    "Comment",
]
NODE_FIELDS = ["NodeList", "PartitionName", "StateLong", "Gres", "GresUsed", "CPUsState", "Memory", "AllocMem"]
RUNS = frozenset({"RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"})
TURN = re.compile(r"(None|Priority|Resources|ReqNodeNotAvail.*|Nodes.required.*)?", re.DOTALL)
# why a job waits for nothing but its turn; the last two are said where nodes are down, and go on being said long after
FIELD, RECORD = ";", "."  # what follows the mark behind a field, and behind the last one of a record
TASKS = 100  # of an array that are looked at one by one
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Job:
    """A job as Slurm tells it, in our units."""

    id: str  # as people write it: 12, 12_3 for the task of an array, 12+1 for a part of a heterogeneous job
    handle: str  # what scontrol is told: all waiting tasks of an array have one
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
    start: int = -1  # of the present run; of a waiting job when Slurm expects to start it; -1: not said
    end: int = -1  # when it ended, or when its limit ends it; -1: not said
    limit: int = 0  # ms; 0: none
    ran: int = 0  # ms of the present run
    nodes: tuple[str, ...] = ()
    cpus: int = 0
    mem_mib: int = 0
    gpus: int = 0
    shards: int = 0
    per_node: str = ""  # the generic resources that it asked for on each node, as Slurm writes them
    gpu_type: str = ""
    restarts: int = 0
    requeues: bool = False  # Slurm may put it back into the queue
    wanted_nodes: str = ""
    reservation: str = ""
    dependency: str = ""  # as Slurm writes it: afterok:12(unfulfilled)
    told: Told = field(default_factory=Told)  # what its comment says

    @property
    def runs(self) -> bool:
        """Whether it holds resources."""
        return self.state in RUNS

    @property
    def waits(self) -> bool:
        """Whether it waits for nothing but its turn."""
        return self.state == "PENDING" and self.eligible >= 0 and TURN.fullmatch(self.reason) is not None

    @property
    def over(self) -> bool:
        """Whether it has ended, one way or another."""
        return self.state not in RUNS and self.state not in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")

    def ended_at(self, time: int) -> Job:
        """The same, ended then: Slurm no longer tells of it."""
        return replace(self, state="COMPLETED", end=max(time, self.start))

    @property
    def done_ms(self) -> int:
        """How much of its work is done, as far as anybody knows."""
        return self.told.done_ms or self.ran


@dataclass(frozen=True)
class Node:
    """A node as Slurm tells it."""

    name: str
    state: str
    partitions: tuple[str, ...] = ()
    gpus: int = 0
    gpu_type: str = ""
    shards: int = 0
    used: tuple[int, ...] = ()  # which GPUs are in use
    cpus: int = 0
    cpus_used: int = 0
    mem_mib: int = 0
    mem_used: int = 0

    @property
    def up(self) -> bool:
        """Whether jobs can be started there."""
        return self.state.rstrip("-+^@$") in ("idle", "mixed", "allocated", "completing", "planned")


@dataclass(frozen=True)
class Snapshot:
    """Jobs and nodes at one instant."""

    now: int  # ms since 1970
    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]

    def save(self, path: Path) -> None:
        """Keep it as JSON."""
        with whole(path, SlurmError) as part:
            part.write_text(json.dumps(asdict(self), separators=(",", ":")))

    @classmethod
    def load(cls, path: Path) -> Snapshot:
        """One that was kept."""
        try:
            read = json.loads(path.read_text())
            jobs = tuple(_loaded(Job, each | {"told": Told(**each["told"])}) for each in read["jobs"])
            return cls(read["now"], jobs, tuple(_loaded(Node, each) for each in read["nodes"]))
        except OSError as error:
            raise SlurmError(f"{path}: can't be read: {error.strerror}") from None
        except (ValueError, TypeError, KeyError) as error:
            raise SlurmError(f"{path}: must be a snapshot as 'shunter slurm snapshot' writes it: {error}") from None


def _loaded(kind: Any, values: Mapping[str, Any]) -> Any:
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


class Watcher:
    """Takes snapshots; what has not changed since the last one is not read again."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._known: dict[str, tuple[Job, ...]] = {}

    def snapshot(self) -> Snapshot:
        """What Slurm says now."""
        mark = _mark()
        now = time.time_ns() // 1_000_000
        text = self.client.run("squeue", "--noheader", "--all", "--states=all", "--Format", _format(JOB_FIELDS, mark))
        records = text.split(f"{mark}{RECORD}\n")[:-1]
        fresh: dict[str, tuple[Job, ...]] = {}
        for record in records:
            key = record.replace(mark, "\0")
            fresh[key] = self._known.get(key) or tuple(_jobs(record.split(mark + FIELD)))
        self._known = fresh
        return Snapshot(now, tuple(job for jobs in fresh.values() for job in jobs), tuple(self.nodes()))

    def counters(self) -> str:
        """How many jobs were submitted, started and ended so far: a cheap way to see whether anything has happened."""
        return "".join(re.findall(r"^Jobs \w+: *\d+$", self.client.run("sdiag"), re.MULTILINE)[:5])

    def set_by_hand(self) -> dict[str, int]:
        """Waiting jobs whose priority somebody set outright: of these Slurm has no factors, of others it has.

        Where it has factors of none, just after its start, nothing can be said.
        """
        try:
            text = self.client.run("sprio", "--noheader", "--format", "%i|%Y|%A|%B|%F|%J|%P|%Q|%S|%T")
        except DeclinedError:
            return {}  # priority/basic has no factors at all
        rows = [line.strip().split("|") for line in text.splitlines()]
        bare = {row[0]: int(row[1]) for row in rows if not "".join(row[2:]).strip("0 ")}
        return {handle: priority for handle, priority in bare.items() if priority > 1} if len(bare) < len(rows) else {}

    def boot_time(self) -> float:
        """When slurmctld was started, in seconds since 1970."""
        found = re.search(r"^BOOT_TIME *= (\S+)$", self.client.run("scontrol", "show", "config"), re.MULTILINE)
        return _time(found[1]) / 1000 if found else 0.0

    def nodes(self) -> list[Node]:
        """The nodes that have GPUs, in the order of their names as Slurm gives them."""
        mark = _mark()
        text = self.client.run("sinfo", "--noheader", "--Node", "--all", "--Format", _format(NODE_FIELDS, mark))
        rows = [record.split(mark + FIELD) for record in text.split(f"{mark}{RECORD}\n")[:-1]]
        return nodes_from(rows)


def _mark() -> str:
    """What no job can have guessed; not a digit first, which would be the width of a field."""
    return f";{secrets.token_hex(6)}"


def _format(fields: Iterable[str], mark: str) -> str:
    """Every field of its full length, each followed by the mark."""
    *others, last = fields
    return ",".join([*(f"{name}:{mark}{FIELD}" for name in others), f"{last}:{mark}{RECORD}"])


def nodes_from(rows: Iterable[list[str]]) -> list[Node]:
    """Nodes from sinfo's rows, of which there is one for each partition of a node."""
    partitions: dict[str, list[str]] = {}
    first: dict[str, list[str]] = {}
    for row in rows:
        name, partition = row[0].strip(), row[1].strip().rstrip("*")
        first.setdefault(name, row)
        partitions.setdefault(name, []).append(partition)
    found = [_node(row, tuple(dict.fromkeys(partitions[name]))) for name, row in first.items()]
    return [node for node in found if node.gpus]


def _node(row: list[str], partitions: tuple[str, ...]) -> Node:
    name, _, state, has, uses, cpus, memory, allocated = (value.strip() for value in row)
    gpus = [each for each in gres(has) if each.name == "gpu" and each.count]
    most = max(gpus, key=lambda each: sum(other.count for other in gpus if other.kind == each.kind), default=None)
    taken, _, _, total = (int(value) for value in cpus.split("/"))
    return Node(
        name,
        state.lower(),
        partitions,
        gpus=sum(each.count for each in gpus if most and each.kind == most.kind),
        gpu_type=most.kind if most else "",
        shards=sum(each.count for each in gres(has) if each.name == "shard"),
        used=tuple(index for each in gres(uses) if each.name == "gpu" for index in each.index),
        cpus=total,
        cpus_used=taken,
        mem_mib=int(memory),
        mem_used=int(allocated),
    )


def _jobs(values: list[str]) -> Iterable[Job]:
    """The jobs of one record: a waiting array is one record and many jobs."""
    if len(values) != len(JOB_FIELDS):
        raise SlurmError(f"squeue should give {len(JOB_FIELDS)} fields for each job, got {len(values)}: {values[:2]}")
    said = dict(zip(JOB_FIELDS, map(str.strip, values), strict=True))
    job = _job(said)
    tasks = re.fullmatch(r"(\d+)_\[([^\]%]*)(?:%\d+)?\]", said["JobArrayID"])
    if tasks is None:
        return (job,)
    numbers = _task_numbers(tasks[2])
    return tuple(Job(**{**vars(job), "id": f"{tasks[1]}_{number}", "handle": tasks[1]}) for number in numbers)


def _task_numbers(text: str) -> list[str]:
    """``1-9:2,12,...`` written out, the first hundred."""
    found: list[str] = []
    for piece in text.split(","):
        span = re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?", piece)
        if span:
            last = min(int(span[2]), int(span[1]) + TASKS * int(span[3] or 1))
            found += [str(number) for number in range(int(span[1]), last + 1, int(span[3] or 1))]
        elif piece.isdigit():
            found.append(piece)
        if len(found) >= TASKS:
            break
    return found[:TASKS]


def _job(said: Mapping[str, str]) -> Job:
    has = resources(said["tres-alloc"])
    asked = _gpus(
        said["State"],
        said["tres-alloc"],
        *(said[name] for name in ("tres-per-job", "tres-per-node", "NumNodes", "tres-per-task", "NumTasks")),
    )
    return Job(
        id=said["JobArrayID"] if said["HetJobID"] in ("0", "", "N/A") else said["JobID"],
        handle=said["JobID"],
        state=said["State"],
        reason=said["Reason"] if said["Reason"] != "(null)" else "",
        user=said["UserName"],
        account=_said(said["Account"]),
        partition=said["Partition"],
        qos=_said(said["QOS"]),
        name=said["Name"],
        priority=int(said["PriorityLong"]),
        nice=int(said["Nice"]),
        submit=_time(said["SubmitTime"]),
        eligible=_time(said["EligibleTime"]),
        start=_time(said["StartTime"]),
        end=_time(said["EndTime"]),
        limit=length_ms(said["TimeLimit"]),
        ran=length_ms(said["TimeUsed"]),
        nodes=tuple(expand(said["NodeList"])),
        cpus=has.cpus or int(said["NumCPUs"].partition("-")[0] or 0),
        mem_mib=has.mem_mib,
        gpus=asked.gpus,
        shards=asked.shards,
        per_node=_said(said["tres-per-node"]),
        gpu_type=asked.kind,
        restarts=int(said["RestartCnt"] or 0),
        requeues=said["Requeue"] == "1",
        wanted_nodes=_said(said["ReqNodes"]),
        reservation=_said(said["Reservation"]),
        dependency=_said(said["Dependency"]),
        told=told_in(said["Comment"]),
    )


class Asked(NamedTuple):
    """The GPUs of a job."""

    gpus: int
    kind: str
    shards: int


def _said(text: str) -> str:
    return "" if text in ("(null)", "N/A") else text


@lru_cache(maxsize=REMEMBERED)
def _gpus(state: str, tres: str, per_job: str, per_node: str, nodes: str, per_task: str, tasks: str) -> Asked:
    """How many GPUs, of which type, and shards: from TRES, or where Slurm doesn't count GPUs, from the request."""
    has = resources(tres)
    asked = [
        (each.name, each.kind, each.count * int(times.partition("-")[0] or 1))
        for text, times in ((per_job, "1"), (per_node, nodes), (per_task, tasks))
        for each in gres(text)
    ]
    kinds = {kind for name, kind, _ in asked if name == "gpu"}
    shards = has.shards or sum(count for name, _, count in asked if name == "shard")
    kind = next(iter(kinds)) if state == "PENDING" and len(kinds) == 1 else has.gpu_type
    return Asked(has.gpu_count or sum(count for name, _, count in asked if name == "gpu"), kind, shards)


@lru_cache(maxsize=REMEMBERED)
def _time(text: str) -> int:
    """A time in UTC as ms since 1970; -1 where there is none."""
    if text in ("N/A", "NONE", "Unknown", "(null)", ""):
        return -1
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        raise SlurmError(f"Slurm should write times as 2026-01-31T12:00:00, got '{text}'") from None


@lru_cache(maxsize=REMEMBERED)
def length_ms(text: str) -> int:
    """``[D-]HH:MM:SS`` or ``MM:SS`` in ms; 0 for UNLIMITED, NOT_SET and the like."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", text)
    if found is None:
        return 0
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * DAY_MS + ((hours * 60 + minutes) * 60 + seconds) * 1000
