"""``shunter predict``: how long jobs will run, how good such estimates are, and what explains them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from shunter.cli.console import (
    ColumnsOption,
    ForceOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    TraceArgument,
    answer,
    check_free,
    note,
    print_json,
    progress,
    read,
    show,
    with_columns,
)
from shunter.cli.reports import check_page, write_page
from shunter.errors import ModelError

if TYPE_CHECKING:
    from shunter.model import Trace
    from shunter.predictors.explaining import Reasons
    from shunter.predictors.fitted import Fitted

EVAL_EXAMPLES = """Examples:

shunter predict eval jobs.csv --model gbm --model ebm

shunter predict eval jobs.csv --model gbm:objective=l2 --train-until 2018-11-01 --refit never

shunter predict eval jobs.csv --at start --json

shunter predict eval losses/ --what progress   # a folder of CSV files with iteration and loss

shunter predict eval times.csv --what iteration-time --model forest --model scaled
"""

SUBMISSIONS_EXAMPLES = """Examples:

shunter predict submissions jobs.csv

shunter predict submissions jobs.csv --model gbm --train-until 2020-09-01 --json
"""

FIT_EXAMPLES = """Examples:

shunter predict fit jobs.csv --model ebm --out ours.model

shunter predict fit jobs.csv --model gbm --train-until 2018-11-01 --out october.model
"""

EXPLAIN_EXAMPLES = """Examples:

shunter predict explain ours.model

shunter predict explain ours.model 1234 --trace jobs.csv   # the terms of one estimate

