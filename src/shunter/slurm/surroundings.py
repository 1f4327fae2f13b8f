"""What else decides where and when jobs run: reservations, licences, and what Slurm hides from this user."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from shunter.errors import SlurmError
from shunter.live.surroundings import Defaults, Licence, Preemption, Reservation
from shunter.slurm.hostlist import expand
from shunter.slurm.scontrol_output import records, time_ms

UNLIMITED = "UNLIMITED"


def preemption(settings: Mapping[str, str], qos: Callable[[], str]) -> Preemption:
    """Which jobs may stop which others; ``qos`` prints the QOS by ``sacctmgr -n -P show qos format=name,preempt``."""
    kind = settings.get("preempttype", "").lower()
    if kind == "preempt/partition_prio":
        return Preemption("partition")
    if kind != "preempt/qos":
        return Preemption()
    rows = (line.split("|") for line in qos().splitlines() if "|" in line)
    return Preemption("qos", {name: tuple(filter(None, weaker.split(","))) for name, weaker, *_ in rows})


def counts_memory(config: Mapping[str, str]) -> bool:
    """Whether jobs take memory from their nodes."""
    return "memory" in config.get("selecttypeparameters", "").lower()


def defaults(config: Mapping[str, str], partitions: Sequence[Mapping[str, str]]) -> Iterator[Defaults]:
    """The defaults of each partition, as scontrol shows it; they go before those of the cluster."""
    for each in partitions:
        said = {key.lower(): value for key, value in each.items()}
        per_gpu = _pairs(config.get("jobdefaults", "")) | _pairs(said.get("jobdefaults", ""))
        own = said if said.get("defmempernode", "") != UNLIMITED else config
        memory = counts_memory(config)
        found = Defaults(
            each["PartitionName"],
            per_gpu.get("defcpupergpu", 0),
            per_gpu.get("defmempergpu", 0) if memory else 0,
            _amount(own.get("defmempercpu", "")) if memory else 0,
            _amount(own.get("defmempernode", "")) if memory else 0,
        )
        none = memory and not found.mem_per_gpu and own.get("defmempernode", UNLIMITED) == UNLIMITED
        yield replace(found, all_memory=none and "defmempercpu" not in own)


def _pairs(text: str) -> dict[str, int]:
    """``DefCpuPerGPU=2,DefMemPerGPU=3000`` as numbers."""
    pairs = (item.partition("=") for item in text.split(",") if "=" in item)
    return {name.strip().lower(): _amount(value) for name, _, value in pairs}


def _amount(text: str) -> int:
    return int(text) if text.isdigit() else 0


def is_sign(record: dict[str, str]) -> bool:
    """Whether a reservation is the sign of a controller (see ``presence``): named like one, without nodes."""
    return bool(re.fullmatch(r"shunter_[0-9a-f]{8}", record["ReservationName"])) and record.get("NodeCnt") == "0"


def reservations(text: str) -> list[Reservation]:
    """The reservations in what ``scontrol -o show reservations`` printed."""
    return [_reservation(record) for record in records(text, "ReservationName") if not is_sign(record)]


def _reservation(record: dict[str, str]) -> Reservation:
    nodes = tuple(expand(record.get("Nodes", "")))
    cores = any(key.startswith("NodeName") for key in record)  # lists of cores follow where it has not whole nodes
    return Reservation(
        record["ReservationName"],
        time_ms(record["StartTime"]),
        time_ms(record["EndTime"]),
        nodes,
        tuple(filter(None, record.get("Flags", "").split(","))),
        partial=cores or not nodes,
    )


def licences(text: str) -> list[Licence]:
    """The licences in what ``scontrol -o show licenses`` printed."""
    try:
        return [
            Licence(each["LicenseName"], int(each.get("Total", 0)), int(each.get("Free", 0)))
            for each in records(text, "LicenseName")
        ]
    except ValueError as error:
        raise SlurmError(f"scontrol show licenses must print whole numbers: {error}") from None


def requested_licences(text: str) -> dict[str, int]:
    """``matlab:2,comsol`` as numbers by name; ``matlab@server:2`` keeps its server."""
    found: dict[str, int] = {}
    for item in filter(None, text.replace("|", ",").split(",")):
        name, _, count = item.replace("=", ":").partition(":")
        found[name] = found.get(name, 0) + (int(count) if count.isdigit() else 1)
    return found


def hidden(settings: Mapping[str, str], user: str) -> tuple[str, ...]:
    """The kinds of things (PrivateData) that Slurm shows this user only in part, unless he is an operator."""
    private: Sequence[str] = settings.get("privatedata", "none").lower().split(",")
    owner = settings.get("slurmuser", "").partition("(")[0]
    return () if user in ("root", owner) else tuple(each for each in private if each not in ("none", ""))
