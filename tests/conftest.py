"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shunter.compiled import cache_folder

# processes that tests start may have caches of their own, but need not compile again
os.environ.setdefault("SHUNTER_KERNELS", str(cache_folder().parent))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with real traces; tests that need it are skipped where it is missing."""
    folder = Path(os.environ.get("SHUNTER_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real traces at {folder}; set SHUNTER_DATA to run this")
    return folder
