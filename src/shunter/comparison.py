"""Several policies on the same jobs: run side by side in processes, each kept as soon as it is done."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shunter import caches, experiment, registry
from shunter.compiled import cache_folder
from shunter.errors import RunError
from shunter.processes import Progress, run_tasks, usable_cores
from shunter.report.bootstrap import mean_difference
from shunter.run_folder import Run, check_folder, load, new_folder
from shunter.seeding import check_seed
from shunter.setup import ClusterLike, Setup, TraceLike, check, set_up
from shunter.simulation import describe, run
from shunter.world import F64


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
    """The results of several policies on the same jobs. The first policy is the baseline.

    Examples:
        >>> import shunter
        >>> comparison = shunter.compare("synthetic:jobs=100,gpus=8,load=1.2", "1x8", ["fifo", "las"], workers=1)
        >>> [row["policy"] for row in comparison.policies]
        ['fifo', 'las']
        >>> difference = comparison.policies[1]["difference"]  # of the mean JCT to that of fifo, with its interval
        >>> difference["low_s"] <= difference["mean_s"] <= difference["high_s"]
        True
    """

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
    """Run several policies on the same jobs in parallel processes.

    An interrupted comparison continues where it was. A script must call this under ``if __name__ == "__main__":``,
    because it starts processes; with ``workers=1`` everything runs in this process.

    Args:
        trace: As for ``simulate``.
        cluster: As for ``simulate``.
        policies: Policies or their texts. The first is the baseline.
        seed: Seed of everything random.
        repeat: Runs per policy, with other seeds and arrivals.
        out: A folder for the runs.
        force: Whether to replace an earlier comparison in that folder.
        workers: Processes at the same time; default: one per core.
        decisions: Whether to record why jobs waited.

    Examples:
        >>> import shunter
        >>> jobs = shunter.Trace.of("two", ["a", "b"], submit=[0, 0], duration=[90_000, 10_000], gpus=[1000, 1000])
        >>> comparison = shunter.compare(jobs, "1x1", ["fifo", "sjf:estimate=oracle"], workers=1)
        >>> [(row["policy"], row["jct_s"]["mean"]) for row in comparison.policies]
        [('fifo', 95.0), ('sjf:estimate=oracle', 55.0)]
    """
    folder = None if out is None else Path(out)
    return compare_setup(set_up(trace, cluster), policies, seed, repeat, folder, force, workers, decisions=decisions)


def compare_setup(  # noqa: PLR0913, PLR0917  what compare takes, and who watches
    setup: Setup,
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
    """Compare policies on a setup that has been read; ``progress`` gets the steps done, and all.

    ``keep`` is given the first run of each policy, which else are gone in the end unless there is ``out``.
    """
    if isinstance(policies, str):
        policies = [policies]
    seed = check_seed(seed)
    if repeat < 1:
        raise RunError(f"repeat must be >= 1, got {repeat}")
    if workers is not None and workers < 1:
        raise RunError(f"workers must be >= 1, got {workers}")
    labels = _labels(setup, policies)
    for policy in policies:
        check(setup, policy)
    if out is not None:
        check_folder(out, force)
    with _stash(setup, out) as stash:
        rows = [
            [_task(setup, p, t, seed, r, stash, decisions) for r in range(repeat)]
            for p, t in zip(policies, labels, strict=True)
        ]
        tasks = [task for row in rows for task in row]
        todo = [task for task in tasks if not Path(task.folder).exists()]
        workers = workers or usable_cores()
        if min(workers, len(todo)) > 1:
            compile_once(setup, todo[0].policy)
        steps = [len(setup.trace)] * len(todo)
        run_tasks(_run_task, setup, todo, steps, workers, progress or (lambda ended, total: None))
        found = [[_read(task) for task in row] for row in rows]
        comparison = Comparison(
            setup.trace.name,
            setup.cluster.name,
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


def _labels(setup: Setup, policies: Sequence[Any]) -> list[str]:
    if not policies:
        raise RunError("there is nothing to compare; give at least one policy")
    labels = [str(describe(registry.policy(policy), setup.trace)["policy"]) for policy in policies]
    for label in labels:
        if labels.count(label) > 1:
            raise RunError(f"policy '{label}' is given more than once; leave one out")
    return labels


# ------------------------------------------------------------------------------------------- what is kept


@contextlib.contextmanager
def _stash(setup: Setup, out: Path | None) -> Iterator[Path]:
    """The folder in which finished runs wait for the others; it outlives an interruption and is found again.

    Without ``out`` it is in the user's cache.  Where that can't be used, another process uses it, or others could put
    runs of theirs there, nothing is kept.
    """
    import fcntl

    with contextlib.ExitStack() as stack:
        try:
            stash = _cache(setup) if out is None else out.parent / f".{out.name}.unfinished"
            stash.mkdir(parents=True, exist_ok=True)
            # The folder may be another account's: a link in it is not followed, and a pipe is not waited for.
            lock = os.open(stash / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not caches.trusted(stash, frozenset({os.geteuid(), caches.ROOT})):
                stash = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shunter-")))
        except (OSError, caches.NotPrivateError) as error:
            if out is not None:
                busy = isinstance(error, BlockingIOError)
                why = "another comparison is being written there" if busy else f"can't be written: {error}"
                raise RunError(f"{out}: {why}; choose another folder") from None
            stash = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shunter-")))
        yield stash


def _cache(setup: Setup) -> Path:
    return caches.private(caches.user_folder("compare")) / _key(setup.experiment("", 0))


def _task(setup: Setup, policy: Any, label: str, seed: int, repeat: int, stash: Path, decisions: bool = False) -> Task:
    """A task and its place: a name that no other settings, policy code or state of shunter's sources would give."""
    chosen = registry.policy(policy)
    source = getattr(sys.modules.get(type(chosen).__module__), "__file__", None)
    code = Path(source).read_bytes() if source and Path(source).is_file() else b""
    more = repr((chosen, decisions)).encode() + code + cache_folder().name.encode()
    return Task(policy, label, seed, repeat, str(stash / _key(setup.experiment(label, seed, repeat), more)), decisions)


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
    """The mean of every number in equally built trees; what is no number, or always the same, is the first one's.

    Repeats in which a number is missing don't count.
    """
    repeats = [one for one in repeats if one is not None] or repeats
    first = repeats[0]
    if isinstance(first, dict):
        shared = [key for key in first if all(key in other for other in repeats)]
        return {key: _average([other[key] for other in repeats]) for key in shared}
    if isinstance(first, bool | str | list) or first is None or all(other == first for other in repeats):
        return first
    return float(np.mean(repeats))


# ------------------------------------------------------------------------------------------- runs


def compile_once(setup: Setup, policy: Any) -> None:
    """Compile what all policies share, if nothing is compiled yet; else every worker would, at the same time."""
    if not any(cache_folder().rglob("*.nbi")):
        run(dataclasses.replace(setup, trace=setup.trace.select(np.arange(1))), policy)


def _run_task(setup: Setup, task: Task, report: Callable[[int], None]) -> None:
    run(setup, task.policy, task.seed, task.repeat, report, task.decisions).save(task.folder, force=True)
