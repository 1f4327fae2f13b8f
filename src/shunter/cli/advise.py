"""``shunter advise``: from a cluster's own history to what could be done better."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from shunter.cli.console import (
    CheckpointableOption,
    ClusterOption,
    ColumnsOption,
    ForceOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    SeedOption,
    WorkersOption,
    answer,
    learn,
    note,
    policy_names,
    progress,
    with_columns,
)
from shunter.cli.reports import check_page, write_page
from shunter.errors import InputError, RunError

if TYPE_CHECKING:
    from shunter.advice.advising import HistoryWindow, Question
    from shunter.advice.findings import Answer
    from shunter.cluster import Cluster
    from shunter.setup import Setup
    from shunter.slurm.site import Site

EXAMPLES = """Examples:

shunter advise site   # the folder that 'shunter slurm import' wrote

shunter advise jobs.csv --cluster 40x8 --base fifo:backfill=easy --days 60 --report advice.html

shunter advise site --slurm-conf /etc/slurm/slurm.conf --goal tail
"""


def _goals(incomplete: str) -> list[str]:
    return [goal for goal in ("wait", "users", "tail", "slowdown") if goal.startswith(incomplete)]


HistoryArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="HISTORY", help="A trace with recorded waits, or the folder of 'slurm import'.")
]
SiteOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--site", metavar="FILE", help="Slurm's settings; default: site.toml beside the cluster file."),
]
BaseOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--base", metavar="P", autocompletion=policy_names,
        help="The present policy, for a history that is not Slurm's.",
    ),
]  # fmt: skip
DaysOption: TypeAlias = Annotated[float, typer.Option("--days", metavar="N", help="Compare on the last N days.")]
WarmupOption: TypeAlias = Annotated[
    float, typer.Option("--warmup", metavar="N", help="Earlier days that are simulated but not counted.")
]
GoalOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--goal", metavar="wait|users|tail|slowdown", autocompletion=_goals,
        help="What to minimise: mean wait, mean of users' mean waits, P99 wait, or slowdown.",
    ),
]  # fmt: skip
PolicyOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--policy", "-p", metavar="P", help="Also compare this policy.", autocompletion=policy_names),
]
PreemptionOption: TypeAlias = Annotated[
    bool, typer.Option("--preemption", help="Also compare policies that stop jobs, and say what checkpoints are worth.")
]
SlurmConfOption: TypeAlias = Annotated[
    Path | None, typer.Option("--slurm-conf", metavar="FILE", help="Write diffs against this file.")
]
OutputOption: TypeAlias = Annotated[
    Path | None, typer.Option("--report", "-o", metavar="FILE", help="Write a page for a browser.")
]


def advise(  # noqa: PLR0913, PLR0917  one argument per option
    history: HistoryArgument,
    cluster: ClusterOption = None,
    site: SiteOption = None,
    base: BaseOption = None,
    days: DaysOption = 30,
    warmup: WarmupOption = 7,
    goal: GoalOption = "wait",
    policy: PolicyOption = None,
    preemption: PreemptionOption = False,
    checkpointable: CheckpointableOption = None,
    slurm_conf: SlurmConfOption = None,
    output: OutputOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
) -> None:
    """Replay a history under the present policy, compare other policies and settings, and print the three best.

    The first line is a verdict: trust, caution or don't use, and why. It depends on how far simulated waits are from
    recorded ones. Unless it is "don't use", settings of Slurm and policies of the controller are compared on the last
    days. Those that are better are run on the days before; whatever fails there is dropped. Each of the best comes
    with what it gains and costs, and a diff of slurm.conf or the controller's command if Slurm is known.
    """
    format = with_columns(format, columns)  # noqa: A001
    history, cluster = _imported(history, cluster)
    if cluster is None and not _is_there(history):
        raise RunError(f"{history}: no such file or folder; 'shunter slurm import {history}' makes a folder")
    if cluster is None:
        raise RunError("there is no cluster; give one, such as --cluster site/cluster.toml, or --cluster 40x8")

    from shunter.advice import advising, present
    from shunter.advice.page import advice_page
    from shunter.advice.view import advice_view

    check_page(output, force)
    text = _text(slurm_conf)
    question = _question(cluster, site, base, days, warmup, goal, preemption, tuple(policy or ()), seed, workers)
    question = dataclasses.replace(question, checkpointable=checkpointable or "")
    advising.check(question)
    policies = [one.policy for one in question.policies]
    setup, stated = present.read(history, cluster, policies, format, on_bad_row or "fail")
    for remark in (*setup.trace.remarks, *setup.remarks, *question.site.remarks):
        note(remark)
    record, waits = _advice(history, setup, stated, question, text)
    if output is not None:
        write_page(output, advice_page(record, *waits), "report")
    answer(record, advice_view, json)


def _imported(history: str, cluster: str | None) -> tuple[str, str | None]:
    """The files in a folder that 'shunter slurm import' wrote; anything else as it is."""
    jobs, machines = Path(history) / "jobs.parquet", Path(history) / "cluster.toml"
    if not jobs.is_file():
        return history, cluster
    return str(jobs), cluster or (str(machines) if machines.is_file() else None)


def _is_there(history: str) -> bool:
    from shunter.setup import is_synthetic

    return history == "-" or is_synthetic(history) or Path(history).exists()


def _text(path: Path | None) -> str | None:
    from shunter.safe_files import text_of

    return None if path is None else text_of(path, InputError, errors="replace")


def _question(cluster: str, given: Path | None, base: str | None, *rest: Any) -> Question:
    """What is done now: as ``--base`` says, or as the site's settings do."""
    from shunter.advice.advising import Question
    from shunter.advice.candidates import site_of
    from shunter.simulation import resolve

    found = _site(cluster, given)
    if found is None and base is None:
        raise RunError(
            "the present policy is unknown; give --site site.toml ('shunter slurm import' writes it), or say it with"
            " --base, such as --base fifo:backfill=easy"
        )
    named = resolve(base or (found.policy if found else ""))
    return dataclasses.replace(Question(named, found or site_of(named.policy), *rest), slurm=found is not None)


