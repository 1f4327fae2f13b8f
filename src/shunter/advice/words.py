"""The numbers in sentences: how far the simulation can be trusted, and what each piece of advice is for."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shunter.advice import slurm_conf
from shunter.advice.advising import GOALS, Question, shown
from shunter.advice.candidates import lines
from shunter.advice.present import Present
from shunter.advice.recorded_waits import AT_ONCE_MS
from shunter.cluster import Cluster
from shunter.clusters.stop_costs import costs_text
from shunter.model import GPU, Trace
from shunter.report.explain import moment
from shunter.report.terminal.tables import duration, share
from shunter.traces.checks import brief

NOTHING = "No option is better than the present one, beyond chance, on the days compared and on the check days."
NO_ADVICE = "Nothing was compared: without a valid replay, a comparison would mean nothing."
MOSTLY = 0.5  # a user with so large a share of the jobs is named
OVER_EVEN = 2  # three users are named if they have this many times the share of three users that are all alike
MUCH = 0.1  # a share that is this much larger than the simulation's is worth a sentence


def verdict_text(record: Mapping[str, Any]) -> str:
    """Why the verdict is what it is: every reason, the worst first."""
    return "; ".join(record["why"]) + "."


def trust(found: Mapping[str, Any]) -> str:
    """One sentence on how near simulated waits are to recorded ones."""
    if not found["jobs"]:
        return "The history has no recorded waits, so nothing shows how near the simulation is to what happened."
    over, low, high = found["rank_of_waits"], found["rank_interval"]["low"], found["rank_interval"]["high"]
    sure = "" if low is None else f" (95 % interval {low:.2f} to {high:.2f})"
    order = "is not known" if over is None else f"is {over:.2f}{sure}"
    every = "" if found["rank_correlation"] is None else f", of all waits {found['rank_correlation']:.2f}"
    return (
        f"The rank correlation of simulated with recorded waits over a minute {order}{every};"
        f" {share(found['within_factor_2'])} of waits are within a factor of 2, or both under a minute; the mean is"
        f" {duration(found['simulated_wait_s']['mean'])} where {duration(found['recorded_wait_s']['mean'])} was"
        f" recorded, the mean error {duration(found['mean_abs_error_s'])}, the median error"
        f" {duration(found['median_abs_error_s'])}."
    )


def inferred(present: Present) -> list[str]:
    """What the replay takes from the record."""
    if not present.before:
        return []
    said = [f"{sentence(shown(present, one))}." for one in present.capacity]
    said.append(
        "Each day is replayed with the GPUs that the days before it show, so its own waits have no part in it. The jobs"
        f" before {moment(present.judged_from)} are learned from and not judged."
    )
    if (present.held > 0).any():
        part = present.held.sum() / np.maximum(present.trace.recorded_wait, 0).sum()
        said.append(
            f"{(present.held > 0).sum():,} jobs waited for reasons of their own ({share(part)} of all waiting): later"
            " ones that asked for as much began at once, and GPUs were still free. They come into the replay when"
            " that was last so, and the comparison with the record counts all of their waiting as not explained."
        )
    cycle, cap = present.cycle, present.setup.user_cap // GPU
    if cap:
        said.append(
            f"In the first days no user holds more than {cap:,} GPUs, and users wait with just these while others are"
            f" free: the replay lets a user have {cap:,}."
        )
    if cycle is not None:
        said.append(
            f"Jobs start every {duration(cycle.period / 1000)}, {duration(cycle.delay / 1000)} after submission at the"
            " earliest, as the first days show; simulated waits include this."
        )
    rank = present.before["rank_of_waits"]
    if any((one.gpus != present.stated_gpus(one)).any() for one in present.capacity):
        mean = duration(present.before["simulated_wait_s"]["mean"])
        order = "no rank correlation" if rank is None else f"a rank correlation of {rank:.2f}"
        said.append(f"A replay on the given cluster gives {order} and a mean wait of {mean}.")
    return said


def sentence(text: str) -> str:
    """The text with a capital letter."""
    return text[:1].upper() + text[1:]


def explained(found: Mapping[str, Any], base: str, remarks: Sequence[str]) -> list[str]:
    """Where the rest comes from, as far as the record shows."""
    if not found["jobs"]:
        return []
    record, causes = found["record"], found["causes"]
    only, also = causes["only_recorded"], causes["only_simulated"]
    sentences = [
        (record["share_with_room"] > found["simulated"]["share_with_room"] + MUCH, _room(found)),
        (
            record["over_capacity"] > 0.001,
            f"For {share(record['over_capacity'])} of the time the record has more GPUs in use than the replay ever"
            " has: GPUs were shared, or the record has errors.",
        ),
        (
            only["jobs"] > 0,
            f"{only['jobs']:,} jobs waited more than a minute (half of them over {duration(only['median_s'])}) and"
            f" start at once in the simulation: they are {share(only['share_of_recorded_wait'])} of all recorded"
            " waiting.",
        ),
        (
            also["jobs"] > 0,
            f"{also['jobs']:,} jobs began within a minute and wait longer in the simulation: they are"
            f" {share(also['share_of_simulated_wait'])} of all simulated waiting.",
        ),
        (
            base.partition(":")[0] == "fifo" and causes["passed"]["jobs"] > 0.01,
            f"{share(causes['passed']['jobs'])} of jobs began before one that had come earlier and asked for the same"
            f" GPUs and the same time (for {share(causes['passed']['same_user'])} it was of the same user): the order"
            " was not that of submission alone; limits per user, dependencies and several queues do that.",
        ),
        (
            causes["share_of_error_by_top_users"] > max(0.5, OVER_EVEN * 3 / max(causes["users"], 1)),
            f"Three users of {causes['users']:,} make {share(causes['share_of_error_by_top_users'])} of the error:"
            " limits on what one user may run, or jobs sent in large batches, are likely.",
        ),
        (
            not found["with_cycle"] and 1 <= causes["shortest_recorded_s"] < AT_ONCE_MS / 1000,
            f"Even jobs that wait for nothing take {duration(causes['shortest_recorded_s'])} to begin; here they take"
            " no time.",
        ),
        *((True, f"Not in the simulation: {brief(remark)}.") for remark in remarks if remark.startswith("left out")),
    ]
    return [text for holds, text in sentences if holds]


def _room(found: Mapping[str, Any]) -> str:
    record, simulated = found["record"], found["simulated"]["share_with_room"]
    return (
        f"{share(record['share_with_room'])} of all recorded waiting went by while the record itself has enough GPUs"
        f" free for the job that waited. In the simulation, where only jobs ahead keep GPUs for themselves, it is"
        f" {share(simulated)}. The order of the queue can't explain the difference; nodes that were down or reserved,"
        " quotas, GPUs in fragments, and CPUs or memory that ran out can."
    )


def percent(change: float | None) -> str:
    """A relative change as a percentage with its sign."""
    if change is None:
        return "-"
    whole = round(100 * change)
    return f"{whole:+} %" if whole else "0 %"


def rank(value: float | None) -> str:
    """A rank correlation, or a dash."""
    return "–" if value is None else f"{value:.2f}"


def stops(question: Question, cluster: Cluster) -> str:
    """What a stop costs in the comparison; nothing where no policy is tried for its stops."""
    if not question.preemption:
        return ""
    return f"Stopping a job and starting it again costs {costs_text(cluster)} ([overheads] in the cluster file)."


def dominated(trace: Trace, goal: str) -> str:
    """The user that dominates the mean, if there is one; else nothing."""
    if goal == "users" or not (trace.user >= 0).any():
        return ""
    counts = np.bincount(trace.user[trace.user >= 0])
    part = counts.max() / len(trace)
    if part < MOSTLY:
        return ""
    name = trace.users[int(counts.argmax())]
    return f"{share(part)} of these jobs are of user '{name}', and so is the mean; --goal users counts users alike."


def gain(row: Mapping[str, Any], present: Mapping[str, Any]) -> str:
    """What a policy buys and costs, in one sentence."""
    before, after = present["wait_s"], row["wait_s"]
    parts = [f"{name} {duration(before[key])} → {duration(after[key])}" for name, key in _POINTS]
    losers = row["losers"]
    worst = losers["worst_user"]
    lost = f"{share(losers['jobs'])} of jobs wait over 10 minutes longer, {share(losers['users'])} of users wait longer"
    most = f", most of all '{worst['name']}' (+{duration(worst['mean_s'])} a job)" if worst["mean_s"] > 0 else ""
    return f"Waits: {', '.join(parts)}. Losers: {lost}{most}."


_POINTS = (("mean", "mean"), ("P95", "p95"), ("P99", "p99"))


def interval(goal: Mapping[str, Any]) -> str:
    """A change with its 95 % interval."""
    if goal["low"] is None:
        return percent(goal["change"])
    return f"{percent(goal['change'])} ({percent(goal['low'])} to {percent(goal['high'])})"


def checked(row: Mapping[str, Any], check: Mapping[str, Any] | None, goal: str) -> str:
    """What it gains on the check days, on which it was not chosen."""
    if check is None:
        return "The history is too short for check days, so the gain may be due to the days it was chosen on."
    found = check["policies"][row["policy"]]
    text = f"On the check days, on which it was not chosen, it changes the {GOALS[goal]} by {interval(found['goal'])}"
    return text + ("." if found["sure"] else ", which may be chance.")


def failed(row: Mapping[str, Any], check: Mapping[str, Any], goal: str) -> str:
    """How it failed on the check days."""
    found = check["policies"][row["policy"]]
    tail = ""
    if found["long_tail"]:
        p99 = [duration(waits["p99"]) for waits in (check["present_wait_s"], found["wait_s"])]
        tail = f" and the P99 wait from {p99[0]} to {p99[1]}"
    return (
        f"'{row['title']}' was dropped: it changes the {GOALS[goal]} by {percent(row['goal']['change'])} on the days"
        f" compared, but by {interval(found['goal'])}{tail} on the check days."
    )


CHOSEN = (
    "Up to three changes whose gain is larger than chance explains. If none of them is a setting of Slurm's own, the"
    " best such setting takes the third place."
)
NO_SETTINGS = (
    "No settings of Slurm are known, so there is no change to propose (--site or --slurm-conf give them). Set your"
    " scheduler to this order; to see what it does job by job:"
)


def differs(present: Present) -> str:
    """How a plain ``compare`` of the history differs from the advice: it knows nothing that was inferred."""
    other = [one for one in present.capacity if (one.gpus != present.stated_gpus(one)).any()]
    inferred_too = {
        "jobs that waited for other reasons": bool((present.held > 0).any()),
        "a limit of GPUs per user": bool(present.setup.user_cap),
        "the scheduler's cycle": present.cycle is not None,
    }
    left = [name for name, there in inferred_too.items() if there]
    why = [*(shown(present, one) for one in other), *([f"the advice also models {' and '.join(left)}"] if left else [])]
    head = "The command runs the whole history on the cluster as given, so its numbers are not those of this advice"
    return f"{'; '.join((head, *why))}."


def as_read(present: Present) -> list[str]:
    """The options with which ``compare`` reads the same jobs and the same cluster."""
    setup, source = present.setup, present.setup.trace_source
    unfit = setup.dropped or setup.trace.gpus.max() > GPU * present.stated.gpus
    return [
        *("--cluster", setup.cluster_source.text),
        *(("--format", source.format) if source.format else ()),
        *(("--on-bad-row", source.on_bad_row) if source.on_bad_row != "fail" else ()),
        *(("--drop-unfit",) if unfit else ()),
    ]


def action(
    row: Mapping[str, Any], question: Question, history: str, own_file: str | None, present: Present
) -> dict[str, str]:
    """What to do for it: a diff of slurm.conf, the controller's command, or a comparison where Slurm is not known."""
    if own_file is None and not question.slurm:
        seed = ("--seed", str(question.seed)) if question.seed else ()
        policies = ("-p", question.base.text, "-p", row["policy"])
        texts = (history, *as_read(present), *policies, *seed, "--report", "more.html")
        return {"compare": f"shunter compare {shlex.join(texts)}", "differs": differs(present)}
    if not row["changes"]:
        policy, past = shlex.quote(row["policy"]), shlex.quote(history)
        return {"command": f"shunter slurm run --policy {policy} --history {past} --mode watch"}
    before = (
        slurm_conf.of_settings(lines(question.site.priority, question.site.scheduler)) if own_file is None else own_file
    )
    return {"diff": slurm_conf.diff(before, slurm_conf.changed(before, row["changes"]))}
