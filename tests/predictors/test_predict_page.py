"""The page about predictors says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from shunter.cli.policies import _written
from shunter.params import declared
from shunter.predictors.features import FEATURES
from shunter.predictors.models import MODELS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "predict.md"


def rows_after(heading: str) -> list[str]:
    lines = PAGE.read_text().splitlines()
    begin = lines.index(heading) + 2
    return lines[begin : next(i for i in range(begin, len(lines)) if not lines[i].startswith("|"))]


def row(*values: object) -> str:
    return "| " + " | ".join(str(value).replace("|", r"\|") for value in values) + " |"


def test_every_model_is_described():
    docs = {name: (cls.__doc__ or "").partition("\n")[0] for name, cls in MODELS.items()}
    assert rows_after("| model | what it is |") == [row(f"`{name}`", doc) for name, doc in docs.items()]


def test_every_setting_is_described():
    expected = [
        row(f"`{name}`", f"`{key}`", _written(default), about.range_text(kind), about.doc)
        for name, cls in MODELS.items()
        for key, (kind, default, about) in declared(cls).items()
    ]
    assert rows_after("| model | setting | default | allowed | meaning |") == expected


def test_every_feature_is_described():
    assert rows_after("| feature | what it is |") == [row(f"`{name}`", doc) for name, doc in FEATURES.items()]


def test_the_words_about_gbm_fit_the_numbers():
    """The table is of a run of a quarter of an hour."""
    page = PAGE.read_text()
    table = page.partition("### AAIC, September to December")[2].partition("What `gbm` gains")[0]
    errors = {name: float(error) for name, error in re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", table, re.MULTILINE)}
    assert min(errors, key=errors.__getitem__) == "gbm"
    gain = round(100 * (1 - errors["gbm"] / errors["request2"]))
    assert f"The error of `gbm` is {gain} % below that of the one-line rule" in page
