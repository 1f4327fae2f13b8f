"""``shunter slurm run --policy auto`` on a real Slurm: watching, switching, the audit and the way back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from acting import fill, nices, shunter, untouched

from shunter.errors import LiveError
from shunter.live.daemons import wait
from shunter.live.journal import Journal
from shunter.live.running import policy_of
from shunter.slurm.lab import Lab
from shunter.testing.live import habitual
from shunter.traces.writing import write

pytestmark = pytest.mark.slurm
LIMITS = "days=9,least_days=1,check_days=0.5,least_jobs=50,worst_p99=20,worst_fairness=0.1"
AUTO = ("run", "--policy", "auto", "--baseline", "fifo:backfill=easy", "--interval", 1, "--poll", 0.5)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A past that ends now."""
    trace = habitual(1000, 22, 1.1)
    moved = int(time.time() * 1000) - 3_600_000 - int(trace.submit[-1])
    write(replace(trace, submit=trace.submit + moved), tmp_path / "past.parquet")
    return tmp_path / "past.parquet"


def documents(text: str) -> list[dict[str, Any]]:
    """Documents of JSON, one after the other."""
    found, at = [], 0
    while at < len(text.rstrip()):
        made, at = json.JSONDecoder().raw_decode(text, at)
        found.append(made)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def started(lab: Lab, out: Path, *more: object) -> subprocess.Popen[bytes]:
    """A controller with an autopilot, whose output goes to a file."""
    command = [sys.executable, "-m", "shunter", "slurm", *map(str, (*AUTO, *more))]
    with out.open("w") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, env=os.environ | {"SLURM_CONF": str(lab.conf)})


def test_watching_says_that_it_can_not_tell_and_writes_nothing(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    fill(lab, 9, 3)
    said = tmp_path / "said"
    process = started(lab, said, "--journal", tmp_path / "journal.db", "--json")
    try:
        assert wait(lambda: "can't tell yet, because" in said.read_text(), 600), said.read_text()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert said.read_text().count('"policy": "fifo:backfill=easy"') == said.read_text().count('"policy":') > 0
    assert list(tmp_path.iterdir()) == [said]
    assert untouched(lab)


def test_it_switches_is_audited_survives_a_kill_and_is_released(
    lab: Lab, tmp_path: Path, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    jobs, journal = fill(lab, 9, 3), tmp_path / "journal.db"
    process = started(
        lab, tmp_path / "said", "--mode", "act", "--journal", journal, "--limits", LIMITS, "--history", history,
        "--candidate", "sjf:backfill=easy,estimate=limit",
    )  # fmt: skip
    try:

        def switched() -> bool:
            if process.poll() is not None or not journal.is_file():
                return False
            with suppress(LiveError), closing(Journal.reading(journal)) as book:  # it may just be made
                return policy_of(book).startswith("sjf")
            return False

        assert wait(switched, 900), (tmp_path / "said").read_text()
        assert wait(lambda: nices(lab)[jobs[1]] < nices(lab)[jobs[0]], 180)  # the shorter one comes first now
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    entries = json.loads(shunter("audit", "--journal", journal, "--json").stdout)
    (switch,) = [entry for entry in entries if entry["kind"] == "switch"]
    assert "fifo:backfill=easy -> sjf:estimate=limit,backfill=easy: it would" in switch["why"]
    assert "times as good in the days before" in switch["why"]
    again = shunter(
        *AUTO, "--mode", "act", "--rounds", 2, "--journal", journal, "--limits", LIMITS,
        "--candidate", "sjf:backfill=easy,estimate=limit", "--json",
    )  # fmt: skip
    assert documents(again.stdout)[0]["policy"].startswith("sjf")
    released = shunter("release", "--journal", journal)
    assert released.exit_code == 0, released.output
    assert untouched(lab)
