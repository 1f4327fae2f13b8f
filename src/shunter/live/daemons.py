"""Programs that run in the background and are found again by their pid files."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from shunter.errors import LiveError

PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # daemons are not on every user's PATH
PORTS = range(20000, 32000)  # below those that the kernel gives to outgoing connections
POLL_S = 0.05
LONGEST_END = 2**16  # bytes of a log that are looked at


def program(name: str) -> str | None:
    """Where a program is, if it is installed."""
    return shutil.which(name, path=PLACES)


def free_ports(count: int) -> list[int]:
    """A number of ports that are free."""
    found: list[int] = []
    while len(found) < count:
        port = PORTS.start + secrets.randbelow(len(PORTS))
        with socket.socket() as listener:
            try:
                listener.bind(("", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def start(command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
    """Run a program that goes into the background by itself; what it says until then is in ``log``."""
    with log.open("ab") as said:
        ended = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", check=False, timeout=60
        )
    if ended.returncode:
        raise LiveError(f"{Path(command[0]).name} did not start: {last_lines(log)}")


def last_lines(log: Path, count: int = 3) -> str:
    """The end of a log, on one line."""
    try:
        with log.open("rb") as file:  # of a log of days only the end
            file.seek(-min(LONGEST_END, os.fstat(file.fileno()).st_size), os.SEEK_END)
            lines = file.read(LONGEST_END).decode(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    return " | ".join(lines[-count:]) or f"it said nothing in {log}"


def pid_in(file: Path) -> int | None:
    """The process that a pid file names, if it still runs."""
    try:
        pid = int(file.read_text())
    except (OSError, ValueError):
        return None
    return pid if alive(pid) else None


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not yet collected by its parent doesn't."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return False
    return after_name.split()[0] not in "ZX"


def stop(pids: Sequence[int], kill: bool = False, timeout: float = 10.0) -> None:
    """End processes and wait until they are gone; those that don't go in time are killed."""
    for sign in (signal.SIGKILL,) if kill else (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                continue
        if wait(lambda: not any(map(alive, pids)), timeout):
            return
    raise LiveError(f"processes {[pid for pid in pids if alive(pid)]} can't be ended; end them by hand")


def wait(holds: Callable[[], bool], timeout: float) -> bool:
    """Wait until something holds; False: it did not in time."""
    end = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def environments() -> Iterator[tuple[int, list[bytes]]]:
    """All processes that we may look at, with what they were given as their environment."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and alive(int(entry.name)):
            try:
                yield int(entry.name), (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
