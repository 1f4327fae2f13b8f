"""A site's own history and machines: from what Slurm's commands print to a trace, a cluster and ``site.toml``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from shunter import clusters, traces
from shunter.cluster import Cluster
from shunter.errors import LiveError, SlurmError
from shunter.live.machines import Machines, machines_of
from shunter.live.nodes import Partition, partitions_of
from shunter.model import Trace
from shunter.safe_files import text_of, whole
from shunter.slurm import scontrol_output, topology
from shunter.slurm.nodes import nodes, partitions
from shunter.slurm.site import PartitionForm, Site, of_config, to_toml
from shunter.texts import counted
from shunter.traces.readers import sacct
from shunter.traces.source import Source
from shunter.world import I64

FILES = ("jobs.parquet", "cluster.toml", "site.toml")
T = TypeVar("T")


@dataclass(frozen=True)
class ImportFiles:
    """The files with what Slurm's commands printed; None: there is none."""

    jobs: Path  # sacct -P or sacct --json
    nodes: Path  # scontrol show node, or sinfo
    partitions: Path | None = None  # scontrol show partition
    config: Path | None = None  # scontrol show config, or slurm.conf
    topology: Path | None = None  # topology.conf, topology.yaml or scontrol show topology


@dataclass(frozen=True, eq=False)
class Imported:
    """A site in our words."""

    trace: Trace
    cluster: Cluster
    site: Site
    remarks: tuple[str, ...]  # what is not as in Slurm, beside what the trace says


def read_site(sources: ImportFiles, on_bad_row: str = "fail") -> Imported:
    """Everything that the files say."""
    listed = _parsed(sources.nodes, nodes)
    parts = _parsed(sources.partitions, partitions) if sources.partitions else partitions_of(listed)
    site = of_config(_parsed(sources.config, scontrol_output.settings)) if sources.config else Site()
    billing = next((part.billing for part in parts if part.billing), "")
    site = site.model_copy(update={"priority": site.priority.model_copy(update={"billing": billing})})
    racks = _parsed(sources.topology, topology.racks) if sources.topology else []
    found = machines_of(listed, parts, racks, site.name)
    trace = sacct.read(Source(sources.jobs, "sacct", on_bad_row == "skip"), running=True)
    known = [*found.remarks, *_about(trace, parts), *_billed(site, parts)]
    ranks = _ranks(site, parts, found)
    weight = _rank_weight(site, parts) if ranks else 0.0
    site = site.model_copy(update={"ranks": weight, "partitions": _forms(parts, found)})
    return Imported(_placed(trace, found, ranks), found.cluster, site, (*known, *site.remarks))


def _parsed(path: Path, parse: Callable[[str], T]) -> T:
    """What a file contains; a mistake is reported with the file's name."""
    text = text_of(path, SlurmError, errors="replace")
    try:
        return parse(text)
    except LiveError as error:
        raise SlurmError(f"{path}: {error}") from None


def _forms(parts: Sequence[Partition], found: Machines) -> list[PartitionForm]:
    return [
        PartitionForm(name=part.name, vc=found.vc[part.name], tier=part.tier, factor=part.factor)
        for part in parts
        if part.name in found.vc
    ]


def _about(trace: Trace, parts: Sequence[Partition]) -> list[str]:
    """Hidden users, jobs in partitions that no longer exist."""
    found = ["all jobs are of one user: does PrivateData hide the others?"] if len(trace.users) == 1 else []
    gone = [name for name in trace.vcs if name not in {part.name for part in parts}]
    jobs = int(np.isin(trace.vc, [trace.vcs.index(name) for name in gone]).sum())
    several = sum("," in name for name in gone)
    if not jobs:
        return found
    why = "several partitions" if several == len(gone) else "partitions that Slurm does not list"
    return [
        *found,
        f"{counted(jobs, 'job', 'are')} of {why} ({', '.join(gone[:3])}{' ...' if len(gone) > 3 else ''})",
    ]


