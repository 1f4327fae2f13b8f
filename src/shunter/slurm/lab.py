"""A real Slurm cluster of virtual nodes on one machine: no systemd, no cgroups, nothing in /etc or /var."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from shunter.errors import LiveError, SlurmError
from shunter.live.daemons import PLACES, environments, free_ports, last_lines, pid_in, program, start, stop, wait
from shunter.slurm.lab_files import PARTITIONS, LabNodes, Ports, write
from shunter.slurm.presence import LISTED, signs_in

NODES = (LabNodes("p100", 3, 4), LabNodes("k80", 4, 2), LabNodes("m40", 2, 1))
PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol", "sinfo", "squeue", "sbatch", "scancel")
DATABASE_PROGRAMS = ("slurmdbd", "sacctmgr", "sacct", "mariadbd", "mariadb-install-db", "mariadb", "mariadb-admin")
PACKAGES = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"  # of Debian and Ubuntu
DATABASE_PACKAGES = "slurmdbd slurm-wlm-mysql-plugin mariadb-server"
LONGEST_FOLDER = 60  # sockets lie below it, and the name of one may have 107 characters
LIMIT_S = 120.0  # for everything that takes a moment, and much longer on a busy machine
MARK = "SHUNTER_LAB"  # in the environment of every daemon, so that none can be left behind unseen
TABLES = (
    "create database if not exists slurm;"
    "create user if not exists 'slurm'@'127.0.0.1' identified by 'lab';"
    "create user if not exists 'slurm'@'localhost' identified by 'lab';"
    "grant all on slurm.* to 'slurm'@'127.0.0.1'; grant all on slurm.* to 'slurm'@'localhost';"
)

__all__ = ["NODES", "PARTITIONS", "Lab", "LabNodes"]


class Lab:
    """A Slurm cluster that is there as long as the ``with`` block.

    ``settings`` are lines of slurm.conf, which go before ours. With ``database`` it has slurmdbd and a MariaDB of its
    own, without which Slurm counts neither age nor fair share; ``accounts`` says which users have which account.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[LabNodes] = NODES,
        *,
        database: bool = False,
        settings: Mapping[str, str] | None = None,
        partitions: Mapping[str, str] | None = None,
        accounts: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.folder = folder.resolve()
        if len(str(self.folder)) > LONGEST_FOLDER:
            raise SlurmError(
                f"the folder of a lab must have at most {LONGEST_FOLDER} characters (sockets lie below it), got"
                f" {self.folder}; choose one such as /tmp/lab"
            )
        self.nodes = tuple(nodes)
        self.database = database
        self.settings = dict(settings or {})
        self.partitions = dict(PARTITIONS if partitions is None else partitions)
        self.accounts = dict(accounts or {"lab": ("root",)})
        self.conf = self.folder / "etc" / "slurm.conf"
        self.env = {"PATH": PLACES, "HOME": "/", "LC_ALL": "C.UTF-8", "TZ": "UTC", "SLURM_CONF": str(self.conf)}

    # ---- up and down

    @staticmethod
    def missing(database: bool = False) -> str:
        """What stands in the way of a lab on this machine, in words; "": nothing."""
        wanted = PROGRAMS + (DATABASE_PROGRAMS if database else ())
        absent = [name for name in wanted if program(name) is None]
        if absent:
            packages = f"{PACKAGES} {DATABASE_PACKAGES}" if database else PACKAGES
            remedy = f"install it with: apt-get install --no-install-recommends {packages}"
            return f"Slurm can't be tried here: there is no {', '.join(absent)}; {remedy}"
        if os.geteuid() != 0:
            return "Slurm can't be tried here: its daemons must be started by root"
        with tempfile.TemporaryDirectory() as folder:
            try:
                os.mknod(Path(folder) / "gpu", 0o020666, os.makedev(1, 3))
            except OSError as problem:
                return f"Slurm can't be tried here: no device can be made (mknod: {problem.strerror})"
        return ""

    def __enter__(self) -> Lab:
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.down()

    def up(self) -> None:
        """Start everything and wait until all nodes are idle; what a killed run left in the folder is ended before."""
        reason = self.missing(self.database)
        if reason:
            raise SlurmError(reason)
        self._end_all()
        ports = free_ports(3 + len(self.node_names))
        where = Ports(ports[0], ports[1], ports[2], tuple(ports[3:]))
        write(self.folder, self.nodes, where, self.database, self.settings, self.partitions)
        self._start_munge()
        if self.database:
            self._start_database()
            self._start_accounting()
        self.start_controller()
        for name in self.node_names:
            self.start_node(name)
        self.wait_idle()

    def down(self) -> None:
        """Cancel all jobs and end every process of the lab, also what was left by one that crashed."""
        try:
            if pid_in(self._pid("slurmctld")) in self.processes():
                self.cancel_all(timeout=20)
        except LiveError:
            pass  # a controller that hangs: what it runs is ended with the rest
        finally:
            self._end_all()

    def remove(self) -> None:
        """Forget all: end what runs and delete the folder."""
        self.down()
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self) -> list[int]:
        """All processes of the lab that run: daemons, and what their jobs started."""
        mark, conf = f"{MARK}={self.folder}".encode(), f"SLURM_CONF={self.conf}".encode()
        ours = {
            pid
            for pid, lines in environments()
            if mark in lines or (conf in lines and any(line.startswith(b"SLURM_JOB_ID=") for line in lines))
        }
        named = (pid_in(file) for files in self._pid_files() for file in files)
        ours |= {pid for pid in named if pid and self._is_ours(pid)}
        return sorted(ours - {os.getpid()})

    # ---- what clients do

    def run(
        self,
        *command: str,
        timeout: float = LIMIT_S,
        user: str | None = None,
        given: str = "",
        secret: Mapping[str, str] | None = None,
    ) -> str:
        """What a client command prints; ``given`` is what it reads, ``secret`` variables are its own. Fails with it."""
        try:
            ended = subprocess.run(
                command,
                env={**self.env, **(secret or {})},
                input=given,
                cwd="/",
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
                user=user,
                group=pwd.getpwnam(user).pw_gid if user else None,
                extra_groups=[] if user else None,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError(f"'{' '.join(command)}' gave no answer in {timeout:g} s") from None
        if ended.returncode:
            raise SlurmError(f"'{' '.join(command)}' failed: {(ended.stderr or ended.stdout).strip()}")
        return ended.stdout

    def submit(self, *options: str, script: str = "sleep 1", user: str | None = None) -> int:
        """Submit a batch job that runs a few lines of shell, and return its number."""
        where = ("--output=/dev/null", "--chdir=/")
        said = self.run("sbatch", "--parsable", *where, *options, given=f"#!/bin/sh\n{script}\n", user=user)
        return int(said.partition(";")[0])

    def jobs(self) -> dict[int, str]:
        """The jobs that wait or run, with their state as Slurm names it."""
        rows = (line.split() for line in self.run("squeue", "-h", "-a", "-o", "%A %T").splitlines())
        return {int(number): state for number, state in rows}

    def job(self, number: int) -> dict[str, str]:
        """What ``scontrol show job`` says of a job, field by field."""
        words = self.run("scontrol", "-o", "show", "job", str(number)).split()
        return {key: value for key, _, value in (word.partition("=") for word in words)}

    def wait_job(self, number: int, *states: str, timeout: float = LIMIT_S) -> str:
        """Wait until a job is in one of these states."""
        state = ""

        def reached() -> bool:
            nonlocal state
            state = self.job(number)["JobState"]
            return state in states

        if not wait(reached, timeout):
            raise SlurmError(f"job {number} must become {' or '.join(states)} in {timeout:g} s, but it is {state}")
        return state

    def cancel_all(self, timeout: float = LIMIT_S) -> None:
        """Cancel all jobs of all users, and wait until none is left."""

        def gone() -> bool:
            left = self.jobs()
            if "PENDING" in left.values():  # a job may queue itself again as it is cancelled
                self._cancel(timeout)
            return not left

        if self.jobs():
            self._cancel(timeout)
        if not wait(gone, timeout):
            raise SlurmError(f"jobs {sorted(self.jobs())} were cancelled but did not end in {timeout:g} s")

    def _cancel(self, timeout: float) -> None:
        for partition in self.partitions:
            self.run("scancel", f"--partition={partition}", timeout=timeout)

    def idle(self) -> bool:
        """Whether all nodes are up with nothing on them."""
        rows = [line.split() for line in self.run("sinfo", "-h", "-N", "-o", "%N %T").splitlines()]
        return {name for name, state in rows if state == "idle"} == set(self.node_names)

    def wait_idle(self, timeout: float = LIMIT_S) -> None:
        """Wait until all nodes are up with nothing on them."""
        if not wait(self.idle, timeout):
            found = "; ".join(dict.fromkeys(self.run("sinfo", "-h", "-N", "-o", "%N %T %E").splitlines()))
            raise SlurmError(f"all nodes must be idle after {timeout:g} s, but: {found}")

    def reset(self) -> None:
        """As after ``up``: no jobs or signs of controllers, all daemons and nodes up, whatever was done to them."""
        if not pid_in(self._pid("slurmctld")):
            self.start_controller()
        for name in self.node_names:
            if not pid_in(self._pid(f"slurmd.{name}")):
                self.start_node(name)
        self.cancel_all()
        for sign in signs_in(self.run(*LISTED)):  # of one that was killed
            self._succeeds("scontrol", "delete", f"reservationname=shunter_{sign.journal}")
        for line in dict.fromkeys(self.run("sinfo", "-h", "-N", "-o", "%N %T").splitlines()):
            name, state = line.split()
            if state.startswith(("drain", "down")):  # it may have come back by itself meanwhile
                self._succeeds("scontrol", "update", f"nodename={name}", "state=resume")
        self.wait_idle()

    # ---- daemons

    @property
    def node_names(self) -> tuple[str, ...]:
        """What the nodes are called."""
        return tuple(name for group in self.nodes for name in group.names)

    def start_controller(self) -> None:
        """Start slurmctld, which knows its jobs again, and wait until it answers."""
        self._start("slurmctld", "-f", str(self.conf), "-i")

        def answers() -> bool:
            try:
                return "is UP" in self.run("scontrol", "ping", timeout=5)
            except LiveError:
                return False

        if not wait(answers, LIMIT_S):
            raise SlurmError(f"slurmctld does not answer: {last_lines(self.folder / 'log' / 'slurmctld.log')}")

    def stop_controller(self, kill: bool = False) -> None:
        """End slurmctld; with ``kill`` it forgets what it has not saved yet (see ``wait_saved``)."""
        self._stop("slurmctld", kill)

    def wait_saved(self) -> None:
        """Wait until slurmctld has saved what it knows: a word put into a job's comment now shows in its file."""
        word, saved = secrets.token_hex(8), self.folder / "state" / "job_state"
        job = next(number for number in self.jobs() if not {"Comment", "ArrayJobId"} & self.job(number).keys())
        self.run("scontrol", "update", f"jobid={job}", f"comment={word}")
        if not wait(lambda: word.encode() in saved.read_bytes(), LIMIT_S):
            raise SlurmError(f"slurmctld has saved nothing for {LIMIT_S:g} s; see {self.folder}/log/slurmctld.log")

    def start_node(self, name: str) -> None:
        """Start the slurmd of a node."""
        self._start("slurmd", "-f", str(self.conf), "-N", name)

    def stop_node(self, name: str, kill: bool = False) -> None:
        """End the slurmd of a node; what jobs have started there goes on."""
        self._stop(f"slurmd.{name}", kill)

    def _start_munge(self) -> None:
        munge = self.folder / "munge"
        places = {"key-file": "key", "socket": "sock", "log-file": "log", "seed-file": "seed"}
        options = [f"--{option}={munge / name}" for option, name in places.items()]
        self._start("munged", *options, f"--pid-file={self._pid('munged')}", "--num-threads=4", "--force")

    def _start_database(self) -> None:
        """A MariaDB of our own, on the loopback only."""
        folder = self.folder / "db"
        own = f"--defaults-file={folder / 'my.cnf'}"
        shutil.chown(folder, "mysql", "mysql")
        if not (folder / "data" / "mysql").is_dir():
            root = "--auth-root-authentication-method=socket"
            self._start("mariadb-install-db", own, "--user=mysql", root, "--skip-test-db")
        self._start("setsid", "--fork", program("mariadbd") or "mariadbd", own)
        client = ("--no-defaults", f"--socket={folder / 'sock'}")
        if not wait(lambda: self._succeeds("mariadb-admin", *client, "ping"), LIMIT_S):
            raise SlurmError(f"MariaDB does not answer: {last_lines(folder / 'log')}")
        self.run("mariadb", *client, "-e", TABLES)

    def _start_accounting(self) -> None:
        self._start("slurmdbd")  # its file lies beside the one that SLURM_CONF names
        if not wait(lambda: self._succeeds("sacctmgr", "-n", "show", "cluster"), LIMIT_S):
            raise SlurmError(f"slurmdbd does not answer: {last_lines(self.folder / 'log' / 'slurmdbd.log')}")
        self._succeeds("sacctmgr", "-i", "-Q", "add", "cluster", "lab")  # fails where it is known from before
        for account, users in self.accounts.items():
            self._succeeds("sacctmgr", "-i", "-Q", "add", "account", account, "Cluster=lab")
            self._succeeds("sacctmgr", "-i", "-Q", "add", "user", ",".join(users), f"Account={account}")

    def _succeeds(self, *command: str) -> bool:
        try:
            self.run(*command)
        except LiveError:
            return False
        return True

    def _start(self, name: str, *options: str) -> None:
        env = self.env | {MARK: str(self.folder)}  # last: a daemon's title is written over the beginning
        start((program(name) or name, *options), env, self.folder / "log" / "start.log")

    def _stop(self, name: str, kill: bool) -> None:
        pid = pid_in(self._pid(name))
        if pid:
            stop([pid], kill)

    def _pid(self, name: str) -> Path:
        return self.folder / "pids" / f"{name}.pid"

    def _pid_files(self) -> list[list[Path]]:
        """In the order in which they are ended: nodes, the controller, accounting, and what these need."""
        nodes = sorted((self.folder / "pids").glob("slurmd.*.pid"))
        return [
            nodes,
            *([self._pid(name)] for name in ("slurmctld", "slurmdbd", "munged")),
            [self.folder / "db" / "pid"],
        ]

    def _is_ours(self, pid: int) -> bool:
        """Whether a process is the one that a pid file meant, not another that got its number since."""
        try:
            return str(self.folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    def _end_all(self) -> None:
        ours = set(self.processes())
        for files in self._pid_files():
            stop([pid for file in files if (pid := pid_in(file)) and pid in ours], timeout=20)
        stop(self.processes(), kill=True)  # what no pid file names: jobs of nodes that were killed
