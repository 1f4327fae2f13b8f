"""The sharing score of Lucid: 0 tiny, 1 medium, 2 jumbo; what a workload does alone says how well it shares a GPU."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from shunter import extras
from shunter.cluster import USUAL_SHARING
from shunter.errors import SharingError
from shunter.safe_files import text_of
from shunter.sharing.profiles import Profiles
from shunter.texts import unrepeated
from shunter.world import I64

SCORES = ("tiny", "medium", "jumbo")
FEATURES = ("gpu_util", "mem_util", "mem_mib")
KEPT = (0.95, 0.85)  # a workload that keeps this speed on average is tiny, medium
CAPACITY = 2  # two share a GPU if their scores sum to this at most
FEWEST = 8  # workloads that a tree is learned from
DEPTH = 3
DEEPEST = 100  # splits above each other in a tree of the user's
MOST_BOUND = 1e9
LEAST = 4  # workloads in a leaf, so that none is the quirk of one
UNITS = {"gpu_util": " %", "mem_util": " %", "mem_mib": " MiB"}


@dataclass(frozen=True)
class Leaf:
    """A score, and how many workloads it was learned from."""

    score: int
    workloads: int = 0


@dataclass(frozen=True)
class Split:
    """Which way to go: ``below`` up to the bound, else ``above``."""

    feature: str
    bound: float
    below: Split | Leaf
    above: Split | Leaf


@dataclass(frozen=True)
class ScoreTree:
    """A decision tree from profiles to scores."""

    root: Split | Leaf
    origin: str  # in words
    accuracy: float | None = None  # on workloads that it was not learned from, one by one; None: not learned

    def score(self, gpu_util: float, mem_util: float, mem_mib: float) -> int:
        """The score of a workload; what is NaN counts as above every bound."""
        measured = dict(zip(FEATURES, (gpu_util, mem_util, mem_mib), strict=True))
        node = self.root
        while isinstance(node, Split):
            node = node.below if measured[node.feature] <= node.bound else node.above
        return node.score

    def of(self, profiles: Profiles) -> I64:
        """The score of each measured workload."""
        columns = (getattr(profiles, feature) for feature in FEATURES)
        return np.array([self.score(*row) for row in zip(*columns, strict=True)], np.int64)

    def as_text(self) -> str:
        """The tree for a terminal."""
        return "\n".join(_lines(self.root, ""))

    def as_json(self) -> str:
        """The tree as a file."""
        record = {"origin": self.origin, "accuracy": self.accuracy, "tree": _record(self.root)}
        return json.dumps(record, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> ScoreTree:
        """A tree that was written as a file."""
        try:
            record = json.loads(text, object_pairs_hook=unrepeated)
            right = record["accuracy"]
            accuracy = None if right is None else _within(right, "accuracy", 1)
            return cls(_tree(record["tree"]), str(record["origin"]), accuracy)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise SharingError(f"{where}: is not a tree of sharing scores: {error!r}; learn it again") from None


THRESHOLDS = ScoreTree(
    Split("gpu_util", 25.0, Leaf(0), Split("gpu_util", 53.0, Leaf(1), Leaf(2))),
    "thresholds of Lucid's paper: 25 % and 53 % GPU utilisation",
)


def shipped_tree(way: str = USUAL_SHARING) -> ScoreTree:
    """The tree that was learned from the package's own tables of a way of sharing, one of ``cluster.SHARING``."""
    file = files(__package__).joinpath("measured", way, "tree.json")
    return ScoreTree.from_json(file.read_text("utf-8"), f"measured/{way}/tree.json")


def of_folder(folder: Path, profiles: Profiles) -> ScoreTree:
    """The tree in a folder of tables, or one learned from them; the thresholds where no library learns."""
    file = folder / "tree.json"
    if file.exists():
        return ScoreTree.from_json(text_of(file, SharingError), str(file))
    return learned(profiles) if extras.is_there("sklearn.tree") else THRESHOLDS


def labels(profiles: Profiles) -> I64:
    """What each workload's score should be: by its mean speed over all measured pairs; -1: in none."""
    measured = ~np.isnan(profiles.pair)
    count = measured.sum(axis=1)
    mean = np.where(measured, profiles.pair, 0.0).sum(axis=1) / np.maximum(count, 1)
    return np.where(count > 0, np.sum([mean < bound for bound in KEPT], axis=0), -1).astype(np.int64)


def learned(profiles: Profiles, wanted: I64 | None = None) -> ScoreTree:
    """A tree for these workloads; the thresholds of the paper where there are too few of them."""
    wanted = labels(profiles) if wanted is None else wanted
    if np.sum(wanted >= 0) <= FEWEST:
        return THRESHOLDS
    return replace(grown(profiles, wanted), accuracy=accuracy(profiles, wanted))


