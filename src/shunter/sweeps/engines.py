"""Where batches run: processes of this machine, or a Dask cluster."""

from __future__ import annotations

import ipaddress
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, Protocol, TypeAlias

from shunter import extras, notices
from shunter.errors import InputError, RunError
from shunter.processes import crew, ctrl_c_later, safe_path, usable_cores
from shunter.sweeps.places import code_version
from shunter.sweeps.work import Batch, Row, Runner, work

PATIENCE_S = 10  # how long a scheduler may take to answer, and a cluster to have its first worker
CLOSING_S = 30  # how long workers may take to end
WITHOUT_WORKERS_S = 60  # how long a cluster may have no workers before a sweep gives up
COUNT_S = 1  # between two looks at how many workers there are
LOCAL = "local:"
KEPT = "all finished runs are kept"


class Engine(Protocol):
    """Something that does batches."""

    @property
    def workers(self) -> int:
        """Processes that it has at this moment."""

    def submit(self, batch: Batch) -> Future[list[Row]]:
        """Let a worker do a batch.

        The future fails with ``WorkerLostError`` if the worker died with it.
        """

    @property
    def survives(self) -> bool:
        """Whether it goes on after a worker died with a batch; else another engine must be opened."""

    def poll(self) -> None:
        """Pass on what workers report; called several times a second."""


class WorkerLostError(Exception):
    """The process that did a batch died."""


class EngineLostError(RunError):
    """The whole engine is gone, such as a scheduler that was stopped."""


Opener: TypeAlias = Callable[[Runner], AbstractContextManager[Engine]]


def opener(dask: str = "", workers: int | None = None) -> Opener:
    """The engine that a user chose: an address or ``local:N`` for Dask, else processes."""
    if not dask:
        return lambda runner: _processes(runner, workers or usable_cores())
    if workers is not None:
        raise RunError("--workers is about processes without Dask; with Dask write --dask local:8, or leave it out")
    if dask.startswith(LOCAL):
        count = dask.removeprefix(LOCAL)
        if not count.isdecimal() or not 1 <= int(count) <= 1024:
            raise RunError(f"--dask {dask}: must be local:N with N from 1 to 1024, such as local:8, or an address")
        return lambda runner: _dask(runner, "", int(count))
    if "://" not in dask:
        raise RunError(f"--dask {dask}: must be an address such as tcp://host:8786 or tls://host:8786, or local:N")
    return lambda runner: _dask(runner, dask, 0)


@contextmanager
def lasting(open_engine: Opener) -> Iterator[Opener]:
    """The same engine for several lots of runs, which share a runner; one that broke is opened again."""
    with ExitStack() as stack:
        engines: list[Engine] = []

        @contextmanager
        def reused(runner: Runner) -> Iterator[Engine]:
            if not engines:
                engines.append(stack.enter_context(open_engine(runner)))
            try:
                yield engines[0]
            except WorkerLostError:
                engines.clear()
                stack.pop_all().close()
                raise

        yield reused


# ------------------------------------------------------------------------------------------- processes


class _Processes:
    """Processes of this machine."""

    survives = False  # a pool ends with its first process that dies

    def __init__(self, hands: Any, workers: int) -> None:
        self._hands, self.workers = hands, workers

    def submit(self, batch: Batch) -> Future[list[Row]]:
        with ctrl_c_later():
            try:
                return _translated(self._hands.submit(0, batch, 0), BrokenProcessPool)
            except BrokenProcessPool:
                raise WorkerLostError from None

    def poll(self) -> None:
        self._hands.steps_done()


@contextmanager
def _processes(runner: Runner, workers: int) -> Iterator[Engine]:
    if workers == 1:
        yield _Here(runner)
        return
    with safe_path(), crew(work, runner, workers, 1) as hands:
        yield _Processes(hands, workers)


class _Here:
    """This process itself."""

    workers, survives = 1, True

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def submit(self, batch: Batch) -> Future[list[Row]]:
        done: Future[list[Row]] = Future()
        done.set_result(work(self._runner, batch))
        return done

    def poll(self) -> None:
        pass


def _translated(
    future: Future[Any],
    died: type[BaseException],
    other: Callable[[BaseException], BaseException] = lambda error: error,
) -> Future[Any]:
    """A future whose errors of one kind mean that the worker died; ``other`` says what its other errors mean."""
    found: Future[Any] = Future()

    def pass_on(done: Future[Any]) -> None:
        error = CancelledError() if done.cancelled() else done.exception()
        if error is None:
            found.set_result(done.result())
        else:
            found.set_exception(WorkerLostError() if isinstance(error, died) else other(error))

    future.add_done_callback(pass_on)
    return found


# ------------------------------------------------------------------------------------------- Dask


