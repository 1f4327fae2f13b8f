"""What Slurm's reasons for a pending job mean: in plain words, what can be done, and whether time alone will do.

Slurm's own list: slurm.schedmd.com/job_reason_codes.html.
"""

from __future__ import annotations

import re

from shunter.live.snapshot import LiveJob
from shunter.live.wait_causes import Kind, Meaning

T, B, D, L, C, H, N = Kind
MAINTENANCE = "Reserved for maintenance"  # said of reservations with the flag MAINT
ADMIN = "ask an administrator"
NODES_AWAY = "nodes that it needs are down, drained, or kept for partitions of higher tier"
LOOK_AT_NODES = "'sinfo -R' says why nodes are away; with fewer or other nodes it may start earlier"
ARGUMENT = "correct the request (scontrol update, or submit it again)"
MEANINGS = {
    "": Meaning(T, "Slurm has not looked at it yet", "wait a moment"),
    "None": Meaning(T, "Slurm has not looked at it yet", "wait a moment"),
    "Priority": Meaning(T, "jobs of higher priority are before it"),
    "Resources": Meaning(T, "it is among the first in line, and what it needs is not free"),
    "Reservation": Meaning(B, "its reservation has not begun", "'scontrol show reservation' says when it does"),
    "ReservationDeleted": Meaning(N, "its reservation is gone", "scontrol update jobid=ID reservation="),
    "BeginTime": Meaning(B, "its begin time has not come", "scontrol update jobid=ID starttime=now"),
    "Dependency": Meaning(D, "it depends on jobs that have not ended"),
    "DependencyNeverSatisfied": Meaning(
        N,
        "a job that it comes after failed, and it was to succeed",
        "cancel it, or scontrol update jobid=ID dependency=",
    ),
    "JobHeldUser": Meaning(H, "its user holds it", "scontrol release ID"),
    "JobHeldAdmin": Meaning(H, "an administrator holds it", f"{ADMIN} to release it"),
    "JobHoldMaxRequeue": Meaning(
        H, "it was put back into the queue too often", "scontrol release ID, once the cause is fixed"
    ),
    "JobArrayTaskLimit": Meaning(
        L,
        "its array already runs as many tasks as its throttle allows",
        "scontrol update jobid=ID arraytaskthrottle=N",
        cause="array",
    ),
    "Licenses": Meaning(L, "licences that it asks for are in use", cause="licences"),
    "ReqNodeNotAvail": Meaning(C, "nodes that it asks for are not available now", LOOK_AT_NODES),
    "Nodes required for job are DOWN": Meaning(C, NODES_AWAY, LOOK_AT_NODES),
    "NodeDown": Meaning(C, "a node that it needs is down", LOOK_AT_NODES),
    "PartitionDown": Meaning(C, "its partition is down: jobs wait, none is started", ADMIN),
    "PartitionInactive": Meaning(C, "its partition is inactive", ADMIN),
    "PartitionNodeLimit": Meaning(
        N, "it asks for more or fewer nodes than its partition allows, or nodes there are down", ARGUMENT
    ),
    "PartitionTimeLimit": Meaning(
        N, "its time limit is above that of its partition", "scontrol update jobid=ID timelimit=..."
    ),
    "AccountNotAllowed": Meaning(N, "its account may not use this partition", ARGUMENT),
    "QOSNotAllowed": Meaning(N, "its QOS may not be used with this partition or association", ARGUMENT),
    "InvalidAccount": Meaning(N, "its account is not known", ARGUMENT),
    "InvalidQOS": Meaning(N, "its QOS is not known", ARGUMENT),
    "BadConstraints": Meaning(N, "no node has what it asks for, all together", ARGUMENT),
    "DeadLine": Meaning(N, "its deadline can't be kept", ARGUMENT),
    "FrontEndDown": Meaning(C, "no front end is available", ADMIN),
    "BurstBufferResources": Meaning(C, "the burst buffer has too little room now"),
    "BurstBufferStageIn": Meaning(T, "its files are being staged in"),
    "Cleaning": Meaning(T, "it ran before, and is being cleaned up"),
    "Prolog": Meaning(T, "its prolog is running"),
    "SchedDefer": Meaning(T, "Slurm puts off scheduling for a moment", "wait a moment"),
    "Reboot": Meaning(T, "nodes that it was given are being restarted"),
    "launch failed requeued held": Meaning(H, "it could not be launched, and was held", "scontrol release ID"),
    "job requeued in held state": Meaning(H, "it was put back into the queue and held", "scontrol release ID"),
}
LIMIT = re.compile(r"(Assoc|QOS)(Grp|Max)?(.*?)(PerJob|PerUser|PerAccount|PerNode)?(?:Limit)?")
WHOSE = {"Assoc": "its association (user and account)", "QOS": "its QOS"}
WHAT = {
    "Billing": "billing", "BB": "burst buffers", "Cpu": "CPUs", "CPU": "CPUs", "GRES": "GPUs or other GRES",
    "Mem": "memory", "Memory": "memory", "Node": "nodes", "Energy": "energy", "License": "licences", "Jobs": "jobs",
    "SubmitJobs": "submitted jobs", "Wall": "time", "WallDuration": "time", "Unk": "a resource",
    "UnknownTRES": "a resource", "Time": "time", "Resource": "resources",
}  # fmt: skip


def meaning(job: LiveJob) -> Meaning:
    """What a pending job's reason means; an unknown one is shown as it is."""
    said = job.reason.strip("()").partition(",")[0].replace("_", " ").strip()
    if said in MEANINGS:
        found = MEANINGS[said]
    elif match := LIMIT.fullmatch(said):
        found = _limit(*match.groups())
    else:
        found = Meaning(C, f"Slurm says '{job.reason}'")
    cause = "maintenance" if MAINTENANCE in job.reason else found.cause
    return found._replace(remedy=found.remedy.replace("ID", job.handle), cause=cause)


def _limit(whose: str, group: str | None, what: str, per: str | None) -> Meaning:
    """``QOSMaxGRESPerUser`` and its like, of which there are a hundred."""
    minutes = next((end for end in ("RunMinutes", "Minutes") if what.endswith(end)), "")
    name = what.removesuffix(minutes).removesuffix("Mins")
    resource = WHAT.get(name, name or "resources") + (" x time" if minutes else "")
    per_what = {"PerUser": " per user", "PerAccount": " per account", "PerNode": " per node", "PerJob": " per job"}
    limit = f"the limit of {WHOSE[whose]} on {resource}{per_what.get(per or '', '')}"
    if per in ("PerJob", "PerNode"):
        return Meaning(N, f"it asks for more than {limit}", f"ask for less, or {ADMIN}")
    return Meaning(
        L, f"{limit} is reached{' by all together' if group == 'Grp' else ''}", "wait until jobs of yours end"
    )


def parents(job: LiveJob) -> list[str]:
    """The jobs that must end before this one: ``afterok:12(unfulfilled),afterany:13_*(unfulfilled)`` gives 12, 13."""
    pieces = re.split(r"[,?]", job.dependency)
    named = [piece.partition(":")[2] for piece in pieces if not piece.startswith(("singleton", "after:"))]
    return [
        re.sub(r"_\*$", "", each.partition("(")[0].partition("+")[0])
        for text in named
        for each in text.split(":")
        if each
    ]
