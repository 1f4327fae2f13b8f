"""What reproductions of data sets x schedulers share: a place of their own, and few made-up jobs."""

from __future__ import annotations

import pytest

from shunter.reproduce import standin


@pytest.fixture
def _few_jobs(tmp_path, monkeypatch):
    """The public traces are not found; what stands in for them is small."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("SHUNTER_DATA", str(tmp_path / "nothing"))
    monkeypatch.setattr(standin, "JOBS", 400)
    monkeypatch.chdir(tmp_path)
