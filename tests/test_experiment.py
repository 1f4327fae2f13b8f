"""Experiment files: there and back, overrides, and what is wrong with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import RunError
from shunter.experiment import ClusterSource, Experiment, TraceSource, override, read, to_toml

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)  # a NUL is refused
TEXTS = st.dictionaries(TEXT, TEXT, max_size=3)


@given(st.builds(Experiment, policy=TEXT, seed=st.integers(-9, 9), drop_unfit=st.booleans(),
                 trace=st.builds(TraceSource, TEXT, TEXT), cluster=st.builds(ClusterSource, TEXT, TEXT),
                 versions=TEXTS, data=TEXTS))  # fmt: skip
def test_there_and_back(tmp_path_factory, experiment):
    path = tmp_path_factory.getbasetemp() / "experiment.toml"
    path.write_text(to_toml(experiment), encoding="utf-8", newline="")
    assert read(path) == experiment


def test_overrides_lead_into_the_tree():
    changed = override(Experiment(), ["seed=3", "trace.path=a=b.csv", "drop_unfit=true", "policy=sjf:estimate=oracle"])
    assert changed == Experiment("sjf:estimate=oracle", 3, drop_unfit=True, trace=TraceSource("a=b.csv"))


def test_another_trace_or_cluster_drops_what_was_known_of_the_old_one():
    old = Experiment(trace=TraceSource("a.csv", "abc"), cluster=ClusterSource("2x8", "name = 'x'"))
    changed = override(old, ["trace.path=b.csv", "cluster.text=4x8"])
    assert (changed.trace, changed.cluster) == (TraceSource("b.csv"), ClusterSource("4x8"))


def test_another_policy_or_network_drops_the_digests_of_data_files():
    old = Experiment("fifo", data={"models.toml": "abc"})
    assert override(old, ["seed=3"]).data == old.data
    for setting in ("policy=las", "network=paper", "models=b.toml", "sharing=mps", "data="):
        assert override(old, [setting]).data == {}


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("sed=3", "did you mean 'seed'"),
        ("seed", "must be key=value"),
        ("seed=three", "must be a whole number, got 'three'"),
        ("drop_unfit=maybe", "must be true or false"),
        ("trace=x.csv", "set trace.path, trace.digest"),
        ("seed.x=1", "set seed"),
        ("trace.pth=x", "did you mean 'path'"),
        ("data=x", "can only be emptied"),
        ("data.x=1", "is not one value; set data"),
    ],
)
def test_a_wrong_override_says_what_is_wrong(setting, says):
    with pytest.raises(RunError, match=says):
        override(Experiment(), [setting])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("policy =", "is not TOML"),
        ("polcy = 'fifo'", "unknown key 'polcy'; did you mean 'policy'"),
        ("seed = 'x'", "'seed' must be a whole number, got 'x'"),
        ("seed = true", "'seed' must be a whole number"),
        ("trace = 'x.csv'", "'trace' must be a table"),
        ("[trace]\npth = 'x'", "unknown key 'trace.pth'"),
        ("[versions]\nnumba = 1", "'versions' must be a table of texts"),
    ],
)
def test_a_wrong_file_is_named_with_its_fault(tmp_path, text, says):
    path = tmp_path / "e.toml"
    path.write_text(text)
    with pytest.raises(RunError, match=rf"e\.toml: .*{says}"):
        read(path)
