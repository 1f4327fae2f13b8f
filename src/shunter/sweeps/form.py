"""The sweep file: axes, and what is added to or left out of their product."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from shunter.errors import RunError
from shunter.extensions import names_module
from shunter.safe_files import text_of
from shunter.toml_forms import Form, Name, filled

MOST_SEEDS = 10_000

Scalar = bool | int | float | str
Number = Annotated[float, Field(allow_inf_nan=False)]


def _named_by(field: str) -> BeforeValidator:
    """A text stands for a table with this one field."""
    return BeforeValidator(lambda given: {field: given} if isinstance(given, str) else given)


def _counted(given: Any) -> Any:
    """5 seeds are 0, 1, 2, 3 and 4."""
    whole = isinstance(given, int) and not isinstance(given, bool)
    return list(range(given)) if whole and 1 <= given <= MOST_SEEDS else given


Seeds = Annotated[list[Annotated[int, Field(ge=0, lt=MOST_SEEDS)]], BeforeValidator(_counted)]


class WindowForm(Form):
    """The jobs submitted between two times; policies learn from those before."""

    since: str = ""
    until: str = ""


class WindowsForm(Form):
    """Windows of equal length, one after the other."""

    first: Annotated[float, Field(ge=0, le=1e5)] = 0.0  # days from the beginning of the trace to the first window
    days: Annotated[float, Field(gt=0, le=1e5)]
    count: Annotated[int, Field(ge=1, le=10_000)]


class TraceForm(Form):
    """Jobs: a file, or ``synthetic:...``; a name for tables; and the windows of it that are simulated."""

    trace: Name
    name: str = ""
    format: str = ""
    on_bad_row: Literal["fail", "skip"] = "fail"
    windows: list[WindowForm] = Field(default_factory=list)
    equal_windows: WindowsForm | None = None

    @model_validator(mode="after")
    def _one_kind_of_windows(self) -> Self:
        if self.windows and self.equal_windows:
            raise ValueError("windows and equal_windows exclude each other; leave one")
        return self


class RangeForm(Form):
    """Values of a parameter from ``low`` to ``high``: as many as ``steps``, or drawn for a policy with ``sample``."""

    low: Number | None = None  # default: as the policy declares it
    high: Number | None = None
    steps: Annotated[int, Field(ge=2, le=10_000)] = 5
    scale: Literal["linear", "log"] | None = None


class PolicyForm(Form):
    """A policy, and the parameters that vary."""

    policy: Name
    grid: dict[str, Annotated[list[Scalar], Field(min_length=1)]] = Field(default_factory=dict)
    range: dict[str, RangeForm] = Field(default_factory=dict)
    sample: Annotated[int, Field(ge=1, le=100_000)] | None = None  # combinations drawn at random instead of all


class Axes(Form):
    """What varies. An axis that is empty has one value: what a single run takes by default."""

    traces: list[Annotated[TraceForm, _named_by("trace")]] = Field(default_factory=list)
    clusters: list[Name] = Field(default_factory=list)
    loads: list[Annotated[float, Field(ge=1e-4, le=1e4)]] = Field(default_factory=list)
    networks: list[Literal["", "profiled", "paper", "dally", "dally-even"]] = Field(default_factory=list)
    overheads: list[str] = Field(default_factory=list)
    checkpointable: list[str] = Field(default_factory=list)
    policies: list[Annotated[PolicyForm, _named_by("policy")]] = Field(default_factory=list)
    seeds: Seeds = Field(default_factory=list)


class ExcludeForm(Form):
    """Runs that are left out: those that agree with every field; texts may have ``*``."""

    trace: str | list[str] = Field(default_factory=list)
    window: str | list[str] = Field(default_factory=list)
    cluster: str | list[str] = Field(default_factory=list)
    load: float | list[float] = Field(default_factory=list)
    network: str | list[str] = Field(default_factory=list)
    overhead: str | list[str] = Field(default_factory=list)
    checkpointable: str | list[str] = Field(default_factory=list)
    policy: str | list[str] = Field(default_factory=list)
    seed: int | list[int] = Field(default_factory=list)

    @model_validator(mode="after")
    def _some_field(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("an [[exclude]] without a field leaves out every run; add one, such as policy = 'lucid*'")
        return self


class SweepForm(Axes):
    """A whole sweep file."""

    name: str = ""
    drop_unfit: bool = False
    contention: bool = False
    models: str = ""
    measures: list[str] = Field(default_factory=list)
    include: list[Axes] = Field(default_factory=list)
    exclude: list[ExcludeForm] = Field(default_factory=list)

    @model_validator(mode="after")
    def _all_there(self) -> Self:
        for key, example in (("traces", "jobs.csv"), ("clusters", "8x8"), ("policies", "fifo")):
            if not getattr(self, key):
                raise ValueError(f"there are no {key}; add {key} = ['{example}']")
        return self


def read(file: Path) -> SweepForm:
    """The form that a sweep file fills; paths in it are relative to its folder."""
    form = filled(SweepForm, text_of(file, RunError, "give a sweep file"), str(file), RunError)
    return relative_to(form, file.parent)


def relative_to(form: SweepForm, folder: Path) -> SweepForm:
    """The same with the paths of files that are in this folder."""

    def placed(text: str) -> str:
        return str(folder / text) if text and not Path(text).is_absolute() and (folder / text).is_file() else text

    for axes in (form, *form.include):
        for trace in axes.traces:
            trace.trace = placed(trace.trace)
        axes.clusters = [placed(text) for text in axes.clusters]
    form.models = placed(form.models)
    return form


def check_code(form: SweepForm, where: str, remedy: str) -> None:
    """Refuse a file that names a module: it may come from others, and a module can do anything when it is imported."""
    texts = [*form.measures]
    for axes in (form, *form.include):
        texts += [trace.format for trace in axes.traces]
        for each in axes.policies:
            texts += [each.policy, *(value for some in each.grid.values() for value in some if isinstance(value, str))]
    named = next((text for text in texts if names_module(text)), None)
    if named is not None:
        raise RunError(
            f"{where}'{named}' is a module, which can do anything when it is imported; if you trust the file, add"
            f" {remedy}"
        )


def of(**axes: Any) -> SweepForm:
    """The form that arguments fill; they are those of the file."""
    from pydantic import ValidationError

    from shunter.toml_forms import mistake

    try:
        return SweepForm.model_validate(axes)
    except ValidationError as problem:
        detail = problem.errors()[0]
        where = ".".join(str(part) for part in detail["loc"]) or "sweep"
        raise RunError(f"{where} {mistake(detail, SweepForm.model_fields)}") from None