class _Dask:
    """The workers of a Dask cluster."""

    survives = True

    def __init__(self, client: Any, runner: Runner) -> None:
        from distributed.scheduler import KilledWorker

        self._client, self._killed = client, KilledWorker
        self._executor = client.get_executor(pure=False)
        self._packed = pickle.dumps(runner)
        self._runner = self._shipped()
        self.workers, self._counted, self._had_workers = 1, 0.0, time.monotonic()

    def _shipped(self) -> Any:
        """The runner on the cluster.

        It is the result of a task, and not scattered data: a worker fetches it once from another one, and if all that
        have it die, the scheduler makes it again.
        """
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            return self._client.submit(_unpacked, self._packed, pure=False)

    def submit(self, batch: Batch) -> Future[list[Row]]:
        try:
            if self._runner.status == "error":  # its worker died while it was made, and Dask does not try that again
                self._runner = self._shipped()
            return _translated(self._executor.submit(_on_dask, self._runner, batch), self._killed, _meaning)
        except (OSError, RuntimeError):
            raise _scheduler_gone() from None

    def poll(self) -> None:
        if self._client.status != "running":
            raise _scheduler_gone()
        now = time.monotonic()
        if now - self._counted < COUNT_S:
            return
        try:
            self.workers, self._counted = len(self._client.nthreads()), now
        except (OSError, RuntimeError):
            raise _scheduler_gone() from None
        self._had_workers = now if self.workers else self._had_workers
        if now - self._had_workers > WITHOUT_WORKERS_S:
            raise EngineLostError(
                f"the Dask cluster has had no workers for {WITHOUT_WORKERS_S} s; {KEPT}: start workers, and the same"
                " command goes on"
            )


def _scheduler_gone() -> EngineLostError:
    return EngineLostError(
        f"the Dask scheduler does not answer any more; {KEPT}: start it again with its workers, and the same command"
        " goes on"
    )


def _unpacked(data: bytes) -> Runner:
    """What a worker gets once and keeps for all batches; as bytes, so that the scheduler passes it on unread."""
    runner: Runner = pickle.loads(data)
    return runner


_one_at_a_time = threading.Lock()


def _on_dask(runner: Runner, batch: Batch) -> list[Row]:
    """A batch on a worker. One with several threads does its batches one after the other: a run has the process."""
    with _one_at_a_time:
        return work(runner, batch)


@contextmanager
def _dask(runner: Runner, address: str, workers: int) -> Iterator[Engine]:
    """A cluster at an address, or one of this machine alone, which only this account can use."""
    extras.require("distributed", "--dask")
    with _quiet(), safe_path(), _cluster_at(address) if address else _local_cluster(workers) as client:
        _check_workers(client)
        yield _Dask(client, runner)


@contextmanager
def _cluster_at(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address. Certificates for ``tls://`` are those of Dask's own configuration."""
    from distributed import Client

    _warn_of_open_port(address)
    try:
        client = Client(address, timeout=PATIENCE_S)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        keys = (
            "; set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY" if _is_tls(address) else ""
        )
        raise RunError(
            f"--dask {address}: no Dask scheduler answers ({reason}); check the address, and start it{keys}"
        ) from None
    try:
        yield client
    finally:
        _close(client)


def _is_tls(address: str) -> bool:
    return address.startswith("tls://")


def _warn_of_open_port(address: str) -> None:
    """Dask runs whatever comes over a port without TLS; on another machine's port that may come from anybody."""
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    with suppress(ValueError):
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return
    if not _is_tls(address):
        notices.problem.get()(
            f"--dask {address}: without TLS, anyone who can reach this port can run code as you; use tls://"
        )


@contextmanager
def _local_cluster(workers: int) -> Iterator[Any]:
    """Workers on this machine."""
    import dask
    from distributed import Client, LocalCluster, Security

    extras.require("cryptography", "--dask local:N")
    # others on this machine could send code to an open port, so that even here both ends show a certificate
    security = Security.temporary()
    choices = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "security": security}
    settings = {
        "distributed.scheduler.allowed-failures": 0,  # a batch comes back at once: we find out which run it died of
        "distributed.worker.profile.enabled": False,  # it would look at the deep stacks of a compiler for minutes
        # pages for people would be open to everybody on this machine
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    with dask.config.set(settings):
        ports = dict.fromkeys(("dashboard_address", "worker_dashboard_address"), "127.0.0.1:0")
        cluster = LocalCluster(**ports, **choices)
    client = Client(cluster)
    try:
        yield client
    finally:
        _close(client)
        _close(cluster)


def _close(what: Any) -> None:
    """Close a client or a cluster. One that takes too long ends with this process: all that it ran is stored."""
    with suppress(TimeoutError):
        what.close(timeout=CLOSING_S)


def _check_workers(client: Any) -> None:
    """Refuse a cluster without workers, and workers with another version of shunter."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE_S)
    except TimeoutError:
        raise RunError("the Dask cluster has no workers; start some: dask worker ADDRESS --nthreads 1") from None
    try:
        found = client.run(code_version)
    except Exception as error:
        raise _unable(error) from None
    for worker, version in found.items():
        if version != code_version():
            raise RunError(
                f"Dask worker {worker} has shunter {version}, and this is {code_version()}; install the same version"
            )
    if any(threads > 1 for threads in client.nthreads().values()):
        notices.problem.get()(
            "some Dask workers have several threads and do one run at a time; start them with --nthreads 1 --nworkers"
            " auto"
        )


def _meaning(error: BaseException) -> BaseException:
    """What an error of a batch, not of a run, says about the cluster."""
    if isinstance(error, CancelledError):
        return _scheduler_gone()
    return error if isinstance(error, InputError) else _unable(error)


def _unable(error: BaseException) -> RunError:
    return RunError(
        f"the Dask cluster can't run shunter ({type(error).__name__}: {error}); install the same version for its"
        " scheduler and its workers"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log lines that Dask writes about connections that end."""
    import logging

    import distributed  # noqa: F401 it sets the levels of its loggers

    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
