"""The settings with which a site's Slurm schedules, kept as ``site.toml``, and the policy that models it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from shunter.errors import SlurmError
from shunter.live.rules import Rules
from shunter.safe_files import text_of
from shunter.slurm.scontrol_output import seconds
from shunter.texts import toml_text
from shunter.toml_forms import Amount, Form, filled

DAY = 86_400.0
LONGEST = 365 * DAY  # a half-life above that is as good as none
DEEPEST = 50  # jobs that the model keeps places for: more take long to plan and change little
SETTINGS = {  # the form's field: the setting of slurm.conf
    "age": "PriorityWeightAge",
    "fairshare": "PriorityWeightFairShare",
    "size": "PriorityWeightJobSize",
    "partition": "PriorityWeightPartition",
    "qos": "PriorityWeightQOS",
    "assoc": "PriorityWeightAssoc",
}
PERIOD = 300.0  # seconds; what Slurm takes where PriorityCalcPeriod is not set
GPU_WEIGHT = re.compile(r"((?:^|,)\s*gres/gpu=)([0-9.]+)", re.IGNORECASE)
BILLED = re.compile(r"(?:^|,)\s*(cpu|mem|gres/gpu)=([0-9.]+)([KMGTP]?)", re.IGNORECASE)
PER_GIB = {"K": 2.0**20, "": 1024.0, "M": 1024.0, "G": 1.0, "T": 2.0**-10, "P": 2.0**-20}
CLASSIC = ("NO_FAIR_TREE", "DEPTH_OBLIVIOUS")  # flags under which fair share is not Fair Tree's
UNMODELLED_FLAGS = ("SMALL_RELATIVE_TO_TIME", "MAX_TRES", "DEPTH_OBLIVIOUS", "ACCRUE_ALWAYS")


class PriorityForm(Form):
    """``[priority]``: weights and scales of the priority plug-in."""

    type: str = "priority/multifactor"
    age: Amount = 0
    fairshare: Amount = 0
    size: Amount = 0
    partition: Amount = 0
    qos: Amount = 0
    assoc: Amount = 0
    tres: str = ""  # PriorityWeightTRES as it is
    max_age_s: Amount = 7 * DAY
    half_life_s: Amount = 7 * DAY
    period_s: Amount = PERIOD
    favor_small: bool = False
    size_by: str = "cpus"
    billing: str = ""  # TRESBillingWeights as they are, which Slurm has for each partition; "": CPUs
    reset: str = ""  # PriorityUsageResetPeriod
    enforce: str = "limits"  # AccountingStorageEnforce
    flags: str = ""

    @property
    def gpu(self) -> float:
        """The weight of GPUs among those of the resources."""
        found = GPU_WEIGHT.search(self.tres)
        return float(found[2]) if found else 0.0

    def without_gpu(self) -> str:
        """The weights of the resources if GPUs had none."""
        return GPU_WEIGHT.sub(r"\g<1>0", self.tres)

    @property
    def fair_tree(self) -> bool:
        """Whether fair share is by rank."""
        return self.period_s > 0 and not set(CLASSIC) & set(self.flags.upper().split(","))

    @property
    def billed(self) -> dict[str, float]:
        """What counts as usage, in multifactor's words."""
        found = {"gpu": 0.0, "cpu": 0.0 if self.billing else 1.0, "mem": 0.0}
        for what, amount, unit in BILLED.findall(self.billing):
            per = PER_GIB[unit.upper()] if what.lower() == "mem" else 1.0
            found[what.lower().removeprefix("gres/")] = float(amount) * per
        return {f"bill_{name}": amount for name, amount in found.items() if amount != (name == "gpu")}


class SchedulerForm(Form):
    """``[scheduler]``: whether later jobs may go first."""

    type: str = "sched/backfill"
    parameters: str = ""


class PartitionForm(Form):
    """``[[partitions]]``: a queue, the virtual cluster that stands for its nodes, and how it ranks."""

    name: str
    vc: str = ""
    tier: int = 1
    factor: int = 1
    max_time: str = ""  # the longest limit that a job may have, as Slurm writes it