shunter predict explain ours.model --report ours.html   # shapes as charts
"""
DEFAULT_MODELS = ("gbm", "ebm", "blend")
REFITS = ("weekly", "drift", "never")
WHAT = ("run-time", "iteration-time", "progress", "peaks")
EvalArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TRACE", help="A trace file; with --what a table of measurements, or a folder of them.")
]


def _model_names(incomplete: str) -> list[str]:
    return [name for name in ("history", "gbm", "ebm", "blend") if name.startswith(incomplete)]


def _what_names(incomplete: str) -> list[str]:
    return [name for name in WHAT if name.startswith(incomplete)]


def _when_names(incomplete: str) -> list[str]:
    return [name for name in ("submission", "start") if name.startswith(incomplete)]


def _refit_names(incomplete: str) -> list[str]:
    return [name for name in REFITS if name.startswith(incomplete)]


app = typer.Typer(no_args_is_help=True, help="Estimate run times and submissions; report how good estimates are.")


@app.callback()
def predict() -> None:
    """Estimate run times and submissions; report how good estimates are."""


WhatOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--what",
        metavar="|".join(WHAT),
        autocompletion=_what_names,
        help="What is estimated; all but run-time are judged by random rows and by model.",
    ),
]
ModelsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="M",
        autocompletion=_model_names,
        help="gbm, ebm or blend, with settings as in gbm:rounds=200; repeatable; default: all.",
    ),
]
TrainUntilOption: TypeAlias = Annotated[
    str | None, typer.Option("--train-until", metavar="T", help="Estimate from then on: date, seconds or +days.")
]
TrainShareOption: TypeAlias = Annotated[
    float, typer.Option("--train-share", metavar="X", help="Or after this share of the jobs.")
]
RefitOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--refit",
        metavar="weekly|drift|never",
        autocompletion=_refit_names,
        help="When models are fitted again; drift: weekly, and when they err 1.5 times as much as at the fit.",
    ),
]
AtOption: TypeAlias = Annotated[
    str,
    typer.Option("--at", metavar="submission|start", autocompletion=_when_names, help="When a job is estimated."),
]


@app.command("eval", epilog=EVAL_EXAMPLES)
def evaluate(  # noqa: PLR0913, PLR0917  one argument per option
    ctx: typer.Context,
    trace: EvalArgument,
    what: WhatOption = "run-time",
    model: ModelsOption = None,
    train_until: TrainUntilOption = None,
    train_share: TrainShareOption = 0.67,
    refit: RefitOption = "weekly",
    at: AtOption = "submission",
    json: JsonOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
) -> None:  # fmt: skip
    """Report how good estimates of run times would have been, live.

    The trace is split by time. Each job is estimated at its submission, or its start, from what had ended by then, and
    models are fitted again as time goes on. Baselines: the requested time (limit), the mean of all, the median of the
    last 100 with as many GPUs (gpus_median), the mean of the user's last two (user2), of the last two with equal user,
    GPUs and limit (request2), and rolling means (history).

    With --what, TRACE is a table of measurements, or a folder of them: of iteration times, losses or peaks.
    """
    if what != "run-time":
        from shunter.cli.predict_measured import judged, refuse_others

        refuse_others(ctx, what)
        judged(what, Path(trace), model, columns, json)
        return
    format = with_columns(format, columns)  # noqa: A001
    from shunter.predictors import evaluating
    from shunter.predictors.models import model as model_of
    from shunter.predictors.updating import NEVER, Schedule

    schedules = {"weekly": Schedule(drift=float("inf")), "drift": Schedule(), "never": NEVER}
    if refit not in schedules:
        raise ModelError(f"--refit must be {', '.join(REFITS)}, got '{refit}'")
    models = [model_of(text) for text in ("history", *(name for name in model or DEFAULT_MODELS if name != "history"))]
    found = _read(trace, format, on_bad_row, json)
    split = _instant(train_until, found) if train_until else evaluating.split_at(found, train_share)
    with progress("estimating") as on_progress:
        given, outcomes = evaluating.evaluate(found, split, models, schedules[refit], at, lambda name: on_progress)

    from shunter.report.gains import by_month
    from shunter.report.terminal.predict import eval_view
    from shunter.traces.slicing import date

    record = {
        "trace": found.name,
        "digest": found.digest,
        "split": date(split),
        "trained_on": len(found) - len(given.asked),
        "jobs": len(given.asked),
        "at": at,
        "refit": refit,
        "models": [
            evaluating.scores(each, given.actual)
            | {"queue_rank_correlation": evaluating.queue_rank(given, each.seconds)}
            for each in outcomes
        ],
        "months": by_month(given, outcomes),
    }
    answer(record, eval_view, json)


@app.command("submissions", epilog=SUBMISSIONS_EXAMPLES)
def submissions(
    trace: TraceArgument,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", metavar="M", autocompletion=_model_names, help="gbm or ebm; repeatable."),
    ] = None,
    train_until: Annotated[
        str | None, typer.Option("--train-until", metavar="T", help="Forecast from then on: date, seconds or +days.")
    ] = None,
    train_share: TrainShareOption = 0.67,
    json: JsonOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
) -> None:
    """Report how good forecasts of submissions would have been: jobs and GPUs per ten minutes, an hour ahead."""
    format = with_columns(format, columns)  # noqa: A001
    from shunter.predictors.evaluating import split_at
    from shunter.predictors.models import model as model_of
    from shunter.predictors.submissions import evaluate as forecast
    from shunter.report.terminal.submissions import records, submissions_view
    from shunter.traces.slicing import date

    models = [model_of(text) for text in model or ("gbm", "ebm")]
    for each in models:
        if not each.libraries or each.alpha:
            raise ModelError(f"model '{each.name}' doesn't forecast submissions; use gbm or ebm")
    found = read(trace, format, on_bad_row)
    split = _instant(train_until, found) if train_until else split_at(found, train_share)
    actual, forecasts = forecast(found, split, models)
    record = {
        "trace": found.name,
        "digest": found.digest,
        "split": date(split),
        "bins": actual.shape[1],
        "models": records(actual, forecasts),
    }
    answer(record, submissions_view, json)


@app.command("fit", epilog=FIT_EXAMPLES)
def fit(  # noqa: PLR0913, PLR0917  one argument per option
    trace: TraceArgument,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write the model.")],
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="M", help="history, gbm, ebm or blend.", autocompletion=_model_names)
    ] = "gbm",
    train_until: Annotated[
        str | None, typer.Option("--train-until", metavar="T", help="Learn from jobs that ended before; default: all.")
    ] = None,
    json: JsonOption = False,
    force: ForceOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
) -> None:  # fmt: skip
    """Fit a model to the jobs of a trace, and write it to a file."""
    format = with_columns(format, columns)  # noqa: A001
    from shunter.predictors import evaluating, storing
    from shunter.predictors.models import model as model_of

    check_free(out, force)
    chosen = model_of(model)
    found = _read(trace, format, on_bad_row, json)
    until = _instant(train_until, found) if train_until else None
    with progress("fitting") as on_progress:
        fitted = chosen.fit(evaluating.everything(found, chosen, until), on_progress)
    storing.save(fitted, out)
    _tell(fitted, None, json)
    note(f"{out} ('shunter predict explain {out}' shows more)", "model")


@app.command("explain", epilog=EXPLAIN_EXAMPLES)
def explain(  # noqa: PLR0913, PLR0917  one argument per option
    file: Annotated[Path, typer.Argument(metavar="MODEL", help="A file of 'shunter predict fit'.")],
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Explain the estimate of this job.")] = None,
    trace: Annotated[str | None, typer.Option("--trace", metavar="TRACE", help="The trace that has JOB.")] = None,
    html: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write it as a page with charts.")
    ] = None,
    json: JsonOption = False,
    force: ForceOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
) -> None:
    """Show what a model has learned, or why it estimates a job as it does."""
    format = with_columns(format, columns)  # noqa: A001
    from shunter.predictors import storing
    from shunter.predictors.explaining import reasons, shapes
    from shunter.predictors.fitted import Fitted as Duration

    if (job is None) != (trace is None):
        raise ModelError("JOB and --trace go together: which job, and of which trace")
    check_page(html, force)
    fitted = storing.load(file)
    if not isinstance(fitted, Duration):
        raise ModelError(f"{file}: is a model of submissions, not of run times; give one of 'shunter predict fit'")
    why = (
        reasons(fitted, _read(trace, format, on_bad_row, json), job) if trace is not None and job is not None else None
    )
    if html is not None:
        from shunter.report.html.model_page import model_page

        write_page(html, model_page(fitted, shapes(fitted), why))
    _tell(fitted, why, json)


def _tell(fitted: Fitted, why: Reasons | None, json: bool) -> None:
    from shunter.predictors.explaining import shapes
    from shunter.report.terminal.predict import model_record, model_view, reasons_record, reasons_view

    if json:
        print_json(model_record(fitted, shapes(fitted)) | ({"job": reasons_record(why)} if why else {}))
    elif why is not None:
        show(reasons_view(fitted, why))
    else:
        show(model_view(fitted, shapes(fitted)))


def _read(trace: str, format: str | None, on_bad_row: str | None, quiet: bool) -> Trace:  # noqa: A002
    """The trace, after saying what it lacks."""
    from shunter.predictors.missing import missing

    found = read(trace, format, on_bad_row)
    for text in () if quiet else missing(found):
        note(text)
    return found


def _instant(text: str, trace: Trace) -> int:
    from datetime import UTC

    from shunter.traces.slicing import moment

    return moment(text, trace, UTC)
