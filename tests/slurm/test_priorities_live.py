"""Our multifactor against the real one: every factor that sprio tells, for jobs of several users, sizes and queues."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from shunter import registry
from shunter.cluster import Cluster, NodeGroup
from shunter.live.daemons import wait
from shunter.model import GPU, Trace
from shunter.policies.multifactor import Multifactor
from shunter.scheduling.queue.policy import keys_of
from shunter.sim.engine import Simulator
from shunter.slurm.lab import Lab, LabNodes
from shunter.slurm.scontrol_output import settings
from shunter.slurm.site import of_config

USERS = ("nobody", "daemon", "games", "mail")
WEIGHT, PERIOD_S = 1_000_000, 600  # sprio tells weighted factors, rounded
FACTORS = ("Age", "FairShare", "JobSize", "Partition", "QOS")
SETTINGS = {f"PriorityWeight{factor}": str(WEIGHT) for factor in FACTORS} | {
    "PriorityMaxAge": "0-00:10:00",
    "PriorityFlags": "NO_FAIR_TREE",
    "AccountingStorageEnforce": "associations,limits,qos",
}
# (user, partition, qos, nodes, GPUs on each, CPUs on each, seconds): two that end, and some that wait
RAN = (("nobody", "main", "normal", 1, 1, 2, 3), ("daemon", "main", "normal", 1, 4, 8, 2))
WAITING = (
    ("nobody", "main", "normal", 1, 1, 1, 0),
    ("nobody", "main", "high", 2, 4, 16, 0),
    ("daemon", "urgent", "normal", 1, 1, 3, 0),
    ("games", "main", "normal", 1, 2, 8, 0),
    ("mail", "main", "high", 1, 4, 4, 0),
)
KINDS, QOS = {"main": "p100", "urgent": "m40"}, {"normal": 25, "high": 100}
MACHINES = Cluster(
    "lab",
    (NodeGroup(2, 4, "p100", 16, vc="main"), NodeGroup(1, 1, "m40", 16, vc="urgent")),
    vc_priority={"main": 2 / 8, "urgent": 1.0},
)


@pytest.fixture
def lab(lab_folder: Path) -> Iterator[Lab]:
    """A cluster on which all factors count, and of which every user has the same share."""
    reason = Lab.missing(database=True)
    if reason:
        pytest.skip(reason)
    partitions = {"main": "Default=YES PriorityJobFactor=2", "urgent": "PriorityJobFactor=8"}
    nodes, accounts = (LabNodes("p100", 2, 4), LabNodes("m40", 1, 1)), {f"of-{user}": (user,) for user in USERS}
    change = ("sacctmgr", "-i")
    with Lab(lab_folder, nodes, database=True, settings=SETTINGS, partitions=partitions, accounts=accounts) as running:
        running.run(*change, "delete", "user", "where", "name=root", "account=root")
        running.run(*change, "add", "qos", "high", f"priority={QOS['high']}")
        running.run(*change, "modify", "qos", "normal", "set", f"priority={QOS['normal']}")
        running.run(*change, "modify", "user", ",".join(USERS), "set", "qos+=high")
        yield running


def submit(lab: Lab, job: tuple) -> int:
    user, partition, qos, nodes, gpus, cpus, seconds = job
    options = (f"--partition={partition}", f"--qos={qos}", f"--nodes={nodes}", f"--gres=gpu:{KINDS[partition]}:{gpus}")
    return lab.submit(*options, "--time=5", f"--cpus-per-task={cpus}", script=f"sleep {seconds}", user=user)


def computed_anew(lab: Lab) -> int:
    """Let Slurm compute all priorities, which it does when it starts; when it did, as it notes itself."""
    lab.stop_controller()
    noted = lab.folder / "state" / "priority_last_decay_ran"
    before = noted.stat().st_mtime_ns
    lab.start_controller()
    assert wait(lambda: noted.stat().st_mtime_ns != before, 180)
    return int.from_bytes(noted.read_bytes()[:8])


def told(lab: Lab, numbers: list[int]) -> dict[str, list[float]]:
    """The factors that Slurm has for some jobs."""
    rows = [line.split() for line in lab.run("sprio", "-h", "-o", "%i %A %F %J %P %Q").splitlines()]
    found = {int(row[0]): [float(cell) / WEIGHT for cell in row[1:]] for row in rows}
    columns = zip(*(found[number] for number in numbers), strict=True)
    return {name.lower(): list(column) for name, column in zip(FACTORS, columns, strict=True)}


def moment(text: str) -> int:
    return int(np.datetime64(text, "s").astype(int))


def same_jobs(lab: Lab, ran: list[int], waiting: list[int], now: int) -> Trace:
    """The same as a trace in which ``now`` is a period after 0; some of nobody's keep the others waiting."""
    jobs = [*RAN, *WAITING]
    known = [lab.job(number) for number in (*ran, *waiting)]
    begin = [moment(job["StartTime"]) for job in known[: len(ran)]] + [moment(job["AccrueTime"]) for job in known[2:]]
    end = [moment(job["EndTime"]) for job in known[: len(ran)]]
    length = [last - first for last, first in zip(end, begin, strict=False)] + [9999] * len(waiting)
    rows = [
        (begin[at] - now + PERIOD_S, length[at], user, vc, qos, nodes * gpus, nodes * cpus)
        for at, (user, vc, qos, nodes, gpus, cpus, _) in enumerate(jobs)
    ]
    full = max(end) - now + PERIOD_S
    rows += [(full, 9999, "", "main", "", 8, 0), (full, 9999, "", "urgent", "", 1, 0)]
    rows += [(PERIOD_S + 1, 9999, "", "main", "", 1, 0)]  # something happens in the next period
    begun, lasts, user, vc, qos, gpus, cpus = (list(column) for column in zip(*rows, strict=True))
    return Trace.of(
        "lab",
        [str(at) for at in range(len(rows))],
        submit=[1000 * at for at in begun],
        duration=[1000 * at for at in lasts],
        gpus=[GPU * count for count in gpus],
        cpus=[1000 * count for count in cpus],
        user=[USERS.index(name) if name else -1 for name in user],
        vc=[tuple(KINDS).index(name) for name in vc],
        qos=[10 * QOS.get(name, 0) for name in qos],
        users=USERS,
        vcs=tuple(KINDS),
    )


