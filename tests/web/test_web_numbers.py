"""The API has the numbers of the command line; what it needs is in the package; it serves as a command."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from importlib.resources import files

import pytest
from served import TRACE
from typer.testing import CliRunner

import shunter
from shunter.cli.main import app
from shunter.experiment import TraceSource
from shunter.report.terminal.tables import duration

pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")

from shunter.web import cluster_view
from shunter.web.comparing import ONLY_LISTED

CHANGING = {"elapsed_s", "jobs_per_s"}  # numbers that a machine's load changes


@pytest.fixture(scope="module")
def served(serve, filled, live):
    return serve(filled, live=live)


def printed(*words) -> object:
    found = CliRunner().invoke(app, [*map(str, words), "--json"], prog_name="shunter")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def steady(summary):
    return {key: value for key, value in summary.items() if key not in CHANGING}


def test_a_simulation_has_the_numbers_of_the_command_line(served):
    body = {"trace": TRACE, "cluster": "4x4", "policies": ["sjf:backfill=easy", "las"]}
    found = served.post_json("/api/simulate", body).json
    for row, policy in zip(found, body["policies"], strict=True):
        assert steady(row) == steady(printed("simulate", TRACE, "-c", "4x4", "-p", policy))


def test_a_what_if_on_a_file_has_the_digest_of_the_command_line(served):
    body = {"trace": "jobs.csv", "cluster": "2x4", "policies": ["saf"]}
    (row,) = served.post_json("/api/simulate", body).json
    assert row["digest"] == printed("simulate", served.folder / "jobs.csv", "-c", "2x4", "-p", "saf")["digest"]


def test_runs_and_reasons_are_those_of_the_folder(served):
    found = served.get("/api/runs").json
    assert sorted((one["name"], one["kind"]) for one in found) == [
        ("both", "comparison"), ("both/1-fifo", "run"), ("both/2-las", "run"), ("sjf", "run"),
    ]  # fmt: skip
    assert [one["name"] for one in served.get("/api/runs", policy="las").json] == ["both", "both/2-las"]
    kept = json.loads((served.folder / "sjf" / "summary.json").read_text())
    assert served.get("/api/summary", run="sjf").json == kept
    assert served.get("/api/explain", run="sjf", job="7").json == printed("explain", served.folder / "sjf", "7")


def test_the_report_of_a_comparison_is_that_of_the_command_line_with_all_repeats(serve, tmp_path):
    made = shunter.compare(TRACE, "4x4", ["fifo", "las"], out=tmp_path / "twice", workers=1, repeat=2, decisions=True)
    shunter.simulate(TRACE, "4x4", "sjf").save(tmp_path / "sjf")
    page, written = serve(tmp_path), made.report(tmp_path / "page.html").read_text()
    shown = page.get("/runs/report?run=twice").text
    for table in ("Repeats: mean JCT", "Times: completion", "Everything else"):
        (there,) = re.findall(rf"<caption>{table}.*?</table>", written, re.DOTALL)
        assert there in shown
    assert ONLY_LISTED not in shown
    later = page.get("/runs/report?run=twice/1-fifo-repeat1&run=twice/2-las-repeat1")
    assert later.status == 200
    assert ONLY_LISTED not in later.text
    mixed = page.get("/runs/report?run=twice/1-fifo-repeat0&run=twice/2-las-repeat1")
    assert mixed.status == 422
    assert "different repeats" in mixed.text
    (tmp_path / "twice" / "comparison.json").write_text('{"policies": [{}]}')
    damaged = page.get("/runs/report?run=twice")
    assert damaged.status == 422
    assert "comparison.json is damaged" in damaged.text


def test_a_comparison_beside_other_runs_shows_all_its_repeats(serve, tmp_path):
    shunter.compare(TRACE, "4x4", ["fifo", "las"], out=tmp_path / "twice", workers=1, repeat=2)
    shunter.compare(TRACE, "4x4", ["saf"], out=tmp_path / "other", workers=1, repeat=2)
    shunter.simulate(TRACE, "4x4", "sjf").save(tmp_path / "sjf")
    whole = shunter.compare(TRACE, "4x4", ["fifo", "las", "saf"], workers=1, repeat=2)
    page, written = serve(tmp_path), whole.report(tmp_path / "page.html").read_text()
    both = page.get("/runs/report?run=twice&run=other").text  # as if they had been one
    for table in ("Repeats: mean JCT", "Times: completion", "Everything else"):
        (there,) = re.findall(rf"<caption>{table}.*?</table>", written, re.DOTALL)
        assert there in both
    beside = page.get("/runs/report?run=twice&run=sjf").text
    assert f"{ONLY_LISTED} repeat 0." in beside
    (listed,) = re.findall(r"<caption>Every run that is ticked.*?</table>", beside.replace("<wbr>", ""), re.DOTALL)
    for name in ("twice/1-fifo-repeat0", "twice/1-fifo-repeat1", "twice/2-las-repeat0", "twice/2-las-repeat1", "sjf"):
        mean = json.loads((tmp_path / name / "summary.json").read_text())["jct_s"]["mean"]
        assert duration(mean) in next(row for row in listed.split("<tr>") if name in row).replace("\xa0", " ")


def test_policies_are_those_of_the_command_line(served):
    assert served.get("/api/policies").json == printed("policies")
    assert served.get("/api/policies/tiresias").json == printed("policies", "tiresias")
    assert served.get("/api/policies/os.path").status == 422


@pytest.mark.parametrize("question", ["why", "when"])
def test_answers_about_a_job_are_those_of_the_command_line(served, live, question):
    for job in ("3", "4", "5"):
        found = served.get(f"/api/jobs/{job}/{question}").json
        assert found == printed("slurm", question, job, "--snapshot", live.snapshot)


def test_a_job_that_is_not_there_is_a_message(served):
    found = served.get("/api/jobs/99/when")
    assert found.status == 422
    assert "no job 99" in found.json["detail"]


def test_what_if_i_submitted_is_that_of_the_command_line(served, live):
    found = served.post_json("/api/jobs/what-if", {"gpus": 2, "time": "1:00:00"}).json
    assert found == printed("slurm", "what-if", "--gpus", 2, "--time", "1:00:00", "--snapshot", live.snapshot)


def test_the_audit_is_that_of_the_command_line(served, live):
    assert served.get("/api/audit").json == printed("slurm", "audit", "--journal", live.journal)[::-1]


def test_every_address_of_the_api_is_described(served):
    paths = served.get("/api/openapi.json").json["paths"]
    assert {"/api/jobs/{job_id}/when", "/api/simulate", "/api/runs"} <= set(paths)
    assert all(about["summary"] and about["description"] for one in paths.values() for about in one.values())
    shown = served.get("/api/docs").text
    assert all(f"{path}</code>" in shown for path in paths)


def test_htmx_is_what_its_manifest_says():
    vendor = files("shunter").joinpath("web", "static", "vendor")
    manifest = json.loads(vendor.joinpath("manifest.json").read_text())
    library = vendor.joinpath("htmx.min.js").read_bytes()
    assert hashlib.sha256(library).hexdigest() == manifest["sha256"]
    assert f'version:"{manifest["htmx.org"]}"' in library.decode()


def test_the_command_prints_an_address_that_answers_and_stops_when_told(tmp_path):
    command = [sys.executable, "-m", "shunter", "web", str(tmp_path), "--port", "0", "--json"]
    command += ["--token-file", str(tmp_path / "token")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        lines = [running.stdout.readline() for _ in range(6)]
        about = json.loads("".join(lines))
        assert about["open"].startswith(f"{about['url']}/enter#token=")
        assert about["url"].startswith("http://127.0.0.1:")
        assert os.stat(about["token_file"]).st_mode & 0o077 == 0
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 130


def test_a_folder_that_is_not_there_is_a_message(tmp_path):
    found = CliRunner().invoke(app, ["web", str(tmp_path / "none"), "--token-file", str(tmp_path / "t"), "--port", "0"])
    assert found.exit_code == 2
    assert "there is no such folder" in found.output


def test_a_history_is_read_once_until_its_file_changes(live, tmp_path, monkeypatch):
    past, reads, real = tmp_path / "past.csv", [], cluster_view.read_trace
    past.write_text("job_id,submit,duration,gpus\na,0,300,1\n")
    monkeypatch.setattr(cluster_view, "read_trace", lambda *given: reads.append(given) or real(*given))
    view = cluster_view.ClusterView(dataclasses.replace(live, history=TraceSource(str(past))))
    view.outlook()
    live.snapshot.touch()  # so that the next look is a new one
    view.outlook()
    assert len(reads) == 1
    past.write_text("job_id,submit,duration,gpus\na,0,300,1\nb,60,300,1\n")
    os.utime(live.snapshot, (1, 1))
    view.outlook()
    assert len(reads) == 2
