"""Which workload a job is, for traces that don't say.

A job whose model names a workload keeps it: its name is the workload's, or begins with the workload's first word
(``resnet50`` is one of ``resnet-...``). All other jobs are drawn by chance, each workload as likely: one workload per
(user, job name, GPUs), so that recurring jobs are alike; per job where neither user nor name is known. The draw hashes
the seed and these names, so neither the order of the trace nor other jobs change it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from shunter.cluster import USUAL_SHARING
from shunter.model import Trace
from shunter.sharing.profiles import measured
from shunter.world import F64, I64


def workload_names() -> tuple[str, ...]:
    """What the workloads of ``workloads_of`` are called, in their order; the same for all ways of sharing."""
    return measured().names


def workloads_of(trace: Trace, seed: int, way: str = USUAL_SHARING) -> tuple[I64, F64, F64]:
    """The measured workload of every job, and what is known of workloads where GPUs are shared in this way.

    (jobs,): the workload. (3, workloads + 1): GPU utilisation in per cent, memory in MiB, memory utilisation in per
    cent; NaN in the last column, which stands for a workload that is not known. (workloads + 1, workloads + 1): the
    speed of the one beside the other; 0 where either is not known.
    """
    found = measured(way)
    known = np.stack([found.gpu_util, found.mem_mib, found.mem_util])
    uses = np.pad(known, ((0, 0), (0, 1)), constant_values=np.nan)
    return workloads(trace, found.names, seed), uses, np.pad(found.speeds(), (0, 1))


def workloads(trace: Trace, names: Sequence[str], seed: int) -> I64:
    """The index in ``names`` of every job's workload."""
    group, keys = _groups(trace)
    drawn = np.array([_hash(seed, key) for key in keys], np.uint64)[group]
    choices = [_named(model, names) for model in trace.models]  # by code of the model
    choices.append(np.arange(len(names)))  # code -1: any
    sizes = np.array([len(each) for each in choices], np.uint64)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    picked = first[trace.model] + (drawn % sizes[trace.model]).astype(np.int64)
    return np.concatenate(choices)[picked]


def _groups(trace: Trace) -> tuple[I64, list[str]]:
    """Which jobs are drawn together: for each job a group, for each group what it is called."""
    alone = (trace.user < 0) & (trace.job_name < 0)
    own = np.where(alone, np.arange(len(trace)), -1)
    columns = np.stack([own, trace.user, trace.job_name, trace.gpus], axis=1)
    rows, group = np.unique(columns, axis=0, return_inverse=True)
    users, jobs = (*trace.users, ""), (*trace.job_names, "")  # code -1: none
    keys = [
        f"job\0{trace.job_id[job]}" if job >= 0 else f"{users[user]}\0{jobs[name]}\0{gpus}"
        for job, user, name, gpus in rows.tolist()
    ]
    return group.reshape(-1), keys


def _named(model: str, names: Sequence[str]) -> I64:
    """The workloads that a model's name may mean; all if it means none."""
    plain = _plain(model)
    same = [i for i, name in enumerate(names) if _plain(name) == plain]
    near = [i for i, name in enumerate(names) if plain.startswith(_plain(name.partition("-")[0]))]
    return np.array(same or near or range(len(names)), np.int64)


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _hash(seed: int, key: str) -> int:
    digest = hashlib.blake2b(key.encode(), digest_size=8, key=seed.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")
