"""A real Prometheus reads what the controller tells, and answers every query of the dashboard."""

from __future__ import annotations

import json
import math
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from importlib.resources import files
from itertools import count

import pytest

from shunter.live.backend import Round
from shunter.live.controller import RoundResult
from shunter.live.daemons import wait
from shunter.live.exposition import Server
from shunter.live.levers import LEVERS, Order
from shunter.live.manager import UnreachableError
from shunter.live.metrics import REFUSALS, Metrics
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.slurm.client import Client

pytestmark = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="Prometheus is not installed (Debian: apt-get install --no-install-recommends prometheus)",
)
ODD = 'two "words" a \\ and\na line'
PARTITIONS = {"main", "debug", ODD}
COMMANDS = {"squeue", "sinfo"}
RATE = "5s"  # what Grafana puts in the place of $__rate_interval is some scrapes
CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs: [{{job_name: shunter, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]
"""


class Cluster:
    """Rounds in which jobs come, wait and start in every partition, and all that can be counted happens."""

    def __init__(self) -> None:
        self.client = Client()
        self.metrics, self._numbers = Metrics(self.client), count()

    def round(self) -> None:
        jobs = []
        for partition in sorted(PARTITIONS):
            number = str(next(self._numbers))
            jobs.append(LiveJob(f"{number}_1", number, "PENDING", partition=partition))
            times = {"submit": 0, "eligible": 0, "start": 90_000}
            jobs.append(LiveJob(f"{number}_2", number, "RUNNING", partition=partition, nodes=("n1",), **times))
        current = Round(1, Snapshot(0, tuple(jobs), ()), None, tuple(jobs), took_s=0.3)
        orders = [Order("1", lever, "1", "0") for lever in LEVERS]
        failed = [(orders[0], "Invalid node name"), (orders[1], "away")]
        current.refusals = [None]
        self.metrics.seen(RoundResult(current, orders, failed=failed, silence="away", postponed=3, ratio=1.25))
        self.metrics.silent(UnreachableError("away"))
        self.client.calls.update(COMMANDS)


def expressions():
    board = json.loads(files("shunter").joinpath("live", "dashboard.json").read_text("utf-8"))
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture(scope="module")
def cluster():
    return Cluster()


@pytest.fixture(scope="module")
def ask(cluster, tmp_path_factory):
    """Asks a Prometheus that reads the metrics of the cluster: the series of an answer, or the error."""
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    server = Server("127.0.0.1", 0, cluster.metrics.pages)
    (folder / "prometheus.yml").write_text(CONFIG.format(port=server.port))
    command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=error"]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], cwd=folder, stdout=said, stderr=said
        )

    def ask(query):
        url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.read().decode()  # before it is ready that is no JSON
        except OSError as away:
            return str(away)

    try:
        assert wait(lambda: finite(ask("up == 1")), 180), (folder / "said").read_text()
        yield ask
    finally:
        process.terminate()
        try:
            process.wait(180)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        server.close()


def finite(found):
    return isinstance(found, list) and bool(found) and all(math.isfinite(float(each["value"][1])) for each in found)


@pytest.mark.parametrize("expression", expressions())
def test_every_query_of_the_dashboard_is_answered(expression, ask, cluster):
    query = expression.replace("$__rate_interval", RATE)
    assert "$" not in query

    def answered():
        cluster.round()
        return finite(ask(query))

    assert wait(answered, 180), ask(query)
    labels = {"partition": PARTITIONS, "lever": set(LEVERS), "kind": set(REFUSALS), "command": COMMANDS}
    labels |= {"policy": {""}, "result": {"made", "refused"}}
    for series in ask(query):
        for label, value in series["metric"].items():
            assert value in labels[label]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("max(shunter_guard_ratio)", 1.25),
        ("max(shunter_postponed_changes)", 3),
        ("sum(shunter_pending_jobs)", len(PARTITIONS)),
        (f"sum(rate(shunter_job_wait_seconds_sum[{RATE}])) / sum(rate(shunter_job_wait_seconds_count[{RATE}]))", 90),
        (f"histogram_quantile(1, sum by (le) (rate(shunter_round_seconds_bucket[{RATE}])))", 0.5),
    ],
)
def test_the_answers_are_the_numbers(query, expected, ask, cluster):
    def right():
        cluster.round()
        found = ask(query)
        return finite(found) and float(found[0]["value"][1]) == pytest.approx(expected)

    assert wait(right, 180), ask(query)


def test_whatever_a_partition_is_called_is_read_back(ask, cluster):
    cluster.round()
    assert wait(lambda: {each["metric"].get("partition") for each in ask("shunter_pending_jobs")} == PARTITIONS, 180)


def test_a_query_that_is_wrong_is_seen(ask):
    assert "parse error" in ask("sum by (le (rate(x[5s])))")
    assert ask("shunter_no_such_metric") == []


def test_promtool_finds_nothing_to_say(cluster):
    cluster.round()
    for text in (Metrics(Client()).text(), cluster.metrics.text()):
        said = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
