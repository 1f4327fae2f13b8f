"""The audit: who was moved, when, and why; and no secret in anything that is kept or said."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import datetime

import pytest
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.errors import LiveError
from shunter.live.audit import AuditLog, entries, since_when
from shunter.live.backend import Round
from shunter.live.controller import RoundResult
from shunter.live.journal import DONE, FAILED, Journal
from shunter.live.levers import Order
from shunter.live.snapshot import LiveJob, Snapshot

WHY = "the policy puts it at place 1 of 900, it stands at 731"
NICE = Order("4711", "nice", "-1000000", "0", WHY)
PIN = Order("4712", "pin", ",".join(f"gpu-node-{at:03}" for at in range(30)), "", "the policy chose these nodes")
SECRET = "eyJhbGciOiJIUzI1NiJ9.sec-ret.Zm9v"


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "j.db"
    book = Journal(path)
    book.note("begin", "sjf in mode act")
    done, failed = book.intend(1, [NICE, PIN])
    book.settle(done, DONE)
    book.settle(failed, FAILED, "scontrol update: \x1b[31mInvalid [bold]node")
    book.note("end", "stopped")
    book.close()
    return path


def said(*words, code=0):
    result = CliRunner().invoke(app, ["slurm", "audit", *map(str, words)])
    assert result.exit_code == code, result.output
    return result.stdout


def test_the_table_shows_all_in_a_hundred_columns(journal):
    text = said("--journal", journal)
    assert max(map(len, text.splitlines())) <= 100
    words = " ".join(text.split())
    for part in ("4711", "nice", "0 -> -1000000", "done", "begin", "sjf in mode act", "end", "failed", "gpu-node-029"):
        assert part in words, part
    assert "\x1b" not in text
    assert "[bold]node" in words
    assert time.strftime("%Y-%m-%d") in text


def test_one_job_and_a_moment(journal):
    assert "4712" not in said("--journal", journal, "--job", "4711")
    assert "begin" not in said("--journal", journal, "--job", "4711")
    assert said("--journal", journal, "--since", "2099-01-01") == ""
    assert "4711" in said("--journal", journal, "--since", "1h")


def test_a_job_without_entries_is_not_an_empty_journal(journal):
    result = CliRunner().invoke(app, ["slurm", "audit", "--journal", str(journal), "--job", "99"])
    assert "nothing about job 99 in this journal" in result.stderr
    assert "empty" not in result.stderr


def test_json_has_the_same_and_times_with_a_zone(journal):
    rows = json.loads(said("--journal", journal, "--json"))
    assert [row["kind"] for row in rows] == ["begin", "nice", "pin", "end"]
    assert rows[1] | {"at": ""} == {
        "at": "", "job": "4711", "kind": "nice", "before": "0", "value": "-1000000", "state": "done", "why": WHY,
    }  # fmt: skip
    assert datetime.fromisoformat(rows[0]["at"]).tzinfo is not None


def test_what_cannot_be_read_is_said(journal, tmp_path):
    assert said("--journal", tmp_path / "none.db", code=2) == ""
    assert not (tmp_path / "none.db").exists()
    assert said("--journal", journal, "--since", "yesterday", code=2) == ""


def test_a_long_journal_and_long_texts_are_cut_in_the_table(journal):
    with closing(sqlite3.connect(journal)) as file:
        file.execute("insert into events (at, kind, text) values (1.0, 'old', 'gone')")
        at = time.time()
        rows = ((at + number, "x", f"number{number}") for number in range(1000))
        file.executemany("insert into events (at, kind, text) values (?, ?, ?)", rows)
        file.execute("insert into events (at, kind, text) values (?, 'x', ?)", (at + 1000, "y" * 100_000))
        file.commit()
    result = CliRunner().invoke(app, ["slurm", "audit", "--journal", str(journal)])
    assert result.output.count("y") < 2000
    assert "number999" in result.output
    assert "gone" not in result.output
    assert "the last 1,000 of 1,006 entries" in " ".join(result.output.split())
    assert len(json.loads(said("--journal", journal, "--json"))) == 1006


def test_an_empty_file_or_one_with_a_huge_text_is_no_journal(journal, tmp_path):
    (tmp_path / "empty.db").touch()
    with closing(sqlite3.connect(journal)) as file:
        file.execute("insert into events (at, kind, text) values (1.0, 'x', printf('%.*c', 20000000, 'y'))")
        file.commit()
    for path in (tmp_path / "empty.db", journal):
        result = CliRunner().invoke(app, ["slurm", "audit", "--journal", str(path)])
        assert result.exit_code == 2
        assert "this is not a journal" in " ".join(result.output.split())


@pytest.mark.parametrize(("text", "ago"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86_400)])
def test_since_is_a_length_of_time_or_a_date(text, ago):
    assert since_when(text, 1e9) == 1e9 - ago
    assert since_when("2026-01-31T12:00+00:00", 0) == 1769860800
    with pytest.raises(LiveError, match="must look like"):
        since_when("soon", 0)


def outcome(**more):
    jobs = (
        LiveJob("4711", "4711", "PENDING", user="ann", partition="main"),
        LiveJob("4712", "4712", "PENDING", user="bob"),
    )
    return RoundResult(Round(3, Snapshot(0, jobs, ()), None, jobs), [NICE, PIN], **more)


def test_the_log_only_grows_and_names_the_moved_jobs(journal, tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_text('{"from": "before"}\n')
    log = AuditLog(path, journal)
    log.seen(outcome())
    book = Journal(journal)
    book.note("guard", "handed back")
    book.close()
    log.seen(outcome(done=1, failed=[(PIN, "Invalid node")], respected={"4711": "someone set its nice"}))
    log.close()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[0] == {"from": "before"}
    told = [(row["job"], row["kind"], row["state"], row.get("user")) for row in rows[1:]]
    assert told == [
        ("4711", "nice", "proposed", "ann"),
        ("4712", "pin", "proposed", "bob"),
        ("", "guard", "", None),
        ("4711", "nice", "done", "ann"),
        ("4712", "pin", "failed", "bob"),
        ("4711", "respected", "left alone", "ann"),
    ]
    assert rows[-2]["why"].endswith("; Invalid node")


def test_a_place_where_no_log_can_be(journal, tmp_path):
    with pytest.raises(LiveError, match="audit log can't be written"):
        AuditLog(tmp_path / "no" / "audit", journal)


# ------------------------------------------------------------------------------------------- secrets


def controlled(folder, *more, **environment):
    """One round in a process whose environment holds a secret; all that it says and keeps."""
    command = [sys.executable, "-m", "shunter", "slurm", "run", "-p", "sjf:estimate=limit", "--mode", "act"]
    done = subprocess.run(
        [*command, "--rounds", "2", "--interval", "0.5", "--poll", "0.3", "--journal", str(folder / "j.db"),
         "--audit-log", str(folder / "audit.jsonl"), *more],
        env={**os.environ, "SLURM_JWT": SECRET, "MY_PASSWORD": SECRET, **environment},
        capture_output=True, timeout=600, check=False, cwd=folder,
    )  # fmt: skip
    return done, b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file()) + done.stdout + done.stderr


def test_a_log_is_no_link_and_no_pipe(journal, tmp_path):
    """In a folder of others: a link leads to any file of this account, and a pipe without a reader never opens."""
    (tmp_path / "link").symlink_to(tmp_path / "treasure")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(LiveError, match=f"{name}: the audit log"):
            AuditLog(tmp_path / name, journal)
    assert not (tmp_path / "treasure").exists()


def test_commands_that_print_their_environment_print_no_secret(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("squeue", "sinfo", "scontrol", "sdiag"):
        (programs / name).write_text("#!/bin/sh\n/usr/bin/env >&2\nexit 1\n")
        (programs / name).chmod(0o755)
    done, all_of_it = controlled(tmp_path, PATH=str(programs))
    assert done.returncode == 2
    assert b"LC_ALL" in done.stderr  # it did print it
    assert SECRET.encode() not in all_of_it


def test_live_changes_are_audited_and_no_secret_is_kept(lab, tmp_path):
    lab.wait_job(lab.submit("--exclusive", "--gpus-per-node=1", "--time=9", "-N9", script="sleep 300"), "RUNNING")
    jobs = [lab.submit("--gpus=1", f"--time={minutes}", script="true") for minutes in (9, 5, 2)]
    done, all_of_it = controlled(tmp_path, SLURM_CONF=str(lab.conf))
    assert done.returncode == 0, done.stderr
    assert SECRET.encode() not in all_of_it
    book = Journal(tmp_path / "j.db")
    moved = {entry.job for entry in entries(book) if entry.kind == "nice" and entry.state in ("done", "undone")}
    book.close()
    assert moved
    assert moved <= {str(number) for number in jobs}
    rows = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert {row["job"] for row in rows if row["kind"] == "nice"} == moved
    assert {row["user"] for row in rows if row["job"]} == {"root"}
    assert [row["kind"] for row in rows if not row["job"]] == ["begin", "end"]
