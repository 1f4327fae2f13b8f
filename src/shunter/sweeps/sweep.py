"""``shunter.sweep``: a whole sweep from Python, and its result."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.errors import RunError
from shunter.model import Trace
from shunter.seeding import check_seed
from shunter.sweeps import analysis
from shunter.sweeps.analysis import Ranking
from shunter.sweeps.engines import opener
from shunter.sweeps.form import SweepForm, check_code, of, read
from shunter.sweeps.places import Ground, checked, ground_of
from shunter.sweeps.plan import SweepPlan, plan
from shunter.sweeps.running import OnProgress, Progress, check_version, keys_of, run_all
from shunter.sweeps.store import COLUMNS, Store, schema
from shunter.sweeps.work import SweepRunner
from shunter.sweeps.work import about as about_run

if TYPE_CHECKING:
    import polars as pl


IDENTITY = ("key", "trace", "window", "cluster", "load", "network", "overhead", "checkpointable", "policy", "seed")


@dataclass(frozen=True, eq=False)
class Sweep:
    """The runs of a sweep: one row each, with what was run and its numbers.

    ``runs`` is a polars frame. Its columns are those of the store: ``trace``, ``cluster``, ``load``, ``policy``,
    ``seed``, ``jct_s.mean``, ``wait_s.p99`` and so on; ``error`` is the message of a run that failed.

    Examples:
        >>> import shunter
        >>> found = shunter.sweep(
        ...     traces=["synthetic:jobs=60,gpus=8"], clusters=["1x8"], policies=["fifo", "las"], seeds=3, workers=1
        ... )
        >>> found.runs.height, found.failed.height
        (6, 0)
        >>> [row.policy for row in found.ranking("wait_s.mean").rows][0] in ("fifo", "las")
        True
    """

    runs: pl.DataFrame
    progress: Progress
    folder: Path | None = None  # of the store, if it was kept

    @property
    def failed(self) -> pl.DataFrame:
        """The runs that failed, with their errors and the commands that repeat them."""
        return self.runs.filter(self.runs["error"].is_not_null())

    def ranking(self, measure: str = analysis.DEFAULT) -> Ranking:
        """The policies by a measure, paired over seeds, with corrected chances."""
        return analysis.rank(self.runs, measure)

    def report(self, file: str | Path, force: bool = False, measure: str = analysis.DEFAULT) -> Path:
        """Write the page of the command line's ``--report``."""
        from shunter.sweeps.page import write

        return write(Path(file), self.runs, measure, self.folder.name if self.folder else "", force)

    def figures(self, folder: str | Path, force: bool = False, measure: str = analysis.DEFAULT) -> list[Path]:
        """Write the figures of the command line's ``--figures``: PDF, SVG and CSV (needs the extra ``figures``)."""
        from shunter.report.figures import write
        from shunter.sweeps.figures import of_sweep

        return write(Path(folder), of_sweep(self.runs, measure), force)

    def __repr__(self) -> str:
        return f"Sweep(runs={self.runs.height}, policies={self.runs['policy'].n_unique()}, folder={self.folder!r})"


def sweep(  # noqa: PLR0913  one argument per choice
    file: str | Path | None = None,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    dask: str = "",
    seed: int = 0,
    retry_failed: bool = False,
    any_version: bool = False,
    allow_code: bool = False,
    on_progress: OnProgress = lambda progress: None,
    **axes: Any,
) -> Sweep:
    """Run a sweep: every policy on every trace, cluster, load and seed; runs that are in the folder are not repeated.

    A script must call this under ``if __name__ == "__main__":``, because it starts processes; with ``workers=1``
    everything runs in this process.

    Args:
        file: A sweep file; or leave it out and give its contents as ``axes``.
        out: A folder for the runs; default: they are not kept.
        workers: Processes at the same time; default: one per core.
        dask: The address of a Dask scheduler, or ``local:N``; needs the extra ``dask``.
        seed: Seed of everything random; ``seeds`` are counted from it.
        retry_failed: Whether to repeat runs that failed before.
        any_version: Whether runs of another version of Shunter in the folder count as done.
        allow_code: Whether to import modules that the file names; they can do anything.
        on_progress: Called several times a second.
        axes: What a sweep file has: ``traces=[...]``, ``clusters=[...]``, ``policies=[...]``, ``loads``, ``networks``,
            ``overheads``, ``checkpointable``, ``seeds``, ``include``, ``exclude``, ``drop_unfit``, ``measures``. A
            trace may be an object.

    Examples:
        >>> import shunter
        >>> found = shunter.sweep(
        ...     traces=["synthetic:jobs=60,gpus=8"],
        ...     clusters=["1x8"],
        ...     loads=[0.8, 1.2],
        ...     policies=["fifo", {"policy": "saf", "grid": {"backfill": ["none", "easy"]}}],
        ...     workers=1,
        ... )
        >>> sorted(set(found.runs["policy"]))
        ['fifo', 'saf', 'saf:backfill=easy']
    """
    if (file is None) == (not axes):
        raise RunError("give either a sweep file, or traces, clusters and policies")
    form, given = (read(Path(file)), {}) if file is not None else _form(axes)
    if file is not None and not allow_code:
        check_code(form, f"{file}: ", "allow_code=True")
    made = plan(form)
    ground = ground_of(made, check_seed(seed), given)
    checked(made, ground)
    with tempfile.TemporaryDirectory(prefix="shunter-") as temporary:
        folder = Path(out) if out is not None else Path(temporary) / "runs"
        store = Store.open(folder, ground.version, temporary=out is None)
        check_version(store, ground.version, any_version)
        return finished(made, ground, store, workers, dask, retry_failed, on_progress, out is not None)


def _form(axes: Mapping[str, Any]) -> tuple[SweepForm, dict[str, Trace]]:
    """The form of arguments, and the traces that were given as objects."""
    traces: Sequence[Any] = axes.get("traces", ())
    objects = {each.name: each for each in traces if isinstance(each, Trace)}
    texts = [each.name if isinstance(each, Trace) else each for each in traces]
    return of(**{**axes, "traces": texts}), objects


def finished(
    made: SweepPlan,
    ground: Ground,
    store: Store,
    workers: int | None,
    dask: str,
    retry_failed: bool,
    on_progress: OnProgress,
    keep: bool = True,
) -> Sweep:
    """Run a plan and read its runs back."""
    import polars as pl

    keys = keys_of(made, ground)
    todo = dict(zip(keys, made.runs, strict=True))
    progress = run_all(todo, SweepRunner(ground), store, opener(dask, workers), retry_failed, on_progress)
    # what a run is comes from the plan: a store may have it under another name, or from others
    about = pl.DataFrame(
        [
            {name: value for name, value in about_run(run, key, ground).items() if name in IDENTITY}
            for key, run in todo.items()
        ],
        schema=schema({name: COLUMNS[name] for name in IDENTITY}),
    )
    runs = about.join(store.read(keys=todo).drop(*IDENTITY[1:]), "key", how="inner", maintain_order="left")
    return Sweep(runs, progress, store.folder if keep else None)
