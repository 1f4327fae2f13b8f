"""Everything that was found, as the one record that is printed, written as JSON and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shunter import __version__
from shunter.advice import checkpointing, words
from shunter.advice.advising import GOALS, HistoryWindow, Question
from shunter.advice.present import Present
from shunter.advice.verdict import Verdict
from shunter.model import GPU
from shunter.report.explain import moment
from shunter.world import F64, I64


@dataclass(frozen=True, eq=False)
class Answer:
    """What came of each step."""

    history: str  # where it was read from
    present: Present  # all of it
    question: Question
    validity: Mapping[str, Any]
    window: HistoryWindow
    verdict: Verdict
    compared: Sequence[Mapping[str, Any]] = ()  # the present first; nothing where the verdict is not to use it
    best: Sequence[Mapping[str, Any]] = ()
    dropped: Sequence[Mapping[str, Any]] = ()  # better on the days compared, and not on the check days
    check: Mapping[str, Any] | None = None  # those that were better, on the check days
    checkpoints: Mapping[str, Any] | None = None  # what they are worth, if that was asked for


def record(answer: Answer, conf: str | None) -> dict[str, Any]:
    """What ``shunter advise --json`` prints; ``conf`` is the site's own slurm.conf, if it is known."""
    setup, question = answer.present.setup, answer.question
    cluster, trace = answer.present.stated, setup.trace
    return {
        "verdict": answer.verdict.use,
        "why": list(answer.verdict.why),
        "version": __version__,
        "history": answer.history,
        "jobs": len(trace),
        "cluster": {"name": cluster.name, "nodes": cluster.nodes, "gpus": cluster.gpus},
        "base": question.base.text,
        "goal": GOALS[question.goal],
        "seed": question.seed,
        "validity": answer.validity,
        "trust": words.trust(answer.validity),
        "inferred": {**inferred(answer.present), "sentences": words.inferred(answer.present)},
        "explained": words.explained(answer.validity, question.base.text, trace.remarks),
        "window": {
            "from": moment(answer.window.begin),
            "until": moment(int(trace.submit[-1])),
            "jobs": len(answer.window.rows),
            "stops": words.stops(question, answer.window.setup.cluster),
            "dominated": words.dominated(answer.window.counted, question.goal),
            "days": question.days,
            "warmup_days": question.warmup,
            "check": answer.check,
        },
        "compared": list(answer.compared),
        "best": [
            {
                **row,
                "gain": words.gain(row, answer.compared[0]),
                "checked": words.checked(row, answer.check, question.goal),
                "action": words.action(row, question, answer.history, conf, answer.present),
            }
            for row in answer.best
        ],
        "dropped": [{**row, "checked": words.failed(row, answer.check or {}, question.goal)} for row in answer.dropped],
        "checkpoints": answer.checkpoints
        and {**answer.checkpoints, "sentences": list(checkpointing.sentences(answer.checkpoints))},
        "remarks": [*trace.remarks, *setup.remarks, *question.site.remarks],
    }


def inferred(present: Present) -> dict[str, Any]:
    """What the replay takes from the record, and how near a replay without it is."""
    capacity = []
    for one in present.capacity:
        changes = np.flatnonzero(np.diff(one.gpus, prepend=-1))
        by_day = [{"from": moment(int(one.since[at])), "gpus": int(one.gpus[at])} for at in changes]
        capacity.append({"vc": one.vc, "stated": present.stated_gpus(one), "gpus": by_day})
    cycle = present.cycle
    return {
        "judged_from": moment(present.judged_from),
        "capacity": capacity,
        "held_jobs": int((present.held > 0).sum()),
        "user_cap": present.setup.user_cap // GPU,
        "cycle": cycle and {"period_s": cycle.period / 1000, "delay_s": cycle.delay / 1000},
        "without": present.before,
    }


def both_waits(present: Present, simulated: I64) -> tuple[F64, F64]:
    """Recorded and simulated waits (s) of the jobs that are judged."""
    trace = present.trace
    known = (trace.recorded_wait >= 0) & (simulated >= 0) & (trace.submit >= present.judged_from)
    return trace.recorded_wait[known] / 1000, simulated[known] / 1000
