"""``shunter trace synth``: generate a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli.console import (
    ColumnsOption,
    ForceOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    OutArgument,
    SeedOption,
    check_trace_file,
    note,
    print_json,
    read,
    with_columns,
)
from shunter.errors import TraceError
from shunter.texts import counted

if TYPE_CHECKING:
    from shunter.model import Trace

EXAMPLES = """Examples:

shunter trace synth venus.parquet --like helios-venus --jobs 20000

shunter trace synth busy.parquet --like philly --gpus 256 --load 1.1

shunter trace synth shareable.parquet --fit our_jobs.csv

shunter trace synth dated.parquet --gpus 64 --load 1.2 --deadlines 0.5 --elastic 0.5

shunter trace synth at_once.parquet --from our_jobs.csv --arrivals batch
"""

_LIKE = "A published trace: helios-venus, helios-earth, helios-saturn, helios-uranus, philly or pai."
_DEADLINES = "Share of the jobs with a made-up deadline."
_ELASTIC = "Share of the jobs that may have half to twice the GPUs they ask for."
_LOAD = "Requested over available GPU time; stretches the arrivals, not the jobs."


def _published(incomplete: str) -> list[str]:
    from importlib.resources import files

    folder = files("shunter").joinpath("traces", "twins", "profiles")  # without importing what reads them: that is slow
    names = sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))
    return [name for name in names if name.startswith(incomplete)]


def synth(  # noqa: PLR0913, PLR0917  one argument per option
    out: OutArgument,
    like: Annotated[str | None, typer.Option("--like", metavar="NAME", help=_LIKE, autocompletion=_published)] = None,
    fit: Annotated[
        Path | None, typer.Option("--fit", metavar="FILE", help="Your trace, for a twin without its names.")
    ] = None,
    take: Annotated[Path | None, typer.Option("--from", metavar="FILE", help="Reuse the jobs of this trace.")] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", help="Number of jobs; default: 5000, or as in FILE.")
    ] = None,
    seed: SeedOption = 0,
    load: Annotated[float | None, typer.Option("--load", metavar="X", help=_LOAD)] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", metavar="N", help="GPUs of the target cluster.")] = None,
    arrivals: Annotated[
        str | None, typer.Option("--arrivals", metavar="HOW", help="batch: all at once; poisson: no rhythm, no bursts.")
    ] = None,
    deadlines: Annotated[float, typer.Option("--deadlines", metavar="X", min=0.0, max=1.0, help=_DEADLINES)] = 0.0,
    elastic: Annotated[float, typer.Option("--elastic", metavar="X", min=0.0, max=1.0, help=_ELASTIC)] = 0.0,
    force: ForceOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    json: JsonOption = False,
) -> None:
    """Generate a trace: like a published one, like your own but without its names, or the same jobs at other times.

    Without --like, --fit or --from it is like the published ones in general, for 128 GPUs at a load of 0.9.
    """
    format = with_columns(format, columns)  # noqa: A001
    _check_options({"--like": like, "--fit": fit, "--from": take}, jobs, load, gpus, arrivals, deadlines + elastic > 0)
    if (format or on_bad_row) and fit is None and take is None:
        raise TraceError("--format and --on-bad-row are about the FILE of --fit or --from; give one of these")
    check_trace_file(out, force)

    from shunter import traces
    from shunter.seeding import rng
    from shunter.traces import twins
    from shunter.traces.made_deadlines import with_deadlines
    from shunter.traces.synthetic import synthetic

    if fit:
        own = read(str(fit), format, on_bad_row)
        for remark in own.remarks:
            note(remark)
        made = twins.twin_of(own, jobs, seed, load, gpus)
    elif take:
        made = read(str(take), format, on_bad_row)
        made = made if load is None or gpus is None else twins.stretched(made, load, gpus)
    else:
        made = synthetic(5000 if jobs is None else jobs, seed, gpus, load, like or "")
    if arrivals:
        made = twins.rearranged(made, arrivals, seed)
    if deadlines or elastic:
        made = with_deadlines(made, rng(seed, "synthetic.deadlines"), deadlines, elastic)
    traces.write(made, out)
    _tell(made, out, like, gpus)
    if fit:
        _tell_what_survives(made)
    if json:
        print_json({"file": str(out), "jobs": len(made), "remarks": list(made.remarks)})


def _check_options(
    sources: dict[str, object],
    jobs: int | None,
    load: float | None,
    gpus: int | None,
    arrivals: str | None,
    dated: bool,
) -> None:
    """Refuse options that contradict each other, before anything is read."""
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise TraceError(f"{' and '.join(given)} can't go together: each is the origin of the jobs; keep one of them")
    source = given[0] if given else ""
    if arrivals not in (None, "batch", "poisson"):
        raise TraceError(f"--arrivals must be batch or poisson, got '{arrivals}'; drop it for those of the trace")
    if arrivals == "batch" and load is not None:
        raise TraceError("--arrivals batch submits all jobs at once, so there is no load to set; drop --load")
    if source == "--from":
        if jobs is not None:
            raise TraceError("--from takes all jobs of the file; drop --jobs, or make a twin with --fit instead")
        if load is None and arrivals is None and not dated:
            raise TraceError(
                "--from alone changes nothing; add --arrivals batch, --arrivals poisson, --load X --gpus N, or"
                " --deadlines X"
            )
    if source in ("--fit", "--from") and (load is None) != (gpus is None):
        missing, there = ("--gpus N", "--load") if gpus is None else ("--load X", "--gpus")
        raise TraceError(f"with {source}, a load needs both --load and --gpus; add {missing}, or drop {there}")


def _tell(made: Trace, out: Path, like: str | None, gpus: int | None) -> None:
    """What was written, and what to do with it."""
    from shunter.model import GPU
    from shunter.traces.twins.profile import load as load_profile

    span = int(made.submit[-1] - made.submit[0])
    cluster = f"{gpus // 8}x8" if gpus and gpus % 8 == 0 else "auto"
    if like and gpus is None:
        profile = load_profile(like)
        gpus, cluster = profile.gpus, profile.cluster
    over = f" over {span / 86_400_000:,.1f} days" if span else ", all at once"
    if gpus and span:
        load = float((made.gpus / GPU * made.duration).sum()) / (span * gpus)
        over += f", a load of {load:.2f} on {counted(gpus, 'GPU')}"
    note(f"{counted(len(made), 'job')}{over}, written to {out}")
    for remark in made.remarks:
        note(remark)
    if made.deadline.any():
        note(f"shunter compare {out} -c {cluster} -p saf:backfill=easy -p edf:backfill=easy -p elastic", "next")
        return
    note(f"shunter simulate {out} -c {cluster} -p fifo", "next")


def _tell_what_survives(made: Trace) -> None:
    kept = f", except GPU types, which describe hardware: {', '.join(made.gpu_types)}" if made.gpu_types else ""
    note(f"every name of the original is replaced{kept}; times begin on a made-up date with the same hour and weekday")
