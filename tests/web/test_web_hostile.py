"""What others may put into the folder or send: the page refuses it with a message, and goes on."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import socket
import threading
import time
import zipfile
from concurrent.futures import Future

import polars as pl
import pytest
from served import TOKEN

pytest.importorskip("fastapi", reason="no fastapi; the extra web has it")

from shunter import under_way
from shunter.errors import PolicyError, RunError
from shunter.under_way import ENDING, RunPoint, UnderWay, file_of, shown
from shunter.web import forms, serving, streaming
from shunter.web import tasks as web_tasks
from shunter.web.access import Access, token_in
from shunter.web.changes import BIN, Changes
from shunter.web.choices import MOST_JOBS, checked_policy, trace_text
from shunter.web.folder import RunsFolder
from shunter.web.tasks import BackgroundTask, Tasks

ROW = '{"policy": "a", "jobs": %s, "jct_s": {"mean": %s, "p99": 1}}'
RECORD = '{"policies": [%s], "trace": "a", "cluster": "b"}'


@pytest.fixture(scope="module")
def served(serve, filled):
    return serve(filled)


@pytest.mark.parametrize("rows", ["", ROW % ("Infinity", 1), ROW % (1, "NaN"), ROW % (1, "Infinity")])
def test_a_broken_comparison_does_not_hide_the_others(served, rows):
    bad = served.folder / "bad"
    bad.mkdir()
    (bad / "comparison.json").write_text(RECORD % rows)
    try:
        assert "sjf" in served.get("/runs").text
        assert {each["name"] for each in served.get("/api/runs").json if each["problem"]} == {"bad"}
    finally:
        shutil.rmtree(bad)


def test_a_name_that_is_no_text_does_not_hide_the_others(served):
    bad = os.fsencode(served.folder) + b"/bad\xff"
    os.mkdir(bad)
    try:
        with open(bad + b"/comparison.json", "w") as file:
            file.write(RECORD % (ROW % (1, 1)))
        assert served.get("/runs").status == served.get("/api/runs").status == 200
    finally:
        shutil.rmtree(bad)


def test_files_that_say_what_is_under_way_do_not_hide_each_other(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(under_way, "EVERY_S", 0.0)
    about = UnderWay("run", "jobs", "4x4", ["fifo"])
    (tmp_path / "linked").symlink_to("/etc")
    with shown(tmp_path / "mine", about) as note:
        note(1, 2)
        known = file_of(tmp_path / "mine").read_bytes()
        for name in ("linked", ".hidden", ""):
            (tmp_path / f".{name}{ENDING}").write_bytes(known)
        found = serve(tmp_path).get("/runs/under-way")
    assert found.status == 200
    assert re.findall(r"<li><b>(.*?)</b>", found.text) == ["mine"]


def test_a_link_in_a_run_is_not_followed(served, tmp_path):
    (tmp_path / "secret.json").write_text('{"secret": 1}')
    run = served.folder / "linked"
    shutil.copytree(served.folder / "sjf", run)
    (run / "summary.json").unlink()
    (run / "summary.json").symlink_to(tmp_path / "secret.json")
    try:
        for path in ("/api/summary", "/api/explain", "/runs/report", "/runs/steps"):
            found = served.get(path, run="linked", job="1")
            assert found.status == 422
            assert "secret" not in found.text
    finally:
        shutil.rmtree(run)


def test_a_summary_that_is_none_is_a_message(served):
    bad = served.folder / "none"
    bad.mkdir()
    (bad / "comparison.json").write_text("[")
    try:
        assert served.get("/api/summary", run="none").status == 422
    finally:
        shutil.rmtree(bad)


@pytest.mark.parametrize(
    ("field", "value"),
    [("deadlines", {"by_user": 5}), ("fairness", {}), ("makespan_s", None), ("digest", 5), ("by_size", {})],
)
def test_a_run_with_fields_that_are_none_is_a_message(served, field, value):
    odd = served.folder / "odd"
    shutil.copytree(served.folder / "sjf", odd)
    try:
        summary = json.loads((odd / "summary.json").read_text())
        (odd / "summary.json").write_text(json.dumps({**summary, field: value}))
        found = served.get("/runs/report", run="odd")
        assert (found.status, "odd: its files are not those of a run" in found.text) == (422, True)
    finally:
        shutil.rmtree(odd)


def test_a_run_with_endless_numbers_is_a_message(served):
    odd = served.folder / "odd"
    shutil.copytree(served.folder / "sjf", odd)
    try:
        jobs = pl.read_parquet(odd / "jobs.parquet")
        jobs.with_columns(pl.lit(float("inf")).alias("gpus")).write_parquet(odd / "jobs.parquet")
        found = [served.get("/runs/steps", run="odd", at=str(at)) for at in range(0, 60, 10)]
        assert {each.status for each in found} <= {200, 422}
        assert any("odd: its files are not those of a run" in each.text for each in found)
    finally:
        shutil.rmtree(odd)


@pytest.mark.parametrize("table", ["jobs", "events", "decisions"])
def test_a_run_with_tables_that_are_none_is_a_message(served, table):
    odd = served.folder / "odd"
    shutil.copytree(served.folder / "sjf", odd)
    try:
        pl.DataFrame({"job_id": ["1"], "time": [2**62], "job": [-7]}).write_parquet(odd / f"{table}.parquet")
        asked = [("/runs/report", {}), ("/runs/steps", {"at": "0"}), ("/api/explain", {"job": "1"})]
        assert all(served.get(path, run="odd", **more).status in (200, 422) for path, more in asked)
    finally:
        shutil.rmtree(odd)


@pytest.mark.parametrize("name", ["a" * 5000, "a/" * 3000, "\ud800"])
def test_an_odd_name_is_refused(tmp_path, name):
    with pytest.raises(RunError, match="no such name"):
        RunsFolder.of(tmp_path).path(name)


def test_a_number_has_plain_digits(served):
    assert served.get("/runs/steps", run="sjf", at="²").status == 422
    assert served.get("/runs/growing", run="sjf", shown="9" * 5000).status == 422
    head = f"GET /runs HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Length: {'9' * 5000}\r\n\r\n"
    assert _raw(served, head.encode())[:12] in (b"HTTP/1.1 413", b"HTTP/1.1 400")


@pytest.mark.parametrize("point", [[9e15, 9e15, 9e15, 9e15], [0, 0, 0, 0], [5e-324, 0, 0, 5e-324]])
def test_charts_of_absurd_numbers_are_drawn(serve, tmp_path, point):
    page = serve(tmp_path)
    about = {"kind": "run", "trace": "t", "cluster": "c", "policies": ["sjf"], "total": 9e15, "done": 9e15}
    about |= {"at": time.time(), "pid": os.getpid(), "gpus": 5e-324, "course": [[0, 0, 0, 0], point, point]}
    (tmp_path / ".odd.under-way.json").write_text(json.dumps(about))
    for address in ("/runs/under-way", "/runs/so-far?run=odd", "/runs/growing?run=odd"):
        assert page.get(address).status == 200


@pytest.mark.parametrize("jobs", ["1,jobs=10000000", "1_000_000", "+10000000"])
def test_the_limit_of_jobs_holds_however_they_are_written(tmp_path, jobs):
    with pytest.raises(RunError, match=f"up to {MOST_JOBS:,}"):
        trace_text(RunsFolder.of(tmp_path), f"synthetic:jobs={jobs}")


def test_a_cookie_is_not_unquoted():
    """To unquote takes the square of what is sent, for whoever sends it: 50 kB of backslashes took 6 s."""
    gate = Access("t" * 40, 1)
    assert gate.admits(f'other="\\0"; {gate.cookie_name}={gate.cookie}', "")
    assert not gate.admits(f'{gate.cookie_name}="{gate.cookie}"', "")


def test_nobody_waits_for_a_task_in_an_answer():
    tasks = Tasks()
    tasks.kept["a"] = BackgroundTask("a", Future())
    with pytest.raises(RunError, match="still being computed"):
        tasks.ended("a")


def test_the_bin_is_no_way_out(tmp_path):
    (tmp_path / "in" / "run").mkdir(parents=True)
    (tmp_path / "in" / "run" / "experiment.toml").touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / BIN).symlink_to(tmp_path / "out")
    with pytest.raises(RunError, match="is a link"):
        Changes(RunsFolder.of(tmp_path / "in")).delete("run")
    assert list((tmp_path / "out").iterdir()) == []


# -- what programs send


@pytest.mark.parametrize(
    "body",
    [
        b'{"trace": NaN, "cluster": "1x8", "policies": ["fifo"]}',
        b'{"trace": "synthetic:jobs=5,gpus=8", "cluster": "1x8", "policies": ["fifo"], "load": "\\ud800"}',
        b'{"trace": "\\ud800", "cluster": "\\ud800", "policies": ["\\ud800"]}',
        b'{"trace": "a", "cluster": "1x8", "policies": ["' + b"ces:policy=" * 20_000 + b'fifo"]}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_what_is_no_request_is_a_message(served, body):
    about = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    found = served.ask("POST", "/api/simulate", body, **about)
    assert found.status in (400, 422)
    assert found.json["detail"]


def test_policies_inside_others_have_an_end():
    assert checked_policy("ces:policy=sjf") == "ces:policy=sjf"
    with pytest.raises(PolicyError, match="others inside it"):
        checked_policy("ces:policy=" * 150 + "fifo")


def test_only_what_browsers_need_is_served(served):
    assert served.get("/static/report/report.css").status == 200
    assert served.get("/static/report/js/figures.js").status == 200
    for path in ("/static/report/page.py", "/static/report/__init__.py", "/static/vendor/manifest.json", "/static/"):
        assert served.get(path).status == 404


# -- files


def test_a_token_file_that_is_none_is_a_message(tmp_path):
    (tmp_path / "folder").mkdir(mode=0o700)
    with pytest.raises(RunError, match="is no file"):
        token_in(tmp_path / "folder")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe" * 40)
    (tmp_path / "bytes").chmod(0o600)
    with pytest.raises(RunError, match="32 letters"):
        token_in(tmp_path / "bytes")


def _bomb_of_text() -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        for _ in range(4):
            file.write(b"0" * 2**24)  # 64 MiB in 64 KiB
    return packed.getvalue()


def _bomb_of_cells() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * 2**26)
    return packed.getvalue()


@pytest.mark.parametrize(("name", "made"), [("a.csv.gz", _bomb_of_text), ("a.xlsx", _bomb_of_cells)])
def test_a_small_file_that_unpacks_to_much_is_refused(served, monkeypatch, name, made):
    monkeypatch.setattr("shunter.safe_files.PARSED_LEAST", 2**24)
    monkeypatch.setattr("shunter.safe_files.PARSED_SHARE", 0.0)
    found = served.ask("PUT", f"/what-if/traces?name={name}", made(), Authorization=f"Bearer {TOKEN}")
    assert found.status == 200
    about = served.get("/what-if/trace", trace=found.text)
    assert about.status == 422
    assert "more than 16 MiB" in about.text
    (served.folder / found.text).unlink()


HOSTILE = {
    "cut short": lambda whole: whole[: len(whole) // 2],
    "no end": lambda whole: whole[:-4] + b"XXXX",
    "other bytes": lambda whole: whole[:40] + bytes(200) + whole[240:],
    "a length that is none": lambda whole: whole[:-8] + b"\xff\xff\xff\x7f" + whole[-4:],
    "only its mark": lambda whole: b"PAR1",
}


@pytest.mark.parametrize("harm", HOSTILE.values(), ids=list(HOSTILE))
def test_a_parquet_file_that_was_changed_is_a_message(served, harm):
    import pyarrow as pa
    import pyarrow.parquet as pq

    packed = io.BytesIO()
    pq.write_table(pa.table({"job_id": ["<script>"], "submit": [0], "duration": [60], "gpus": [1]}), packed)
    body = harm(packed.getvalue())
    found = served.ask("PUT", "/what-if/traces?name=bad.parquet", body, Authorization=f"Bearer {TOKEN}")
    about = served.get("/what-if/trace", trace=found.text)
    assert about.status == 422
    assert "bad.parquet" in about.text
    (served.folder / found.text).unlink()


def test_a_trace_has_a_limit_of_jobs(served, monkeypatch):
    monkeypatch.setattr("shunter.web.routes.trying.MOST_JOBS", 10)
    monkeypatch.setattr("shunter.web.what_if.MOST_JOBS", 10)
    assert "up to 10 jobs" in served.get("/what-if/trace", trace="jobs.csv").text
    body = {"trace": "jobs.csv", "cluster": "2x4", "policies": ["fifo"]}
    assert "up to 10 jobs" in served.post_json("/api/simulate", body).json["detail"]


# -- work


def _until_stopped(task):
    while True:
        task.report(0, 1)


def test_work_can_be_stopped_and_has_a_limit(monkeypatch):
    work = Tasks()
    first, second = work.begin(_until_stopped), work.begin(_until_stopped)
    work.stop(second.id)  # it waits for its turn
    work.stop(first.id)
    assert web_tasks.ended_within(first, 60)
    assert web_tasks.ended_within(second, 60)
    assert first.problem.startswith("stopped;")
    assert second.problem == "stopped before it began"
    monkeypatch.setattr(web_tasks, "LONGEST_S", 0.0)
    late = work.begin(_until_stopped)
    assert web_tasks.ended_within(late, 60)
    assert "takes longer than" in late.problem
    work.close()


def test_few_pages_follow_their_progress_at_once(served, monkeypatch):
    task = served.state.tasks.begin(lambda task: None)
    monkeypatch.setattr(streaming, "MOST_WATCHERS", 0)
    addresses = (f"/what-if/tasks/{task.id}/events", "/runs/growing/events?run=sjf")
    assert [served.get(address).status for address in addresses] == [503, 503]
    monkeypatch.setattr(streaming, "MOST_WATCHERS", 1)
    for _ in range(3):  # each that ends makes room
        for address in addresses:
            assert "event: over" in served.get(address).text
    assert served.state.watchers.now == 0


def test_tasks_are_begun_from_many_threads_at_once():
    work, found = Tasks(), []

    def begin():
        for _ in range(50):
            try:
                found.append(work.begin(lambda task: None).id)
            except RunError:
                continue
            work.all()

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found)
    assert len(work.all()) <= web_tasks.MOST_KEPT
    work.close()


def _raw(served, sent: bytes) -> bytes:
    """What comes back until the connection is closed."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as client:
        try:
            client.sendall(sent)
            return b"".join(iter(lambda: client.recv(2**16), b""))
        except ConnectionError:
            return b""  # closed while we still sent


