"""Sweeps on a Dask cluster of processes: whoever is killed, nothing is lost; whoever can't take part is named."""

from __future__ import annotations

import datetime
import ipaddress
import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sweeping import Sweeping, begun, until

import shunter
from shunter import notices
from shunter.sweeps import engines
from shunter.texts import agreeing

PAUSE = {"PAUSE_S": "0.1"}


@pytest.fixture(scope="module", autouse=True)
def _needed() -> None:
    """Not while tests are collected: each process would import it."""
    pytest.importorskip("distributed", reason="no distributed; ./scripts/install all,dev has it")


class Cluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, sweeping: Sweeping, *security: str) -> None:
        self._sweeping, self._security = sweeping, security
        self._file = sweeping.folder / f"scheduler-{uuid.uuid4()}.json"
        self._log = (sweeping.folder / "dask.log").open("a")
        self._all: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        until(lambda: self._file.exists() and self._file.read_text())
        self.address = json.loads(self._file.read_text())["address"]

    def workers(self, count: int = 1, **environment: str) -> list[subprocess.Popen[bytes]]:
        """Some workers that the scheduler knows: a sweep does not wait long for the first one."""
        known = self._registered()
        made = [self._start("worker", "--nthreads", "1", "--no-nanny", **environment) for _ in range(count)]
        until(lambda: self._registered() == known + count or any(each.poll() is not None for each in made))
        return made

    def _registered(self) -> int:
        return Path(self._log.name).read_text().count("Registered to:")

    def _start(self, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        files = ("--scheduler-file", str(self._file), "--no-dashboard", *self._security)
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *command, *files],
            env=self._sweeping.environment() | PAUSE | environment,
            cwd=self._sweeping.folder,
            stdout=self._log,
            stderr=self._log,
        )
        self._all.append(process)
        return process

    def stop(self) -> None:
        for process in self._all:
            process.kill()
            process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def sweeping(tmp_path_factory: pytest.TempPathFactory) -> Sweeping:
    """A sweep that was once run undisturbed."""
    made = Sweeping(tmp_path_factory.mktemp("sweeping"))
    made.run("undisturbed", "--workers", "1")
    return made


@pytest.fixture
def cluster(sweeping: Sweeping) -> Iterator[Cluster]:
    made = Cluster(sweeping)
    yield made
    made.stop()


def test_the_sweep_goes_on_without_a_worker_that_is_killed(sweeping: Sweeping, cluster: Cluster) -> None:
    workers = cluster.workers(2)
    process = sweeping.start("worker-killed", "--dask", cluster.address)
    sweeping.wait_for_some("worker-killed", process)
    workers[0].kill()
    said = process.communicate()[1]
    assert process.returncode == 0, said
    assert sweeping.digests("worker-killed") == sweeping.digests("undisturbed")


def test_without_its_scheduler_a_sweep_keeps_what_it_has(sweeping: Sweeping, cluster: Cluster) -> None:
    cluster.workers()
    process = sweeping.start("scheduler-killed", "--dask", cluster.address)
    sweeping.wait_for_some("scheduler-killed", process)
    cluster.scheduler.kill()
    said = process.communicate()[1]
    assert process.returncode == 2, said
    assert "the Dask scheduler does not answer any more; all finished runs are kept" in said
    assert "Traceback" not in said
    goes_on(sweeping, "scheduler-killed")


def test_a_client_that_is_killed_leaves_whole_files(sweeping: Sweeping, cluster: Cluster) -> None:
    cluster.workers()
    process = sweeping.start("client-killed", "--dask", cluster.address)
    sweeping.wait_for_some("client-killed", process)
    process.kill()
    process.communicate()
    goes_on(sweeping, "client-killed", cluster)