def _site(cluster: str, given: Path | None) -> Site | None:
    from shunter.slurm import site as sites

    beside = Path(cluster).parent / "site.toml" if cluster.endswith(".toml") else None
    path = given or (beside if beside is not None and beside.is_file() else None)
    return sites.read(path) if path else None


def _advice(
    history: str, setup: Setup, stated: Cluster, question: Question, conf: str | None
) -> tuple[dict[str, Any], Any]:
    """Everything, step by step, each with its bar."""
    from shunter.advice import advising, findings, present
    from shunter.advice.verdict import NO

    with progress("replaying the history") as on_progress:
        simulated = present.replay(setup, question.base, question.seed, on_progress)
    site = present.present(setup, stated, simulated)
    window = advising.window(site.setup, question)
    if window is None:
        raise RunError(
            f"the last {question.days:g} days have no jobs to compare policies on after {question.warmup:g} days of"
            " warm-up; the history is too short, or give more with --days and less with --warmup"
        )
    check = advising.window(site.setup, question, window.begin)
    with progress("replaying it on the cluster that the record shows") as on_progress:
        found, simulated = advising.replayed(site, question, window.begin, on_progress)
    found_out = findings.Answer(history, site, question, found, window, advising.judged(site, found, check))
    if found_out.verdict.use != NO:
        found_out = _compared(found_out, check)
    return findings.record(found_out, conf), findings.both_waits(site, simulated)


def _compared(answer: Answer, check: HistoryWindow | None) -> Answer:
    """The answer with what is best and what was dropped."""
    from shunter.advice import advising

    window, question = answer.window, answer.question
    if window.setup.history is None:
        note("there are no jobs before the days that are compared, so policies learn run times on the way")
    else:
        learn(window.setup, [one.named for one in question.options])
    with progress("comparing") as on_progress:
        rows = advising.compared(window, question, on_progress)
    good, checked = advising.better(rows), None
    if check is not None and good:
        with progress("checking on earlier days") as on_progress:
            checked = advising.checked(check, question, good, on_progress)
    chosen, dropped = advising.best(good, checked), advising.dropped(good, checked)
    worth = _checkpoints(window, question) if question.preemption else None
    return dataclasses.replace(answer, compared=rows, best=chosen, dropped=dropped, check=checked, checkpoints=worth)


def _checkpoints(window: HistoryWindow, question: Question) -> dict[str, Any]:
    """What it is worth if more jobs can be stopped."""
    from shunter.advice import checkpointing

    with progress("stopping more and more jobs", "runs") as on_progress:
        return checkpointing.value(window, question.goal, question.seed, on_progress)