def accuracy(profiles: Profiles, wanted: I64, by_model: bool = False) -> float:
    """Share of workloads that a tree scores right which was learned without them, or without their whole model."""
    groups = np.array(profiles.models if by_model else profiles.names)
    right = np.zeros(len(profiles), bool)
    for group in np.unique(groups[wanted >= 0]):
        out = groups == group
        right[out] = grown(profiles, np.where(out, -1, wanted)).of(profiles)[out] == wanted[out]
    return float(right[wanted >= 0].mean())


def agreement(tree: ScoreTree, profiles: Profiles, wanted: I64) -> float:
    """Share of the workloads that a tree scores as wanted."""
    known = wanted >= 0
    return float(np.mean(tree.of(profiles)[known] == wanted[known]))


def grown(profiles: Profiles, wanted: I64) -> ScoreTree:
    """The tree of the workloads whose score is known; its accuracy is not."""
    known = wanted >= 0
    learner = extras.load("sklearn.tree", "learning sharing scores")
    inputs = np.stack([getattr(profiles, feature)[known] for feature in FEATURES], axis=1)
    found = learner.DecisionTreeClassifier(ccp_alpha=1e-4, random_state=42, max_depth=DEPTH, min_samples_leaf=LEAST)
    fitted = found.fit(inputs, wanted[known])
    origin = f"learned from {known.sum()} workloads on {profiles.about['gpu']}"
    return ScoreTree(_merged(_of_learner(fitted.tree_, fitted.classes_, 0)), origin)


def _of_learner(tree: Any, classes: I64, node: int) -> Split | Leaf:
    """A node of scikit-learn's tree."""
    if tree.children_left[node] < 0:
        return Leaf(int(classes[np.argmax(tree.value[node, 0])]), int(tree.n_node_samples[node]))
    below, above = (_of_learner(tree, classes, int(side[node])) for side in (tree.children_left, tree.children_right))
    return Split(FEATURES[tree.feature[node]], round(float(tree.threshold[node]), 2), below, above)


def _merged(node: Split | Leaf) -> Split | Leaf:
    """Splits whose sides say the same are none."""
    if isinstance(node, Leaf):
        return node
    below, above = _merged(node.below), _merged(node.above)
    if isinstance(below, Leaf) and isinstance(above, Leaf) and below.score == above.score:
        return Leaf(below.score, below.workloads + above.workloads)
    return Split(node.feature, node.bound, below, above)


def leaf_text(leaf: Leaf) -> str:
    """``tiny (0), 4 workloads``."""
    counted = f", {leaf.workloads} workload{'' if leaf.workloads == 1 else 's'}" if leaf.workloads else ""
    return f"{SCORES[leaf.score]} ({leaf.score}){counted}"


def split_text(split: Split) -> str:
    """``gpu_util <= 25 %``."""
    return f"{split.feature} <= {split.bound:g}{UNITS[split.feature]}"


def _lines(node: Split | Leaf, before: str) -> list[str]:
    if isinstance(node, Leaf):
        return [before + leaf_text(node)]
    inner = before + "    "
    return [f"{before}{split_text(node)}:", *_lines(node.below, inner), f"{before}else:", *_lines(node.above, inner)]


def _record(node: Split | Leaf) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"score": node.score, "workloads": node.workloads}
    return {
        "feature": node.feature,
        "at_most": node.bound,
        "then": _record(node.below),
        "else": _record(node.above),
    }


def _tree(record: dict[str, Any], depth: int = 0) -> Split | Leaf:
    if depth > DEEPEST:
        raise ValueError(f"a tree must have at most {DEEPEST} splits above each other")
    if "score" in record:
        leaf = Leaf(int(record["score"]), int(record.get("workloads", 0)))
        if not 0 <= leaf.score < len(SCORES):
            raise ValueError(f"score must be 0, 1 or 2, got {leaf.score}")
        return leaf
    if record["feature"] not in FEATURES:
        raise ValueError(f"feature must be one of {', '.join(FEATURES)}, got {record['feature']}")
    bound = _within(record["at_most"], "at_most", MOST_BOUND)
    return Split(record["feature"], bound, _tree(record["then"], depth + 1), _tree(record["else"], depth + 1))


def _within(value: Any, field: str, most: float) -> float:
    found = float(value)
    if not 0 <= found <= most:  # NaN is not
        raise ValueError(f"{field} must be a number from 0 to {most:g}, got {value}")
    return found
