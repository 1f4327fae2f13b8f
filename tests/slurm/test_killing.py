"""A controller that is killed at random points, again and again, with all levers, while Slurm is killed and frozen."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from shunter.errors import LiveError
from shunter.live.backing_out import back_out
from shunter.live.daemons import pid_in, wait
from shunter.live.journal import DONE, INTENT, Journal
from shunter.live.releasing import records
from shunter.live.snapshot import LiveJob
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab, LabNodes
from shunter.slurm.manager import SlurmManager
from shunter.slurm.watcher import OutputFormat, Watcher

pytestmark = pytest.mark.slurm
NODES = (LabNodes("p100", 2, 4), LabNodes("m40", 2, 1, shards=4))
CHANCES = ("nice,pin,requeue,shard", "priority,pin,requeue,shard", "nice")
QUEUE = 30  # jobs that wait at any time
SITE = "ticket 4711, of the site"


@dataclass(frozen=True)
class Own:
    """What a job was submitted with."""

    nice: int = 0
    nodes: str = ""
    per_node: str = ""
    agrees: bool = False  # to be stopped and queued again
    held: bool = False
    site: str = ""


@dataclass
class Setup:
    """A cluster with jobs of all kinds, and controllers to kill."""

    lab: Lab
    folder: Path
    draw: random.Random
    starter: subprocess.Popen[str]
    own: dict[str, Own] = field(default_factory=dict)  # by the job's id

    @property
    def journal(self) -> Path:
        return self.folder / "journal.db"

    # -- jobs

    def submit(self, own: Own, *options: str, seconds: float = 1.0, tasks: int = 0) -> int:
        """A job that leaves a line when it starts, and another when it ends."""
        file = f"{self.folder}/ran/$SLURM_JOB_ID"
        more = [f"--nice={own.nice}", f"--time={self.draw.randint(1, 9)}", *options]
        if own.agrees:
            more += ["--requeue", "--comment=shunter: requeue=yes"]
        if tasks:
            file = f"{self.folder}/ran/${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
            more.append(f"--array=1-{tasks}")
        number = self.lab.submit(*more, script=f"echo begins >> {file}\nsleep {seconds}\necho ends >> {file}")
        names = [f"{number}_{task}" for task in range(1, tasks + 1)] if tasks else [str(number)]
        self.own |= dict.fromkeys(names, own)
        if own.site:
            self.lab.run("scontrol", "update", f"jobid={number}", f"admincomment={own.site}")
        return number

    def submit_some(self) -> None:
        """One job of any kind."""
        nice, site = self.draw.choice((0, 0, 7, 300)), self.draw.choice(("", SITE))
        seconds, kind = self.draw.uniform(0.3, 2), self.draw.randrange(8)
        if kind == 0:
            self.submit(Own(nice, nodes="p100-1"), "--gpus=1", "--nodelist=p100-1", seconds=seconds)
        elif kind in (1, 2):
            self.submit(Own(nice, per_node="gres:shard:4", site=site), "--gres=shard:4", seconds=seconds)
        elif kind in (3, 4):
            self.submit(Own(nice, agrees=True), f"--gpus={self.draw.choice((1, 2))}", seconds=3 * seconds)
        else:
            self.submit(Own(nice, site=site), f"--gpus={self.draw.choice((1, 2, 4))}", seconds=seconds)

    def submit_arrays(self) -> None:
        """Arrays of which some tasks have a nice of their own."""
        for nice in (5, 0):
            array = self.submit(Own(nice), "--gpus=1", tasks=12)
            for task, other in ((4, 400), (9, 20)):
                self.lab.run("scontrol", "update", f"jobid={array}_{task}", f"nice={other}")
                self.own[f"{array}_{task}"] = Own(other)

    def submit_held(self) -> None:
        """Jobs that their users hold."""
        for _ in range(3):
            self.submit(Own(9, held=True), "--gpus=1", "--hold")

    def fill(self) -> None:
        """See to it that many wait."""
        while sum(state == "PENDING" for state in self.lab.jobs().values()) < QUEUE:
            self.submit_some()

    def found(self) -> list[LiveJob]:
        """One job for each record."""
        return [job for job in records(Watcher(Client(self.lab.conf), OutputFormat.TEXT).snapshot()) if not job.over]

    def own_of(self, job: LiveJob) -> Own:
        """What a record was submitted with; the waiting tasks of an array are alike."""
        first = re.match(r"\d+", job.tasks)
        return self.own[f"{job.handle}_{first[0]}" if first else job.id]

    # -- harm

    def control(self) -> int:
        """Start a controller, most often until it begins to change things; its process."""
        before = self.changes()
        self.starter.stdin.write(f"{self.draw.choice(CHANCES)} {self.draw.randrange(10**6)}\n")
        self.starter.stdin.flush()
        child = int(self.starter.stdout.readline())
        if self.draw.random() < 0.8:
            wait(lambda: self.changes() > before, 5)
        return child

    def changes(self) -> int:
        """How many changes the journal knows."""
        try:
            with closing(Journal.reading(self.journal)) as book:
                return len(book.acts())
        except LiveError:  # it is just being made
            return 0

    def pause(self, longest: float = 0.8) -> None:
        time.sleep(self.draw.uniform(0.05, longest))

    def killed(self) -> None:
        """A controller that comes to its end."""
        child = self.control()
        self.pause()
        end(child)

    def frozen(self) -> None:
        """The same while slurmctld does not answer; what it was asked it does afterwards."""
        daemon = pid_in(self.lab.folder / "pids" / "slurmctld.pid")
        child = self.control()
        self.pause()
        os.kill(daemon, signal.SIGSTOP)
        try:
            self.pause(2.5)
            end(child)
            self.pause(0.5)
        finally:
            os.kill(daemon, signal.SIGCONT)

    def forgetful(self) -> None:
        """The same while slurmctld is killed, and goes back to what it has saved.

        Nothing may start or end just before: a slurmctld that has forgotten that a job runs runs it again by itself.
        """
        self.lab.run("scontrol", "update", "nodename=ALL", "state=drain", "reason=test")
        assert wait(lambda: not any(job.runs for job in self.found()), 180)
        self.lab.wait_saved()
        child = self.control()
        self.pause(4)
        self.lab.stop_controller(kill=True)
        self.pause(1)
        end(child)
        self.lab.start_controller()
        assert wait(self.resumed, 180)

    def resumed(self) -> bool:
        """Whether all nodes take jobs again."""
        for node in self.lab.node_names:
            with suppress(LiveError):  # it is not drained, or has not registered yet
                self.lab.run("scontrol", "update", f"nodename={node}", "state=resume")
        states = set(self.lab.run("sinfo", "-h", "-N", "-o", "%T").split())
        return states <= {"idle", "mixed", "allocated"}

    # -- the end

    def given_back(self) -> None:
        """All is undone, as soon as what runs with a pin has ended; the jobs that wait are what they were."""
        assert wait(
            lambda: not back_out(SlurmManager(Client(self.lab.conf)), self.journal, from_marks=False).problems, 180
        )
        with closing(Journal(self.journal)) as book:
            assert not book.acts(INTENT, DONE)
        wrong = {
            job.id: (job.state, has, should)
            for job in self.found()
            if (has := values(job)) != (should := values_of(self.own_of(job), job))
        }
        assert not wrong, str(wrong)

    def all_ran(self) -> None:
        """Each job has run once, and once more for each time that it was stopped by us; none that has not agreed."""
        for job in self.found():
            if self.own_of(job).held:
                self.lab.run("scontrol", "release", job.target)
        assert wait(lambda: not self.found(), 180)
        with closing(Journal(self.journal)) as book:
            stops = [act.order.handle for act in book.acts(DONE, "undone") if act.order.lever == "requeue"]
            assert {name for name in stops if not self.own[name].agrees} == set()
        wrong = {}
        for name in self.own:
            file = self.folder / "ran" / name
            lines = file.read_text().split() if file.exists() else []
            begins, ends = lines.count("begins"), lines.count("ends")  # one that is stopped may just have ended
            if not 1 <= ends <= begins <= 1 + stops.count(name) or lines[-1] != "ends":
                wrong[name] = (lines, stops.count(name))
        assert not wrong, str(wrong)


def story(book: Journal) -> str:
    """What the journal has of the jobs that were taken for somebody else's, and when controllers began."""
    alone = {handle: (at, why) for handle, at, why in book.hands_off()}
    acts = [(act.at, act) for act in book.acts() if act.order.handle in alone]
    begins = [(at, f"{kind}: {text}") for at, kind, text in book.events()]
    lines = sorted([*acts, *begins, *alone.values()], key=lambda each: each[0])
    return "\n".join(f"{at:.3f} {what}" for at, what in lines)


