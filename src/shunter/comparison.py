"""Several policies on the same jobs: run side by side in processes, each kept as soon as it is done."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from shunter import experiment, registry
from shunter.compiled import cache_folder
from shunter.errors import RunError
from shunter.folders import Run, check_folder, load, new_folder
from shunter.report.bootstrap import mean_difference
from shunter.runs import ClusterLike, Scene, TraceLike, check, describe, run, scene
from shunter.seeding import check_seed
from shunter.world import F64

Progress: TypeAlias = Callable[[int, int], None]  # told how many jobs have ended, of how many in all


@dataclass(frozen=True)
class Task:
    """One run of a comparison."""

    policy: Any  # as it was given: text or object
    label: str
    seed: int
    repeat: int
    folder: str  # where its run is kept
    decisions: bool = False  # whether it is kept why jobs waited


@dataclass(frozen=True, eq=False)
class Comparison:
    """What came out of several policies on the same jobs; the first policy is what the others are compared with."""

    trace: str
    cluster: str
    seed: int
    summaries: tuple[tuple[dict[str, Any], ...], ...]  # per policy, per repeat
    jct: tuple[tuple[F64, ...], ...]  # per policy, per repeat: seconds of each job, NaN if it did not finish
    resumed: int = 0  # runs that were there from an interrupted comparison

    @cached_property
    def policies(self) -> list[dict[str, Any]]:
        """Per policy the summary, averaged over repeats, with ``difference``: of its mean JCT to the first policy's."""
        rows = []
        for index, repeats in enumerate(self.summaries):
            row = _average(repeats)
            row["difference"] = mean_difference(self.jct[0], self.jct[index], self.seed) if index else None
            if len(repeats) > 1:
                row["repeats"] = list(repeats)
            rows.append(row)
        return rows

    def as_dict(self) -> dict[str, Any]:
        """The dictionary of ``comparison.json``."""
        head = {"trace": self.trace, "cluster": self.cluster, "seed": self.seed, "repeat": len(self.summaries[0])}
        return {**head, "baseline": self.policies[0]["policy"], "policies": self.policies}


def compare(  # noqa: PLR0913, PLR0917
    trace: TraceLike,
    cluster: ClusterLike,
    policies: Sequence[Any],
    seed: int = 0,
    repeat: int = 1,
    out: str | Path | None = None,
    force: bool = False,
    workers: int | None = None,
    decisions: bool = False,
) -> Comparison:
    """Run several policies on the same jobs in parallel processes; an interrupted comparison goes on where it was.

    A script calls this under ``if __name__ == "__main__":``, as everything that starts processes; with ``workers=1``
    all is done in this process.
    """
    folder = None if out is None else Path(out)
    return compare_scene(scene(trace, cluster), policies, seed, repeat, folder, force, workers, decisions=decisions)


def compare_scene(  # noqa: PLR0913, PLR0917  what compare takes, and who watches
    scene: Scene,
    policies: Sequence[Any],
    seed: int = 0,
    repeat: int = 1,
    out: Path | None = None,
    force: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    decisions: bool = False,
    keep: Callable[[Sequence[Run]], None] | None = None,
) -> Comparison:
    """Compare policies on a scene that has been read; ``progress`` is told how far it is.

    ``keep`` is given the first run of each policy, which else are gone in the end unless there is ``out``.
    """
    if isinstance(policies, str):
        policies = [policies]
    seed = check_seed(seed)
    if repeat < 1:
        raise RunError(f"repeat must be >= 1, got {repeat}")
    if workers is not None and workers < 1:
        raise RunError(f"workers must be >= 1, got {workers}")
    labels = _labels(scene, policies)
    for policy in policies:
        check(scene, policy)
    if out is not None:
        check_folder(out, force)
    with _stash(scene, out) as stash:
        rows = [
            [_task(scene, p, t, seed, r, stash, decisions) for r in range(repeat)]
            for p, t in zip(policies, labels, strict=True)
        ]
        tasks = [task for row in rows for task in row]
        todo = [task for task in tasks if not Path(task.folder).exists()]
        _run_all(scene, todo, workers or usable_cores(), progress or (lambda ended, total: None))
        found = [[_read(task) for task in row] for row in rows]
        comparison = Comparison(
            scene.trace.name,
            scene.cluster.name,
            seed,
            tuple(tuple(summary for summary, _ in row) for row in found),
            tuple(tuple(jct for _, jct in row) for row in found),
            len(tasks) - len(todo),
        )
        if keep is not None:
            keep([load(Path(row[0].folder)) for row in rows])
        if out is not None:
            _save(comparison, tasks, out, force)
        shutil.rmtree(stash, ignore_errors=True)
    return comparison


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _labels(scene: Scene, policies: Sequence[Any]) -> list[str]:
    if not policies:
        raise RunError("there is nothing to compare; give at least one policy")
    labels = [str(describe(registry.policy(policy), scene.trace)["policy"]) for policy in policies]
    for label in labels:
        if labels.count(label) > 1:
            raise RunError(f"policy '{label}' is given more than once; leave one out")
    return labels


# ------------------------------------------------------------------------------------------- what is kept


