"""Learned orders: a linear model, a network or trees over features of a job, and the files that hold them.

A file is JSON, so that it can be read and can't do anything. It has a checksum of its own content, and numbers are
checked before any is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field, ValidationError

from shunter.errors import ModelError, did_you_mean
from shunter.policies.scored import evaluating as e
from shunter.policies.scored.features import AGEING, NAMES, OF_POOL
from shunter.policies.scored.lanes import LANES
from shunter.predictors.trees import FEATURE as SPLIT
from shunter.predictors.trees import LEAF, Trees, check
from shunter.safe_files import text_of, whole
from shunter.toml_forms import Form
from shunter.world import F64

FORMAT = 1
MOST_INPUTS, MOST_LAYERS, WIDEST, MOST_NODES = 64, 8, 1024, 1_000_000
MOST_SHOWN = 3  # mistakes of one file
_AGAIN = "make it again with 'shunter learn'"

Number: TypeAlias = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]
Row: TypeAlias = Annotated[list[Number], Field(min_length=1, max_length=WIDEST)]
Text: TypeAlias = Annotated[str, Field(max_length=1000)]
Time: TypeAlias = Annotated[int, Field(ge=-(2**53), le=2**53)]  # ms


class Input(Form):
    """One feature as a model gets it: perhaps its logarithm, times a factor, within bounds."""

    feature: Text
    log: bool = False
    scale: Number = 1.0
    low: Number | None = None
    high: Number | None = None


class SampledInput(Input):
    """An input that is another one in some states: RLTune's feature sampling."""

    by: Text  # the feature that decides ...
    least: Number  # ... and its least value at which the other one is used
    other: Input


class LinearForm(Form):
    """A constant and a weight for each input."""

    kind: Literal["linear"] = "linear"
    bias: Number = 0.0
    weights: Annotated[list[Number], Field(max_length=MOST_INPUTS)]


class LayerWeights(Form):
    """Weights by input and output, and a constant for each output."""

    weights: Annotated[list[Row], Field(min_length=1, max_length=WIDEST)]
    bias: Row


class NetworkForm(Form):
    """Layers, with ReLU between them; the last has one output."""

    kind: Literal["network"] = "network"
    layers: Annotated[list[LayerWeights], Field(min_length=1, max_length=MOST_LAYERS)]


class TreesForm(Form):
    """The sum of decision trees, as in ``predictors/trees.py``."""

    kind: Literal["trees"] = "trees"
    nodes: Annotated[list[tuple[int, int, int, int]], Field(max_length=MOST_NODES)]
    threshold: Annotated[list[Number], Field(max_length=MOST_NODES)]
    value: Annotated[list[Number], Field(max_length=MOST_NODES)]
    roots: Annotated[list[int], Field(max_length=MOST_NODES)]
    base: Number = 0.0


class Training(Form):
    """What a model was made from, and how."""

    agent: Text = ""
    objective: Text = ""
    trace: Text = ""
    jobs: Text = ""  # the digest of the trace
    submitted: tuple[Time, Time] | None = None  # the first and the last job that it learned from or was chosen by
    cluster: Text = ""
    estimate: Text = ""
    seed: int = 0
    rounds: int = 0  # epochs or generations
    window: int = 0  # jobs of an episode
    base: Text = ""  # the policy that its reward was relative to, or that it inspects
    visible: int = 0  # jobs in view, 0: all


