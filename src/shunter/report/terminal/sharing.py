"""What was measured of workloads that share a GPU: records for scripts, tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from shunter import extras
from shunter.report.terminal.tables import number, share, table

if TYPE_CHECKING:
    from shunter.sharing.profiles import Profiles
    from shunter.sharing.score import ScoreTree

ENDS = 5  # pairs shown from each end
BOUND = 0.85  # below it a workload loses much, or makes others lose much
_SCORES = ("tiny", "medium", "jumbo")


def record(profiles: Profiles, tree: ScoreTree) -> dict[str, Any]:
    """Everything that ``shunter profile show`` prints."""
    from shunter.sharing.interference import TERMS, curve, held_out
    from shunter.sharing.judging import GOOD, good_pairs, good_pairs_by_model, good_pairs_by_tree, recall_at
    from shunter.sharing.published import ACCURACY
    from shunter.sharing.score import THRESHOLDS, agreement, labels

    wanted = labels(profiles)
    known = ~np.isnan(profiles.pair)
    measured, said = np.minimum(profiles.pair[known], 1.0), held_out(profiles)[known]
    slower, _ = good_pairs(profiles)
    by_tree = (
        good_pairs_by_tree(profiles)._asdict()
        if tree.accuracy is not None and extras.is_there("sklearn.tree")
        else None
    )
    return {
        "about": dict(profiles.about),
        "workloads": workload_records(profiles, tree),
        "pairs": pair_records(profiles),
        "speed_by_sum_of_utilisations": curve(profiles),
        "interference": {
            "weights": dict(zip(TERMS, profiles.interference.weights, strict=True)),
            "constant": profiles.interference.constant,
            "mean_error_on_pairs_not_seen": float(np.abs(measured - said).mean()),
            "mean_error_of_one_speed_for_all": float(np.abs(measured - measured.mean()).mean()),
        },
        "good_pairs": {
            "both_keep": GOOD,
            "share": float(np.mean(slower >= GOOD)),
            "model": good_pairs_by_model(profiles)._asdict(),
            "model_recall_at_precision_0.8": recall_at(profiles, 0.8),
            "tree": by_tree,
        },
        "tree": {
            "origin": tree.origin,
            "text": tree.as_text(),
            "accuracy_on_workloads_not_seen": tree.accuracy,
            "accuracy_of_thresholds": agreement(THRESHOLDS, profiles, wanted),
            "accuracy_in_the_paper": ACCURACY,
        },
    }


def workload_records(profiles: Profiles, tree: ScoreTree) -> list[dict[str, Any]]:
    """What each workload does alone, what it keeps beside others, and its scores."""
    from shunter.sharing.judging import roles
    from shunter.sharing.score import labels

    score, label = tree.of(profiles), labels(profiles)
    keeps, leaves = roles(profiles)
    keys = ("steps_per_s", "gpu_util", "mem_util", "mem_mib")
    return [
        {
            "name": name,
            **{key: float(getattr(profiles, key)[i]) for key in keys},
            "spread": float(profiles.spread[i]),
            "mean_speed": float(np.nanmean(profiles.pair[i])) if label[i] >= 0 else None,
            "keeps": float(keeps[i]) if label[i] >= 0 else None,
            "leaves": float(leaves[i]) if label[i] >= 0 else None,
            "score": int(score[i]),
            "label": int(label[i]) if label[i] >= 0 else None,
        }
        for i, name in enumerate(profiles.names)
    ]


def pair_records(profiles: Profiles) -> list[dict[str, Any]]:
    """The measured pairs, slowest first."""
    both = [(i, j) for i in range(len(profiles)) for j in range(i, len(profiles))]
    rows = [
        {
            "pair": [profiles.names[i], profiles.names[j]],
            "speeds": [float(profiles.pair[i, j]), float(profiles.pair[j, i])],
            "sum_of_utilisations": float(profiles.gpu_util[i] + profiles.gpu_util[j]),
        }
        for i, j in both
        if not np.isnan(profiles.pair[i, j] + profiles.pair[j, i])
    ]
    return sorted(rows, key=lambda row: sum(row["speeds"]))


def view(record: dict[str, Any]) -> RenderableType:
    """The record as tables."""
    about, model, tree = record["about"], record["interference"], record["tree"]
    facts = ["MPS" if about.get("mps") else "time slices"]
    facts += [f"{key} {about[key]}" for key in ("driver", "cuda", "torch", "date") if key in about]
    right = tree["accuracy_on_workloads_not_seen"]
    learned = f"{share(right)} of workloads right, each by a tree that has not seen it; " if right is not None else ""
    weights = ", ".join(f"{name} {weight:.3f}" for name, weight in model["weights"].items())
    return Group(
        Text.assemble((about["gpu"], "bold"), "  ", ", ".join(facts)),
        _workloads(record["workloads"]),
        Text(
            " keeps: its speed beside an average neighbour, 1 alone; leaves: the neighbour's speed\n"
            " fragile: keeps less than 0.85; heavy: leaves less than 0.85",
            style="dim",
        ),
        _pairs(record["pairs"]),
        _curve(record["speed_by_sum_of_utilisations"]),
        Text(f"interference: {weights}", style="bold"),
        Text(
            f" mean error on pairs not seen {model['mean_error_on_pairs_not_seen']:.3f}; "
            f"of one speed for all {model['mean_error_of_one_speed_for_all']:.3f}\n",
            style="dim",
        ),
        *_good(record["good_pairs"]),
        Text(f"sharing score: {tree['origin']}", style="bold"),
        Text(tree["text"]),
        Text(
            f" {learned}thresholds 25 % and 53 %: {share(tree['accuracy_of_thresholds'])}; "
            f"paper, its workloads: {share(tree['accuracy_in_the_paper'])}",
            style="dim",
        ),
    )


def _workloads(rows: Sequence[dict[str, Any]]) -> RenderableType:
    made = table("workload", "steps/s", "GPU %", "mem. %", "MiB", "keeps", "leaves", "", "score")
    for row in rows:
        speeds = ["" if row[key] is None else f"{row[key]:.2f}" for key in ("keeps", "leaves")]
        cells = [number(row[key]) for key in ("gpu_util", "mem_util", "mem_mib")]
        made.add_row(row["name"], number(row["steps_per_s"]), *cells, *speeds, role(row), _SCORES[row["score"]])
    return made


def role(row: dict[str, Any]) -> str:
    """Fragile, heavy, both or neither."""
    if row["keeps"] is None:
        return ""
    return ", ".join(name for name, key in (("fragile", "keeps"), ("heavy", "leaves")) if row[key] < BOUND)


def _good(record: dict[str, Any]) -> list[RenderableType]:
    """How well good pairs are found."""
    made = table("pairs said to be good by", "pairs", "of them good", "of the good, found")
    for name in ("model", "tree"):
        if (found := record[name]) is not None:
            made.add_row(name, f"{found['chosen']:,}", share(found["precision"]), share(found["recall"]))
    text = (
        f" good: both keep {record['both_keep']:g}; {share(record['share'])} of the measured pairs are\n"
        " What is said of a pair is learned without all workloads of either's model.\n"
        " With the bound set so that 80 % of its pairs are good, the model finds"
        f" {share(record['model_recall_at_precision_0.8'])} of the good ones.\n"
    )
    return [made, Text(text, style="dim")]


def _pairs(rows: Sequence[dict[str, Any]]) -> RenderableType:
    made = table("pair", "speed of first", "of second", "sum of GPU %")
    some = rows if len(rows) <= 2 * ENDS else [*rows[:ENDS], None, *rows[-ENDS:]]
    for row in some:
        if row is None:
            made.add_row("...", "", "", "")
        else:
            speeds = (f"{speed:.3f}" for speed in row["speeds"])
            made.add_row(" + ".join(row["pair"]), *speeds, number(row["sum_of_utilisations"]))
    return made


def _curve(rows: Sequence[dict[str, Any]]) -> RenderableType:
    made = table("sum of GPU %", *(f"{row['from']:.0f}-{row['to']:.0f}" for row in rows))
    made.add_row("mean speed", *(f"{row['speed']:.3f}" for row in rows))
    made.add_row("speeds", *(f"{row['pairs']:,}" for row in rows))
    return made
