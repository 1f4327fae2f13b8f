"""The alternatives: settings that Slurm itself has, and policies that only the controller can run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shunter import registry
from shunter.extras import is_there
from shunter.policies.express import Express
from shunter.policies.multifactor import Multifactor
from shunter.protocols import Policy
from shunter.scheduling.queue.policy import Queued
from shunter.simulation import NamedPolicy, resolve
from shunter.slurm.site import PriorityForm, SchedulerForm, Site

DAY = 86_400.0
MOST = 10  # a weight that outweighs all others together is this many times their sum
LEARNED = "rolling"  # estimates from ended jobs of the same user, name and size: they need no library
CONTROLLER = ("sjf", "saf", "wfp3", "f1", "unicep")
AS_ASKED = "as you asked"  # the title of policies that the user adds
PREEMPTIVE = ("express", "srsf", "srtf", "las", "tiresias")


@dataclass(frozen=True)
class Candidate:
    """Something to compare with what is done now."""

    policy: str
    title: str  # in a few words
    changes: Mapping[str, str] = field(default_factory=dict)  # lines of slurm.conf; none: Slurm can't do it by itself

    @cached_property
    def named(self) -> NamedPolicy:
        """The policy, resolved once."""
        return resolve(self.policy)

    @property
    def by_slurm(self) -> bool:
        """Whether Slurm does it by its configuration alone."""
        return bool(self.changes)


def candidates(base: Policy, site: Site, preemption: bool = False, more: Sequence[str] = ()) -> list[Candidate]:
    """Everything that is compared with ``base``, each once; ``more`` are policies that the user adds."""
    asked = [Candidate(text, AS_ASKED) for text in more]
    found = [*_ours(preemption), *_settings(site), *_policies(preemption), *asked]
    seen, kept = {registry.text(base)}, []
    for candidate in found:
        text = registry.text(candidate.named.policy)
        if text not in seen:
            seen.add(text)
            kept.append(candidate)
    return kept


def _ours(preemption: bool) -> list[Candidate]:
    """Express, with stops if these are wanted, and without; unlike its default, with learned run times as all here."""
    best = Express(estimate=LEARNED)
    without = Candidate(registry.text(best.without_stops), "express without stops, run times learned")
    stops = Candidate(registry.text(best), "express, stops jobs, run times learned")
    return [stops, without] if preemption else [without]


def _settings(site: Site) -> list[Candidate]:
    """Variants of a site's own configuration."""
    of = site.priority
    weight = MOST * max(_sum(of), 100.0)
    basic = of.type != "priority/multifactor"
    start = {"type": "priority/multifactor"} if basic else {}
    age = {"age": max(of.age, weight / MOST)}
    small = {"favor_small": True, "size": weight, "tres": of.without_gpu()}
    fair = {"fairshare": weight}
    order = ("in the order of submission", {**age, "fairshare": 0.0, "size": 0.0, "tres": of.without_gpu()})
    variants: list[tuple[str, dict[str, Any]]] = [
        *([] if basic else [order]),
        ("small jobs first", {**age, **small}),
        ("fair share first", {**age, **fair}),
        ("fair share that forgets in a day", {**age, **fair, "half_life_s": DAY}),
        ("small jobs and fair share", {**age, **small, **fair}),
        ("large jobs first", {**age, "favor_small": False, "size": weight}),
    ]
    backfill = site.scheduler if site.backfills else SchedulerForm()
    found = []
    if not site.backfills:
        found.append(_variant(site, "backfill", {}, backfill))
    found.append(_variant(site, "backfill that keeps a place for one job only", {}, _one_place(backfill)))
    found += [_variant(site, title, start | changes, backfill) for title, changes in variants]
    return [candidate for candidate in found if candidate.changes]


def _sum(priority: PriorityForm) -> float:
    """The weights of what jobs and users are like, together."""
    return priority.age + priority.fairshare + priority.size + priority.gpu or 1.0


