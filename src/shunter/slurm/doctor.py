"""Whether this account, this machine and this Slurm are fit for a controller: one finding for each thing to check.

Nothing is changed: Slurm is queried, files are looked at, and no lock is taken.
"""

from __future__ import annotations

import os
import platform
import pwd
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from shunter import __version__
from shunter.compiled import place
from shunter.errors import LiveError
from shunter.live.journal import Journal
from shunter.live.journal_file import check_place
from shunter.live.locks import lock_of
from shunter.live.snapshot import Snapshot
from shunter.live.waiting_line import unmodelled
from shunter.slurm.client import Client, user_name
from shunter.slurm.questions import live_site
from shunter.slurm.scontrol_output import settings
from shunter.slurm.watcher import Watcher
from shunter.texts import counted

TESTED = (22, 5)  # the release of Slurm that the tests run
CLOCK_WARN_S, CLOCK_FAIL_S = 3.0, 60.0  # Slurm reports whole seconds
SLOW_SDIAG_S, SLOW_LOOK_S = 1.0, 10.0
NEEDED, USEFUL = ("squeue", "sinfo", "sdiag", "scontrol", "sprio"), ("sacct", "sacctmgr")
SDIAG_TIME = re.compile(r"^sdiag output at .*\((\d+)\)$", re.MULTILINE)
OTHERS_READ = stat.S_IROTH
LISTENS = "0A"  # in /proc/net/tcp
DEPTHS = {"bf_max_job_test": 500, "default_queue_depth": 100}  # Slurm's defaults