@contextlib.contextmanager
def _stash(scene: Scene, out: Path | None) -> Iterator[Path]:
    """The folder in which finished runs wait for the others; it outlives an interruption and is found again.

    Without ``out`` it is in the user's cache; where that can't be used, or another process uses it, nothing is kept.
    """
    import fcntl

    with contextlib.ExitStack() as stack:
        try:
            stash = _cache(scene) if out is None else out.parent / f".{out.name}.unfinished"
            stash.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((stash / "lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (OSError, RuntimeError) as error:
            if out is not None:
                busy = isinstance(error, BlockingIOError)
                why = "another comparison is being written there" if busy else f"can't be written: {error}"
                raise RunError(f"{out}: {why}; choose another folder") from None
            stash = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shunter-")))
        yield stash


def _cache(scene: Scene) -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "shunter" / "compare" / _key(scene.experiment("", 0))


def _task(scene: Scene, policy: Any, label: str, seed: int, repeat: int, stash: Path, decisions: bool = False) -> Task:
    """A task and its place: a name that no other settings, policy code or state of shunter's sources would give."""
    chosen = registry.policy(policy)
    source = getattr(sys.modules.get(type(chosen).__module__), "__file__", None)
    code = Path(source).read_bytes() if source and Path(source).is_file() else b""
    more = repr((chosen, decisions)).encode() + code + cache_folder().name.encode()
    return Task(policy, label, seed, repeat, str(stash / _key(scene.experiment(label, seed, repeat), more)), decisions)


def _key(record: experiment.Experiment, more: bytes = b"") -> str:
    return hashlib.blake2b(experiment.to_toml(record).encode() + more, digest_size=8).hexdigest()


def _read(task: Task) -> tuple[dict[str, Any], F64]:
    import polars as pl

    folder = Path(task.folder)
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    jobs = pl.read_parquet(folder / "jobs.parquet", columns=["jct", "state"])
    jct = jobs.select(pl.when(pl.col("state") == "done").then(pl.col("jct")).otherwise(float("nan")))
    return summary, jct.to_series().to_numpy()


def _save(comparison: Comparison, tasks: Sequence[Task], out: Path, force: bool) -> None:
    """Write ``comparison.json`` and one run folder per policy and repeat."""
    with new_folder(out, force) as made:
        (made / "comparison.json").write_text(json.dumps(comparison.as_dict(), indent=2) + "\n")
        repeats = len(comparison.summaries[0])
        for number, task in enumerate(tasks):
            plain = re.sub(r"[^A-Za-z0-9._=-]+", "_", task.label)[:100]
            suffix = f"-repeat{task.repeat}" if repeats > 1 else ""
            shutil.move(task.folder, made / f"{number // repeats + 1}-{plain}{suffix}")


def _average(repeats: Sequence[Any]) -> Any:
    """The mean of every number in equally built trees; what is no number, or always the same, is the first one's."""
    first = repeats[0]
    if isinstance(first, dict):
        shared = [key for key in first if all(key in other for other in repeats)]
        return {key: _average([other[key] for other in repeats]) for key in shared}
    if isinstance(first, bool | str | list) or first is None or all(other == first for other in repeats):
        return first
    return float(np.mean(repeats))


# ------------------------------------------------------------------------------------------- processes


def _run_all(scene: Scene, tasks: Sequence[Task], workers: int, progress: Progress) -> None:
    total = len(tasks) * len(scene.trace)
    if min(workers, len(tasks)) <= 1:
        for number, task in enumerate(tasks):
            before = number * len(scene.trace)
            _run_task(scene, task, lambda ended, before=before: progress(before + ended, total))  # type: ignore[misc]
        return
    _compile_once(scene, tasks[0].policy)
    processes = multiprocessing.get_context("spawn")  # forking a process that has threads (polars has) may hang
    ended = processes.Array("q", len(tasks) + 1)  # jobs ended per task; the last entry says: stop
    pool = ProcessPoolExecutor(min(workers, len(tasks)), processes, _begin, (scene, ended))
    try:
        pending = {pool.submit(_work, number, task) for number, task in enumerate(tasks)}
        while pending:
            done, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            progress(sum(ended[:-1]), total)
    except BrokenProcessPool:
        ended[-1] = 1
        raise RunError(
            'a process of the comparison died (out of memory?), or a script called compare outside of "if __name__ =='
            " '__main__':\"; repeat with fewer workers: what was done is kept"
        ) from None
    except BaseException:
        ended[-1] = 1
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _compile_once(scene: Scene, policy: Any) -> None:
    """Compile what all policies share, if nothing is compiled yet; else every worker would, at the same time."""
    if not any(cache_folder().rglob("*.nbi")):
        run(dataclasses.replace(scene, trace=scene.trace.select(np.arange(1))), policy)


_scene: Scene
_ended: Any


def _begin(scene: Scene, ended: Any) -> None:
    """Prepare a worker process: it leaves Ctrl-C to its parent, stops when told, and never outlives it."""
    global _scene, _ended  # a worker is told once what all its tasks share
    _scene, _ended = scene, ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_stop_when_told, daemon=True).start()


def _stop_when_told() -> None:
    parent = multiprocessing.parent_process()
    while parent is not None and parent.is_alive() and not _ended[-1]:
        parent.join(0.2)
    os._exit(1)  # in the middle of a run: its folder appears whole or not at all


def _work(number: int, task: Task) -> None:
    _run_task(_scene, task, lambda ended: _ended.__setitem__(number, ended))
    _ended[number] = len(_scene.trace)


def _run_task(scene: Scene, task: Task, progress: Callable[[int], None]) -> None:
    run(scene, task.policy, task.seed, task.repeat, progress, task.decisions).save(task.folder, force=True)