class Site(Form):
    """A whole ``site.toml``."""

    name: str = ""
    release: str = ""
    ranks: Amount = 0  # weight of the jobs' column qos, which stands for tiers and factors of partitions that overlap
    priority: PriorityForm = PriorityForm()
    scheduler: SchedulerForm = SchedulerForm()
    partitions: list[PartitionForm] = Field(default_factory=list)

    @property
    def rules(self) -> Rules:
        """The rules that a forecast uses."""
        tiers = {partition.name: partition.tier for partition in self.partitions}
        return Rules(self.backfills, tiers, {partition.name: partition.max_time for partition in self.partitions})

    @property
    def policy(self) -> str:
        """Our policy that is nearest to what the site has, as text."""
        backfill = self._backfill()
        weights = self._weights()
        if self.priority.type != "priority/multifactor" or not any(weights.values()):
            return _text("fifo", backfill)
        return _text("multifactor", weights | self._scales(weights) | backfill)

    def _weights(self) -> dict[str, float]:
        """Multifactor's weights."""
        of = self.priority
        weights = {"age": of.age, "fairshare": of.fairshare, "size": of.size}
        weights |= {"gpu": of.gpu} if of.gpu else {}
        return weights | {"partition": of.partition if not self.ranks else 0.0, "qos": self.ranks}

    def _scales(self, weights: Mapping[str, float]) -> dict[str, Any]:
        """What the weights are of."""
        of = self.priority
        found: dict[str, Any] = {"max_age": min(max(of.max_age_s, 1.0), LONGEST)} if weights["age"] else {}
        if weights["fairshare"]:
            found |= {"decay": min(max(of.half_life_s or LONGEST, 60.0), LONGEST), **of.billed}
            found |= {"fair_tree": "true"} if of.fair_tree else {}
        if weights["size"]:
            found |= {"size_by": of.size_by} | ({"favor_small": "true"} if of.favor_small else {})
        if weights["age"] or weights["fairshare"]:
            found["period"] = min(of.period_s, DAY)
        return found

    def _backfill(self) -> dict[str, Any]:
        """Slurm keeps a place for every job that it tests, unless it is configured to keep one per partition only."""
        if not self.backfills:
            return {}
        reserved = self.parameter("bf_job_part_count_reserve", 0)
        depth = min(reserved or self.parameter("bf_max_job_test", 500), DEEPEST)
        return {"backfill": "easy"} if depth <= 1 else {"backfill": "conservative", "depth": depth}

    @property
    def backfills(self) -> bool:
        """Whether later jobs may go first."""
        return self.scheduler.type == "sched/backfill"

    def parameter(self, name: str, default: int) -> int:
        """A number among the SchedulerParameters."""
        found = re.search(rf"(?:^|,)\s*{name}=(\d+)", self.scheduler.parameters)
        return int(found[1]) if found else default

    @property
    def remarks(self) -> list[str]:
        """What of the configuration has no counterpart in the model."""
        of = self.priority
        found = [
            (of.qos > 0, "PriorityWeightQOS: accounting does not say a QOS's priority; all count alike"),
            (of.assoc > 0, "PriorityWeightAssoc: priorities of associations are not known; all count alike"),
            (of.fairshare > 0, "fair share is by user with equal shares, not by the accounts' tree"),
            (
                of.fairshare > 0 and not {"limits", "safe", "all"} & set(of.enforce.lower().split(",")),
                "AccountingStorageEnforce without limits: Slurm then never counts what a job used after the last"
                " PriorityCalcPeriod before its end",
            ),
            (of.fairshare > 0 and bool(of.reset), f"PriorityUsageResetPeriod={of.reset}: past usage only decays"),
            *((flag in of.flags.upper().split(","), f"PriorityFlags={flag}") for flag in UNMODELLED_FLAGS),
        ]
        return [f"not modelled: {why}" for holds, why in found if holds]


def of_config(config: Mapping[str, str]) -> Site:
    """The site that ``scontrol show config`` describes (see ``shows.settings``)."""
    priority: dict[str, Any] = {field: _number(config, setting) for field, setting in SETTINGS.items()}
    times = {
        "max_age_s": "prioritymaxage",
        "half_life_s": "prioritydecayhalflife",
        "period_s": "prioritycalcperiod",
    }
    reset = config.get("priorityusageresetperiod", "")
    for field, key in times.items():
        if config.get(key):
            span = seconds(config[key])
            priority[field] = LONGEST if span is None else span
    return Site(
        name=config.get("clustername", ""),
        release=config.get("slurm_version", ""),
        priority=PriorityForm(
            type=config.get("prioritytype", "priority/multifactor"),
            tres=config.get("priorityweighttres", ""),
            favor_small=config.get("priorityfavorsmall", "no").lower() in ("yes", "1", "true"),
            reset="" if reset.upper() in ("NONE", "NOW") else reset,
            flags=config.get("priorityflags", ""),
            enforce=config.get("accountingstorageenforce", "limits"),
            **priority,
        ),
        scheduler=SchedulerForm(
            type=config.get("schedulertype", "sched/backfill"), parameters=config.get("schedulerparameters", "")
        ),
    )


def read(path: Path) -> Site:
    """A ``site.toml``."""
    return filled(Site, text_of(path, SlurmError, "'shunter slurm import' writes it"), str(path), SlurmError)


def to_toml(site: Site) -> str:
    """The text of a ``site.toml`` that reads back as this site."""
    tree = site.model_dump()
    tables = {"[priority]": tree.pop("priority"), "[scheduler]": tree.pop("scheduler")}
    parts = [*_lines(tree, skip="partitions")]
    for title, fields in tables.items():
        parts += ["", title, *_lines(fields)]
    for partition in tree["partitions"]:
        parts += ["", "[[partitions]]", *_lines(partition)]
    return "\n".join(parts) + "\n"


def _lines(fields: Mapping[str, Any], skip: str = "") -> list[str]:
    return [f"{key} = {_literal(value)}" for key, value in fields.items() if key != skip]


def _literal(value: Any) -> str:
    return toml_text(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(config: Mapping[str, str], setting: str) -> float:
    text = config.get(setting.lower(), "") or "0"
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not found >= 0:
        raise SlurmError(f"{setting} must be a number, got '{text}'; correct the line")
    return found


def _text(name: str, settings: Mapping[str, Any]) -> str:
    """A policy as people write it."""
    written = ",".join(
        f"{key}={value:g}" if isinstance(value, float | int) else f"{key}={value}" for key, value in settings.items()
    )
    return f"{name}:{written}" if written else name
