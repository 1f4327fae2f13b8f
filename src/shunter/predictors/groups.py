"""Which jobs are alike: for several groupings, the group of every job."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shunter.errors import InputError
from shunter.model import Trace
from shunter.predictors.names import clusters
from shunter.world import I64

(USER_NAME_GPUS, USER_REQUEST, USER_NAME, NAME, USER_GPUS, USER, ACCOUNT, BY_VC, BY_GPUS, ALL) = range(10)


class Described(NamedTuple):
    """What jobs are grouped by, one entry per job; -1: has none."""

    user: I64
    name: I64  # cluster of similar names
    account: I64
    vc: I64
    gpus: I64  # thousandths
    cpus: I64
    mem: I64
    limit: I64


def described(trace: Trace) -> Described:
    """What the jobs of a trace are grouped by."""
    name = np.append(clusters(trace.job_names), -1)[trace.job_name]
    return Described(trace.user, name, trace.account, trace.vc, trace.gpus, trace.cpus, trace.mem_gib, trace.limit)


def joined(before: Trace, window: Trace) -> Described:
    """What the jobs of both are grouped by; their codes must mean the same."""
    for field in ("users", "accounts", "vcs", "job_names"):
        if getattr(before, field) != getattr(window, field):
            raise InputError(
                f"the history '{before.name}' and the jobs '{window.name}' must be parts of one trace, but their "
                f"{field} differ; read them as one file and split it by time"
            )
    return Described(*(np.concatenate(pair) for pair in zip(described(before), described(window), strict=True)))


def group_ids(jobs: Described) -> tuple[I64, int]:
    """The group of every job for each grouping, numbered through (-1: none), and how many groups there are."""
    request = (jobs.gpus, jobs.cpus, jobs.mem, jobs.limit, jobs.vc)
    everything = np.zeros(len(jobs.user), np.int64)
    groupings = {  # what must be known, and what else is compared
        USER_NAME_GPUS: ((jobs.user, jobs.name), (jobs.gpus,)),
        USER_REQUEST: ((jobs.user,), request),
        USER_NAME: ((jobs.user, jobs.name), ()),
        NAME: ((jobs.name,), ()),
        USER_GPUS: ((jobs.user,), (jobs.gpus,)),
        USER: ((jobs.user,), ()),
        ACCOUNT: ((jobs.account,), ()),
        BY_VC: ((jobs.vc,), ()),
        BY_GPUS: ((), (jobs.gpus,)),
        ALL: ((), (everything,)),
    }
    table, count = np.full((len(groupings), len(jobs.user)), -1, np.int64), 0
    for grouping, (known, compared) in groupings.items():
        rows = np.flatnonzero(np.logical_and.reduce([everything == 0, *(codes >= 0 for codes in known)]))
        ids = np.zeros(len(rows), np.int64)
        for codes in (*known, *compared):
            values = np.unique(codes[rows], return_inverse=True)[1]
            ids = np.unique(ids * (int(values.max(initial=0)) + 1) + values, return_inverse=True)[1]
        table[grouping, rows] = count + ids
        count += int(ids.max(initial=-1)) + 1
    return table, count