class ScoreModel(Form):
    """A learned order: the job with the least value comes first."""

    format: int = FORMAT
    name: Text
    inputs: Annotated[list[SampledInput | Input], Field(min_length=1, max_length=MOST_INPUTS)]
    model: Annotated[LinearForm | NetworkForm | TreesForm, Field(discriminator="kind")]
    asks: Literal["order", "skip"] = "order"  # its value: the place of a job, or whether the first one is to wait
    training: Training = Training()
    scores: dict[Text, Number] = Field(default_factory=dict)

    @property
    def features(self) -> frozenset[str]:
        """Those that matter: of a linear model, those with a weight."""
        used = self.inputs
        if isinstance(self.model, LinearForm):
            used = [given for given, weight in zip(self.inputs, self.model.weights, strict=True) if weight]
        return frozenset(name for given in used for name in features_of(given))

    @property
    def ages(self) -> bool:
        """Whether values change while a job waits."""
        return bool(self.features & AGEING)

    @property
    def sees_pool(self) -> bool:
        """Whether values depend on what is free and which jobs wait."""
        return bool(self.features & OF_POOL)

    def arrays(self) -> F64:
        """The numbers as a compiled key reads them."""
        inputs, numbers = self._inputs(), self._numbers()
        room = len(self.inputs)
        if isinstance(self.model, NetworkForm):
            room = LANES * (room + sum(len(layer.bias) for layer in self.model.layers))
        kind = {"linear": e.LINEAR, "network": e.NETWORK, "trees": e.TREES}[self.model.kind]
        model_at = e.HEADER + len(inputs)
        header = [kind, len(self.inputs), e.HEADER, model_at, model_at + len(numbers)]
        return np.concatenate((header, inputs, numbers, np.zeros(room))).astype(np.float64)

    def _inputs(self) -> F64:
        return np.array([_row(given) for given in self.inputs], np.float64).ravel()

    def _numbers(self) -> F64:
        if isinstance(self.model, LinearForm):
            return np.array([self.model.bias, *self.model.weights])
        if isinstance(self.model, NetworkForm):
            parts: list[Any] = [[len(self.model.layers)]]
            for layer in self.model.layers:
                parts += [[len(layer.bias)], np.array(layer.weights).ravel(), layer.bias]
            return np.concatenate(parts)
        trees = self.model
        nodes = np.column_stack((np.array(trees.nodes).reshape(-1, 4), trees.threshold, trees.value))
        return np.concatenate(([len(trees.roots), trees.base], trees.roots, nodes.ravel()))


def features_of(given: Input) -> tuple[str, ...]:
    """The features that an input depends on."""
    return (given.feature, given.by, given.other.feature) if isinstance(given, SampledInput) else (given.feature,)


def _row(given: Input) -> list[float]:
    """An input as a row of the table that a compiled key reads."""
    if isinstance(given, SampledInput):
        return [*_columns(given), NAMES.index(given.by), given.least, *_columns(given.other)]
    return [*_columns(given), -1.0, 0.0, *[0.0] * len(_columns(given))]


def _columns(given: Input) -> list[float]:
    low, high = -np.inf if given.low is None else given.low, np.inf if given.high is None else given.high
    return [NAMES.index(given.feature), float(given.log), given.scale, low, high]


# ------------------------------------------------------------------------------------------- built in


def linear_model(name: str, features: Sequence[str], weights: Sequence[float]) -> ScoreModel:
    """A linear model over features as they are."""
    return ScoreModel(
        name=name, inputs=[Input(feature=feature) for feature in features], model=LinearForm(weights=list(weights))
    )


def built_in(name: str) -> ScoreModel | None:
    """A model that comes with the package; None: there is none of that name."""
    if name == TAKE:
        never = LinearForm(bias=-1.0, weights=[0.0])
        return ScoreModel(name=TAKE, inputs=[Input(feature="gpus")], model=never, asks="skip")
    return linear_model(name, [BUILT_IN[name]], [1.0]) if name in BUILT_IN else None


BUILT_IN = {"saf": "area", "sjf": "estimate", "fifo": "submit"}  # orders by one feature
TAKE = "take"  # the inspector that never lets a job wait


# ------------------------------------------------------------------------------------------- files


def save(model: ScoreModel, path: Path) -> None:
    """Write a model to a file, whole or not at all."""
    content = model.model_dump(mode="json")
    with whole(path, ModelError) as made:
        made.write_text(json.dumps(content | {"checksum": _checksum(content)}, indent=1) + "\n")