def ours(policy: Multifactor, trace: Trace) -> dict[str, list[float]]:
    """The factors that our policy has for the jobs that wait, one weight at a time."""
    names = dict(
        zip((factor.lower() for factor in FACTORS), ("age", "fairshare", "size", "partition", "qos"), strict=True)
    )
    rows = [list(trace.job_id).index(str(at)) for at in range(len(RAN), len(RAN) + len(WAITING))]
    found = {}
    for theirs, name in names.items():
        alone = dataclasses.replace(policy, **dict.fromkeys(names.values(), 0.0) | {name: 1.0}, backfill="none")
        simulator = Simulator(trace, MACHINES)
        memory = simulator.run(
            dataclasses.replace(alone, period=float(PERIOD_S), depth=100), until=1000 * PERIOD_S + 1000
        )
        keys = np.zeros(len(rows))
        keys_of(simulator.world, memory.form.memory, memory.form.parts.parts, np.array(rows), keys)
        found[theirs] = (-keys).tolist()
    return found


def compare(lab: Lab, ran: list[int], waiting: list[int]) -> Multifactor:
    now = computed_anew(lab)
    policy = registry.policy(of_config(settings(lab.run("scontrol", "show", "config"))).policy)
    assert isinstance(policy, Multifactor)
    theirs, mine = told(lab, waiting), ours(policy, same_jobs(lab, ran, waiting, now))
    assert mine["age"] == pytest.approx(theirs["age"], abs=2.1 / 600)  # Slurm's clock has whole seconds
    assert min(mine["age"]) > 0
    for factor in ("fairshare", "jobsize", "partition", "qos"):
        assert mine[factor] == pytest.approx(theirs[factor], abs=2e-5), factor
        assert len(set(mine[factor])) > 1  # else nothing was compared
    return policy


def test_every_factor_is_slurms(lab):
    ran = [submit(lab, job) for job in RAN]
    for number in ran:
        lab.wait_job(number, "COMPLETED")
    for name in lab.node_names:
        lab.run("scontrol", "update", f"nodename={name}", "state=drain", "reason=test")
    time.sleep(2)
    waiting = [submit(lab, job) for job in WAITING]
    time.sleep(3)
    policy = compare(lab, ran, waiting)
    assert not policy.fair_tree
    text = lab.conf.read_text().replace("PriorityFlags=NO_FAIR_TREE", "PriorityFavorSmall=YES")
    lab.conf.write_text(text)
    policy = compare(lab, ran, waiting)
    assert policy.fair_tree
    assert policy.favor_small
