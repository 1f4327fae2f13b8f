"""Runs that commands keep for themselves: private, for a month."""

from __future__ import annotations

import os
import time

import pytest

from shunter.sweeps import cached_runs
from shunter.sweeps.cached_runs import MONTH, cached_store
from shunter.sweeps.places import code_version
from shunter.sweeps.store import COLUMNS


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv(cached_runs.VARIABLE, str(tmp_path / "runs"))
    return tmp_path / "runs"


def row(key):
    return {"key": key, "version": code_version(), "begun": 0.0}


def test_runs_of_more_than_a_month_ago_are_forgotten(runs):
    for number in range(2):
        with cached_store("tuning", COLUMNS) as store:
            store.add([row(f"{number}")])
    old, kept = store.files()[0], store.files()[1]
    os.utime(old, (time.time() - MONTH - 60,) * 2)
    other = runs / f"tuning-{'0' * 16}"
    (other / "runs").mkdir(parents=True, mode=0o700)
    (other / "store.toml").write_text("")
    os.utime(other / "store.toml", (0, 0))
    with cached_store("tuning", COLUMNS) as store:
        assert store.files() == [kept]
    assert not other.exists()


def test_a_folder_that_others_can_write_to_is_not_used(runs):
    runs.mkdir()
    runs.chmod(0o777)
    with cached_store("tuning", COLUMNS) as store:
        assert store.temporary
        store.add([row("a")])
        assert not store.folder.is_relative_to(runs)
    assert not store.folder.exists()


def test_other_sources_have_another_store(runs, monkeypatch):
    with cached_store("tuning", COLUMNS) as mine, cached_store("reproduce", COLUMNS) as other:
        assert mine.folder != other.folder
    monkeypatch.setattr(cached_runs, "code_version", lambda: "another")
    with cached_store("tuning", COLUMNS) as changed:
        assert changed.folder != mine.folder


def test_a_store_changes_with_every_room_that_its_runs_use(runs, tmp_path, monkeypatch):
    package = tmp_path / "shunter"
    for room in ("sweeps", "adapting", "generating"):
        (package / room).mkdir(parents=True)
        (package / room / "one.py").write_text("1")
    monkeypatch.setattr(cached_runs, "__file__", str(package / "sweeps" / "cached_runs.py"))
    with cached_store("adapting", COLUMNS, ["generating"]) as before:
        pass
    (package / "generating" / "one.py").write_text("2")
    with cached_store("adapting", COLUMNS, ["generating"]) as after:
        assert after.folder != before.folder


def test_the_runs_of_autosched_use_no_room_that_is_not_counted():
    """The version counts all rooms but a few; of these, kept runs may use those that are named alone."""
    import re
    from pathlib import Path

    import shunter
    from shunter.compiled import WITHOUT_KERNELS
    from shunter.reproduce.autosched.keeping import USES

    package = Path(shunter.__file__).parent
    counted = {"adapting", "sweeps", *USES}
    sources = [path for room in ("adapting", *USES) for path in (package / room).glob("*.py")]
    used = {room for path in sources for room in re.findall(r"^from shunter\.(\w+)", path.read_text(), re.MULTILINE)}
    assert used & {*WITHOUT_KERNELS} <= counted


def test_an_engine_lasts_until_it_breaks():
    from contextlib import contextmanager

    from shunter.sweeps.engines import WorkerLostError, lasting

    story = []

    @contextmanager
    def opening(runner):
        story.append("opened")
        yield runner
        story.append("closed")

    with lasting(opening) as open_engine:
        for _ in range(2):
            with open_engine("runner"):
                story.append("used")
        with pytest.raises(WorkerLostError), open_engine("runner"):
            raise WorkerLostError
        with open_engine("runner"):
            story.append("used")
    assert story == ["opened", "used", "used", "closed", "opened", "used", "closed"]
