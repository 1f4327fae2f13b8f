"""What a page is about and where it is served."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from shunter.experiment import TraceSource

MIB = 2**20
LOOPBACK = "127.0.0.1"
PORT = 8642
UPLOAD_MIB = 256


@dataclass(frozen=True)
class LiveSources:
    """Where the page learns of a live cluster; nothing is set: it shows none."""

    slurm: bool = False  # whether Slurm is polled
    snapshot: Path | None = None  # a recorded snapshot, in place of Slurm
    journal: Path | None = None  # of a controller
    site: Path | None = None  # Slurm's rules, as ``shunter slurm import`` writes them
    history: TraceSource | None = None  # past jobs

    @property
    def shows_queue(self) -> bool:
        """Whether there are jobs and nodes to show."""
        return self.slurm or self.snapshot is not None


@dataclass(frozen=True)
class WebSettings:
    """One page."""

    folder: Path  # the runs
    host: str = LOOPBACK
    port: int = PORT
    names: tuple[str, ...] = ()  # other host names under which a proxy serves it
    user_header: str = ""  # in which a proxy says who the user is; "": none
    upload_mib: int = UPLOAD_MIB
    live: LiveSources = field(default_factory=LiveSources)

    @property
    def hosts(self) -> frozenset[str]:
        """The values of the Host header that are answered."""
        own = {self.host, "localhost", LOOPBACK, "[::1]"} - {"0.0.0.0", "::"}
        return frozenset({f"{name}:{self.port}".lower() for name in own} | {name.lower() for name in self.names})