def end(process: int) -> None:
    """Kill a controller, unless it has ended by itself because Slurm did not answer at its start."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def values(job: LiveJob) -> tuple[object, ...]:
    """What a job has that we could have changed; Slurm says of a running one where it runs, not what it asked for."""
    shards = job.per_node if "shard" in job.per_node else ""
    return job.nice, job.wanted_nodes, shards, job.annotation, job.held


def values_of(own: Own, job: LiveJob) -> tuple[object, ...]:
    """What it should have."""
    return own.nice, own.nodes, own.per_node, own.site, own.held and job.state == "PENDING"


@pytest.fixture
def set_up(lab_folder: Path, tmp_path: Path) -> Iterator[Setup]:
    if reason := Lab.missing():
        pytest.skip(reason)
    (tmp_path / "ran").mkdir()
    settings = {"AuthInfo": f"socket={lab_folder}/munge/sock,cred_expire=10"}  # a requeued job waits for so long
    with Lab(lab_folder, NODES, settings=settings) as lab:
        command = [sys.executable, str(Path(__file__).with_name("forking.py")), str(lab.conf)]
        pipe = subprocess.PIPE
        starter = subprocess.Popen([*command, str(tmp_path / "journal.db")], stdin=pipe, stdout=pipe, text=True)
        seed = int(os.environ.get("KILLING_SEED", "13"))
        yield Setup(lab, tmp_path, random.Random(seed), starter)
        starter.stdin.close()
        starter.terminate()
        starter.wait()
        starter.stdout.close()


@pytest.mark.parametrize(
    ("kills", "freezes", "crashes"), [(6, 2, 1), pytest.param(76, 20, 4, marks=pytest.mark.slow)], ids=["some", "100"]
)
def test_killed_at_random_points(set_up: Setup, kills: int, freezes: int, crashes: int) -> None:
    """Nothing is lost, held, pinned, run twice or left with a wrong nice."""
    set_up.submit_arrays()
    set_up.submit_held()
    plan = [set_up.killed] * kills + [set_up.frozen] * freezes + [set_up.forgetful] * crashes
    set_up.draw.shuffle(plan)
    for harm in plan:
        set_up.fill()
        harm()
    with closing(Journal(set_up.journal)) as book:
        levers = {act.order.lever for act in book.acts(DONE, "undone")}
        assert not book.left_alone(), story(book)  # nobody else has changed anything
        assert not [text for _, kind, text in book.events() if kind == "crash" and "did not answer" not in text]
    set_up.given_back()
    set_up.all_ran()
    assert levers >= {"nice", "priority", "pin", "requeue", "shard"} or kills < 50
