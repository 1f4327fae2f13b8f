"""The TOML form of models, declared once: our catalogue and the files of users."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from shunter.errors import NetworkError
from shunter.network.architectures import LayerShape, shapes
from shunter.network.iteration import Layer
from shunter.network.models import MOST_BYTES, MOST_NS, CatalogueModel, Published, plain
from shunter.toml_forms import Amount, Form, Name, Positive, filled, mistake

MOST_LAYERS = 100_000  # of all models in a file
MOST_MODELS, MOST_ALIASES = 1000, 100
Count = Annotated[int, Field(ge=1, le=10**7)]
Depth = Annotated[int, Field(ge=1, le=10_000)]  # blocks or layers of a kind
Share = Annotated[int, Field(ge=0, le=10**7)]
Bytes = Annotated[int, Field(ge=0, le=MOST_BYTES)]


class AlexnetForm(Form):
    """AlexNet has nothing to set."""


class VggForm(Form):
    """``shape`` of a VGG."""

    stages: Annotated[list[Depth], Field(min_length=5, max_length=5)]


class ResnetForm(Form):
    """``shape`` of a ResNet."""

    stages: Annotated[list[Depth], Field(min_length=1, max_length=5)]
    bottleneck: bool = True


class MobilenetForm(Form):
    """``shape`` of a MobileNetV3."""

    rows: list[tuple[Count, Count, Count, Literal[0, 1], Literal[1, 2]]] = Field(min_length=1, max_length=10_000)
    head: Count

    @field_validator("rows", mode="before")
    @classmethod
    def _as_tuples(cls, rows: Any) -> Any:
        return [tuple(row) if isinstance(row, list) else row for row in rows] if isinstance(rows, list) else rows


class TransformerForm(Form):
    """``shape`` of a transformer."""

    blocks: Depth
    hidden: Count
    feed_forward: Count
    sequence: Count
    vocabulary: Share = 0
    positions: Share = 0
    patch: Share = 0
    outputs: Share = 0
    tied: bool = False
    fused: bool = False
    gated: bool = False


SHAPES: dict[str, type[Form]] = {
    "alexnet": AlexnetForm,
    "vgg": VggForm,
    "resnet": ResnetForm,
    "mobilenet-v3": MobilenetForm,
    "transformer": TransformerForm,
}


class LayerForm(Form):
    """``[[model.layer]]``: one measured layer."""

    name: Name
    gradient_bytes: Bytes
    forward_us: Amount
    weight_us: Amount | None = None  # as forward, if not given
    input_us: Amount | None = None
    update_us: Amount = 0

    def layer(self) -> Layer:
        """The same as the model has it."""
        weight, inputs = (self.forward_us if us is None else us for us in (self.weight_us, self.input_us))
        times = (round(1000 * us) for us in (self.forward_us, weight, inputs, self.update_us))
        return Layer(self.name, self.gradient_bytes, *times)


class PublishedForm(Form):
    """``[model.published]``: what a paper gave for a model."""

    file: Name
    cycles: Annotated[float, Field(gt=0, le=1e15)]
    scale: Positive
    lacks: list[Name] = Field(default_factory=list)

    @field_validator("file")
    @classmethod
    def _in_its_folder(cls, file: str) -> str:
        if not re.fullmatch(r"[\w][\w.+-]*", file):
            raise ValueError(
                f"must be the name of a file, without a folder, got '{file}'; put the file into dally/layers"
            )
        return file


class ModelForm(Form):
    """``[[model]]``: an architecture with its shape, or layers."""

    name: Name
    aliases: list[Name] = Field(default_factory=list, max_length=MOST_ALIASES)
    architecture: Literal["alexnet", "vgg", "resnet", "mobilenet-v3", "transformer"] | None = None
    shape: dict[str, Any] = Field(default_factory=dict)
    layer: list[LayerForm] = Field(default_factory=list, max_length=MOST_LAYERS)
    batch: Count | None = None
    bytes_per_weight: Literal[1, 2, 4, 8] = 4
    tflops: Positive = 40.0
    published: PublishedForm | None = None

    @field_validator("name")
    @classmethod
    def _sayable(cls, name: str) -> str:
        if not plain(name):
            raise ValueError("must have a letter from a to z or a digit")
        return name

    @model_validator(mode="after")
    def _one_way(self) -> ModelForm:
        if (self.architecture is None) == (not self.layer):
            raise ValueError(f"'{self.name}' must have an architecture or [[model.layer]] tables, one of the two")
        if self.architecture and self.batch is None:
            raise ValueError(f"'{self.name}' needs a batch: compute times follow from its samples")
        if self.layer and (self.shape or self.published):
            raise ValueError(f"'{self.name}' has layers, so neither shape nor published has a meaning; remove them")
        if self.architecture:
            self.shape = self._shape(SHAPES[self.architecture])
        return self

    def _shape(self, form: type[Form]) -> dict[str, Any]:
        try:
            return form.model_validate(self.shape).model_dump()
        except ValidationError as problem:
            first = problem.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            known = ", ".join(form.model_fields) or "nothing"
            raise ValueError(
                f"'{self.name}': shape.{place} {mistake(first, form.model_fields)} "
                f"(the shape of a {self.architecture} has {known})"
            ) from None

    def model(self) -> CatalogueModel:
        """The same as the catalogue has it."""
        published = Published(**self.published.model_dump()) if self.published else None
        if self.architecture is None:
            layers, source = [layer.layer() for layer in self.layer], "times as given"
        else:
            made = shapes(self.architecture, self.shape)
            layers = [self._layer(shape) for shape in made]
            source = f"multiply-adds of {self.batch:,} samples at {self.tflops:g} TFLOP/s"
        return CatalogueModel(self.name, tuple(self.aliases), self.batch or 0, tuple(layers), source, published)

    def _layer(self, shape: LayerShape) -> Layer:
        """Forward and both gradients are as many multiply-adds; mixing has two inputs, and no weights."""
        per_mac = 2 * (self.batch or 0) / (self.tflops * 1000)  # ns
        passes = (shape.macs + shape.mixing_macs, shape.macs, shape.macs + 2 * shape.mixing_macs)
        return Layer(shape.name, self.bytes_per_weight * shape.weights, *(round(macs * per_mac) for macs in passes))


class ModelsForm(Form):
    """A whole file."""

    model: list[ModelForm] = Field(min_length=1, max_length=MOST_MODELS)


def parse(text: str, source: str) -> list[CatalogueModel]:
    """The models in this TOML text; ``source`` is its file, for messages."""
    models: list[CatalogueModel] = []
    for form in filled(ModelsForm, text, source, NetworkError).model:
        models.append(_checked(form.model(), source))
        if sum(len(model.layers) for model in models) > MOST_LAYERS:
            raise NetworkError(f"{source}: its models must have at most {MOST_LAYERS:,} layers in all; leave some out")
    return models


def _checked(model: CatalogueModel, source: str) -> CatalogueModel:
    where = f"{source}: model '{model.name}'"
    if model.compute_ns <= 0:
        raise NetworkError(f"{where} computes nothing; give at least one layer a time above 0")
    if model.compute_ns > MOST_NS or model.gradient_bytes > MOST_BYTES:
        raise NetworkError(
            f"{where} computes {model.compute_ns / 1e9:.3g} s and sends {model.gradient_bytes / 1e9:.3g} GB in an "
            f"iteration, at most {MOST_NS / 1e9:g} s and {MOST_BYTES / 1e9:g} GB can be; make it smaller"
        )
    return model