def _billed(site: Site, parts: Sequence[Partition]) -> list[str]:
    several = len({part.billing for part in parts}) > 1
    if not site.priority.fairshare or not several:
        return []
    return [f"not modelled: TRESBillingWeights that differ by partition; {site.priority.billing} counts in all"]


# ------------------------------------------------------------------------------------------- ranks of partitions


def _ranks(site: Site, parts: Sequence[Partition], found: Machines) -> dict[str, float]:
    """How jobs of each partition rank, 0 to 1, where partitions that share nodes rank differently; else nothing.

    Slurm looks at tiers first, at priorities then: a tier outweighs all weights together.
    """
    here = [part for part in parts if part.name in found.vc]
    pooled: dict[str, set[tuple[int, int]]] = {}
    for part in here:
        factor = part.factor if site.priority.partition else 1
        pooled.setdefault(found.vc[part.name], set()).add((part.tier, factor))
    if all(len(kinds) < 2 for kinds in pooled.values()):
        return {}
    most, total = max(part.factor for part in here) or 1, _rank_weight(site, parts)
    tiers = sorted({part.tier for part in here})
    step = _all_weights(site)
    return {
        part.name: (tiers.index(part.tier) * step + site.priority.partition * part.factor / most) / total
        for part in here
    }


def _rank_weight(site: Site, parts: Sequence[Partition]) -> float:
    """The weight that ranks from 0 to 1 have."""
    steps = len({part.tier for part in parts}) - 1
    return max(1.0, steps * _all_weights(site) + site.priority.partition)


def _all_weights(site: Site) -> float:
    of = site.priority
    return of.age + of.fairshare + of.size + of.partition + of.gpu + 1.0


def _placed(trace: Trace, found: Machines, ranks: Mapping[str, float]) -> Trace:
    """The jobs in the virtual clusters of their partitions, kept to a GPU type where that distinguishes nodes."""
    vcs = [found.vc.get(name, name) for name in trace.vcs]
    qos = np.array([round(1000 * ranks.get(name, 0.0)) for name in trace.vcs] + [0], np.int64)[trace.vc]
    kinds = list(trace.gpu_types)
    for kind in found.only_type.values():
        if kind not in kinds:
            kinds.append(kind)
    only = [kinds.index(found.only_type[name]) if name in found.only_type else -1 for name in trace.vcs]
    kept = np.array([*only, -1], np.int64)[trace.vc]
    gpu_type = np.where(trace.gpu_type >= 0, trace.gpu_type, kept)
    changed = dataclasses.replace(trace, qos=qos, gpu_type=gpu_type, gpu_types=tuple(kinds))
    if all(name == vc for name, vc in zip(trace.vcs, vcs, strict=True)) or not found.cluster.vcs:
        return changed
    names = tuple(dict.fromkeys(vcs))
    codes: I64 = np.array([*(names.index(vc) for vc in vcs), -1], np.int64)[trace.vc]
    return dataclasses.replace(changed, vc=codes, vcs=names)


# ------------------------------------------------------------------------------------------- files


def check_places(folder: Path, force: bool) -> None:
    """Refuse a folder in which the files can't be written, before anything is read."""
    if folder.exists() and not folder.is_dir():
        raise SlurmError(f"{folder}: is a file; name a folder")
    if not folder.absolute().parent.is_dir():
        raise SlurmError(f"{folder}: there is no folder {folder.parent}; make it, or choose another place")
    there = [name for name in FILES if (folder / name).exists()]
    if there and not force:
        raise SlurmError(
            f"{folder}: has {', '.join(there)} already; choose another folder, or replace them with --force"
        )


def write_site(found: Imported, folder: Path) -> None:
    """Write the trace, the cluster and Slurm's settings into a folder."""
    folder.mkdir(exist_ok=True)
    traces.write(found.trace, folder / FILES[0])
    for name, text in ((FILES[1], clusters.to_toml(found.cluster)), (FILES[2], to_toml(found.site))):
        with whole(folder / name, SlurmError) as made:
            made.write_text(text, encoding="utf-8")
