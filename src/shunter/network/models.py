"""The catalogue of models: how large each layer's gradient is, and how long it computes.

Two calibrations: ``paper`` scales the compute down as Dally's authors did, which their Table I needs; ``profiled``
takes it as measured, or as it follows from the architecture where nothing was measured.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path

from shunter.errors import NetworkError, did_you_mean
from shunter.network.iteration import Layer
from shunter.safe_files import text_of

CALIBRATIONS = ("paper", "profiled")
LAYER_FILES = Path("dally", "layers")  # in the data folder
STAND_IN = "resnet50"  # in place of a model that the catalogue does not have
FIELDS = 12  # of a line in a layer file
MOST_NS, MOST_BYTES = 10**15, 10**13  # of an iteration: anything above is a slip of the pen


@dataclass(frozen=True)
class Published:
    """What a paper gave for a model."""

    file: str  # with measured layers, in the data folder
    cycles: float  # of an iteration, 1 ns each
    scale: float  # that the paper multiplied them with
    lacks: tuple[str, ...] = ()  # layers that the file does not have, as patterns

    def __post_init__(self) -> None:
        object.__setattr__(self, "lacks", tuple(self.lacks))


@dataclass(frozen=True)
class CatalogueModel:
    """A model as the catalogue has it."""

    name: str
    aliases: tuple[str, ...]
    batch: int  # samples per GPU in an iteration; 0: not said
    layers: tuple[Layer, ...]
    source: str  # of the layers' times, in words
    published: Published | None = None

    @property
    def gradient_bytes(self) -> int:
        """What an iteration all-reduces."""
        return sum(layer.gradient_bytes for layer in self.layers)

    @property
    def skew(self) -> float:
        """The share of the largest layer in that."""
        return max(layer.gradient_bytes for layer in self.layers) / max(self.gradient_bytes, 1)

    @property
    def compute_ns(self) -> int:
        """What an iteration computes."""
        return compute_ns(self.layers)


@dataclass(frozen=True)
class LayerProfile:
    """A model's layers under a calibration, and where their times come from."""

    model: str
    calibration: str
    layers: tuple[Layer, ...]
    source: str


def compute_ns(layers: tuple[Layer, ...]) -> int:
    """What an iteration of these layers computes; the first needs no gradient of its input."""
    return sum(layer.forward_ns + layer.weight_ns + layer.input_ns for layer in layers) - layers[0].input_ns


@cache
def catalogue(path: Path | None = None) -> Mapping[str, CatalogueModel]:
    """Our models by name, and those of a user's file, which win over ours."""
    from shunter.network.reading import parse

    ours = parse(files(__package__).joinpath("models.toml").read_text("utf-8"), "models.toml")
    theirs = parse(text_of(path, NetworkError), str(path)) if path else []
    _check_names(theirs, str(path))
    return {model.name: model for model in (*ours, *theirs)}


def remarks(path: Path | None) -> tuple[str, ...]:
    """Names that a user's file shares with our models, and which of the two has them, in words."""
    if path is None:
        return ()
    ours, both = catalogue(), catalogue(path)
    known, chosen = _by_plain_name(ours), _by_plain_name(both)
    shared = [
        (name, model)
        for key, model in both.items()
        if ours.get(key) != model
        for name in (model.name, *model.aliases)
        if plain(name) in known
    ]
    return tuple(
        f"{path}: model '{model.name}' takes the place of shunter's own '{known[plain(name)].name}'"
        if chosen[plain(name)] is model
        else f"{path}: alias '{name}' of model '{model.name}' has no effect: shunter has a model of that name"
        for name, model in shared
    )


def find(name: str, models: Mapping[str, CatalogueModel] | None = None) -> CatalogueModel:
    """The model of this name; capitals, hyphens and the like don't matter."""
    models = catalogue() if models is None else models
    known = _by_plain_name(models)
    if plain(name) not in known:
        names = {*models, *(alias for model in models.values() for alias in model.aliases)}
        raise NetworkError(f"there is no model '{name}'; {did_you_mean(name, names)}")
    return known[plain(name)]


