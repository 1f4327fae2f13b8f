"""The configuration of a Slurm cluster of virtual nodes on one machine."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SLURM = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/pids/slurmctld.pid
SlurmdPidFile={folder}/pids/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,bf_window=1440,sched_interval=1,sched_min_interval=100000,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/multifactor
PriorityWeightJobSize=1000
PreemptMode=SUSPEND,GANG
PreemptType=preempt/partition_prio
PreemptExemptTime=0
GresTypes=gpu
KillWait=2
MinJobAge=300
InactiveLimit=0
SlurmctldTimeout=60
SlurmdTimeout=60
WaitTime=0
JobRequeue=1
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
"""

# Age and fair share count only where slurmdbd keeps the accounts.
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={dbd_port}
AccountingStoragePass={folder}/munge/sock
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=0
PriorityWeightAge=1000
PriorityMaxAge=0-1
"""

SLURMDBD = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=root
PidFile={folder}/pids/slurmdbd.pid
LogFile={folder}/log/slurmdbd.log
DebugLevel=info
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql_port}
StorageUser=slurm
StoragePass=lab
StorageLoc=slurm
"""

MARIADB = """\
[mysqld]
datadir={folder}/db/data
socket={folder}/db/sock
pid-file={folder}/db/pid
log-error={folder}/db/log
bind-address=127.0.0.1
port={sql_port}
user=mysql
innodb_buffer_pool_size=64M
innodb_log_file_size=16M
innodb_flush_log_at_trx_commit=0
innodb_lock_wait_timeout=900
"""

NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Sockets=1 CoresPerSocket={cpus}"
    " ThreadsPerCore=1 RealMemory={mem_mib}{gres} Feature={kind} State=UNKNOWN"
)
PARTITION = "PartitionName={name} Nodes=ALL MaxTime=1-0 DefaultTime=10 State=UP{memory} {settings}"
PARTITIONS = {
    "main": "Default=YES PriorityTier=1 OverSubscribe=NO PreemptMode=REQUEUE",
    "share": "PriorityTier=1 OverSubscribe=FORCE:2",
    "urgent": "PriorityTier=10 OverSubscribe=NO",
}
FOLDERS = ("etc", "state", "log", "dev", "pids", "munge", "spool", "db")


@dataclass(frozen=True)
class LabNodes:
    """Virtual nodes that are alike; they are called ``kind-1``, ``kind-2`` and so on."""

    kind: str
    count: int
    gpus: int
    cpus: int = 16
    mem_mib: int = 64000
    shards: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """What the nodes are called."""
        return tuple(f"{self.kind}-{number}" for number in range(1, self.count + 1))

    @property
    def gres(self) -> str:
        """What each of them has, as slurm.conf says it."""
        shards = f",shard:{self.shards}" if self.shards else ""
        return f" Gres=gpu:{self.kind}:{self.gpus}{shards}" if self.gpus else ""


@dataclass(frozen=True)
class Ports:
    """Where the daemons of a lab listen."""

    controller: int
    accounting: int
    sql: int
    nodes: tuple[int, ...]


def write(
    folder: Path,
    nodes: Sequence[LabNodes],
    ports: Ports,
    database: bool,
    settings: Mapping[str, str],
    partitions: Mapping[str, str],
) -> None:
    """Write all files of a lab below its folder; keys are made once."""
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True, mode=0o755)
    _secret(folder / "munge" / "key")
    _devices(folder / "dev", max((group.gpus for group in nodes), default=0))
    known = {"folder": folder, "host": host(), "port": ports.controller}
    known |= {"dbd_port": ports.accounting, "sql_port": ports.sql}
    lines = _pairs(SLURM.format(**known))
    if database:
        lines |= _pairs(ACCOUNTING.format(**known))
        lines["AccountingStorageTRES"] = ",".join(("gres/gpu", *(f"gres/gpu:{n.kind}" for n in nodes if n.gpus)))
        (folder / "db" / "my.cnf").write_text(MARIADB.format(**known))
        dbd = folder / "etc" / "slurmdbd.conf"
        dbd.write_text(SLURMDBD.format(**known))
        dbd.chmod(0o600)
    if any(group.shards for group in nodes):
        lines["GresTypes"] = "gpu,shard"
    lines |= settings
    text = [f"{key}={value}" for key, value in lines.items()]
    text += _node_lines(folder, nodes, ports)
    text += [PARTITION.format(name=name, memory=_memory(more), settings=more) for name, more in partitions.items()]
    (folder / "etc" / "slurm.conf").write_text("\n".join(text) + "\n")
    (folder / "etc" / "gres.conf").write_text("\n".join(("AutoDetect=off", *_gres_lines(folder, nodes))) + "\n")


def _memory(settings: str) -> str:
    """What jobs of a partition get that don't ask for memory, unless its own settings say so."""
    return "" if "DefMem" in settings else " DefMemPerCPU=100"


def host() -> str:
    """What Slurm calls this machine."""
    return socket.gethostname().partition(".")[0]


def _pairs(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (line.partition("=") for line in text.splitlines())}


def _secret(file: Path) -> None:
    if not file.exists():
        file.touch(mode=0o600)
        file.write_bytes(secrets.token_bytes(128))


def _devices(folder: Path, count: int) -> None:
    """GPUs that are copies of /dev/null: for plain files Slurm would not set CUDA_VISIBLE_DEVICES."""
    for number in range(count):
        device = folder / f"gpu{number}"
        if not device.exists():
            os.mknod(device, 0o020666, os.makedev(1, 3))


def _node_lines(folder: Path, nodes: Sequence[LabNodes], ports: Ports) -> Iterator[str]:
    free = iter(ports.nodes)
    for group in nodes:
        for name in group.names:
            (folder / "spool" / name).mkdir(exist_ok=True)
            more = {"name": name, "host": host(), "port": next(free), "gres": group.gres}
            yield NODE.format(cpus=group.cpus, mem_mib=group.mem_mib, kind=group.kind, **more)


def _gres_lines(folder: Path, nodes: Sequence[LabNodes]) -> Iterator[str]:
    for group in nodes:
        device = f"{folder}/dev/gpu" + ("0" if group.gpus == 1 else f"[0-{group.gpus - 1}]")
        for name in group.names if group.gpus else ():
            yield f"NodeName={name} Name=gpu Type={group.kind} File={device}"
            if group.shards:
                yield f"NodeName={name} Name=shard Count={group.shards}"
