"""Where batches run: processes of this machine, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeAlias

from shunter import extras
from shunter.errors import RunError
from shunter.processes import crew, ctrl_c_later, safe_path, usable_cores
from shunter.sweeps.places import code_version
from shunter.sweeps.work import Batch, Row, Runner, work

PATIENCE_S = 10  # how long a scheduler may take to answer
LOCAL = "local:"


class Engine(Protocol):
    """Something that does batches."""

    @property
    def workers(self) -> int:
        """Processes that it has at this moment."""

    def submit(self, batch: Batch) -> Future[list[Row]]:
        """Let a worker do a batch.

        The future fails with ``WorkerLostError`` if the worker died with it; then the engine may be of no more use.
        """

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


# ------------------------------------------------------------------------------------------- processes


class _Processes:
    """Processes of this machine."""

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

    workers = 1

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def submit(self, batch: Batch) -> Future[list[Row]]:
        done: Future[list[Row]] = Future()
        done.set_result(work(self._runner, batch))
        return done

    def poll(self) -> None:
        pass


def _translated(future: Future[Any], *lost: type[BaseException]) -> Future[Any]:
    """A future of which certain errors mean that the worker died."""
    found: Future[Any] = Future()

    def pass_on(done: Future[Any]) -> None:
        if done.cancelled():
            found.set_exception(EngineLostError("the engine stopped"))
        elif isinstance(error := done.exception(), lost):
            found.set_exception(WorkerLostError(str(error)))
        elif error is not None:
            found.set_exception(error)
        else:
            found.set_result(done.result())

    future.add_done_callback(pass_on)
    return found


# ------------------------------------------------------------------------------------------- Dask


class _Dask:
    """The workers of a Dask cluster."""

    def __init__(self, client: Any, runner: Any) -> None:
        from distributed.scheduler import KilledWorker

        self._client, self._runner, self._killed = client, runner, KilledWorker
        self._executor = client.get_executor(pure=False, retries=0)

    @property
    def workers(self) -> int:
        return sum(self._client.nthreads().values()) if self._client.status == "running" else 0

    def submit(self, batch: Batch) -> Future[list[Row]]:
        return _translated(self._executor.submit(work, self._runner, batch), self._killed)

    def poll(self) -> None:
        if self._client.status != "running":
            raise EngineLostError(
                "the Dask scheduler does not answer any more; all finished runs are kept: start it again, and the same"
                " command goes on"
            )


@contextmanager
def _dask(runner: Runner, address: str, workers: int) -> Iterator[Engine]:
    """A cluster at an address, or one of this machine alone, which only this account can use."""
    distributed = extras.load("distributed", "--dask")
    with _quiet(), safe_path():
        if address:
            client = _client(distributed, address)
        else:
            extras.require("cryptography", "--dask local:N")
            # others on this machine could send code to an open port, so that even here both ends show a certificate
            security = distributed.Security.temporary()
            choices = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "security": security}
            client = distributed.Client(distributed.LocalCluster(dashboard_address=None, **choices))
        try:
            _check_workers(client)
            yield _Dask(client, client.scatter(runner, hash=False))
        finally:
            cluster = None if address else client.cluster
            client.close(timeout=PATIENCE_S)
            if cluster is not None:
                cluster.close(timeout=PATIENCE_S)


def _client(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=PATIENCE_S)
    except (OSError, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise RunError(
            f"--dask {address}: no Dask scheduler answers ({reason}); check the address, and start it"
        ) from None


def _check_workers(client: Any) -> None:
    """Refuse a cluster without workers, and workers with another version of shunter."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE_S)
    except TimeoutError:
        raise RunError("the Dask cluster has no workers; start some: dask worker ADDRESS") from None
    try:
        found = client.run(code_version)
    except Exception as error:
        raise RunError(
            f"a Dask worker can't run shunter ({type(error).__name__}: {error}); install the same version there"
        ) from None
    for worker, version in found.items():
        if version != code_version():
            raise RunError(
                f"Dask worker {worker} has shunter {version}, and this is {code_version()}; install the same version"
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log lines that Dask writes about connections that end."""
    import logging

    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
