"""How squeue lists jobs: in explicit text formats, which are the same in all releases, or in JSON.

Both become the same fields, which are read in one way.  Names and comments are hostile input: in text, fields are
divided by a mark drawn for every call and hidden from other users, so that no job can pretend to be two.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shunter.errors import SlurmError
from shunter.live import job_arrays
from shunter.live.snapshot import LiveJob
from shunter.slurm.comments import hints_in
from shunter.slurm.hostlist import expand
from shunter.slurm.marks import marks_in
from shunter.slurm.scontrol_output import length_ms, time_ms
from shunter.slurm.tres import MOST, requested_gpus, resources
from shunter.slurm_json import plain

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
    "Deadline",
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
    "cpus-per-tres",
    "mem-per-tres",
    "MinMemory",
    "Requeue",
    "Feature",
    "Licenses",
    "OverSubscribe",
    "Contiguous",
    "Name",
    "Comment",
    "admin_comment",
]
EXCLUDED, MOST_NODES, MEM_PER_CPU = "ExcNodes", "MostNodes", "MemPerCPU"  # --format has the first, only JSON the others
RECORD_FIELDS = [*JOB_FIELDS, EXCLUDED, MOST_NODES, MEM_PER_CPU]
FIELD, RECORD = ";", "."  # what follows the mark behind a field, and behind the last one of a record
WRAP = 2**32  # 22.05 writes a nice below 0 as an unsigned number
FLAGS = ("COMPLETING", "REVOKED", "REQUEUE_HOLD", "SPECIAL_EXIT", "STOPPED")  # of several states what text would say
PLAIN = {  # our field: JSON's
    "JobID": "job_id",
    "UserName": "user_name",
    "Account": "account",
    "Partition": "partition",
    "QOS": "qos",
    "PriorityLong": "priority",
    "SubmitTime": "submit_time",
    "EligibleTime": "eligible_time",
    "StartTime": "start_time",
    "EndTime": "end_time",
    "NumNodes": "node_count",
    "NodeList": "nodes",
    "NumCPUs": "cpus",
    "NumTasks": "tasks",
    "RestartCnt": "restart_cnt",
    "ReqNodes": "required_nodes",
    "Reservation": "resv_name",
    "Dependency": "dependency",
    "tres-per-job": "tres_per_job",
    "tres-per-node": "tres_per_node",
    "tres-per-task": "tres_per_task",
    "tres-per-socket": "tres_per_socket",
    "cpus-per-tres": "cpus_per_tres",
    "mem-per-tres": "memory_per_tres",
    "Feature": "features",
    "Licenses": "licenses",
    "Name": "name",
    "Comment": "comment",
    "admin_comment": "admin_comment",
}
NEEDED = {*PLAIN.values(), "job_state", "state_reason", "array_job_id", "array_task_id", "array_task_string"} | {
    *("het_job_id", "nice", "time_limit", "tres_alloc_str", "tres_req_str", "requeue", "suspend_time", "pre_sus_time"),
    *("shared", "contiguous", "excluded_nodes", "max_nodes", "memory_per_cpu", "memory_per_node"),
}
OVERSUBSCRIBE = {"none": "NO", "user": "USER", "mcs": "MCS", "shared": "YES", "oversubscribe": "YES"}  # JSON's: text's
PER_GPU = re.compile(r"(?:gres[:/])?gpu(?::\w+)?[:=]\d+")
NO_MEMORY = re.compile(r"0[KMGTP]?")  # asked for: it gets all
ARRAY = re.compile(r"(\d+)_\[([^\]%]*)(?:%(\d+))?\]")
EXCLUSIVE = {"NO": "node", "USER": "user", "MCS": "mcs", "TOPO": "topology", "OK": "", "YES": "", "N/A": ""}


# ------------------------------------------------------------------------------------------- text


def new_mark() -> str:
    """What no job can have guessed; not a digit first, which would be the width of a field."""
    return f";{secrets.token_hex(6)}"


def text_format(fields: Iterable[str], mark: str) -> str:
    """Every field of its full length, each followed by the mark."""
    *others, last = fields
    return ",".join([*(f"{name}:{mark}{FIELD}" for name in others), f"{last}:{mark}{RECORD}"])


def text_records(text: str, mark: str) -> list[list[str]]:
    """The fields of each record."""
    return [record.split(mark + FIELD) for record in text.split(f"{mark}{RECORD}\n")[:-1]]


# ------------------------------------------------------------------------------------------- JSON


def json_record(job: Mapping[str, Any], now: int) -> list[str]:
    """The same fields of a job in JSON, as releases 21.08 to 25.11 write it.

    Numbers may be ``{"set", "infinite", "number"}``, states are words or lists; how long a job has run is not said.
    A missing field must not pass for the default: not to be touched, held, of another user.
    """
    if missing := sorted(key for key in NEEDED if key not in job):
        raise SlurmError(f"the JSON of job {job.get('job_id')} lacks {', '.join(missing)}")
    said = {field: _text(job.get(name)) for field, name in PLAIN.items()}
    said["UserName"] = said["UserName"] or _text(job.get("user_id"))  # an account without a name, as text has it
    if not said["UserName"]:
        raise SlurmError(f"the JSON of job {job['job_id']} does not name its user")
    states = job.get("job_state") or ""
    states = states if isinstance(states, list) else [states]
    nice = int(plain(job.get("nice")) or 0)
    said |= {
        "JobArrayID": _array_id(job),
        "HetJobID": _text(job.get("het_job_id")),
        "State": next((flag for flag in FLAGS if flag in states), str(states[0])),
        "Reason": str(job.get("state_description") or job.get("state_reason") or ""),
        "Nice": str(nice - WRAP if nice >= WRAP // 2 else nice),
        "Deadline": _text(job.get("deadline")),
        "TimeLimit": f"{_number(job, 'time_limit')}:00",
        "tres-alloc": str(job.get("tres_alloc_str") or job.get("tres_req_str") or ""),
        "Requeue": str(int(bool(job.get("requeue")))),
        "OverSubscribe": _oversubscribe(job["shared"]),
        "Contiguous": str(int(bool(job["contiguous"]))),
        EXCLUDED: _text(job["excluded_nodes"]),
        MOST_NODES: str(_number(job, "max_nodes")),
        MEM_PER_CPU: str(_number(job, "memory_per_cpu")),
        "MinMemory": str(_number(job, "memory_per_cpu") or _number(job, "memory_per_node")),
    }
    said["TimeUsed"] = f"0:{_ran_s(job, said['State'], now // 1000)}"
    return [said[field] for field in RECORD_FIELDS]


def _array_id(job: Mapping[str, Any]) -> str:
    """As squeue writes it: ``12``, ``12_3``, or ``12_[5-9%2]`` for all that still wait."""
    array, task = _number(job, "array_job_id"), plain(job.get("array_task_id"))
    if array and task is not None:
        return f"{array}_{task}"
    tasks = str(job.get("array_task_string") or "")
    if array and tasks.isdigit():
        return f"{array}_{tasks}"
    return f"{array}_[{tasks}]" if array and tasks else _text(job.get("job_id"))


def _oversubscribe(shared: Any) -> str:
    """As squeue writes it; JSON has a word, a list of words, or nothing."""
    words = shared if isinstance(shared, list) else [shared] if shared else []
    return next((OVERSUBSCRIBE.get(str(word), str(word).upper()) for word in words), "OK")


def _ran_s(job: Mapping[str, Any], state: str, now: int) -> int:
    """Seconds for which a job runs, without those in which it was suspended; 0 if it does not."""
    before, suspended, start = (_number(job, key) for key in ("pre_sus_time", "suspend_time", "start_time"))
    if state == "PENDING" or not start:
        return 0
    if state == "SUSPENDED":
        return before
    end = _number(job, "end_time")
    until = min(now, end) if end else now
    return max(before + until - suspended if suspended else until - start, 0)


def _number(job: Mapping[str, Any], key: str) -> int:
    return int(plain(job.get(key)) or 0)


def _text(value: Any) -> str:
    found = plain(value)
    return "" if found is None else str(found)


# ------------------------------------------------------------------------------------------- reading


def job_of(values: Sequence[str]) -> LiveJob:
    """The job of one record; all waiting tasks of an array are one."""
    if len(values) != len(RECORD_FIELDS):
        raise SlurmError(f"squeue should print {len(JOB_FIELDS)} fields per job, got {len(values) - 3}: {values[:2]}")
    said = dict(zip(RECORD_FIELDS, map(str.strip, values), strict=True))
    said["admin_comment"] = values[JOB_FIELDS.index("admin_comment")]  # the site's text must stay as it is
    job = _job(said)
    array = ARRAY.fullmatch(said["JobArrayID"])
    if array is None:
        return job
    waiting = job_arrays.numbers(array[2])
    if job_arrays.count(waiting) == 1:
        alone = f"{array[1]}_{waiting[0][0]}"
        return replace(job, id=alone, handle=alone)
    return replace(job, id=array[1], handle=array[1], tasks=array[2], throttle=int(array[3] or 0))


def _job(said: Mapping[str, str]) -> LiveJob:
    asked = requested_gpus(
        said["State"],
        said["tres-alloc"],
        *(said[name] for name in ("tres-per-job", "tres-per-node", "NumNodes", "tres-per-task", "NumTasks")),
    )
    task = re.fullmatch(r"\d+_\d+", said["JobArrayID"])
    parts = said["HetJobID"] if said["HetJobID"] not in ("0", "", "N/A") else ""
    return LiveJob(
        id=said["JobArrayID"] if not parts else said["JobID"],
        handle=parts or (task[0] if task else said["JobID"]),  # the last task of an array has the array's number
        state=said["State"],
        reason=said["Reason"] if said["Reason"] != "(null)" else "",
        user=said["UserName"],
        account=_text_or_empty(said["Account"]),
        partition=said["Partition"],
        qos=_text_or_empty(said["QOS"]),
        name=said["Name"],
        priority=int(said["PriorityLong"]),
        nice=int(said["Nice"]),
        submit=time_ms(said["SubmitTime"]),
        eligible=time_ms(said["EligibleTime"]),
        start=time_ms(said["StartTime"]),
        end=time_ms(said["EndTime"]),
        deadline=time_ms(said["Deadline"]),
        limit=length_ms(said["TimeLimit"]),
        ran=length_ms(said["TimeUsed"]),
        nodes=tuple(expand(said["NodeList"])),
        **_cpus_and_memory(said, asked.gpus),
        gpus=asked.gpus,
        shards=asked.shards,
        per_node=_text_or_empty(said["tres-per-node"]),
        per_job=_text_or_empty(said["tres-per-job"]),
        per_task=_text_or_empty(said["tres-per-task"]),
        processes=_processes(said["NumTasks"]),
        gpu_type=asked.kind,
        restarts=int(said["RestartCnt"] or 0),
        requeues=said["Requeue"] == "1",
        wanted_nodes=_text_or_empty(said["ReqNodes"]),
        reservation=_text_or_empty(said["Reservation"]),
        features=_text_or_empty(said["Feature"]),
        licenses=_text_or_empty(said["Licenses"]),
        excluded=said[EXCLUDED] if said["State"] == "PENDING" else "",
        exclusive=EXCLUSIVE.get(said["OverSubscribe"], said["OverSubscribe"].lower()),
        min_nodes=max(int(said["NumNodes"].partition("-")[0] or 1), 1),
        max_nodes=int(said[MOST_NODES] or -1),
        contiguous=said["Contiguous"] == "1",
        dependency=_text_or_empty(said["Dependency"]),
        hints=hints_in(said["Comment"]),
        annotation=_text_or_empty(said["admin_comment"]),
        marks=tuple(marks_in(_text_or_empty(said["admin_comment"])).values()),
        number=said["JobID"],
    )


def _cpus_and_memory(said: Mapping[str, str], gpus: int) -> dict[str, Any]:
    """What a job takes beside its GPUs; the TRES of a waiting job leave out what it takes for each GPU."""
    has = resources(said["tres-alloc"])
    cpus = has.cpus or int(said["NumCPUs"].partition("-")[0] or 0)
    if said["State"] != "PENDING":
        return {"cpus": cpus, "mem_mib": has.mem_mib}
    each_cpus, each_mem = (int(_per_gpu(said[name])) for name in ("cpus-per-tres", "mem-per-tres"))
    taken = min(max(cpus, each_cpus * gpus), MOST)
    if each_mem:
        return {"cpus": taken, "mem_mib": min(each_mem * gpus, MOST)}
    grows = taken > cpus and said[MEM_PER_CPU] not in ("", "0")
    return {
        "cpus": taken,
        "mem_mib": min(has.mem_mib * taken // max(cpus, 1), MOST) if grows else has.mem_mib,
        "all_memory": bool(has.mem_mib) and NO_MEMORY.fullmatch(said["MinMemory"]) is not None,
        "mem_unclear": taken > cpus and not said[MEM_PER_CPU],
    }


def _per_gpu(text: str) -> str:
    """``gres:gpu:3``, or as a partition's default ``gpu:3``: the number for each GPU; "0": there is none."""
    return next((each.rpartition(":")[2] for each in text.split(",") if PER_GPU.fullmatch(each)), "0")


def _processes(text: str) -> int:
    """The number of processes; 22.05 writes a huge number if none was requested."""
    number = int(text.partition("-")[0] or 1)
    return number if 0 < number < WRAP // 2 else 1


def _text_or_empty(text: str) -> str:
    return "" if text in ("(null)", "N/A") else text
