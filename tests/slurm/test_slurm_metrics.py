"""Metrics: the text is what Prometheus reads, labels stay few, and the numbers are those of the rounds."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.errors import LiveError
from shunter.live import exposition
from shunter.live.backend import Round
from shunter.live.controller import RoundResult
from shunter.live.daemons import wait
from shunter.live.exposition import CONTENT_TYPE, Family, Histogram, Server, escaped, rendered
from shunter.live.levers import Order
from shunter.live.manager import UnreachableError
from shunter.live.metrics import MOST_PARTITIONS, OTHER, WAIT_BOUNDS, Metrics
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.slurm.client import Client

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
BACK = {"n": "\n", '"': '"', "\\": "\\"}


def parsed(text):
    """The samples of the text format by (name, labels), read strictly and independently of what wrote them."""
    assert text.endswith("\n")
    found, kinds = {}, {}
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("#"):
            _, what, name, rest = line.split(" ", 3)
            assert NAME.fullmatch(name)
            if what == "TYPE":
                assert name not in kinds, "a family comes once"
                assert rest in {"counter", "gauge", "histogram"}
                kinds[name] = rest
            continue
        match = re.fullmatch(r"([^ {]+)(?:\{(.*)\})? (\S+)", line)
        assert match, line
        name, inside, number = match.groups()
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        assert NAME.fullmatch(name)
        assert name in kinds or kinds.get(base) == "histogram", "each sample belongs to a family"
        labels = LABEL.findall(inside or "")
        assert LABEL.sub("", inside or "") == "", inside
        values = tuple((key, re.sub(r'\\(["\\n])', lambda hit: BACK[hit[1]], value)) for key, value in labels)
        assert (name, values) not in found, "a sample comes once"
        found[name, values] = float(number)
    return found, kinds


def job(number, state="PENDING", partition="main", **more):
    return LiveJob(str(number), str(number), state, partition=partition, user=f"user{number}", gpus=1, **more)


def outcome(*jobs, orders=(), **more):
    current = Round(1, Snapshot(0, tuple(jobs), ()), None, tuple(jobs), took_s=0.2)
    return RoundResult(current, list(orders), **more)


def numbers(metrics, name, **labels):
    found, _ = parsed(metrics.text())
    return found.get((name, tuple(labels.items())))


# ------------------------------------------------------------------------------------------- the format


@given(st.lists(st.tuples(st.text(max_size=8), st.floats(allow_nan=False)), max_size=6, unique_by=lambda each: each[0]))
def test_whatever_is_in_a_label_is_read_back(samples):
    family = Family("x_total", "counter", "about", ("label",))
    for text, value in samples:
        family.put(value, text)
    found, _ = parsed(rendered([family]))
    assert {labels[0][1] for _, labels in found} == {labels[0] for labels in family.values}
    for (_, labels), value in found.items():
        assert value == family.values[(labels[0][1],)]


def test_a_partition_cannot_make_a_line_of_its_own():
    assert escaped('a"} 1\nshunter_paused 1') == 'a\\"} 1\\nshunter_paused 1'


@given(st.lists(st.floats(0, 1e7), max_size=30))
def test_a_histogram_counts_what_is_at_or_below(values):
    histogram = Histogram("w", "about", WAIT_BOUNDS)
    for value in values:
        histogram.observe(value)
    found, kinds = parsed(rendered([histogram]))
    assert kinds == {"w": "histogram"}
    if not values:
        assert found == {}
        return
    for bound in (*WAIT_BOUNDS, math.inf):
        text = "+Inf" if math.isinf(bound) else f"{bound:g}"
        assert found["w_bucket", (("le", text),)] == sum(value <= bound for value in values)
    assert found["w_count", ()] == len(values)
    assert found["w_sum", ()] == pytest.approx(sum(values), rel=1e-8)


# ------------------------------------------------------------------------------------------- the numbers


def test_before_the_first_round_there_is_a_valid_page():
    found, _ = parsed(Metrics(Client()).text())
    assert found["shunter_paused", ()] == 0
    assert found["shunter_decisions_total", (("lever", "nice"),)] == 0
    assert ("shunter_guard_ratio", ()) not in found


def test_a_wait_is_counted_once_when_a_job_is_first_seen_to_have_started():
    metrics = Metrics(Client())
    ran = {"submit": 0, "eligible": 10_000, "nodes": ("n1",)}
    metrics.seen(outcome(job(1, "RUNNING", start=50_000, **ran), job(2), job(3)))
    assert numbers(metrics, "shunter_job_wait_seconds_count", partition="main") is None  # began before we did
    for _ in range(2):
        metrics.seen(
            outcome(
                job(1, "RUNNING", start=50_000, **ran),
                job(2, "RUNNING", start=80_000, **ran),
                job(3, start=99_000),  # Slurm's own guess
                job(4, "COMPLETED", "other part", start=20_000, **ran),  # came and went between two looks
                job(5, "CANCELLED", submit=0, start=1_000_000),  # never ran
            )
        )
    assert numbers(metrics, "shunter_job_wait_seconds_count", partition="main") == 1
    assert numbers(metrics, "shunter_job_wait_seconds_sum", partition="main") == 70
    assert numbers(metrics, "shunter_job_wait_seconds_sum", partition="other part") == 10
    metrics.seen(outcome(job(2, "RUNNING", start=200_000, **ran)))  # requeued, and started again
    assert numbers(metrics, "shunter_job_wait_seconds_count", partition="main") == 2


def test_waiting_and_running_jobs_are_counted_again_each_round():
    metrics = Metrics(Client())
    metrics.seen(outcome(job(1), job(2, partition="a,b"), job(3, "RUNNING", start=1, nodes=("n",)), job(4, "FAILED")))
    metrics.seen(outcome(job(1)))
    for name, partition, value in (("pending", "main", 1), ("pending", "a", 0), ("running", "main", 0)):
        assert numbers(metrics, f"shunter_{name}_jobs", partition=partition) == value


def test_decisions_refusals_and_the_rest():
    metrics = Metrics(Client())
    nice, pin, late = (Order(str(at), lever, "1", "0") for at, lever in enumerate(("nice", "pin", "nice")))
    failed = [(pin, "Invalid node name"), (late, "slurmctld is away")]
    metrics.seen(outcome(orders=[nice, pin, late], failed=failed, silence="slurmctld is away", postponed=4, ratio=1.25))
    metrics.silent(UnreachableError("away"))
    assert numbers(metrics, "shunter_decisions_total", lever="nice") == 2
    assert numbers(metrics, "shunter_decisions_total", lever="pin") == 1
    assert numbers(metrics, "shunter_refusals_total", kind="declined") == 1
    assert numbers(metrics, "shunter_refusals_total", kind="unreachable") == 1
    assert numbers(metrics, "shunter_postponed_changes") == 4
    assert numbers(metrics, "shunter_unreachable_total") == 1
    assert numbers(metrics, "shunter_guard_ratio") == 1.25
    assert numbers(metrics, "shunter_round_seconds_sum") == 0.2
    assert numbers(metrics, "shunter_paused") == 0
    metrics.seen(outcome(paused="the guard"))
    assert numbers(metrics, "shunter_paused") == 1
    assert numbers(metrics, "shunter_postponed_changes") == 0


def test_ten_thousand_jobs_of_as_many_users_make_no_more_series_than_a_hundred_partitions():
    metrics = Metrics(Client())
    metrics.seen(outcome())
    jobs = [
        job(at, ("PENDING", "RUNNING")[at % 2], f"part{at % 3000},also", start=at, nodes=("n",)) for at in range(10_000)
    ]
    metrics.seen(outcome(*jobs))
    text = metrics.text()
    found, _ = parsed(text)
    names = {dict(labels).get("partition") for _, labels in found} - {None}
    assert len(names) == MOST_PARTITIONS + 1
    assert OTHER in names
    assert len(found) < (MOST_PARTITIONS + 1) * (len(WAIT_BOUNDS) + 5) + 60
    assert "user" not in text
    assert {label for _, labels in found for label, _ in labels} <= {
        "partition", "lever", "kind", "command", "le", "policy", "result",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------- the server


@contextmanager
def serving(metrics, port=0):
    server = Server("127.0.0.1", port, metrics.pages)
    try:
        yield server
    finally:
        server.close()


def health(page):
    """The status and the text that a health check reads."""
    try:
        with urllib.request.urlopen(page, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_the_health_check_says_why_on_one_line():
    metrics = Metrics(Client(), interval_s=0.05)
    with serving(metrics) as server:
        page = f"http://127.0.0.1:{server.port}/healthz"
        assert health(page) == (503, "no round has ended yet\n")
        metrics._interval_s = 1e6
        metrics.seen(outcome(job(1)))
        assert health(page)[0] == 200
        metrics.silent(UnreachableError("slurmctld\ndoes not answer"))
        assert health(page)[0] == 200, "one poll without an answer is no reason for an alarm"
        metrics._interval_s = 0.0
        status, text = health(page)
        assert (status, text.partition(": ")[2]) == (503, "slurmctld does not answer\n")
        metrics._interval_s = 1e6
        metrics.seen(outcome(job(1), paused="jobs waited longer"))
        assert health(page) == (503, "jobs waited longer\n")
        metrics.seen(outcome(job(1)))
        assert health(page)[0] == 200


def test_rounds_in_which_slurm_falls_silent_do_not_count_as_good():
    metrics = Metrics(Client(), interval_s=1e6)
    metrics.seen(outcome(job(1), silence="scontrol did not answer"))
    assert metrics.health() == (False, "scontrol did not answer")


def test_clients_take_few_threads(monkeypatch):
    monkeypatch.setattr(exposition, "SOCKET_TIMEOUT_S", 60.0)
    monkeypatch.setattr(exposition, "MOST_CLIENTS", 4)
    most = threading.active_count() + 1 + 2 * 4  # each has one more, which ends it in time
    with serving(Metrics(Client())) as server, ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
        assert not wait(lambda: threading.active_count() > most, 0.5)


def test_a_client_that_says_little_at_a_time_is_sent_away(monkeypatch):
    monkeypatch.setattr(exposition, "SOCKET_TIMEOUT_S", 0.3)
    with serving(Metrics(Client())) as server:
        client = socket.create_connection(("127.0.0.1", server.port), timeout=0.01)
        with client:
            assert wait(lambda: ended(client), 180)


def ended(client):
    """Say a little, and see whether the other side has had enough."""
    try:
        client.sendall(b"G")
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_it_answers_metrics_and_health_and_nothing_else():
    with serving(Metrics(Client())) as server:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            parsed(answer.read().decode())
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=60)
        assert refused.value.code == 404
        refused.value.close()
        with pytest.raises(LiveError, match="choose another --metrics-port"), serving(Metrics(Client()), server.port):
            pass


def test_it_can_be_read_while_rounds_go_on():
    metrics, stop, problems = Metrics(Client()), threading.Event(), []

    def rounds():
        at = 0
        while not stop.is_set():
            at += 1
            metrics.seen(outcome(job(at, partition=f"p{at}")))

    def guarded():
        try:
            rounds()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=guarded)
    thread.start()
    for _ in range(50):
        parsed(metrics.text())
    stop.set()
    thread.join()
    assert problems == []


def listening(port):
    """The addresses on which this machine listens at a port, as the kernel writes them."""
    rows = (line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:])
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port}


def test_live_the_lag_grows_while_slurmctld_is_away_and_only_the_loopback_listens(lab, tmp_path):
    running = lab.submit("--gpus=1", "--time=5", script="sleep 300")
    lab.wait_job(running, "RUNNING")
    command = [sys.executable, "-m", "shunter", "slurm", "run", "-p", "fifo", "--interval", "0.5", "--poll", "0.3"]
    process = subprocess.Popen(
        [*command, "--metrics-port", "0", "--journal", str(tmp_path / "j.db")], text=True,
        env={**os.environ, "SLURM_CONF": str(lab.conf)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        page = next(line for line in process.stderr if line.startswith("metrics: ")).split()[1]
        threading.Thread(target=process.stderr.read, daemon=True).start()

        def read(name, **labels):
            with urllib.request.urlopen(page, timeout=60) as answer:
                return parsed(answer.read().decode())[0].get((name, tuple(labels.items())), 0)

        assert listening(int(page.split(":")[2].partition("/")[0])) == {"0100007F"}
        assert wait(lambda: read("shunter_running_jobs", partition="main") == 1, 180)
        lab.wait_job(lab.submit("--gpus=1", "--time=5", script="sleep 300"), "RUNNING")
        assert wait(lambda: read("shunter_job_wait_seconds_count", partition="main") == 1, 180)
        assert read("shunter_slurm_calls_total", command="squeue") >= 2
        assert wait(lambda: read("shunter_lag_seconds") < 2, 180)
        healthz = page.replace("/metrics", "/healthz")
        assert wait(lambda: health(healthz)[0] == 200, 180)
        lab.stop_controller()
        assert wait(lambda: read("shunter_lag_seconds") > 2.5, 180)
        assert wait(lambda: read("shunter_unreachable_total") >= 1, 180)
        assert wait(lambda: health(healthz)[0] == 503, 180)
        assert wait(lambda: "slurm controller" in health(healthz)[1].lower(), 180)
        lab.start_controller()
        assert wait(lambda: read("shunter_lag_seconds") < 1, 180)
        assert wait(lambda: health(healthz)[0] == 200, 180)
        process.terminate()
        assert process.wait(180) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


# ------------------------------------------------------------------------------------------- the dashboard


def board():
    said = CliRunner().invoke(app, ["slurm", "dashboard"])
    assert said.exit_code == 0
    assert said.stdout == files("shunter").joinpath("live", "dashboard.json").read_text("utf-8")
    return json.loads(said.stdout)


def test_every_query_names_a_metric_and_labels_that_exist():
    metrics = Metrics(Client())
    known = {family.name: set(family.labels) for family in metrics.families}
    for family in metrics.families:
        if isinstance(family, Histogram):
            known |= {f"{family.name}_{end}": {*family.labels, "le"} for end in ("bucket", "sum", "count")}
    asked = set()
    for panel in board()["panels"]:
        for target in panel["targets"]:
            names = set(re.findall(r"shunter_\w+", target["expr"]))
            assert names
            assert names <= known.keys(), panel["title"]
            labels = {label for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in group.split(", ")}
            labels |= set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert labels <= set.union(*(known[name] for name in names)), panel["title"]
            asked |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    assert asked == {family.name for family in metrics.families}  # and nothing is measured in vain


def test_the_dashboard_is_one_that_grafana_takes():
    made = board()
    assert made["schemaVersion"] >= 36
    assert {"uid", "title", "panels", "templating", "time", "refresh"} <= made.keys()
    assert [variable["type"] for variable in made["templating"]["list"]] == ["datasource"]
    panels = made["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        assert panel["type"] in {"stat", "timeseries"}
        assert panel["description"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells, "panels lie on each other"
        taken |= cells


def test_every_metric_is_described_as_the_code_has_it():
    page = Path(__file__).parents[2] / "docs" / "reference" / "slurm-metrics.md"
    rows = [line for line in page.read_text().splitlines() if line.startswith("| `shunter_")]
    expected = [
        f"| `{family.name}` | {family.kind} | {' '.join(f'`{label}`' for label in family.labels)} | {family.about} |"
        for family in Metrics(Client()).families
    ]
    assert [row.replace("|  |", "| |") for row in expected] == rows