def goes_on(sweeping: Sweeping, out: str, cluster: Cluster | None = None) -> None:
    """The same command does the rest, and only that."""
    before = begun(sweeping.runs(out))
    assert 0 < len(before) < sweeping.seeds
    used = cluster or Cluster(sweeping)
    try:
        if cluster is None:
            used.workers()
        said = sweeping.run(out, "--dask", used.address)
    finally:
        used.stop()
    assert f"{len(before)} of {sweeping.seeds} runs {agreeing('were', len(before))} in {out} already" in said
    assert before.items() <= begun(sweeping.runs(out)).items()
    assert sweeping.digests(out) == sweeping.digests("undisturbed")


# ------------------------------------------------------------------------------------------- clusters that can't serve


def refusal(sweeping: Sweeping, address: str, **environment: str) -> str:
    said = sweeping.run("refused", "--dask", address, code=2, **environment)
    assert "Traceback" not in said
    return said


def test_an_address_where_no_scheduler_is(sweeping: Sweeping) -> None:
    assert "--dask tcp://127.0.0.1:1: no Dask scheduler answers" in refusal(sweeping, "tcp://127.0.0.1:1")


def test_a_cluster_without_workers(sweeping: Sweeping, cluster: Cluster) -> None:
    assert "the Dask cluster has no workers; start some: dask worker" in refusal(sweeping, cluster.address)


def test_a_worker_with_other_sources(sweeping: Sweeping, cluster: Cluster, tmp_path: Path) -> None:
    copy = tmp_path / "shunter"
    shutil.copytree(Path(shunter.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__", "__kernels__"))
    with (copy / "world.py").open("a") as file:
        file.write("# changed\n")
    cluster.workers(PYTHONPATH=str(tmp_path))
    said = refusal(sweeping, cluster.address)
    assert "Dask worker tcp://127.0.0.1:" in said
    assert said.rstrip().endswith("install the same version")


def test_a_worker_without_shunter(sweeping: Sweeping, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "shunter.py").write_text("raise ModuleNotFoundError(\"No module named 'shunter'\")\n")
    cluster.workers(PYTHONPATH=str(tmp_path))
    said = refusal(sweeping, cluster.address)
    assert "the Dask cluster can't run shunter (" in said
    assert "No module named 'shunter'" in said


@pytest.mark.parametrize(
    ("address", "open_to_others"),
    [
        *(("tcp://127.0.0.1:8786", False), ("tcp://localhost:8786", False), ("tcp://[::1]:8786", False)),
        *(("tls://10.0.0.1:8786", False), ("tcp://10.0.0.1:8786", True), ("tcp://login.cluster:8786", True)),
    ],
)
def test_a_port_without_tls_that_others_can_reach_is_named(address: str, open_to_others: bool) -> None:
    said: list[str] = []
    before = notices.problem.set(said.append)
    engines._warn_of_open_port(address)
    notices.problem.reset(before)
    assert bool(said) == open_to_others
    assert all("anyone who can reach this port can run code as you" in text for text in said)


# ------------------------------------------------------------------------------------------- TLS


def certificates(folder: Path) -> tuple[str, str]:
    """A certificate that signs itself, and its key."""
    x509 = pytest.importorskip("cryptography.x509", reason="no cryptography; ./scripts/install all,dev has it")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=cluster")
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    return str(folder / "cert.pem"), str(folder / "key.pem")


def test_tls_with_the_certificates_of_dasks_configuration(sweeping: Sweeping, tmp_path: Path) -> None:
    cert, key = certificates(tmp_path)
    files = ("--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key)
    settings = {"CA_FILE": cert, "CLIENT__CERT": cert, "CLIENT__KEY": key}
    variables = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": value for name, value in settings.items()}
    cluster = Cluster(sweeping, "--protocol", "tls", *files)
    try:
        cluster.workers()
        assert cluster.address.startswith("tls://")
        sweeping.run("tls", "--dask", cluster.address, **variables)
        assert sweeping.digests("tls") == sweeping.digests("undisturbed")
        said = refusal(sweeping, cluster.address)
        assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in said
    finally:
        cluster.stop()