class CheckStatus(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class CheckResult:
    """The result of a check, and what to do about it."""

    check: str
    verdict: CheckStatus
    text: str
    remedy: str = ""


@dataclass
class Patient:
    """What is examined; Slurm's configuration is read once."""

    client: Client
    journal: Path
    acts: bool  # whether it is to change jobs: then more is required
    user: str
    config: Mapping[str, str] = field(default_factory=dict)
    metrics_port: int = 0  # 0: not to be checked

    @property
    def accounting(self) -> bool:
        """Whether the site has slurmdbd."""
        return self.config.get("accountingstoragetype", "").endswith("slurmdbd")

    @property
    def owner(self) -> str:
        """The account of slurmctld, which may do everything."""
        return self.config.get("slurmuser", "").partition("(")[0]

    @cached_property
    def level(self) -> str:
        """The account's AdminLevel; "" where accounting does not know it."""
        if not self.accounting:
            return ""
        try:
            said = self.client.run("sacctmgr", "-n", "-P", "show", "user", self.user, "format=adminlevel")
        except LiveError:
            return ""
        return said.strip().lower()

    @property
    def rules(self) -> bool:
        """Whether Slurm lets it see and change the jobs of others."""
        return self.user in ("root", self.owner) or self.level in ("operator", "administrator")

    @property
    def wanting(self) -> CheckStatus:
        """How bad it is if something is missing that only acting requires."""
        return CheckStatus.FAIL if self.acts else CheckStatus.WARN


Check = Callable[[Patient], Iterator[CheckResult]]


def examine(client: Client, journal: Path, acts: bool, metrics_port: int = 0) -> list[CheckResult]:
    """All findings; where Slurm does not answer, those about this machine."""
    patient = Patient(client, journal, acts, user_name(), metrics_port=metrics_port)
    found = [*_commands(patient), *_caches(), *_files(patient), *_processes(patient), *_metrics(patient)]
    try:
        patient.config = settings(client.run("scontrol", "show", "config"))
    except LiveError as problem:
        return [
            *found,
            CheckResult("slurm", CheckStatus.FAIL, str(problem), "start slurmctld and munge, or set SLURM_CONF"),
        ]
    for check in (_versions, _rights, _marks, _privacy, _accounting, _clock, _queue, _scheduler, _model):
        try:
            found += check(patient)
        except LiveError as problem:
            name = check.__name__.strip("_")
            found.append(CheckResult(name, CheckStatus.FAIL, str(problem), "run this again; see slurmctld's log"))
    return found


# ------------------------------------------------------------------------------------------- this machine


def _commands(of: Patient) -> Iterator[CheckResult]:
    missing = {name: of.client.path_of(name) is None for name in (*NEEDED, *USEFUL)}
    verdict = CheckStatus.FAIL if any(missing[name] for name in NEEDED) else CheckStatus.WARN
    absent = [name for name, is_missing in missing.items() if is_missing]
    if absent:
        yield CheckResult(
            "commands", verdict, f"not on the PATH: {', '.join(absent)}", "install Slurm's client commands"
        )
    else:
        yield CheckResult("commands", CheckStatus.OK, ", ".join(missing))


def _caches() -> Iterator[CheckResult]:
    """Where machine code is kept, and whether there is any."""
    folder, problem = place()
    if problem:
        text, _, remedy = problem.partition("; ")
        yield CheckResult("caches", CheckStatus.WARN, f"kernels are compiled by every command: {text}", remedy)
    elif not any(folder.rglob("*.nbi")):
        text = f"{folder}: no kernels yet, so that the first command compiles for a minute or two"
        yield CheckResult("caches", CheckStatus.WARN, text, "sudo shunter compile --for-all")
    else:
        yield CheckResult("caches", CheckStatus.OK, f"compiled kernels in {folder}")


def _files(of: Patient) -> Iterator[CheckResult]:
    """The journal: whether this account can write it, and others can't. Watching needs none."""
    place, folder = of.journal, of.journal.absolute().parent
    try:
        if not of.acts and not os.path.exists(place):  # False also where it can't be seen
            return
        place = place if place.exists() else folder
        check_place(of.journal)
        found = place.stat()
    except LiveError as problem:
        yield _failed("journal", of.wanting, problem)
        return
    except OSError as error:
        remedy = f"make the folder, or run this as the owner of {folder}"
        yield CheckResult("journal", of.wanting, f"{place}: {error.strerror}", remedy)
        return
    text = f"{place} belongs to {_owner(found.st_uid)}, mode {stat.S_IMODE(found.st_mode):o}"
    if not (os.access(folder, os.W_OK) and os.access(place, os.W_OK)):
        yield CheckResult("journal", of.wanting, f"{text}: {of.user} can't write it", "run this as its owner")
    elif found.st_mode & OTHERS_READ and place != folder:
        yield CheckResult("journal", CheckStatus.WARN, f"{text}: every account can read it", f"chmod o= {place}")
    else:
        yield CheckResult("journal", CheckStatus.OK, text)


def _failed(check: str, verdict: CheckStatus, problem: LiveError) -> CheckResult:
    """An error as a finding: what is wrong stands before the first semicolon, the remedy behind it."""
    text, _, remedy = str(problem).partition("; ")
    return CheckResult(check, verdict, text, remedy)


def _owner(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _processes(of: Patient) -> Iterator[CheckResult]:
    """Which of our processes run, and whether the jobs were handed back; watching needs no journal."""
    if not of.acts and not os.path.exists(of.journal):  # False also where it can't be seen
        return
    for holder, remedy in (("controller", "systemctl start shunter"), ("watchdog", "systemctl start shunter-watchdog")):
        try:
            runs = _is_locked(lock_of(of.journal, holder))
        except OSError as error:
            yield CheckResult(
                holder, CheckStatus.WARN, f"can't tell: {error.strerror}", "run this as the journal's owner"
            )
            continue
        missing = CheckStatus.OK if holder == "watchdog" or not of.acts else CheckStatus.WARN
        yield CheckResult(
            holder, CheckStatus.OK if runs else missing, "runs" if runs else "none acts on this journal",
            "" if runs or missing is CheckStatus.OK else remedy,
        )  # fmt: skip
    if not os.access(of.journal, os.R_OK):
        return
    try:
        book = Journal.reading(of.journal)
        why = book.handed_back()
        book.close()
    except LiveError as problem:
        yield _failed("handed back", CheckStatus.FAIL, problem)
        return
    if why:
        yield CheckResult("handed back", CheckStatus.WARN, why, "shunter slurm resume, once the cause is known")


def _metrics(of: Patient) -> Iterator[CheckResult]:
    """Whether /healthz is answered by the controller: any account can take a port and answer what it likes."""
    if not of.metrics_port:
        return
    port, listeners = of.metrics_port, _listeners(of.metrics_port)
    expected = of.journal.stat().st_uid if os.path.exists(of.journal) else os.geteuid()
    if not listeners:
        yield CheckResult(
            "metrics", CheckStatus.WARN, f"nothing answers on port {port}", "see --metrics-port of slurm run"
        )
    elif listeners == {expected}:
        yield CheckResult("metrics", CheckStatus.OK, f"port {port} is served by {_account(expected)}")
    else:
        others = ", ".join(sorted(map(_account, listeners - {expected})))
        yield CheckResult(
            "metrics", CheckStatus.WARN,
            f"port {port} is served by {others}, not by {_account(expected)}: its /healthz and"
            " /metrics are not the controller's", "end that process (ss -ltnp), or choose another --metrics-port",
        )  # fmt: skip


def _listeners(port: int) -> set[int]:
    """The accounts that listen on a port, from the kernel's own list."""
    found = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            row = line.split()
            if row[3] == LISTENS and int(row[1].rpartition(":")[2], 16) == port:
                found.add(int(row[7]))
    return found


def _account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _is_locked(file: Path) -> bool:
    """Whether a process holds the lock, from the kernel's own list: to try it could keep a controller from starting."""
    try:
        number = str(file.stat().st_ino)
    except FileNotFoundError:
        return False
    rows = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any("FLOCK" in row and row[-3].rpartition(":")[2] == number for row in rows)


# ------------------------------------------------------------------------------------------- the account


def _rights(of: Patient) -> Iterator[CheckResult]:
    if of.user == "root":
        yield CheckResult(
            "rights", CheckStatus.WARN, "this is root, which is more than is needed", "run this as shunter"
        )
    elif of.rules:
        yield CheckResult(
            "rights", CheckStatus.OK, f"{of.user} may change the jobs of others ({of.level or 'SlurmUser'})"
        )
    elif not of.accounting:
        yield CheckResult(
            "rights", of.wanting, f"without slurmdbd only root and {of.owner} may change the jobs of others",
            f"run the controller as {of.owner}, or only watch",
        )  # fmt: skip
    else:
        how = "modify" if of.level else "add"
        words = (
            f"user {of.user} set adminlevel=operator"
            if of.level
            else f"user {of.user} account=root adminlevel=operator"
        )
        yield CheckResult(
            "rights", of.wanting, f"{of.user} may not change the jobs of others", f"sacctmgr -i {how} {words}"
        )


def _marks(of: Patient) -> Iterator[CheckResult]:
    """Only administrators write the marks by which a lost journal's changes are noticed."""
    if of.acts and of.level == "operator":
        yield CheckResult(
            "marks", CheckStatus.WARN,
            f"{of.user} is an operator and can't mark the jobs that it changes (AdminComment)",
            "keep its journal safe: without marks it is the only way back; or set adminlevel=admin",
        )  # fmt: skip


def _privacy(of: Patient) -> Iterator[CheckResult]:
    private = [name for name in of.config.get("privatedata", "").lower().split(",") if name not in ("", "none")]
    hidden = [] if of.rules else [name for name in ("jobs", "nodes") if name in private]
    shown = f"PrivateData={','.join(private) or 'none'}"
    if hidden:
        text = f"{shown} hides {' and '.join(hidden)} of others from {of.user}"
        yield CheckResult(
            "privacy", of.wanting, text, "make the account an operator: forecasts and orders need all jobs"
        )
    else:
        yield CheckResult("privacy", CheckStatus.OK, f"{of.user} sees all jobs and nodes ({shown})")


def _accounting(of: Patient) -> Iterator[CheckResult]:
    if of.accounting:
        yield CheckResult("accounting", CheckStatus.OK, "slurmdbd")
        return
    text = "no slurmdbd: Slurm counts neither age nor fair share, and there is no history to learn from"
    yield CheckResult("accounting", CheckStatus.WARN, text, "set AccountingStorageType=accounting_storage/slurmdbd")


# ------------------------------------------------------------------------------------------- Slurm


def _versions(of: Patient) -> Iterator[CheckResult]:
    served = of.config.get("slurm_version", "")
    ours = f"shunter {__version__}, Python {platform.python_version()}"
    yield CheckResult("shunter", CheckStatus.OK, ours)
    release = f"{of.client.release[0]}.{of.client.release[1]:02}"
    if not served.startswith(release):
        text = f"the commands are of {release}, slurmctld is of {served}"
        yield CheckResult("slurm", CheckStatus.WARN, text, "install the commands of slurmctld's release")
    elif of.client.release == TESTED:
        yield CheckResult("slurm", CheckStatus.OK, f"Slurm {served}")
    else:
        text = f"Slurm {served}; a real {TESTED[0]}.{TESTED[1]:02} is tested, others by their recorded answers"
        yield CheckResult("slurm", CheckStatus.OK, text)


def _clock(of: Patient) -> Iterator[CheckResult]:
    begun = time.time()
    found = SDIAG_TIME.search(of.client.run("sdiag"))
    if found is None:
        yield CheckResult(
            "clock", CheckStatus.WARN, "sdiag does not show slurmctld's time", "compare the clocks by hand"
        )
        return
    theirs = int(found[1])
    apart = max(begun - theirs - 1, theirs - time.time(), 0.0)
    verdict = CheckStatus.FAIL if apart > CLOCK_FAIL_S else CheckStatus.WARN if apart > CLOCK_WARN_S else CheckStatus.OK
    text = "as slurmctld's" if verdict is CheckStatus.OK else f"{apart:.0f} s apart from slurmctld's"
    yield CheckResult("clock", verdict, text, "" if verdict is CheckStatus.OK else "synchronise both (chrony, ntp)")


def _queue(of: Patient) -> Iterator[CheckResult]:
    """How long a poll takes, what it shows, and what of it can't be parsed."""
    watcher = Watcher(of.client)
    sdiag_s = _timed(watcher.counters)
    snapshot = watcher.snapshot()
    look_s = _timed(watcher.snapshot)
    text = (
        f"sdiag {sdiag_s:.2f} s, squeue and sinfo {look_s:.2f} s ({watcher.form}), {counted(_present(snapshot), 'job')}"
    )
    slow = sdiag_s > SLOW_SDIAG_S or look_s > SLOW_LOOK_S
    remedy = "raise --interval and --poll; see 'sdiag' for what slurmctld is busy with"
    yield CheckResult("polls", CheckStatus.WARN if slow else CheckStatus.OK, text, remedy if slow else "")
    yield _gpus(snapshot)
    if watcher.unread:
        name, why = next(iter(watcher.unread.items()))
        text = f"jobs or nodes that can't be parsed and are left to Slurm: {len(watcher.unread)}; {name}: {why}"
        yield CheckResult("unread", CheckStatus.WARN, text, "report this with the output of squeue --json")


def _present(snapshot: Snapshot) -> int:
    """The jobs that wait or run; Slurm also lists those that have just ended."""
    return sum(not job.over for job in snapshot.jobs)


def _timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _gpus(snapshot: Snapshot) -> CheckResult:
    gpus = sum(node.gpus for node in snapshot.nodes)
    if not gpus:
        return CheckResult(
            "nodes", CheckStatus.FAIL, "no node has GPUs that Slurm schedules", "set Gres=gpu:... in slurm.conf"
        )
    return CheckResult("nodes", CheckStatus.OK, f"{counted(len(snapshot.nodes), 'node')} with {counted(gpus, 'GPU')}")


def _scheduler(of: Patient) -> Iterator[CheckResult]:
    kind, priority = of.config.get("schedulertype", ""), of.config.get("prioritytype", "")
    if priority != "priority/multifactor":
        text = f"{priority}: jobs have no age, size or fair share beside nice"
        yield CheckResult("priority", CheckStatus.WARN, text, "set PriorityType=priority/multifactor")
    else:
        yield CheckResult("priority", CheckStatus.OK, priority)
    if kind != "sched/backfill":
        yield CheckResult(
            "scheduler", CheckStatus.WARN, f"{kind}: small jobs never use gaps", "set SchedulerType=sched/backfill"
        )
        return
    site = live_site(of.client)
    depths = [f"{name}={site.parameter(name, default)}" for name, default in DEPTHS.items()]
    yield CheckResult("scheduler", CheckStatus.OK, f"{kind}, {', '.join(depths)}")


def _model(of: Patient) -> Iterator[CheckResult]:
    """What the site uses and our model of it does not know: forecasts are less certain there."""
    site = live_site(of.client)
    remarks = [remark.removeprefix("not modelled: ") for remark in site.remarks]
    remarks += unmodelled(Watcher(of.client, surroundings=True).snapshot(), site.rules)
    for remark in remarks:
        yield CheckResult("not modelled", CheckStatus.WARN, remark, "forecasts and the guard are less certain")
    if not remarks:
        yield CheckResult("not modelled", CheckStatus.OK, "nothing that is in use here")