def site_of(policy: Any) -> Site:
    """The configuration of Slurm that comes nearest to a policy, for a history that is not Slurm's."""
    backfill = policy.backfill if isinstance(policy, Queued) else "none"
    scheduler = SchedulerForm(
        type="sched/builtin" if backfill == "none" else "sched/backfill",
        parameters="bf_job_part_count_reserve=1" if backfill == "easy" else "",
    )
    if not isinstance(policy, Multifactor):
        # a trace of another scheduler may have no CPUs, by which Slurm bills: these then count with the GPUs
        return Site(priority=PriorityForm(type="priority/basic", billing="GRES/gpu=1"), scheduler=scheduler)
    same = ("age", "fairshare", "size", "partition", "qos", "favor_small", "size_by")
    kept: dict[str, Any] = {name: getattr(policy, name) for name in same}
    priority = PriorityForm(
        **kept,
        tres=f"gres/gpu={policy.gpu:g}" if policy.gpu else "",
        max_age_s=policy.max_age,
        half_life_s=policy.decay,
        period_s=policy.period,
        billing=f"CPU={policy.bill_cpu:g},Mem={policy.bill_mem:g}G,GRES/gpu={policy.bill_gpu:g}",
        flags="" if policy.fair_tree else "NO_FAIR_TREE",
    )
    return Site(priority=priority, scheduler=scheduler)


def _one_place(scheduler: SchedulerForm) -> SchedulerForm:
    """EASY backfilling, as near as Slurm comes to it: places beyond the first of a partition are not kept."""
    others = [text for text in scheduler.parameters.split(",") if text and "bf_job_part_count_reserve" not in text]
    return scheduler.model_copy(update={"parameters": ",".join([*others, "bf_job_part_count_reserve=1"])})


def _variant(site: Site, title: str, changes: Mapping[str, Any], scheduler: SchedulerForm) -> Candidate:
    priority = site.priority.model_copy(update=changes)
    times = max(1.0, math.ceil(_sum(priority) / _sum(site.priority))) if site.ranks else 1.0
    priority = priority.model_copy(update={"partition": times * priority.partition})  # ranks go on to count as much
    new = site.model_copy(update={"priority": priority, "scheduler": scheduler, "ranks": times * site.ranks})
    before, after = lines(site.priority, site.scheduler), lines(new.priority, new.scheduler)
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    return Candidate(new.policy, title, changed)


def lines(priority: PriorityForm, scheduler: SchedulerForm) -> dict[str, str]:
    """The lines of slurm.conf that say this."""
    found = {"SchedulerType": scheduler.type}
    if scheduler.parameters:
        found["SchedulerParameters"] = scheduler.parameters
    found["PriorityType"] = priority.type
    if priority.type != "priority/multifactor":
        return found
    weights = {"Age": priority.age, "FairShare": priority.fairshare, "JobSize": priority.size}
    weights |= {"Partition": priority.partition, "QOS": priority.qos}
    found |= {f"PriorityWeight{name}": f"{weight:.0f}" for name, weight in weights.items()}
    if priority.tres:
        found["PriorityWeightTRES"] = priority.tres
    found |= {"PriorityMaxAge": _time(priority.max_age_s), "PriorityDecayHalfLife": _time(priority.half_life_s)}
    return found | {"PriorityFavorSmall": "YES" if priority.favor_small else "NO"}


def _time(seconds: float) -> str:
    days, rest = divmod(round(seconds), 86_400)
    return f"{days}-{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def _policies(preemption: bool) -> list[Candidate]:
    """What the controller can run; those that stop running jobs only if that is wanted."""
    titles = {
        "sjf": "shortest first, run times learned",
        "saf": "least GPU time first, run times learned",
        "wfp3": "long waits for short jobs first (WFP3)",
        "f1": "F1, learned from simulations",
        "unicep": "waits over size and length (UNICEP)",
        "srsf": "least remaining GPU time, stops running jobs",
        "srtf": "shortest remaining first, stops running jobs",
        "las": "least served first, stops running jobs",
        "tiresias": "Tiresias, stops running jobs",
    }
    plain = [f"{name}:estimate={LEARNED},backfill=easy" for name in CONTROLLER]
    found = [Candidate(text, titles[text.partition(":")[0]]) for text in plain]
    if is_there("lightgbm"):
        found.append(Candidate("qssf:backfill=easy", "least GPU time first, predicted (QSSF)"))
    if preemption:
        found.append(Candidate(f"srsf:estimate={LEARNED},backfill=easy", titles["srsf"]))
        found.append(Candidate(f"srtf:estimate={LEARNED}", titles["srtf"]))
        found += [Candidate(name, titles[name]) for name in ("las", "tiresias")]
    return found
