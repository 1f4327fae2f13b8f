"""Real Slurm clusters of virtual nodes, for tests that use one; one after the other in each of two processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.slurm.lab import Lab


@pytest.fixture
def _in_two_processes(request):
    """More clusters at once on two cores would only wait for one another."""
    if "PYTEST_XDIST_WORKER" in os.environ and not request.node.nodeid.endswith(("@slurm", "@slurm-2")):
        pytest.fail(
            "tests on a cluster must run in two processes; use --dist loadgroup and a pytest that xdist can group"
        )


@pytest.fixture
def lab_folder() -> Iterator[Path]:
    """A folder with a short name that every user may look into; pytest's own are neither."""
    with tempfile.TemporaryDirectory(prefix="lab", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def started(database: bool) -> Iterator[Lab]:
    reason = Lab.missing(database)
    if reason:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="lab", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with Lab(Path(folder), database=database, accounts={"red": ("root", "nobody"), "blue": ("daemon",)}) as running:
            yield running


@pytest.fixture(scope="session")
def shared_lab() -> Iterator[Lab]:
    yield from started(database=False)


@pytest.fixture(scope="session")
def shared_lab_with_database() -> Iterator[Lab]:
    yield from started(database=True)


@pytest.fixture
def lab(shared_lab: Lab, _in_two_processes: None) -> Lab:
    """Nine nodes with 22 GPUs, none of them used."""
    shared_lab.reset()
    return shared_lab


@pytest.fixture
def lab_with_database(shared_lab_with_database: Lab, _in_two_processes: None) -> Lab:
    """The same with accounts: red (root, nobody) and blue (daemon)."""
    shared_lab_with_database.reset()
    return shared_lab_with_database


@pytest.fixture
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A file with the cluster that a module calls BUSY."""
    request.module.BUSY.save(tmp_path / "now.json")
    return str(tmp_path / "now.json")
