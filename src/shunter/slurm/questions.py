"""Questions about the live cluster, or a recorded one: what is needed to answer them, and which job is meant."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shunter.errors import LiveError, SlurmError, did_you_mean
from shunter.live import job_arrays, run_times, waits
from shunter.live.forecast import NEW, SAMPLES, Forecast, Outlook
from shunter.live.manager import UnreachableError
from shunter.live.run_times import RunTimes
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.surroundings import Defaults
from shunter.live.waits import Progress
from shunter.model import Trace
from shunter.report.explain import moment
from shunter.slurm import accounting, scontrol_output, site
from shunter.slurm.client import Client, user_name
from shunter.slurm.dialect import SLURM
from shunter.slurm.site import PartitionForm, Site
from shunter.slurm.tres import memory_mib
from shunter.slurm.watcher import Watcher

LISTED = 10  # jobs that a message names at most


@dataclass(frozen=True)
class AnswerSources:
    """Where answers come from; None: Slurm is asked."""

    snapshot: Path | None = None
    site: Path | None = None  # site.toml
    history: Trace | None = None  # past jobs
    remedy: str = "use --snapshot FILE"  # where Slurm does not answer

    def outlook(self, samples: int = SAMPLES, seed: int = 0, progress: Progress | None = None) -> Outlook:
        """Everything that a forecast uses; ``progress`` follows the first use of a history, which takes a while."""
        client = Client() if self.snapshot is None else None
        written = site.read(self.site) if self.site else None  # a mistake in it is reported before Slurm is asked
        present = self._present(client) if client else Snapshot.load(self.snapshot or Path(), SLURM)
        rules = (written or (live_site(client) if client else Site())).rules
        if self.history is None:
            return Outlook(present, rules, self._accounted(client), samples, seed)
        learned = waits.of_history(self.history, present.nodes, rules, progress)
        return Outlook(present, rules, run_times.of_trace(self.history), samples, seed, learned)

    def _present(self, client: Client) -> Snapshot:
        if client.path_of("squeue") is None:
            raise UnreachableError(f"Slurm can't be reached (squeue is not on the PATH); {self.remedy}")
        try:
            return Watcher(client, surroundings=True).snapshot()
        except UnreachableError as error:
            last = re.split(r"(?:error|fatal): ", str(error))[-1]  # what came of the errors before it
            raise UnreachableError(f"Slurm can't be reached ({last}); {self.remedy}") from None

    @staticmethod
    def _accounted(client: Client | None) -> RunTimes:
        try:
            return accounting.run_times(client) if client else RunTimes()
        except LiveError:
            return RunTimes()  # a site without slurmdbd, or one that does not show all jobs to all users


def live_site(client: Client) -> Site:
    """Slurm's scheduling rules, from its own output."""
    found = site.of_config(scontrol_output.settings(client.run("scontrol", "show", "config")))
    listed = scontrol_output.records(client.run("scontrol", "-o", "show", "partition"), "PartitionName")
    forms = [
        PartitionForm(
            name=each["PartitionName"],
            tier=int(each.get("PriorityTier", 1)),
            factor=1,
            max_time=each.get("MaxTime", ""),
        )
        for each in listed
    ]
    return found.model_copy(update={"partitions": forms})


def pending(snapshot: Snapshot, job_id: str) -> LiveJob:
    """The waiting job of this name; of an array, its first task that waits, or the one of this number."""
    array, _, number = job_id.partition("_")
    found = [job for job in snapshot.jobs if job_id in (job.id, job.handle) or job.id.startswith(f"{job_id}_")]
    found += [job for job in snapshot.jobs if job.is_array and job.id == array and number and _among(number, job)]
    waiting = [job for job in found if job.state == "PENDING"]
    if waiting:
        job = waiting[0]
        first = job.first_tasks(1)[0]
        later = number and job.is_array and first.id != job_id  # Slurm's own estimate is that of the first task
        return replace(job.task(int(number)), start=-1) if later else first
    if not found:
        raise SlurmError(f"there is no job {job_id} in the queue; {_own(snapshot)}")
    job = found[0]
    if not job.runs:
        raise SlurmError(f"job {job.id} does not wait: it is {job.state.lower()}")
    end = f", and ends by {moment(job.start + job.limit)} UTC at the latest" if job.limit else ", without a limit"
    raise SlurmError(f"job {job.id} does not wait: it has run since {moment(job.start)} UTC{end}")


def _among(number: str, job: LiveJob) -> bool:
    return number.isdigit() and any(int(number) in span for span in job_arrays.numbers(job.tasks))


def _own(snapshot: Snapshot) -> str:
    """The user's own waiting jobs, or how to see all."""
    user = user_name()
    mine = [job.id for job in snapshot.jobs if job.user == user and job.state == "PENDING"]
    if not mine:
        return f"user '{user}' has no job that waits; 'squeue --state=pending' lists those of all"
    more = f" and {len(mine) - LISTED} more" if len(mine) > LISTED else ""
    return f"of user '{user}' these wait: {', '.join(mine[:LISTED])}{more}"


def limit_s(time: str) -> float | None:
    """The time limit that --time sets; None: none."""
    try:
        return scontrol_output.seconds(time)
    except SlurmError as problem:
        raise SlurmError(f"--time: {problem}") from None