def load(path: Path, another: str = _AGAIN) -> ScoreModel:
    """Read a model; what can't be used is refused with what to do about it, ``another``: if it is no model at all."""
    content = _content(path, another)
    version = content.get("format")
    if version != FORMAT:
        raise ModelError(f"{path}: must be a model of an order of format {FORMAT}, got format {version!r}; {_AGAIN}")
    if content.pop("checksum", None) != _checksum(content):
        raise ModelError(f"{path}: its content is not what was written: it was changed or damaged; {_AGAIN}")
    try:
        model = ScoreModel.model_validate_json(json.dumps(content))
        _check(model)
    except ValidationError as problem:
        found = [f"{'.'.join(map(str, bad['loc']))}: {bad['msg']}" for bad in problem.errors()[:MOST_SHOWN]]
        raise ModelError(f"{path}: {'; '.join(found)}; {_AGAIN}") from None
    except ValueError as problem:
        raise ModelError(f"{path}: {problem}; {_AGAIN}") from None
    return model


def _content(path: Path, another: str) -> dict[str, Any]:
    """The JSON of a file, if it is a table."""
    own = f"{', '.join(BUILT_IN)} ('{TAKE}' for 'inspected')"
    missing = f"name a file that 'shunter learn' wrote, or a built-in model: {own}"
    text = text_of(path, ModelError, missing, errors="replace")  # a trace may be packed
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ModelError(f"{path}: is not a model, or only a part of one ({problem}); {another}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: is not a model: it must be a JSON table; {another}")
    return found


def _checksum(content: dict[str, Any]) -> str:
    plain = json.dumps({name: value for name, value in content.items() if name != "checksum"}, sort_keys=True)
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()


def _check(model: ScoreModel) -> None:
    """Refuse numbers that don't go together: a kernel would read beyond its array."""
    for at, given in enumerate(model.inputs):
        for name in features_of(given):
            if name not in NAMES:
                raise ValueError(f"inputs.{at}.feature: there is no feature '{name}'; {did_you_mean(name, NAMES)}")
        for one in (given, given.other) if isinstance(given, SampledInput) else (given,):
            if one.low is not None and one.high is not None and one.low > one.high:
                raise ValueError(f"inputs.{at}: low {one.low:g} is above high {one.high:g}")
    if isinstance(model.model, LinearForm) and len(model.model.weights) != len(model.inputs):
        raise ValueError(f"model.weights: must be {len(model.inputs)}, as the inputs, got {len(model.model.weights)}")
    if isinstance(model.model, NetworkForm):
        _check_layers(model.model, len(model.inputs))
    if isinstance(model.model, TreesForm):
        _check_trees(model.model, len(model.inputs))


def _check_layers(network: NetworkForm, width: int) -> None:
    for at, layer in enumerate(network.layers):
        if len(layer.weights) != width or any(len(row) != len(layer.bias) for row in layer.weights):
            raise ValueError(f"model.layers.{at}.weights: must be {width} rows of {len(layer.bias)} numbers")
        width = len(layer.bias)
    if width != 1:
        raise ValueError(f"model.layers: the last must have one output, got {width}")


def _check_trees(forest: TreesForm, width: int) -> None:
    nodes = np.array(forest.nodes, object).reshape(-1, 4)
    if len(nodes) and (np.abs(nodes) > MOST_NODES).any():
        raise ValueError("model.nodes: a node leads nowhere")
    parts = (np.array(forest.threshold, np.float64), np.array(forest.value, np.float64))
    roots = np.array([min(max(root, -1), MOST_NODES) for root in forest.roots], np.int64)
    check(Trees(nodes.astype(np.int64), *parts, roots, np.array([forest.base])), width)


def forest_of(trees: Trees) -> TreesForm:
    """Trees that a library fitted, as a file has them."""
    nodes = [(int(a), int(b), int(c), int(d)) for a, b, c, d in trees.nodes]
    assert all(node[SPLIT] >= LEAF for node in nodes)
    return TreesForm(
        nodes=nodes,
        threshold=trees.threshold.tolist(),
        value=trees.value.tolist(),
        roots=trees.roots.tolist(),
        base=float(trees.base[0]),
    )