def is_known(name: str, models: Mapping[str, CatalogueModel] | None = None) -> bool:
    """Whether there is a model of this name."""
    return plain(name) in _by_plain_name(catalogue() if models is None else models)


def _by_plain_name(models: Mapping[str, CatalogueModel]) -> dict[str, CatalogueModel]:
    """The models by what their names and aliases are without capitals, hyphens and the like; names win."""
    known = {plain(alias): model for model in models.values() for alias in model.aliases}
    return known | {plain(key): model for key, model in models.items()}


def profile(model: CatalogueModel, calibration: str, data: Path | None = None) -> LayerProfile:
    """The model's layers under a calibration; measured times are in the data folder, if there is one."""
    if calibration not in CALIBRATIONS:
        raise NetworkError(f"there is no calibration '{calibration}'; {did_you_mean(calibration, CALIBRATIONS)}")
    published = model.published
    measured = _measured(published, data) if published and data else None
    if calibration == "profiled":
        source = "measured per-layer times" if measured else model.source
        return LayerProfile(model.name, calibration, measured or model.layers, source)
    if published is None:
        raise NetworkError(
            f"model '{model.name}' has no published compute, so it can't be calibrated as the paper's; "
            "use the profiled calibration"
        )
    if measured:
        layers, source = scaled(measured, published.scale), "measured per-layer times x the paper's scale"
    else:
        layers = _distributed(model.layers, published)
        source = "published total x the paper's scale, distributed over layers by multiply-adds (no layer files)"
    return LayerProfile(model.name, calibration, layers, source)


def scaled(layers: Iterable[Layer], scale: float) -> tuple[Layer, ...]:
    """The same layers with their compute times multiplied; updates stay as they are, as in the paper."""
    return tuple(
        Layer(
            layer.name,
            layer.gradient_bytes,
            int(layer.forward_ns * scale),
            int(layer.weight_ns * scale),
            int(layer.input_ns * scale),
            layer.update_ns,
        )
        for layer in layers
    )


def read_layers(path: Path) -> tuple[Layer, ...]:
    """A file of layers as the analytical simulator has them: name, -1, and three passes, bytes and update in ns."""
    layers = []
    for number, line in enumerate(text_of(path, NetworkError).splitlines()[2:], 3):
        fields = line.split("\t")
        if len(fields) < 2:
            continue  # a total stands alone on the last line
        try:
            forward, inputs, weight, size, update = found = [int(fields[column]) for column in (2, 5, 8, 10, 11)]
        except (ValueError, IndexError):
            raise NetworkError(
                f"{path} line {number}: must have {FIELDS} fields as in a layer file, got {line[:200]!r}"
            ) from None
        if min(found) < 0 or max(found) > MOST_BYTES:
            raise NetworkError(f"{path} line {number}: times and bytes must be from 0 to {MOST_BYTES:g}, got {found}")
        # the files have a number glued to the names from the second on
        layers.append(Layer(re.sub(r"^\d+(?=[A-Za-z])", "", fields[0]), size, forward, weight, inputs, update))
    if not layers:
        raise NetworkError(f"{path}: has no layers; give a file of tab-separated layers after two lines of heading")
    return tuple(layers)


def _measured(published: Published, data: Path) -> tuple[Layer, ...] | None:
    path = data / LAYER_FILES / published.file
    return read_layers(path) if path.is_file() else None


def _distributed(layers: tuple[Layer, ...], published: Published) -> tuple[Layer, ...]:
    """The published compute on the layers of the architecture that the paper had, by their own compute."""
    kept = [layer for layer in layers if not any(fnmatchcase(layer.name, pattern) for pattern in published.lacks)]
    total = sum(layer.forward_ns + layer.weight_ns + layer.input_ns for layer in kept)
    return scaled(kept, published.cycles * published.scale / total)


def plain(name: str) -> str:
    """A name without capitals, hyphens and the like."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _check_names(models: list[CatalogueModel], source: str) -> None:
    names = Counter(plain(name) for model in models for name in (model.name, *model.aliases))
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise NetworkError(f"{source}: [[model]] names must be unique, got '{twice}' twice; rename one")