@dataclass(frozen=True)
class Wish:
    """A job that is not submitted yet, as its user would give it to sbatch."""

    gpus: int
    time: str
    partition: str = ""
    gpu_type: str = ""
    cpus: int = 0
    mem: str = ""
    priority: int | None = None

    def check(self) -> None:
        """Refuse what can't be parsed; this needs no cluster."""
        limit_s(self.time)
        self._own_memory()

    def _own_memory(self) -> int:
        return memory_mib(self.mem, f"--mem {self.mem}") if self.mem else 0

    def forecast(self, outlook: Outlook) -> Forecast:
        """When it would start."""
        job, filled = self.job(outlook)
        (found,) = outlook.of(job)
        if unclear := self._unclear(outlook.snapshot, job.partition):
            return replace(found, starts=(), because=(unclear, *found.because))
        return replace(found, assumptions=(*found.assumptions, *filled))

    def job(self, outlook: Outlook) -> tuple[LiveJob, list[str]]:
        """The job, submitted now, and the defaults that were filled in for it."""
        snapshot = outlook.snapshot
        known = sorted({name for node in snapshot.nodes for name in node.partitions})
        if self.partition and self.partition not in known:
            raise SlurmError(
                f"--partition {self.partition}: no node with GPUs is in it; {did_you_mean(self.partition, known)}"
            )
        types = sorted({node.gpu_type for node in snapshot.nodes if node.gpu_type})
        if self.gpu_type and self.gpu_type not in types:
            raise SlurmError(f"--gpu-type {self.gpu_type}: no node has it; {did_you_mean(self.gpu_type, types)}")
        limit = limit_s(self.time)
        partition = self.partition or _usual_partition(snapshot)
        beside, filled = self._beside(snapshot, partition)
        job = LiveJob(
            id=NEW,
            handle=NEW,
            state="PENDING",
            reason="Priority",
            user=user_name(),
            partition=partition,
            submit=snapshot.now,
            eligible=snapshot.now,
            limit=round(1000 * (limit or 0)),
            gpus=self.gpus,
            gpu_type=self.gpu_type,
            **beside,
        )
        _check_limit(outlook, job.partition, self.time)
        least, said = _fresh_priority(outlook, job) if self.priority is None else (self.priority, [])
        most = max((node.gpus for node in snapshot.nodes if partition in node.partitions), default=0)
        if 1 < self.gpus <= most:
            filled.append(f"its GPUs are on one node, as with --gres=gpu:{self.gpus}")
        filled = filled if self.partition else [*filled, f"it goes to partition {job.partition}, as most jobs do"]
        return replace(job, priority=least), [*filled, *said]

    def _beside(self, snapshot: Snapshot, partition: str) -> tuple[dict[str, Any], list[str]]:
        """Its CPUs and memory, and what of them is Slurm's default."""
        own = self._own_memory()
        known = _defaults(snapshot, partition)
        if known is None:
            return {"cpus": self.cpus, "mem_mib": own}, []
        cpus = known.cpus(self.cpus, self.gpus)
        if self.mem:
            return {"cpus": cpus, "mem_mib": own}, []
        if known.all_memory:
            some = next((node.mem_mib for node in snapshot.nodes if partition in node.partitions), 1)
            whole = {"cpus": cpus, "mem_mib": some, "all_memory": True}
            return whole, [f"it gets all memory of its nodes, the default of partition {partition}; see --mem"]
        most = max((node.gpus for node in snapshot.nodes if partition in node.partitions), default=1)
        mem_mib = known.mem_mib(self.gpus, cpus, -(-self.gpus // most))
        said = [f"it gets {mem_mib:,} MiB of memory, the default of partition {partition}"] if mem_mib else []
        return {"cpus": cpus, "mem_mib": mem_mib}, said

    def _unclear(self, snapshot: Snapshot, partition: str) -> str:
        """Why no start can be forecast for it, as the second half of "can't tell, because ..."; "": it can."""
        if (self.cpus and self.mem) or _defaults(snapshot, partition):
            return ""
        return f"the default CPUs and memory of partition {partition} are not recorded here; set --cpus and --mem"


def _defaults(snapshot: Snapshot, partition: str) -> Defaults | None:
    return next((each for each in snapshot.defaults if each.partition == partition), None)


def _check_limit(outlook: Outlook, partition: str, time: str) -> None:
    """Refuse a limit with which Slurm would never start the job."""
    most = outlook.rules.limits.get(partition, "")
    longest, wanted = scontrol_output.seconds(most), scontrol_output.seconds(time)
    if longest is not None and (wanted is None or wanted > longest):
        raise SlurmError(f"--time {time} is above the limit of partition {partition} ({most}); ask for less")


def _usual_partition(snapshot: Snapshot) -> str:
    counted = Counter(job.partition.partition(",")[0] for job in snapshot.jobs if job.gpus + job.shards)
    counted.update(dict.fromkeys((name for node in snapshot.nodes for name in node.partitions[:1]), 0))
    return counted.most_common(1)[0][0]


def _fresh_priority(outlook: Outlook, job: LiveJob) -> tuple[int, list[str]]:
    """Below all that wait in its tier: it has not aged."""
    line = outlook.line
    waiting = [each for each in line.queue(job) if each.id != NEW and line.tier(each) == line.tier(job)]
    if not waiting:
        return 1, []
    return min(each.priority for each in waiting) - 1, [
        "it starts at the end of the queue, since it has not aged; change that with --priority"
    ]
