"""Real Slurm clusters of virtual nodes, for tests that use one; one after the other, in one process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.slurm.lab import Lab

LABS = {"lab", "lab_with_database", "lab_folder"}


def pytest_collection_modifyitems(items):
    """Two processes that each run a cluster on two cores would only wait for one another."""
    for item in items:
        if LABS & set(getattr(item, "fixturenames", ())) or item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.xdist_group("slurm"))


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
def lab(shared_lab: Lab) -> Lab:
    """Nine nodes with 22 GPUs, none of them used."""
    shared_lab.reset()
    return shared_lab


@pytest.fixture
def lab_with_database(shared_lab_with_database: Lab) -> Lab:
    """The same with accounts: red (root, nobody) and blue (daemon)."""
    shared_lab_with_database.reset()
    return shared_lab_with_database
