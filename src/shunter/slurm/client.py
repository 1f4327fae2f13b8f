"""Slurm's own commands, called safely: no shell, a clean environment, a time limit, an answer or an error.

Arguments go to the program as they are, so that no job name or user name is ever read by a shell.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from shunter.errors import SlurmError
from shunter.live.manager import DeclinedError, ForbiddenError, GoneError, UnreachableError

TIMEOUT_S = 20.0  # commands hang for minutes when slurmctld is dead
KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_CONF_SERVER")
PARTLY = re.compile(r": No error\b")  # of an array's tasks some have ended, and the others were changed
LONGEST_ERROR = 300  # characters of Slurm's own words in a message
GONE = re.compile(r"invalid job id|already (?:finished|compl)", re.IGNORECASE)
FORBIDDEN = re.compile(r"permission denied|not permitted|invalid user id", re.IGNORECASE)
AWAY = re.compile(
    r"unable to contact slurm controller|connection (refused|timed out)|socket timed out|zero bytes were transmitted"
    r"|communication|configuration source|slurm_load_\w+ error: unable|slurmdbd|protocol authentication|munge",
    re.IGNORECASE,
)


REMEDIES = {  # Slurm's words: what to do
    r"unable to contact slurm controller|connection refused": "is slurmctld up? See 'shunter slurm doctor'",
    r"configuration source": "this machine finds no slurm.conf; set SLURM_CONF, or run this on a node of the cluster",
    r"accounting storage is disabled": "this site keeps no accounting (AccountingStorageType), so it has no history",
}


def declined(words: str) -> DeclinedError:
    """What Slurm answers when it would not, by its words: the job is gone, this account may not, or another reason."""
    kind = GoneError if GONE.search(words) else ForbiddenError if FORBIDDEN.search(words) else DeclinedError
    return kind(words)


class Client:
    """A way to call Slurm's commands; everything that they say or do goes through here."""

    def __init__(self, conf: Path | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.timeout_s = timeout_s
        self.calls: Counter[str] = Counter()  # how often each command was called
        self._deadline = float("inf")
        self.environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        self.environment |= {"TZ": "UTC", "LC_ALL": "C.UTF-8"}  # times without time zones, words in English
        self.environment |= {"SLURM_BITSTR_LEN": "0"}  # all task numbers of an array, not the first 64 characters
        if conf is not None:
            self.environment["SLURM_CONF"] = str(conf)

    def path_of(self, program: str) -> str | None:
        """Where a command is; None: it is not on the PATH."""
        return shutil.which(program, path=self.environment.get("PATH"))

    def run(self, program: str, *arguments: str, secret: Mapping[str, str] | None = None) -> str:
        """What a command prints; ``secret`` variables are for it alone: every account can see its arguments."""
        path = self.path_of(program)
        if path is None:
            raise SlurmError(
                f"'{program}' must be on the PATH, and it isn't; run this where Slurm's commands are installed"
            )
        self.calls[program] += 1
        limit = min(self.timeout_s, self._deadline - time.monotonic())
        if limit <= 0:
            raise UnreachableError(f"no time is left to call {program}: Slurm answers too slowly")
        try:
            done = subprocess.run(
                [path, *arguments],
                env={**self.environment, **(secret or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limit,
                check=False,
                start_new_session=True,  # Ctrl-C is for us: it must not stop a change halfway
            )
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"{program} did not answer within {limit:.0f} s; is slurmctld alive?") from None
        except OSError as error:
            if error.errno == errno.E2BIG:  # the tasks of an array, one by one: the next command may be shorter
                raise DeclinedError(f"{program}: too many arguments for one command: {error.strerror}") from None
            raise UnreachableError(f"{program} could not be started: {error.strerror}") from None
        if done.returncode < 0:  # it is unknown whether Slurm received it
            raise UnreachableError(f"{program} was killed by signal {-done.returncode}")
        said = " ".join(done.stderr.decode(errors="replace").split())
        if done.returncode and not PARTLY.search(said):
            said = said[:LONGEST_ERROR] or f"exit code {done.returncode}"
            away = AWAY.search(said)
            remedies = (f"; {what}" for words, what in REMEDIES.items() if re.search(words, said, re.IGNORECASE))
            words = f"{program} {arguments[0] if arguments else ''}: {said}{next(remedies, '')}"
            raise UnreachableError(words) if away else declined(words)
        return done.stdout.decode(errors="replace")

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """All calls inside must be over by then: many that each answer slowly are not waited for either."""
        before, self._deadline = self._deadline, time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = before

    @cached_property
    def release(self) -> tuple[int, int]:
        """The release of Slurm's commands, as (22, 5)."""
        said = self.run("squeue", "--version")
        found = re.search(r"(\d+)\.(\d+)", said)
        if found is None:
            raise SlurmError(f"squeue --version should say a number such as 22.05.8, got '{said.strip()}'")
        return int(found[1]), int(found[2])


def user_name() -> str:
    """The name of the user who runs this, whatever the environment says; "" where the system has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""