def test_a_connection_that_does_not_say_what_it_wants_is_closed(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "REQUEST_S", 0.3)
    page = serve(tmp_path)
    assert _raw(page, b"") == b""
    assert _raw(page, b"GET /runs HTTP/1.1\r\nHost: ") == b""
    assert page.get("/runs").status == 200


@pytest.mark.parametrize("rest", [b"GET /runs HT", b""], ids=["a second request", "a body"])
def test_a_connection_that_says_half_of_something_after_an_answer_is_closed(serve, tmp_path, monkeypatch, rest):
    monkeypatch.setattr(serving, "REQUEST_S", 1.0)
    page = serve(tmp_path)
    length = 0 if rest else 100
    with socket.create_connection(("127.0.0.1", page.port), timeout=60) as client:
        client.sendall(f"POST /runs HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        assert client.recv(2**16).startswith(b"HTTP/1.1 421")
        client.sendall(rest or b"a")
        while client.recv(2**16):
            pass


def test_headers_have_an_end(served):
    endless = b"GET /runs HTTP/1.1\r\nHost: x\r\n" + b"A: " + b"a" * 2**17
    assert _raw(served, endless)[:12] in (b"", b"HTTP/1.1 400")


def test_a_form_that_does_not_arrive_is_not_waited_for(served, monkeypatch):
    monkeypatch.setattr(forms, "LONGEST_S", 0.3)
    head = f"POST /enter HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Length: 100\r\n\r\ntoken"
    assert _raw(served, head.encode()).startswith(b"HTTP/1.1 422")


def test_hostile_names_of_what_is_under_way_are_shown_as_text(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(under_way, "EVERY_S", 0.0)
    evil = "</script><img src=x onerror=alert(1)>"
    page = serve(tmp_path)
    with shown(tmp_path / "a&b", UnderWay("run", evil, evil, [evil], unit=evil, gpus=4)) as course:
        course.reach(RunPoint(60.0, 1, 2, 3.0), 9)
        for address in ("/runs/under-way", "/runs/so-far?run=a%26b", "/runs/growing?run=a%26b"):
            text = page.get(address).text
            assert "<img" not in text
            assert "onerror" in text
        assert text.count("</script>") == 3  # one for each chart
    for name in ("..", "../x", "/etc", ".hidden", "a/../../b"):
        for address in ("/runs/so-far", "/runs/growing", "/runs/growing/events"):
            assert page.get(address, run=name).status == 422


def test_what_is_under_way_behind_a_link_is_not_read(serve, tmp_path):
    folder, secret = tmp_path / "runs", tmp_path / "secret.json"
    folder.mkdir()
    with shown(tmp_path / "x", UnderWay("run", "secret-trace", "4x4", ["fifo"])) as note:
        note(1, 2)
        secret.write_text(file_of(tmp_path / "x").read_text())
    file_of(folder / "y").symlink_to(secret)
    page = serve(folder)
    assert "secret-trace" not in page.get("/runs/under-way").text
    assert "Nobody works on it" in page.get("/runs/so-far", run="y").text


def test_connections_that_say_nothing_whole_make_room_for_others(serve, tmp_path, monkeypatch, capfd):
    """Any account of the machine can open some, and needs no token."""
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 10)
    page = serve(tmp_path)
    head = f"POST /enter HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nContent-Length: 1000\r\n\r\ntoken"
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", page.port), timeout=60)) for _ in range(30)
        ]
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.sendall(head.encode())
        assert page.get("/runs").status == 200
        closed = 0
        for client in clients:
            client.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                try:
                    closed += client.recv(1) == b""
                except ConnectionError:
                    closed += 1
        assert closed >= 20
    assert "Traceback" not in capfd.readouterr().err
